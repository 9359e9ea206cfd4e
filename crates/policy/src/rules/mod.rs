//! Rules of the user about commands: files `rules/*.rules` with calls such as
//! `prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt")`.
//!
//! The syntax is a small part of Starlark, read by hand: calls with named arguments, strings and lists.

mod amend;
mod error;
mod judge;
mod parser;
mod rule;
mod tokens;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use {
    amend::{RuleAppended, append_network_rule, append_rule, proposed_amendment},
    error::RulesError,
    judge::RuleVerdict,
    rule::{CommandRule, NetworkRule, RuleDecision},
};

pub(crate) use rule::protocol_name;

use error::RuleProblem;

/// Larger files are refused; a rule is a line.
const LARGEST_FILE: u64 = 1024 * 1024;

/// All rules that are in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandRules {
    pub commands: Vec<CommandRule>,
    pub networks: Vec<NetworkRule>,
}

impl CommandRules {
    /// Reads every `*.rules` file in the directories. A file with an error counts for nothing and is
    /// reported; the others count all the same. A directory that does not exist has no rules.
    pub fn load(directories: &[PathBuf]) -> (Self, Vec<RulesError>) {
        let mut rules = Self::default();
        let mut errors = Vec::new();
        for directory in directories {
            match files(directory) {
                Ok(files) => files.iter().for_each(|file| match read(file) {
                    Ok(found) => rules.extend(found),
                    Err(error) => errors.push(error),
                }),
                Err(source) => {
                    errors.push(RulesError::new(directory, 0, RuleProblem::Io(source.to_string())))
                }
            }
        }
        (rules, errors)
    }

    /// Reads the text of one file.
    pub fn parse(file: &Path, text: &str) -> Result<Self, RulesError> {
        parser::parse(text).map_err(|(line, problem)| RulesError::new(file, line, problem))
    }

    /// Lets commands that begin with these words run: what an accepted amendment means for threads that
    /// are already running.
    pub fn allow(&mut self, prefix: &[String]) {
        let rule = CommandRule::allow(prefix);
        if !self.commands.contains(&rule) {
            self.commands.push(rule);
        }
    }

    fn extend(&mut self, other: Self) {
        self.commands.extend(other.commands);
        self.networks.extend(other.networks);
    }
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let paths: io::Result<Vec<_>> = entries.map(|entry| Ok(entry?.path())).collect();
    let is_rules = |path: &PathBuf| path.extension().is_some_and(|end| end == "rules") && path.is_file();
    let mut files: Vec<_> = paths?.into_iter().filter(is_rules).collect();
    files.sort();
    Ok(files)
}

fn read(file: &Path) -> Result<CommandRules, RulesError> {
    let refuse = |problem: String| RulesError::new(file, 0, RuleProblem::Io(problem));
    let size = fs::metadata(file).map_err(|error| refuse(error.to_string()))?.len();
    if size > LARGEST_FILE {
        return Err(refuse("the file is too large".to_owned()));
    }
    let text = fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    CommandRules::parse(file, &text)
}
