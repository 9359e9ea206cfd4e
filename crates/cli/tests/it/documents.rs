//! The documents name files, crates and tests that exist, and lists of them are complete.

use std::{
    fs,
    path::{Path, PathBuf},
};

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
    for (command, guide) in [("app-server", "docs/server.md"), ("exec", "docs/exec.md")] {
        let help = text(&codicil(&[command, "--help"]).stdout);
        let guide_text = fs::read_to_string(root().join(guide)).unwrap();
        let words =
            help.lines().filter(|line| line.trim_start().starts_with('-')).flat_map(str::split_whitespace);
        let flags = words.map(|word| word.trim_end_matches(',')).filter(|word| word.starts_with("--"));
        for flag in flags.filter(|flag| *flag != "--help") {
            assert!(guide_text.contains(flag), "{guide} lacks {flag}");
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
