//! A temporary directory for a test.

use std::{
    fs,
    io::{Write, stderr},
    os::unix::{fs::symlink, net::UnixListener},
    path::{Path, PathBuf},
    process::Command,
};

use tempfile::TempDir;

pub struct TestFolder {
    root: PathBuf,
    _directory: TempDir,
}

impl TestFolder {
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        // Without links, so that reported paths are the same.
        Self { root: directory.path().canonicalize().unwrap(), _directory: directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.root.clone() } else { self.root.join(name) }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file, and creates its parents.
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(&path).unwrap();
        path
    }

    pub fn link(&self, name: &str, target: &str) -> PathBuf {
        symlink(target, self.path(name)).unwrap();
        self.path(name)
    }

    pub fn pipe(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    pub fn socket(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        drop(UnixListener::bind(&path).unwrap());
        path
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

/// Prints which test is skipped and why. Writes to standard error directly, because the harness hides what a test prints.
pub fn skipped(why: &str) {
    let thread = std::thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = stderr().write_all(line.as_bytes());
}
