//! Compares the parsed commands with those that a real shell runs.

use std::{
    io::Write,
    process::{Command, Stdio},
};

use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

use crate::support::{bash, cases};

/// Runs each argument as a script. With an empty `PATH`, every command is passed to the handler, which prints its words.
/// Patterns are disabled, and `~` stands for itself.
const RUN_ALL: &str = r#"
PATH=/nowhere HOME='~'
set -f
command_not_found_handle() { printf '%s\0' "$@"; printf '\1'; }
for script in "$@"; do (eval "$script"); printf '\2'; done
"#;

type Commands = Vec<Vec<String>>;

/// Returns for each script the words of every command that the shell tries to run.
fn commands_run(scripts: &[&str]) -> Vec<Commands> {
    let directory = TempDir::new().unwrap();
    let output = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", RUN_ALL, "bash"])
        .args(scripts)
        .env("LC_ALL", "C.UTF-8")
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = |command: &str| command.split_terminator('\0').map(str::to_owned).collect();
    let commands = |script: &str| script.split_terminator('\u{1}').map(words).collect();
    text.split_terminator('\u{2}').map(commands).collect()
}

fn read(script: &str) -> Option<Commands> {
    Some(bash(script).plain()?.iter().map(|command| command.words.clone()).collect())
}

fn is_missing() -> bool {
    let is_missing = Command::new("bash").arg("--version").stdout(Stdio::null()).status().is_err();
    if is_missing {
        // Written to standard error directly, because the harness hides what a test prints.
        let _ = writeln!(std::io::stderr(), "skipped: what a shell runs: bash is not installed");
    }
    is_missing
}

fn first_difference(scripts: &[String]) -> Option<String> {
    let plain: Vec<_> = scripts.iter().filter_map(|script| Some((script.as_str(), read(script)?))).collect();
    let run = commands_run(&plain.iter().map(|(script, _)| *script).collect::<Vec<_>>());
    assert_eq!(run.len(), plain.len());
    let differs = |((script, read), run): ((&str, Commands), Commands)| {
        (read != run).then(|| format!("{script:?}: read {read:?}, run {run:?}"))
    };
    plain.into_iter().zip(run).find_map(differs)
}

/// Generates scripts of unknown programs, words in every notation, and operators.
fn script_of_words() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop_oneof![Just("qa "), Just("qb "), Just("-x "), Just("y ")],
        3 => prop_oneof![
            Just("'a b' "), Just("\"c d\" "), Just("e\\ f "), Just("--g=\"h\"'i' "), Just("\\$x "),
            Just("\"\\\"\" "), Just("'' "), Just("{} "), Just("x\"y$\" "), Just("é "), Just("~x "), Just("a#b "),
            Just("!b "), Just("a=b "), Just("{é "), Just("\"a\\\nb\" "), Just("^"), Just("\\\\ "),
        ],
        2 => prop_oneof![
            Just("; qc "), Just("&& qd "), Just("\nqe "), Just("\\\n "), Just("\\\n"), Just("# "), Just("\t"),
            Just("\n"), Just(";qf "), Just("&&\n"),
        ],
        1 => prop_oneof![
            Just("$x "), Just("{a,b} "), Just("'"), Just("\""), Just("("), Just("$'c' "), Just("\r"), Just("& "),
        ],
    ];
    vec(piece, 1..10).prop_map(|pieces| format!("qz {}", pieces.concat()))
}

/// Generates the special characters of a shell in any order.
fn script_of_characters() -> impl Strategy<Value = String> {
    "qz [qx'\"\\\\$ \t\n;#{},=~^\\-é*`]{0,14}"
}

proptest! {
    #![proptest_config(cases(12))]

    #[test]
    fn a_shell_runs_the_parsed_commands(
        words in vec(script_of_words(), 32),
        characters in vec(script_of_characters(), 32),
    ) {
        if is_missing() {
            return Ok(());
        }
        prop_assert_eq!(first_difference(&[words, characters].concat()), None);
    }
}

/// Scripts that were once parsed wrongly, and similar ones.
#[test]
fn adjacent_words_are_parsed_as_by_a_shell() {
    if is_missing() {
        return;
    }
    let pieces =
        ["''", "\"\"", "'a'", "\"b\"", "\\$x", "\\\\", "\\#", "c", "1", "-", "=", "#", "{", "}", "$"];
    let pairs = pieces.iter().flat_map(|a| pieces.iter().map(move |b| format!("qz {a}{b}")));
    let triples = pieces.iter().flat_map(|a| pieces.iter().map(move |b| format!("qz {a}'q'{b} end")));
    let scripts: Vec<_> = pairs.chain(triples).collect();
    assert_eq!(first_difference(&scripts), None);
    let plain = scripts.iter().filter(|script| read(script).is_some()).count();
    assert!(plain > scripts.len() / 2, "only {plain} of {} were understood", scripts.len());
}
