//! `codicil demo`.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::text;

/// Runs the demo with its own directory for temporary files, which must be empty afterwards.
fn demo() -> Output {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.arg("demo").env("TMPDIR", folder.path()).env_remove("RUST_LOG").env_remove("CODICIL_HOME");
    let output = command.output().unwrap();
    let files: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(files.is_empty(), "files remain: {files:?}");
    output
}

#[test]
fn a_thread_is_streamed_stored_and_continued_by_another_server() {
    let printed = text(&demo().stdout);
    for line in [
        "ok  the answer was streamed",
        "the server is killed (SIGKILL)",
        "the question is still open",
        "ok  the question outlived the server that asked it",
        "ok  the client missed nothing and saw nothing twice",
        "> What did you do?",
    ] {
        assert!(printed.contains(line), "{line} is missing:\n{printed}");
    }
}

#[test]
fn every_claim_is_true() {
    let output = demo();
    let printed = text(&output.stdout);
    assert!(!printed.contains("NO  "), "{printed}");
    assert_eq!(output.status.code(), Some(0), "{printed}\n{}", text(&output.stderr));
    for claim in [
        "a command ran in the sandbox",
        "a patch changed files",
        "was asked for",
        "the approved command ran once",
    ] {
        assert!(printed.contains(claim), "{claim} is missing:\n{printed}");
    }
}

/// The README shows a part of the demo. What it shows must be what the demo prints.
#[test]
fn the_excerpt_in_the_readme_is_true() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    let excerpt = readme.split_once("$ codicil demo\n").unwrap().1.split_once("```").unwrap().0;
    let printed = text(&demo().stdout);
    // Times differ, and what a shell says about a read-only file.
    let is_fixed =
        |line: &&str| !line.contains(" ms later") && !line.ends_with(" s") && !line.contains("Read-only");
    for line in excerpt.lines().filter(is_fixed).filter(|line| *line != "…") {
        assert!(printed.lines().any(|shown| shown == line), "README.md shows {line:?}:\n{printed}");
    }
}
