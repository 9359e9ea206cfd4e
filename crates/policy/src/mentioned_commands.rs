//! Finds the commands inside commands: a command that a program such as `env`, `find` or a shell runs is mentioned as well.

use crate::{
    command_line::{PlainCommand, is_shell},
    git_words::GitWords,
    syntax::{self, LONGEST_SCRIPT},
    wrappers::{WrapperReadings, readings},
};

/// How many levels of commands inside commands are searched.
const MAX_DEPTH: usize = 4;

/// How many commands inside others are searched.
const MAX_COMMANDS: usize = 256;

/// The commands found.
pub(crate) struct MentionedCommands {
    pub(crate) commands: Vec<PlainCommand>,
    /// Whether everything was searched.
    pub(crate) is_complete: bool,
}

/// Returns the commands and those inside them.
pub(crate) fn find(commands: Vec<PlainCommand>) -> MentionedCommands {
    let mut search = MentionSearch { characters: LONGEST_SCRIPT, commands: MAX_COMMANDS, is_complete: true };
    let mut all = Vec::new();
    let mut level = commands;
    for _ in 0..MAX_DEPTH {
        let inner = search.inside(&level);
        all.append(&mut level);
        level = inner;
    }
    let is_deeper = !search.inside(&level).is_empty();
    all.append(&mut level);
    MentionedCommands { commands: all, is_complete: search.is_complete && !is_deeper }
}

/// The remaining budget of a search. It ends even for a line that is constructed to multiply.
struct MentionSearch {
    characters: usize,
    commands: usize,
    is_complete: bool,
}

impl MentionSearch {
    fn inside(&mut self, level: &[PlainCommand]) -> Vec<PlainCommand> {
        let room = self.commands;
        let mut found = Vec::new();
        for command in level.iter().flat_map(|command| self.inner(command)) {
            // `find -exec find -exec …` mentions the same command many times.
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
            "git" => self.inside_git(arguments),
            // `git-push` is `git push`.
            program if program.starts_with("git-") => {
                let words = ["git", program.trim_start_matches("git-")].map(str::to_owned);
                PlainCommand::from_words([&words, arguments].concat()).into_iter().collect()
            }
            program => {
                let mut found = self.inside_wrapper(command);
                if matches!(program, "flock" | "runuser" | "script" | "sg" | "su") {
                    found.extend(script_option(arguments).map_or(Vec::new(), |script| self.read(script)));
                }
                found
            }
        }
    }

    fn inside_wrapper(&mut self, command: &PlainCommand) -> Vec<PlainCommand> {
        let WrapperReadings { mut commands, split_strings, is_cut } = readings(command);
        self.is_complete &= !is_cut;
        if matches!(command.program(), "watch" | "parallel") {
            // These programs join the words to a script for a shell.
            let scripts: Vec<_> = commands.iter().map(|inner| inner.words.join(" ")).collect();
            commands.extend(scripts.iter().flat_map(|script| self.read(script)));
        }
        for (text, rest) in split_strings {
            // Variables and most escapes are not resolved here, so the command is not certain.
            self.is_complete &= !text.contains(['$', '\\']);
            let Some(split) = shlex::split(&text.replace("\\_", " ")) else {
                self.is_complete = false;
                continue;
            };
            commands.extend(PlainCommand::from_words([vec!["env".to_owned()], split, rest].concat()));
        }
        commands
    }

    /// Returns the same command without general options, the value of an alias, and the commands in its arguments.
    fn inside_git(&mut self, arguments: &[String]) -> Vec<PlainCommand> {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let git = GitWords::new(&words);
        self.is_complete &= !git.has_hidden_setting;
        let as_git = |words: &[&str]| {
            let words = ["git"].iter().chain(words).map(|word| (*word).to_owned());
            PlainCommand::from_words(words.collect())
        };
        let mut found = Vec::new();
        if git.rest.len() < words.len() && !git.rest.is_empty() {
            found.extend(as_git(&git.rest));
        }
        // A value after `!` is a script, and settings are parsed as scripts below.
        if let Some(alias) = git.alias().filter(|alias| !alias.starts_with('!')) {
            let split = shlex::split(alias).unwrap_or_default();
            let alias = split.iter().map(String::as_str).chain(git.rest.iter().skip(1).copied());
            found.extend(as_git(&alias.collect::<Vec<_>>()));
        }
        found.extend(git.scripts().iter().flat_map(|script| self.read(script)));
        found
    }

