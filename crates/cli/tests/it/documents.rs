//! The documents name files and tests that exist.

use std::{
    fs,
    path::{Path, PathBuf},
};

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
