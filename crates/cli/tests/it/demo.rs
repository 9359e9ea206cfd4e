//! `codicil demo`.

use std::process::{Command, Output};

use crate::text;

/// Runs the demo with its own directory for temporary files, which must be empty afterwards.
fn demo() -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.arg("demo").env("TMPDIR", folder.path()).env_remove("RUST_LOG").env_remove("CODICIL_HOME");
    let output = command.output().unwrap();
    let files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.is_empty(), "files remain: {files:?}");
    output
}

#[test]
fn a_thread_is_streamed_stored_and_resumed() {
    let printed = text(&demo().stdout);
    for line in
        ["ok  the answer was streamed", "ok  another server found the thread as it was", "> What did you do?"]
    {
        assert!(printed.contains(line), "{line} is missing:\n{printed}");
    }
}

#[test]
fn every_claim_is_true() {
    let output = demo();
    let printed = text(&output.stdout);
    assert!(!printed.contains("NO  "), "{printed}");
    assert_eq!(output.status.code(), Some(0), "{printed}\n{}", text(&output.stderr));
    for claim in ["a command ran in the sandbox", "a patch changed files", "was asked for"] {
        assert!(printed.contains(claim), "{claim} is missing:\n{printed}");
    }
}
