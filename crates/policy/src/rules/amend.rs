//! New rules: the one to propose with a question, and writing an accepted one to its file.

use std::{
    fs::{self, File, Permissions, TryLockError},
    io,
    os::unix::fs::PermissionsExt,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use codicil_config::replace_shared;

use crate::{
    command_line::{CommandLine, PlainCommand},
    rules::{CommandRule, CommandRules, NetworkRule, RuleVerdict},
    safe::is_known_safe,
    wrappers::{self, WrappedCommand},
};

/// The file for rules that the user accepts with an answer.
const FILE: &str = "default.rules";

/// How long to wait for another process that has locked the rules.
const LOCK_TIME: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The length of the longest proposal. More words are a script, not a kind of command.
const LONGEST_PROPOSAL: usize = 2_000;

/// Whether a rule was new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAppended {
    Added,
    AlreadyThere,
}

/// Adds a rule that allows commands beginning with these words to `default.rules` in the directory. Other processes may do
/// the same at the same time, and readers never see an incomplete file. If the file is a symbolic link, its target changes.
pub fn append_rule(directory: &Path, prefix: &[String]) -> io::Result<RuleAppended> {
    append(directory, &CommandRule::allow(prefix).to_line())
}

/// Adds a rule for a host in the same way.
pub fn append_network_rule(directory: &Path, rule: &NetworkRule) -> io::Result<RuleAppended> {
    append(directory, &rule.to_line())
}

fn append(directory: &Path, line: &str) -> io::Result<RuleAppended> {
    fs::create_dir_all(directory)?;
    // Held until the file is replaced. The directory is locked, because the file itself is replaced.
    let lock = lock(directory)?;
    let path = directory.join(FILE);
    let mut text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    if text.lines().any(|existing| existing.trim() == line) {
        return Ok(RuleAppended::AlreadyThere);
    }
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(line);
    text.push('\n');
    replace_shared(&path, text.as_bytes(), Permissions::from_mode(0o600))?;
    drop(lock);
    Ok(RuleAppended::Added)
}

/// Locks the directory, and waits for other processes up to [`LOCK_TIME`]. The kernel has no lock with a timeout, so this
/// polls.
fn lock(directory: &Path) -> io::Result<File> {
    let file = File::open(directory)?;
    let until = Instant::now() + LOCK_TIME;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => {
                let text = format!("{} is locked by another process", directory.display());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
}

/// Returns the words of a rule that would make a question unnecessary: those that the model suggests, if they suffice and
/// are not too general, else the words of the first command that needs the question.
pub fn proposed_amendment(
    line: &CommandLine,
    suggested: Option<&[String]>,
    rules: &CommandRules,
) -> Option<Vec<String>> {
    let suffices = |prefix: &&[String]| {
        let mut rules = rules.clone();
        rules.allow(prefix);
        rules.verdict(line) == RuleVerdict::Allowed
    };
    let suggested = suggested.filter(|words| is_worth_a_rule(words)).filter(suffices).map(<[String]>::to_vec);
    suggested.or_else(|| own_words(line, rules)).filter(|words| is_worth_a_rule(words))
}

fn is_worth_a_rule(words: &[String]) -> bool {
    words.iter().map(String::len).sum::<usize>() <= LONGEST_PROPOSAL && is_specific(words)
}

fn own_words(line: &CommandLine, rules: &CommandRules) -> Option<Vec<String>> {
    let Some(commands) = line.plain() else { return Some(line.argv().to_vec()) };
    let needs_question = |command: &&PlainCommand| !is_known_safe(command) && !rules.allows(&command.words);
    let command = commands.iter().find(needs_question).or_else(|| commands.first())?;
    Some(command.words.clone())
}

/// Returns whether a rule with this prefix is specific. One for `python3`, `bash -c` or `sudo -n` would allow everything,
/// and one for `git` nearly everything.
fn is_specific(prefix: &[String]) -> bool {
    const RUNNERS: [&str; 21] = [
        "awk",
        "bash",
        "bun",
        "dash",
        "deno",
        "eval",
        "find",
        "fish",
        "git",
        "ksh",
        "lua",
        "node",
        "npx",
        "osascript",
        "perl",
        "php",
        "powershell",
        "pwsh",
        "ruby",
        "sh",
        "zsh",
    ];
    let Some(mut command) = PlainCommand::from_words(prefix.to_vec()) else { return false };
    loop {
        match wrappers::wrapped(&command) {
            WrappedCommand::Found(inner) => command = inner,
            WrappedCommand::Missing => return false,
            WrappedCommand::NotWrapped => break,
        }
    }
    let runs_anything = RUNNERS.contains(&command.program()) || command.program().starts_with("python");
    // Options alone do not determine what runs.
    !(runs_anything && command.arguments().iter().all(|argument| argument.starts_with('-')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        shlex::split(line).unwrap()
    }

    fn check(script: &str, suggested: Option<&str>, expected: Option<&str>) {
        let line = CommandLine::new(["/bin/bash", "-lc", script].map(str::to_owned).to_vec());
        let suggested = suggested.map(words);
        let proposed = proposed_amendment(&line, suggested.as_deref(), &CommandRules::default());
        assert_eq!(proposed, expected.map(words), "{script}");
    }

    #[test]
    fn proposals() {
        check("touch -c a", Some("touch -c"), Some("touch -c"));
        check("touch -c a", None, Some("touch -c a"));
        check("touch newfile && echo ok", None, Some("touch newfile"));
        check("echo ok && touch newfile", None, Some("touch newfile"));
        check("ls", None, Some("ls"));
        check("touch a", Some("rm"), Some("touch a"));
        check("touch a", Some(""), Some("touch a"));
        check("python3 x.py", Some("python3"), Some("python3 x.py"));
        check("python3 -c 'print(1)'", Some("python3 -c"), Some("python3 -c 'print(1)'"));
        check("echo a > b", None, Some("/bin/bash -lc 'echo a > b'"));
        check("bash", None, None);
        check("touch a && make", Some("touch"), Some("touch a"));
        check("touch a && echo done", Some("touch"), Some("touch"));
        check("touch a && ls", Some("touch"), Some("touch a"));
        check("git push origin", Some("git push"), Some("git push"));
        check("git push origin", Some("git"), Some("git push origin"));
        check("sudo -u root make all", Some("sudo -u root"), Some("sudo -u root make all"));
        check("env A=1 make all", Some("env A=1"), Some("env A=1 make all"));
        check("env A=1 make all", Some("env A=1 make"), Some("env A=1 make"));
        check("timeout 10", None, None);
        check("touch a", Some(&"env ".repeat(100_000)), Some("touch a"));
        check(&format!("echo {} > b", "x".repeat(LONGEST_PROPOSAL)), None, None);
    }
}
