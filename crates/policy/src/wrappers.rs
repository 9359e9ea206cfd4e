//! Programs whose arguments are a command: `env`, `sudo`, `timeout` and similar ones.

use std::collections::BTreeSet;

use crate::{
    command_line::{CommandConnector, PlainCommand},
    options::OptionSyntax,
};

/// A program that starts the command in its arguments.
struct WrapperProgram {
    name: &'static str,
    syntax: OptionSyntax,
    /// The number of its own arguments before the command.
    operands: usize,
}

const fn wrapper(
    name: &'static str,
    short: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> WrapperProgram {
    WrapperProgram { name, syntax: OptionSyntax { short, long }, operands }
}

const WRAPPERS: [WrapperProgram; 43] = [
    wrapper("builtin", "", &[], 0),
    wrapper("busybox", "", &[], 0),
    wrapper("caffeinate", "tw", &[], 0),
    wrapper("choom", "np", &["adjust", "pid"], 0),
    wrapper("chroot", "", &["userspec", "groups"], 1),
    wrapper("chrt", "TPD", &["sched-runtime", "sched-period", "sched-deadline"], 1),
    wrapper("command", "", &[], 0),
    wrapper("dbus-run-session", "", &["config-file"], 0),
    wrapper("doas", "uC", &[], 0),
    wrapper("env", "uCSaP", &["unset", "chdir", "split-string", "argv0"], 0),
    wrapper("exec", "a", &[], 0),
    wrapper("fakeroot", "lsib", &["lib", "faked"], 0),
    wrapper("firejail", "", &[], 0),
    wrapper("flock", "wE", &["timeout", "wait"], 1),
    wrapper("ionice", "cnpPu", &["class", "classdata"], 0),
    wrapper("linux32", "", &[], 0),
    wrapper("linux64", "", &[], 0),
    wrapper("ltrace", "aAeFlnopsuwx", &[], 0),
    wrapper("nice", "n", &["adjustment"], 0),
    wrapper("nohup", "", &[], 0),
    wrapper("nsenter", "tSGW", &["target", "setuid", "setgid"], 0),
    wrapper("parallel", "jnNLI", &["jobs"], 0),
    wrapper("pkexec", "", &["user"], 0),
    wrapper("prlimit", "po", &["pid", "output"], 0),
    wrapper("proxychains", "f", &[], 0),
    wrapper("proxychains4", "f", &[], 0),
    wrapper("runuser", "ugG", &["user", "group"], 0),
    wrapper("setarch", "", &[], 1),
    wrapper("setpriv", "", &[], 0),
    wrapper("setsid", "", &[], 0),
    wrapper("stdbuf", "ioe", &["input", "output", "error"], 0),
    wrapper("strace", "oepsu", &[], 0),
    wrapper("sudo", "ughpCrtTUDR", &["user", "group", "host", "prompt", "chdir", "chroot"], 0),
    wrapper("systemd-run", "HMEpu", &["unit", "property", "setenv", "machine", "host"], 0),
    wrapper("taskset", "", &[], 1),
    wrapper("time", "fo", &["format", "output"], 0),
    wrapper("timeout", "ks", &["kill-after", "signal"], 1),
    wrapper("torsocks", "uaP", &[], 0),
    wrapper("unbuffer", "", &[], 0),
    wrapper("unshare", "RwSG", &["root", "wd", "setuid", "setgid"], 0),
    wrapper("valgrind", "", &[], 0),
    wrapper("watch", "n", &["interval"], 0),
    wrapper("xargs", "InPLdaEs", &["replace", "max-args", "max-procs", "delimiter", "arg-file"], 0),
];

/// `/lib64/ld-linux-x86-64.so.2 PROGRAM …` starts the program.
const LOADER: WrapperProgram = wrapper("ld.so", "", &["library-path", "preload", "argv0", "audit"], 0);

/// What a command is, as far as wrappers are concerned.
pub(crate) enum WrappedCommand {
    /// It is not a program such as `env`.
    NotWrapped,
    /// It is such a program, without a command.
    Missing,
    /// It is such a program and runs this command.
    Found(PlainCommand),
}

/// Returns the command that a program such as `env` runs, by its likeliest reading.
pub(crate) fn wrapped(command: &PlainCommand) -> WrappedCommand {
    let Some(wrapper) = find(command) else { return WrappedCommand::NotWrapped };
    match wrapper.readings(command).commands.into_iter().next() {
        Some(inner) => WrappedCommand::Found(inner),
        None => WrappedCommand::Missing,
    }
}

/// How many readings of a command line are considered. A line can be constructed so that an inner command may begin at
/// each of its words.
const MAX_READINGS: usize = 16;

/// The commands that a wrapper may run.
#[derive(Default)]
pub(crate) struct WrapperReadings {
    /// The possible commands, the likeliest one first. There are several if an option may or may not take the next word
    /// as its value.
    pub(crate) commands: Vec<PlainCommand>,
    /// For `env -S TEXT …`, the text and the words after it.
    pub(crate) split_strings: Vec<(String, Vec<String>)>,
    /// Whether there are more than [`MAX_READINGS`].
    pub(crate) is_cut: bool,
}

/// Returns every command that a program such as `env` may run.
pub(crate) fn readings(command: &PlainCommand) -> WrapperReadings {
    find(command).map(|wrapper| wrapper.readings(command)).unwrap_or_default()
}

fn find(command: &PlainCommand) -> Option<&'static WrapperProgram> {
    let program = command.program();
    // `command -v` only prints where a program is.
    let first = command.arguments().first().map(String::as_str);
    if program == "command" && matches!(first, Some("-v" | "-V")) {
        return None;
    }
    let is_loader = program.starts_with("ld-") && program.contains(".so");
    WRAPPERS.iter().find(|wrapper| wrapper.name == program).or(is_loader.then_some(&LOADER))
}

