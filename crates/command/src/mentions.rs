//! Programs that run other programs: the inner command counts as mentioned too.

use crate::{
    line::{Connector, PlainCommand, is_shell},
    options::{Options, Syntax},
    syntax::{self, LONGEST_SCRIPT},
};

/// Commands within commands within commands are followed this far.
const DEEPEST: usize = 4;

/// Nor are more commands within others looked at than this.
const MOST: usize = 256;

/// A program whose arguments are a command.
struct Wrapper {
    name: &'static str,
    /// Its options that take a value.
    syntax: Syntax,
    /// Its own arguments before the command.
    operands: usize,
}

const fn wrapper(
    name: &'static str,
    short: &'static str,
    long: &'static [&'static str],
    operands: usize,
) -> Wrapper {
    Wrapper { name, syntax: Syntax { short, long }, operands }
}

const WRAPPERS: [Wrapper; 22] = [
    wrapper("builtin", "", &[], 0),
    wrapper("busybox", "", &[], 0),
    wrapper("chroot", "", &[], 1),
    wrapper("command", "", &[], 0),
    wrapper("doas", "uC", &[], 0),
    wrapper("env", "uCS", &["unset", "chdir"], 0),
    wrapper("exec", "a", &[], 0),
    wrapper("flock", "wE", &["timeout", "wait"], 1),
    wrapper("ionice", "cnpPu", &["class", "classdata"], 0),
    wrapper("nice", "n", &["adjustment"], 0),
    wrapper("nohup", "", &[], 0),
    wrapper("parallel", "jnNLI", &["jobs"], 0),
    wrapper("pkexec", "", &["user"], 0),
    wrapper("setsid", "", &[], 0),
    wrapper("stdbuf", "ioe", &["input", "output", "error"], 0),
    wrapper("strace", "oepsu", &[], 0),
    wrapper("sudo", "ughpCrtTUDR", &["user", "group", "host", "prompt", "chdir", "chroot"], 0),
    wrapper("time", "fo", &["format", "output"], 0),
    wrapper("timeout", "ks", &["kill-after", "signal"], 1),
    wrapper("unbuffer", "", &[], 0),
    wrapper("watch", "n", &["interval"], 0),
    wrapper("xargs", "InPLdaEs", &["replace", "max-args", "max-procs", "delimiter", "arg-file"], 0),
];

/// Everything that was found.
pub(crate) struct Mentions {
    pub(crate) commands: Vec<PlainCommand>,
    /// Whether all of it could be looked into.
    pub(crate) is_complete: bool,
}

/// The commands, and those inside them.
pub(crate) fn unwrap(commands: Vec<PlainCommand>) -> Mentions {
    let mut search = Search { characters: LONGEST_SCRIPT, commands: MOST, is_complete: true };
    let mut all = Vec::new();
    let mut level = commands;
    for _ in 0..DEEPEST {
        let inner = search.inside(&level);
        all.append(&mut level);
        level = inner;
    }
    let is_deeper = !search.inside(&level).is_empty();
    all.append(&mut level);
    Mentions { commands: all, is_complete: search.is_complete && !is_deeper }
}

/// What may still be looked at. Ends also for a line that is made to multiply.
struct Search {
    characters: usize,
    commands: usize,
    is_complete: bool,
}

impl Search {
    fn inside(&mut self, level: &[PlainCommand]) -> Vec<PlainCommand> {
        let room = self.commands;
        let mut found = Vec::new();
        for command in level.iter().flat_map(|command| self.inner(command)) {
            // `find -exec find -exec …` mentions the same many times.
            if found.contains(&command) {
                continue;
            }
            if found.len() == room {
                self.is_complete = false;
                break;
            }
            found.push(command);
        }
        self.commands -= found.len();
        found
    }

    fn inner(&mut self, command: &PlainCommand) -> Vec<PlainCommand> {
        let arguments = command.arguments();
        match command.program() {
            program if is_shell(program) => script(arguments).map_or(Vec::new(), |script| self.read(script)),
            "eval" => self.read(&arguments.join(" ")),
            "find" => executed_by_find(arguments),
            _ => wrapped(command).flatten().into_iter().collect(),
        }
    }

    fn read(&mut self, script: &str) -> Vec<PlainCommand> {
        let Some(left) = self.characters.checked_sub(script.len()) else {
            self.is_complete = false;
            return Vec::new();
        };
        self.characters = left;
        let reading = syntax::read(script);
        self.is_complete &= !reading.unread;
        reading.mentioned
    }
}

