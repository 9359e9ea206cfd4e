//! The user's rules for commands: files `rules/*.rules` with calls such as
//! `prefix_rule(pattern=["git", ["push", "fetch"]], decision="prompt")`.
//!
//! The syntax is a small part of Starlark: calls with named arguments, strings and lists. It is parsed by hand, because a
//! Starlark interpreter would be a large dependency and would run programs from the files.

mod amend;
mod error;
mod parser;
mod rule;
mod tokens;
mod verdict;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use {
    amend::{RuleAppended, append_network_rule, append_rule, proposed_amendment},
    error::RulesError,
    rule::{CommandRule, NetworkRule, RuleDecision},
    verdict::RuleVerdict,
};

pub(crate) use rule::protocol_name;

use error::RuleProblem;

/// The size of the largest file that is read.
const MAX_FILE_SIZE: u64 = 1024 * 1024;

/// All rules in force.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandRules {
    pub commands: Vec<CommandRule>,
    pub networks: Vec<NetworkRule>,
}

impl CommandRules {
    /// Reads every `*.rules` file in the directories. A file with an error is reported and has no effect on the others. A
    /// directory that does not exist has no rules.
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

    /// Parses the text of one file.
    pub fn parse(file: &Path, text: &str) -> Result<Self, RulesError> {
        parser::parse(text).map_err(|(line, problem)| RulesError::new(file, line, problem))
    }

    /// Adds a rule that allows commands beginning with these words: the effect of an accepted amendment on threads that
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
    if size > MAX_FILE_SIZE {
        return Err(refuse("the file is too large".to_owned()));
    }
    let text = fs::read_to_string(file).map_err(|error| refuse(error.to_string()))?;
    CommandRules::parse(file, &text)
}
