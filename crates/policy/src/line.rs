//! A command line taken apart.

use std::ops::Range;

use crate::{
    dangerous::{is_dangerous, removes_by_force},
    mentions::{self, PathMentions},
    quote,
    safe::is_known_safe,
    syntax::{self, ScriptReading},
};

/// The time that a malformed script takes grows with the square of its length; up to this one it is at most
/// some milliseconds.
const QUICK: usize = 512;

/// A command as it would be started, and what could be read from it.
#[derive(Clone, Debug)]
pub struct CommandLine {
    argv: Vec<String>,
    script: Option<String>,
    plain: Option<Vec<PlainCommand>>,
    mentioned: Vec<PlainCommand>,
    unread: bool,
}

impl CommandLine {
    /// Takes program and arguments. For `bash -lc SCRIPT` and its kind the script is what counts.
    ///
    /// Microseconds for a usual line, but up to a second for a malformed one of some kilobytes: see
    /// [`CommandLine::takes_long`]. What is longer than 8 KiB is not looked into.
    pub fn new(argv: Vec<String>) -> Self {
        Self::with_own_shell(argv, "/bin/sh")
    }

    /// The same, where the person's shell is trusted to be one wherever it is installed. Another is trusted
    /// when it is one of the system's: a script for `./bash` is not known to do what it says.
    pub fn with_own_shell(argv: Vec<String>, own_shell: &str) -> Self {
        let script = script_of(&argv).map(str::to_owned);
        let ScriptReading { plain, mentioned, unread } = match &script {
            Some(script) => syntax::read(script),
            None => {
                let mentioned = Vec::from_iter(PlainCommand::from_words(argv.clone()));
                let plain = Some(mentioned.clone()).filter(|commands| !commands.is_empty());
                ScriptReading { plain, mentioned, unread: false }
            }
        };
        let is_trusted = |shell: &String| shell == own_shell || is_system_program(shell);
        let plain = plain.filter(|_| script.is_none() || argv.first().is_some_and(is_trusted));
        let PathMentions { commands: mentioned, is_complete } = mentions::unwrap(mentioned);
        Self { argv, script, plain, mentioned, unread: unread || !is_complete }
    }

    /// Whether reading this command could keep an async runtime waiting, and belongs to `spawn_blocking`.
    pub fn takes_long(argv: &[String]) -> bool {
        argv.iter().map(String::len).sum::<usize>() > QUICK
    }

    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// The text that a shell is given to run, if this is a shell with such a text.
    pub fn script(&self) -> Option<&str> {
        self.script.as_deref()
    }

    /// The whole line, quoted for a shell.
    pub fn display(&self) -> String {
        quote::join(self.argv.iter().map(String::as_str))
    }

    /// Every command that runs, in order, when the line is nothing but plain commands joined by `&&`, `||`,
    /// `;`, `|` and newlines. `None` when something else is in it: a redirection, a substitution, a
    /// variable, a loop, a background job.
    pub fn plain(&self) -> Option<&[PlainCommand]> {
        self.plain.as_deref()
    }

    /// Every command that the line was seen to contain, also inside substitutions, loops, other shells and
    /// programs such as `env` and `xargs`. Never complete: good for finding what must not run, not for
    /// concluding that nothing else does. Words that the shell computes stand as they are written.
    pub fn mentioned(&self) -> &[PlainCommand] {
        &self.mentioned
    }

    /// Whether the line, or a line within it, was too long to be looked into: what it mentions is not known.
    pub fn is_unread(&self) -> bool {
        self.unread
    }

    /// Whether all of it is known to only read.
    pub fn is_known_safe(&self) -> bool {
        self.plain().is_some_and(|commands| !commands.is_empty() && commands.iter().all(is_known_safe))
    }

    /// Whether any of it could do harm that cannot be undone.
    pub fn is_dangerous(&self) -> bool {
        self.mentioned.iter().any(is_dangerous)
    }

    /// Whether any of it is `rm -f` or its kind: the accident that a sandbox does not prevent.
    pub fn removes_by_force(&self) -> bool {
        self.mentioned.iter().any(removes_by_force)
    }
}

/// One program and its arguments, nothing left for a shell to work out but patterns such as `*.txt`, and `~`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainCommand {
    /// Never empty; the first is the program.
    pub words: Vec<String>,
    /// How it follows the one before.
    pub connector: CommandConnector,
    /// Some words are patterns, which the shell replaces by names of files.
    pub expands: bool,
    /// Where it stands in its script.
    pub(crate) span: Range<usize>,
}

impl PlainCommand {
    /// A command by itself; `None` without words.
    pub fn from_words(words: Vec<String>) -> Option<Self> {
        let is_command = !words.is_empty();
        is_command.then_some(Self { words, connector: CommandConnector::Start, expands: false, span: 0..0 })
    }

    /// The program's name, without a directory.
    pub fn program(&self) -> &str {
        let program = self.words.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or(program)
    }

    /// The words after the program.
    pub fn arguments(&self) -> &[String] {
        self.words.get(1..).unwrap_or_default()
    }
}

/// What stands between a command and the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandConnector {
    /// Nothing: it is the first.
    Start,
    /// `;` or a newline.
    Then,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`: the output of the one before is its input.
    Pipe,
}

/// Whether a program is the one of that name: called without a directory, or from where the system keeps its
/// programs.
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
