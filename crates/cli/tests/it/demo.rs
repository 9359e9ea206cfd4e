//! `codicil demo`.

use std::process::{Command, Output};

use crate::text;

/// Runs the demo with a directory of its own for temporary files, which must be empty afterwards.
fn demo() -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.arg("demo").env("TMPDIR", folder.path()).env_remove("RUST_LOG").env_remove("CODICIL_HOME");
    let output = command.output().unwrap();
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(left.is_empty(), "it left {left:?}");
    output
}

#[test]
fn a_thread_is_streamed_stored_and_resumed_and_nothing_is_left_behind() {
    let said = text(&demo().stdout);
    for line in
        ["ok  the answer was streamed", "ok  another server found the thread as it was", "> What did you do?"]
    {
        assert!(said.contains(line), "{line} is missing:\n{said}");
    }
}

#[test]
fn everything_that_is_claimed_is_true() {
    let output = demo();
    let said = text(&output.stdout);
    assert!(!said.contains("NO  "), "{said}");
    assert_eq!(output.status.code(), Some(0), "{said}\n{}", text(&output.stderr));
    for claim in ["a command ran in the sandbox", "a patch changed files", "was asked for"] {
        assert!(said.contains(claim), "{claim} is missing:\n{said}");
    }
}
