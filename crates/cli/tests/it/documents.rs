//! The documents name files, crates and tests that exist, lists of them are complete, and what the README shows is what
//! happens.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::{codicil, text};

#[test]
fn files_that_documents_name_exist() {
    for (document, text) in documents() {
        for name in code_spans(&text).filter(|name| name.ends_with(".rs") && name.contains("/src/")) {
            let is_there = [root().join("crates").join(name), root().join(name)].iter().any(|it| it.exists());
            assert!(is_there, "{} names {name}, which does not exist", document.display());
        }
    }
}

#[test]
fn tests_that_the_readme_names_exist() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let mut sources = String::new();
    for folder in ["crates", "bench"] {
        read_sources(&root().join(folder), &mut sources);
    }
    let promises = readme.lines().filter(|line| line.starts_with('|'));
    let names = promises.flat_map(code_spans).filter(|name| is_test_name(name));
    let missing: Vec<_> = names.filter(|name| !sources.contains(&format!("fn {name}("))).collect();
    assert!(missing.is_empty(), "README.md names tests that do not exist: {missing:?}");
}

#[test]
fn the_session_of_the_readme_is_answered_as_shown() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let (_, session) = readme.split_once("printf '%s\\n' \\\n").unwrap();
    let (requests, rest) = session.split_once("  | ").unwrap();
    let requests = requests.lines().map(|line| line.trim().trim_end_matches(" \\").trim_matches('\''));
    let (_, answers) = rest.split_once("```json\n").unwrap();
    let (answers, _) = answers.split_once("```").unwrap();

    let home = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.arg("app-server").env("CODICIL_HOME", home.path()).env_remove("CODICIL_ANNOUNCE_VERSION");
    let mut server = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = server.stdin.take().unwrap();
    requests.for_each(|request| writeln!(input, "{request}").unwrap());
    drop(input);
    let output = server.wait_with_output().unwrap();
    assert_eq!(of_any_machine(&text(&output.stdout)), of_any_machine(answers));
}

/// Returns responses without what differs between machines.
fn of_any_machine(answers: &str) -> Vec<Value> {
    let answers = answers.lines().map(|line| {
        let mut answer: Value = serde_json::from_str(line).unwrap();
        if let Some(agent) = answer["result"]["userAgent"].as_str() {
            answer["result"]["userAgent"] = agent.split(" (").next().unwrap().into();
            answer["result"]["codexHome"] = "".into();
            answer["result"]["platformOs"] = "".into();
        }
        answer
    });
    answers.collect()
}

#[test]
fn the_limits_of_the_readme_are_those_of_the_server() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let limits = fs::read_to_string(root().join("crates/server/src/limits.rs")).unwrap();
    for (row, constant) in [
        ("| one message of a client | 64 MiB |", "MAX_MESSAGE_BYTES: usize = 64 << 20;"),
        ("| requests of one connection that wait for answers | 128 |", "MAX_IN_FLIGHT: usize = 128;"),
        ("| bytes that wait for one client to read them | 1 MiB |", "BUSY_BYTES: usize = 1 << 20;"),
        ("| | 16 MiB | nothing more is read from it;", "PAUSE_READING_BYTES: usize = 16 << 20;"),
        ("deltas of one item are joined, up to 256 KiB each |", "MAX_JOINED_BYTES: usize = 256 << 10;"),
        ("| | 64 MiB | it is disconnected,", "MAX_UNREAD_BYTES: usize = 64 << 20;"),
        ("| connections of a listener | 1,024 |", "MAX_CONNECTIONS: usize = 1024;"),
        (
            "| silence before the first byte or HTTP head | 10 s |",
            "HANDSHAKE_TIME: Duration = Duration::from_secs(10);",
        ),
        (
            "| time for last messages when a connection or the server ends | 2 s |",
            "FLUSH_TIME: Duration = Duration::from_secs(2);",
        ),
    ] {
        assert!(readme.contains(row), "README.md does not say: {row}");
        assert!(limits.contains(constant), "limits.rs does not have `{constant}`, which README.md states");
    }
    let rows = readme.split("| what | ceiling |").nth(1).unwrap().lines().skip(2);
    assert_eq!(rows.take_while(|line| line.starts_with('|')).count(), 8, "a limit was added to the README");
}

#[test]
fn links_in_documents_lead_to_files() {
    for (document, text) in documents() {
        let folder = document.parent().unwrap();
        for link in links(&text).filter(|link| !link.contains(':') && !link.starts_with('#')) {
            let file = link.split('#').next().unwrap();
            assert!(
                folder.join(file).exists(),
                "{} links to {link}, which does not exist",
                document.display()
            );
        }
    }
}

#[test]
fn every_guide_is_in_the_index() {
    let index = fs::read_to_string(root().join("docs/README.md")).unwrap();
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "README.md" {
            assert!(index.contains(&format!("]({name})")), "docs/README.md does not list {name}");
        }
    }
}

#[test]
fn every_crate_is_in_the_code_map() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for entry in fs::read_dir(root().join("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(architecture.contains(&format!("\n| `{name}` |")), "the code map does not list {name}");
    }
}

#[test]
fn guides_have_every_flag_of_their_commands() {
    for (command, guide) in [
        ("app-server", "docs/server.md"),
        ("app-server generate-json-schema", "docs/server.md"),
        ("app-server generate-ts", "docs/server.md"),
        ("app-server daemon start", "docs/server.md"),
        ("app-server proxy", "docs/server.md"),
        ("mock-model", "docs/server.md"),
        ("exec", "docs/exec.md"),
    ] {
        let arguments: Vec<_> = command.split(' ').chain(["--help"]).collect();
        let help = text(&codicil(&arguments).stdout);
        let guide_text = fs::read_to_string(root().join(guide)).unwrap();
        let words =
            help.lines().filter(|line| line.trim_start().starts_with('-')).flat_map(str::split_whitespace);
        let flags = words.map(|word| word.trim_end_matches(',')).filter(|word| word.starts_with("--"));
        for flag in flags.filter(|flag| *flag != "--help") {
            assert!(guide_text.contains(flag), "{guide} lacks {flag} of {command}");
        }
    }
}

#[test]
fn every_fuzz_target_has_its_file() {
    let manifest = fs::read_to_string(root().join("fuzz/Cargo.toml")).unwrap();
    for entry in fs::read_dir(root().join("fuzz/fuzz_targets")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(manifest.contains(&format!("\"fuzz_targets/{name}\"")), "fuzz/Cargo.toml lacks {name}");
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn documents() -> Vec<(PathBuf, String)> {
    let folders = [root(), root().join("docs"), root().join("docs/adr")];
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let markdown = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    markdown.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// Returns the texts between single backticks.
fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.lines().flat_map(|line| line.split('`').skip(1).step_by(2))
}

/// Returns the targets of the links of Markdown.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link)
}

/// Test names are sentences: at least five words.
fn is_test_name(name: &str) -> bool {
    name.matches('_').count() >= 4 && name.chars().all(|letter| letter == '_' || letter.is_ascii_lowercase())
}

fn read_sources(folder: &Path, sources: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            sources.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}