impl WrapperProgram {
    fn readings(&self, command: &PlainCommand) -> WrapperReadings {
        let words = command.arguments();
        let mut found = WrapperReadings::default();
        let mut seen = BTreeSet::new();
        // The positions where the next option may be, the likeliest one last.
        let mut positions = vec![0];
        while let Some(at) = positions.pop() {
            let Some(word) = words.get(at).filter(|_| seen.insert(at)) else { continue };
            if found.commands.len() + found.split_strings.len() >= MAX_READINGS {
                found.is_cut = true;
                break;
            }
            match word.as_str() {
                "--" => found.commands.extend(self.command_at(command, at + 1)),
                option if option.starts_with('-') => {
                    found.split_strings.extend(self.split_string(option, words.get(at + 1..)));
                    positions.extend(self.lengths(option).iter().rev().map(|length| at + length));
                }
                _ => found.commands.extend(self.command_at(command, at)),
            }
        }
        found
    }

    /// Returns how many words an option may have, the likeliest number first.
    fn lengths(&self, option: &str) -> &'static [usize] {
        let Some(long) = option.strip_prefix("--") else {
            let valued =
                option.char_indices().skip(1).find(|(_, letter)| self.syntax.short.contains(*letter));
            let takes_next = valued.is_some_and(|(at, letter)| at + letter.len_utf8() == option.len());
            return if takes_next { &[2] } else { &[1] };
        };
        if long.contains('=') {
            return &[1];
        }
        if self.syntax.long.contains(&long) {
            return &[2];
        }
        let is_abbreviation = self.syntax.long.iter().any(|name| name.starts_with(long));
        if is_abbreviation { &[2, 1] } else { &[1, 2] }
    }

    /// Returns the command after the wrapper's own operands and assignments.
    fn command_at(&self, command: &PlainCommand, at: usize) -> Option<PlainCommand> {
        let takes_assignments = matches!(self.name, "env" | "sudo");
        let is_assignment = |word: &&String| takes_assignments && word.contains('=');
        let words = command.arguments().iter().skip(at + self.operands).skip_while(is_assignment);
        let inner = PlainCommand::from_words(words.cloned().collect())?;
        // The program that `env` starts reads from the same pipe. `xargs` reads the pipe itself.
        let connector = if self.name == "xargs" { CommandConnector::Start } else { command.connector };
        Some(PlainCommand { connector, ..inner })
    }

    /// Returns the text of `-S TEXT`, `-iSTEXT`, `--split-string=TEXT` and abbreviations, with the words after it.
    fn split_string(&self, option: &str, after: Option<&[String]>) -> Option<(String, Vec<String>)> {
        if self.name != "env" {
            return None;
        }
        let attached = match option.strip_prefix("--") {
            Some(long) => {
                let (name, value) = long.split_once('=').map_or((long, ""), |(name, value)| (name, value));
                (name.starts_with('s') && "split-string".starts_with(name)).then_some(value)?
            }
            None => option.split_once('S')?.1,
        };
        let after = after.unwrap_or_default();
        match after {
            [text, rest @ ..] if attached.is_empty() => Some((text.clone(), rest.to_vec())),
            _ => Some((attached.to_owned(), after.to_vec())),
        }
    }
}