/// The text after `-c`, which may share its dash with other options.
fn script(arguments: &[String]) -> Option<&str> {
    let is_flag = |word: &&String| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
    let at = arguments.iter().position(|word| is_flag(&word))?;
    arguments.get(at + 1).map(String::as_str)
}

/// The command that a program such as `env` is given to run: `None` when it is no such program,
/// `Some(None)` when it is given none.
pub(crate) fn wrapped(command: &PlainCommand) -> Option<Option<PlainCommand>> {
    let wrapper = WRAPPERS.iter().find(|wrapper| wrapper.name == command.program())?;
    let arguments: Vec<&str> = command.arguments().iter().map(String::as_str).collect();
    // Only tells where a program is.
    if wrapper.name == "command" && matches!(arguments.first(), Some(&("-v" | "-V"))) {
        return None;
    }
    let rest = Options::leading(&arguments, wrapper.syntax);
    let is_assignment = |word: &&str| wrapper.name == "env" && word.contains('=');
    let words = rest.iter().copied().skip(wrapper.operands).skip_while(is_assignment);
    let inner = PlainCommand::from_words(words.map(str::to_owned).collect());
    // What reaches `env` through a pipe reaches the program that it starts.
    let connector = if wrapper.name == "xargs" { Connector::Start } else { command.connector };
    Some(inner.map(|inner| PlainCommand { connector, ..inner }))
}

fn executed_by_find(arguments: &[String]) -> Vec<PlainCommand> {
    const MOST: usize = 16;
    let is_action = |word: &str| matches!(word, "-exec" | "-execdir" | "-ok" | "-okdir");
    let starts = arguments.iter().enumerate().filter(|(_, word)| is_action(word)).map(|(at, _)| at + 1);
    let command = |start: usize| {
        let words = arguments.get(start..)?.iter().take_while(|word| !matches!(word.as_str(), ";" | "+"));
        PlainCommand::from_words(words.cloned().collect())
    };
    starts.take(MOST).filter_map(command).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;

    fn check(script: &str, expected: &[&str]) {
        let line = CommandLine::new(["bash", "-lc", script].map(str::to_owned).to_vec());
        let found: Vec<_> = line.mentioned().iter().map(|command| command.words.join(" ")).collect();
        let wrapped = found.strip_prefix(&[script.to_owned()][..]).unwrap_or(&found);
        assert_eq!(wrapped, expected, "{script}");
    }

    #[test]
    fn wrapped_commands_are_found() {
        check("sudo -u root -n rm -rf /", &["rm -rf /"]);
        check("env -u X A=1 B=2 git push", &["git push"]);
        check("timeout -k 5 10 rm x", &["rm x"]);
        check("nice -n5 nohup make all", &["nohup make all", "make all"]);
        check("xargs -n 1 -I{} rm {}", &["rm {}"]);
        check("command ls", &["ls"]);
        check("command -v ls", &[]);
        check("find . -name x -exec rm -f {} +", &["rm -f {}"]);
        check("ls -la", &[]);
        check("sudo", &[]);
    }

    #[test]
    fn shells_within_shells_are_read() {
        let found = |argv: &[&str]| -> Vec<String> {
            let line = CommandLine::new(argv.iter().map(|word| (*word).to_owned()).collect());
            line.mentioned().iter().map(|command| command.words.join(" ")).collect()
        };
        assert!(found(&["bash", "-lc", "sh -xc 'rm -rf x'"]).contains(&"rm -rf x".to_owned()));
        assert!(found(&["bash", "-c", "eval \"git push\""]).contains(&"git push".to_owned()));
        assert!(found(&["env", "bash", "-c", "git push && ls"]).contains(&"git push".to_owned()));
    }

    #[test]
    fn what_is_too_much_to_look_at_is_told() {
        let is_unread =
            |script: &str| CommandLine::new(["bash", "-lc", script].map(str::to_owned).to_vec()).is_unread();
        assert!(!is_unread("nice nice nice nice rm x"));
        assert!(is_unread("nice nice nice nice nice rm x"));
        let multiplying = format!("{} bash -c 'git push'", "find . -exec ".repeat(12));
        assert!(is_unread(&multiplying));
        let many = |last: usize| (1..=last).map(|number| format!("nice a{number}; ")).collect::<String>();
        assert!(is_unread(&many(MOST + 1)));
        assert!(!is_unread(&many(MOST)));
        assert!(!is_unread(&"a; ".repeat(MOST + 1)));
        let argv = ["env", "bash", "-c"].map(str::to_owned).into_iter().chain(["x ".repeat(9_000)]);
        assert!(CommandLine::new(argv.collect()).is_unread());
    }
}
