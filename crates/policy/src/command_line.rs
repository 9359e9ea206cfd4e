//! A command line and the commands in it.

use std::ops::Range;

use crate::{
    dangerous::{is_dangerous, removes_by_force},
    mentioned_commands::{self, MentionedCommands},
    safe::is_known_safe,
    syntax::{self, ScriptReading},
};

/// A command as it would be started, and the commands found in it.
#[derive(Clone, Debug)]
pub struct CommandLine {
    argv: Vec<String>,
    script: Option<String>,
    plain: Option<Vec<PlainCommand>>,
    mentioned: Vec<PlainCommand>,
    has_unparsed_part: bool,
}

impl CommandLine {
    /// Parses a program with its arguments. Of `bash -lc SCRIPT` and similar commands, the script is parsed.
    ///
    /// Takes microseconds for a usual line, but up to a second for a malformed one of some kilobytes: call it on a blocking
    /// thread. Scripts longer than 8 KiB are not parsed.
    pub fn new(argv: Vec<String>) -> Self {
        Self::with_own_shell(argv, "/bin/sh")
    }

    /// Does the same, and takes the user's own shell for a shell wherever it is installed. Other programs are taken for a
    /// shell only in a directory of the system: `./bash` may do something else with its script.
    pub fn with_own_shell(argv: Vec<String>, own_shell: &str) -> Self {
        let script = script_of(&argv).map(str::to_owned);
        let ScriptReading { plain, mentioned, is_unparsed } = match &script {
            Some(script) => syntax::read(script),
            None => {
                let mentioned = Vec::from_iter(PlainCommand::from_words(argv.clone()));
                let plain = Some(mentioned.clone()).filter(|commands| !commands.is_empty());
                ScriptReading { plain, mentioned, is_unparsed: false }
            }
        };
        let is_trusted = |shell: &String| shell == own_shell || is_system_program(shell);
        let plain = plain.filter(|_| script.is_none() || argv.first().is_some_and(is_trusted));
        let MentionedCommands { commands: mentioned, is_complete } = mentioned_commands::find(mentioned);
        Self { argv, script, plain, mentioned, has_unparsed_part: is_unparsed || !is_complete }
    }

    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// Returns the script, if the command is a shell with a script.
    pub fn script(&self) -> Option<&str> {
        self.script.as_deref()
    }

    /// Returns the whole line, quoted for a shell.
    pub fn display(&self) -> String {
        join(self.argv.iter().map(String::as_str))
    }

    /// Returns every command that runs, in order, if the line consists of plain commands joined by `&&`, `||`, `;`, `|` and
    /// newlines. `None` if it has anything else: a redirection, a substitution, a variable, a loop, a background job.
    pub fn plain(&self) -> Option<&[PlainCommand]> {
        self.plain.as_deref()
    }

    /// Returns every command found in the line, including those in substitutions, in loops, in other shells, and in the
    /// arguments of programs such as `env` and `xargs`. Never complete: it serves to find what must not run, not to conclude
    /// that nothing else runs. Words that the shell computes are as in the text.
    pub fn mentioned(&self) -> &[PlainCommand] {
        &self.mentioned
    }

    /// Returns whether a part of the line was too long or too deeply nested to be parsed, so that
    /// [`CommandLine::mentioned`] lacks its commands.
    pub fn has_unparsed_part(&self) -> bool {
        self.has_unparsed_part
    }

    /// Returns whether all commands are known to only read.
    pub fn is_known_safe(&self) -> bool {
        self.plain().is_some_and(|commands| !commands.is_empty() && commands.iter().all(is_known_safe))
    }

    /// Returns whether a command could do harm that cannot be undone.
    pub fn is_dangerous(&self) -> bool {
        self.mentioned.iter().any(is_dangerous)
    }

    /// Returns whether a command is `rm -f` or similar: an accident that a sandbox does not prevent.
    pub fn removes_by_force(&self) -> bool {
        self.mentioned.iter().any(removes_by_force)
    }
}

/// Joins words into one line, quoted for a shell: what the protocol shows as an item's `command`.
pub fn join<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    // A program's argument cannot contain a zero byte, so such a command never ran.
    shlex::try_join(words).unwrap_or_else(|_| "<command with a zero byte>".to_owned())
}

/// A program and its arguments. The shell expands nothing in it except patterns such as `*.txt`, and `~`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainCommand {
    /// The words, never empty. The first one is the program.
    pub words: Vec<String>,
    /// The operator before it.
    pub connector: CommandConnector,
    /// Whether some words are patterns, which the shell replaces by names of files.
    pub expands: bool,
    /// Its position in the script.
    pub(crate) span: Range<usize>,
}

impl PlainCommand {
    /// Returns a command without an operator before it, or `None` without words.
    pub fn from_words(words: Vec<String>) -> Option<Self> {
        let is_command = !words.is_empty();
        is_command.then_some(Self { words, connector: CommandConnector::Start, expands: false, span: 0..0 })
    }

    /// Returns the program's name, without its directory.
    pub fn program(&self) -> &str {
        let program = self.words.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program)
    }

    pub fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// The operator between a command and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandConnector {
    /// None: it is the first command.
    Start,
    /// `;` or a newline.
    Then,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`: its input is the output of the command before.
    Pipe,
}

/// Returns whether a program is the one that its name suggests: called without a directory, or from a directory of the
/// system's programs.
pub(crate) fn is_system_program(program: &str) -> bool {
    const DIRECTORIES: [&str; 8] = [
        "/bin",
        "/usr/bin",
        "/usr/local/bin",
        "/sbin",
        "/usr/sbin",
        "/opt/homebrew/bin",
        "/opt/local/bin",
        "/run/current-system/sw/bin",
    ];
    program.rsplit_once('/').is_none_or(|(directory, _)| DIRECTORIES.contains(&directory))
}

const SHELLS: [&str; 7] = ["bash", "sh", "zsh", "dash", "ksh", "mksh", "ash"];

pub(crate) fn is_shell(program: &str) -> bool {
    SHELLS.contains(&program.rsplit('/').next().unwrap_or(program))
}

fn script_of(argv: &[String]) -> Option<&str> {
    match argv {
        [shell, flag, script] if is_shell(shell) && matches!(flag.as_str(), "-c" | "-lc" | "-cl") => {
            Some(script)
        }
        [shell, login, flag, script] if is_shell(shell) && login == "-l" && flag == "-c" => Some(script),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_displayed_as_by_the_reference_server() {
        let check = |script: &str, shown: &str| assert_eq!(join(["/bin/bash", "-lc", script]), shown);
        check("cat notes.txt", "/bin/bash -lc 'cat notes.txt'");
        check("sed -n '1,3p' notes.txt", "/bin/bash -lc \"sed -n '1,3p' notes.txt\"");
        check("ls", "/bin/bash -lc ls");
        check("", "/bin/bash -lc ''");
        check("a\0b", "<command with a zero byte>");
    }

    proptest! {
        #[test]
        fn joined_words_split_into_themselves(words in prop::collection::vec("[^\0]{0,12}", 1..6)) {
            let line = join(words.iter().map(String::as_str));
            prop_assert_eq!(shlex::split(&line), Some(words));
        }
    }
}
