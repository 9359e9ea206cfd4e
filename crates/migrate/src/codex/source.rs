//! Finds the rollout files of a codex home, and the names of their threads.

use std::{
    collections::HashMap,
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
};

use serde::Deserialize;

use super::CodexImportError;

/// Levels of directories below `sessions`: years, months and days.
const DEPTH: u32 = 3;

/// The files to import.
pub struct ImportSource {
    /// The home, or the directory of a single file.
    pub root: PathBuf,
    /// Oldest first, archived ones last.
    pub files: Vec<RolloutFile>,
    /// Names of threads by id.
    pub names: HashMap<String, String>,
}

/// A file that holds one thread.
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
    /// Lists the rollout files of a home, or takes a single file.
    pub fn open(path: &Path) -> Result<Self, CodexImportError> {
        let found = fs::metadata(path)
            .map_err(|source| CodexImportError::Unreadable { path: path.to_owned(), source })?;
        if found.is_file() {
            let root = path.parent().unwrap_or(Path::new("/")).to_owned();
            let file = RolloutFile { path: path.to_owned(), archived: false };
            return Ok(Self { root, files: vec![file], names: HashMap::new() });
        }
        let sessions = path.join("sessions");
        let archive = path.join("archived_sessions");
        if !sessions.is_dir() && !archive.is_dir() {
            return Err(CodexImportError::NotCodexHome(path.to_owned()));
        }
        let mut files = Vec::new();
        for (paths, archived) in [(rollouts_in(&sessions, DEPTH), false), (rollouts_in(&archive, 0), true)] {
            files.extend(paths.into_iter().map(|path| RolloutFile { path, archived }));
        }
        Ok(Self { root: path.to_owned(), files, names: names(&path.join("session_index.jsonl")) })
    }
}

/// Lists the rollout files of a directory in order of their names, down to `depth` levels of subdirectories.
/// Directories that cannot be read are skipped until the next import.
fn rollouts_in(dir: &Path, depth: u32) -> Vec<PathBuf> {
    let mut paths: Vec<_> =
        fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    paths.sort();
    let mut rollouts = Vec::new();
    for path in paths {
        if depth > 0 && path.is_dir() {
            rollouts.extend(rollouts_in(&path, depth - 1));
        } else if is_rollout(&path) {
            rollouts.push(path);
        }
    }
    rollouts
}

fn is_rollout(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    name.starts_with("rollout-") && name.ends_with(".jsonl") && path.is_file()
}

/// Reads the names of threads. Each line is a change, and the last one of a thread counts. Lines that are not
/// valid are skipped.
fn names(path: &Path) -> HashMap<String, String> {
    let Ok(file) = codicil_store::open_regular(path) else { return HashMap::new() };
    let lines = BufReader::new(file).split(b'\n').map_while(Result::ok);
    let named = lines.filter_map(|line| serde_json::from_slice::<NamedThread>(&line).ok());
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
        let lines: [&[u8]; 5] = [
            br#"{"id":"a","thread_name":"first","updated_at":"2026-01-01T00:00:00Z"}"#,
            b"not JSON",
            b"not UTF-8: \xff",
            br#"{"id":"a","thread_name":" second "}"#,
            br#"{"id":"b","thread_name":"  "}"#,
        ];
        fs::write(&index, lines.join(&b'\n')).unwrap();
        assert_eq!(names(&index), HashMap::from([("a".to_owned(), "second".to_owned())]));
    }

    #[test]
    fn only_rollout_files_in_known_directories_are_found() {
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