    fn read(&mut self, script: &str) -> Vec<PlainCommand> {
        let Some(remaining) = self.characters.checked_sub(script.len()) else {
            self.is_complete = false;
            return Vec::new();
        };
        self.characters = remaining;
        let reading = syntax::read(script);
        self.is_complete &= !reading.is_unparsed;
        reading.mentioned
    }
}

/// Returns the script after `-c`, which may be combined with other options. More options may precede the script.
fn script(arguments: &[String]) -> Option<&str> {
    let is_flag = |word: &&String| word.starts_with('-') && !word.starts_with("--") && word.contains('c');
    let at = arguments.iter().position(|word| is_flag(&word))?;
    let mut words = arguments.get(at + 1..)?.iter().map(String::as_str);
    loop {
        match words.next()? {
            "--" | "-" => return words.next(),
            option if option.starts_with(['-', '+']) => {
                // `-o errexit` and `-O extglob`.
                if option.ends_with(['o', 'O']) {
                    words.next();
                }
            }
            script => return Some(script),
        }
    }
}

/// Returns the script of `su user -c SCRIPT`, `script -qc SCRIPT` and `--command=SCRIPT`.
fn script_option(arguments: &[String]) -> Option<&str> {
    let attached = arguments.iter().find_map(|word| word.strip_prefix("--command="));
    let is_option = |word: &str| {
        word == "--command" || (word.starts_with('-') && !word.starts_with("--") && word.ends_with('c'))
    };
    let after = || arguments.iter().skip_while(|word| !is_option(word)).nth(1).map(String::as_str);
    attached.or_else(after)
}

fn executed_by_find(arguments: &[String]) -> Vec<PlainCommand> {
    const MAX_ACTIONS: usize = 16;
    let is_action = |word: &str| matches!(word, "-exec" | "-execdir" | "-ok" | "-okdir");
    let starts = arguments.iter().enumerate().filter(|(_, word)| is_action(word)).map(|(at, _)| at + 1);
    let command = |start: usize| {
        let words = arguments.get(start..)?.iter().take_while(|word| !matches!(word.as_str(), ";" | "+"));
        PlainCommand::from_words(words.cloned().collect())
    };
    starts.take(MAX_ACTIONS).filter_map(command).collect()
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
    fn scripts_of_inner_shells_are_parsed() {
        let found = |argv: &[&str]| -> Vec<String> {
            let line = CommandLine::new(argv.iter().map(|word| (*word).to_owned()).collect());
            line.mentioned().iter().map(|command| command.words.join(" ")).collect()
        };
        assert!(found(&["bash", "-lc", "sh -xc 'rm -rf x'"]).contains(&"rm -rf x".to_owned()));
        assert!(found(&["bash", "-c", "eval \"git push\""]).contains(&"git push".to_owned()));
        assert!(found(&["env", "bash", "-c", "git push && ls"]).contains(&"git push".to_owned()));
    }

    #[test]
    fn an_incomplete_search_is_reported() {
        let is_unparsed = |script: &str| {
            CommandLine::new(["bash", "-lc", script].map(str::to_owned).to_vec()).has_unparsed_part()
        };
        assert!(!is_unparsed("nice nice nice nice rm x"));
        assert!(is_unparsed("nice nice nice nice nice rm x"));
        let multiplying = format!("{} bash -c 'git push'", "find . -exec ".repeat(12));
        assert!(is_unparsed(&multiplying));
        let many = |last: usize| (1..=last).map(|number| format!("nice a{number}; ")).collect::<String>();
        assert!(is_unparsed(&many(MAX_COMMANDS + 1)));
        assert!(!is_unparsed(&many(MAX_COMMANDS)));
        assert!(!is_unparsed(&"a; ".repeat(MAX_COMMANDS + 1)));
        let argv = ["env", "bash", "-c"].map(str::to_owned).into_iter().chain(["x ".repeat(9_000)]);
        assert!(CommandLine::new(argv.collect()).has_unparsed_part());
    }
}
