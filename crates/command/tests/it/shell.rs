//! A real shell as the judge of what a script means.

use std::process::{Command, Stdio};

use codicil_command::CommandLine;
use proptest::{collection::vec, prelude::*};
use tempfile::TempDir;

use crate::support::bash;

/// With nothing on the path, every command ends up in this function, which prints its words.
const HANDLER: &str =
    "PATH=/nowhere; set -f; command_not_found_handle() { printf '%s\\0' \"$@\"; printf '\\1'; }\n";

/// The words of every command that the shell tries to run.
fn commands_run(script: &str) -> Vec<Vec<String>> {
    let directory = TempDir::new().unwrap();
    let output = Command::new("bash")
        .args(["--noprofile", "--norc", "-c", &format!("{HANDLER}{script}")])
        .current_dir(directory.path())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let words = |command: &str| command.split_terminator('\0').map(str::to_owned).collect();
    text.split_terminator('\u{1}').map(words).collect()
}

fn is_missing() -> bool {
    Command::new("bash").arg("--version").stdout(Stdio::null()).status().is_err()
}

/// Programs that no shell knows, words in every way of writing them, and what may stand between.
fn script() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => prop_oneof![Just("qa "), Just("qb "), Just("-x "), Just("y ")],
        3 => prop_oneof![
            Just("'a b' "), Just("\"c d\" "), Just("e\\ f "), Just("--g=\"h\"'i' "), Just("\\$x "), Just("\"\\\"\" "),
            Just("'' "), Just("{} "), Just("x\"y$\" "), Just("é "), Just("~x "), Just("a#b "), Just("!b "),
            Just("a=b "), Just("{é "), Just("\"a\\\nb\" "), Just("^"), Just("\\\\ "),
        ],
        2 => prop_oneof![Just("; qc "), Just("&& qd "), Just("\nqe "), Just("\\\n "), Just("\\\n"), Just("# "), Just("\t")],
        1 => prop_oneof![Just("$x "), Just("{a,b} "), Just("'"), Just("\""), Just("("), Just("$'c' "), Just("\r"), Just("& ")],
    ];
    vec(piece, 1..10).prop_map(|pieces| format!("qz {}", pieces.concat()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn a_shell_runs_what_was_read(script in script()) {
        if is_missing() {
            eprintln!("skipped: bash is not installed");
            return Ok(());
        }
        let line: CommandLine = bash(&script);
        if let Some(commands) = line.plain() {
            let read: Vec<_> = commands.iter().map(|command| command.words.clone()).collect();
            prop_assert_eq!(commands_run(&script), read, "{}", script);
        }
    }
}
