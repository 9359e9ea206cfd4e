//! The files of a codex home that hold threads, and what names people gave them.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use serde::Deserialize;

/// Below `sessions`, years, months and days.
const DEPTH: u32 = 3;

/// What is to be taken over.
pub struct ImportSource {
    pub root: PathBuf,
    /// Oldest first, archived ones last.
    pub files: Vec<RolloutFile>,
    pub names: HashMap<String, String>,
}

pub struct RolloutFile {
    pub path: PathBuf,
    pub archived: bool,
}

#[derive(Deserialize)]
struct NamedThread {
    id: String,
    thread_name: String,
}

impl ImportSource {
    /// A home, or a single file of one.
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let found = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if found.is_file() {
            let root = path.parent().unwrap_or(Path::new("/")).to_owned();
            let file = RolloutFile { path: path.to_owned(), archived: false };
            return Ok(Self { root, files: vec![file], names: HashMap::new() });
        }
        let (sessions, archive) = (path.join("sessions"), path.join("archived_sessions"));
        if !sessions.is_dir() && !archive.is_dir() {
            bail!(
                "{} is no home of codex: it has neither sessions nor archived_sessions. Name the home, or one of \
                 its rollout files, as in `codicil import PATH`",
                path.display()
            );
        }
        let mut files = Vec::new();
        collect(&sessions, DEPTH, false, &mut files);
        collect(&archive, 0, true, &mut files);
        Ok(Self { root: path.to_owned(), files, names: names(&path.join("session_index.jsonl")) })
    }
}

/// Directories that cannot be read are passed over; what is in them is brought by the next run.
fn collect(dir: &Path, depth: u32, archived: bool, files: &mut Vec<RolloutFile>) {
    let mut paths: Vec<_> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        if depth > 0 && path.is_dir() {
            collect(&path, depth - 1, archived, files);
        } else if is_rollout(&path) {
            files.push(RolloutFile { path, archived });
        }
    }
}

fn is_rollout(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("rollout-") && name.ends_with(".jsonl") && path.is_file()
}

/// Each line is a change; the last one of a thread counts.
fn names(path: &Path) -> HashMap<String, String> {
    let Ok(file) = codicil_store::open_regular(path) else { return HashMap::new() };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    let named = lines.filter_map(|line| serde_json::from_str::<NamedThread>(&line).ok());
    named
        .map(|named| (named.id, named.thread_name.trim().to_owned()))
        .filter(|(_, name)| !name.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_name_of_a_thread_counts() {
        let home = tempfile::tempdir().unwrap();
        let index = home.path().join("session_index.jsonl");
        let lines = [
            r#"{"id":"a","thread_name":"first","updated_at":"2026-01-01T00:00:00Z"}"#,
            "not JSON",
            r#"{"id":"a","thread_name":" second "}"#,
            r#"{"id":"b","thread_name":"  "}"#,
        ];
        fs::write(&index, lines.join("\n")).unwrap();
        assert_eq!(names(&index), HashMap::from([("a".to_owned(), "second".to_owned())]));
    }

    #[test]
    fn only_rollouts_at_their_places_are_found() {
        let home = tempfile::tempdir().unwrap();
        let day = home.path().join("sessions/2026/11/16");
        fs::create_dir_all(&day).unwrap();
        fs::create_dir_all(home.path().join("archived_sessions")).unwrap();
        for path in
            ["sessions/2026/11/16/rollout-a.jsonl", "archived_sessions/rollout-b.jsonl", "rollout-c.jsonl"]
        {
            fs::write(home.path().join(path), "").unwrap();
        }
        fs::write(day.join("notes.txt"), "").unwrap();
        let source = ImportSource::open(home.path()).unwrap();
        let found: Vec<_> =
            source.files.iter().map(|file| (file.path.file_name().unwrap(), file.archived)).collect();
        assert_eq!(found, [("rollout-a.jsonl".as_ref(), false), ("rollout-b.jsonl".as_ref(), true)]);
        assert!(ImportSource::open(&day).is_err());
    }
}
