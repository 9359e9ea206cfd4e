//! Importing a rollout file again after it has changed.

use std::{fs, path::PathBuf};

use codicil_config::HomeDirectory;
use codicil_migrate::codex::{
    FailedFile, ImportMode, ImportOutcome, ImportProgress, ImportReport, ImportSource, import_threads,
};
use codicil_store::Store;
use serde_json::json;
use tempfile::TempDir;

const HEAD: &str = r#"{"id":"01a1e24a-8d00-7532-b7b5-6d33c86bf60d","timestamp":"2025-05-01T00:00:00Z"}"#;

struct NoProgress;

impl ImportProgress for NoProgress {
    fn file_failed(&mut self, _: &FailedFile) {}

    fn file_finished(&mut self, _: &ImportReport) {}
}

/// A rollout file and a home into which it is imported.
struct Import {
    file: PathBuf,
    home: HomeDirectory,
    _directory: TempDir,
}

impl Import {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let home = HomeDirectory::new(directory.path().join("home")).unwrap();
        Self { file: directory.path().join("rollout.jsonl"), home, _directory: directory }
    }

    /// Imports the file with these messages of the user. Returns the outcome, or the error.
    async fn of(&self, messages: &[&str]) -> Result<ImportOutcome, String> {
        let lines = messages.iter().map(|text| {
            let content = json!([{ "type": "input_text", "text": text }]);
            json!({ "type": "message", "role": "user", "content": content }).to_string()
        });
        let lines: Vec<_> = [HEAD.to_owned()].into_iter().chain(lines).collect();
        fs::write(&self.file, lines.join("\n") + "\n").unwrap();
        let source = ImportSource::open(&self.file).unwrap();
        let store = Store::open(&**self.home.path()).unwrap();
        let report = import_threads(&source, &self.home, &store, ImportMode::Write, &mut NoProgress).await;
        store.close().await.unwrap();
        let ImportReport { mut imported, mut failed } = report.unwrap();
        match failed.pop() {
            Some(failed) => Err(failed.error),
            None => Ok(imported.pop().unwrap().outcome),
        }
    }
}

#[tokio::test]
async fn only_a_file_that_has_grown_is_continued() {
    let import = Import::new();
    assert_eq!(import.of(&["One"]).await, Ok(ImportOutcome::Imported));
    assert_eq!(import.of(&["One", "Two"]).await, Ok(ImportOutcome::Updated));
    assert_eq!(import.of(&["One", "Two"]).await, Ok(ImportOutcome::Unchanged));

    let rewritten = Err("it is not the file that was imported before, and has not just grown".to_owned());
    assert_eq!(import.of(&["One", "TWO", "Three"]).await, rewritten);
    // No line ends where the last import ended.
    assert_eq!(import.of(&["One", "Two, and more"]).await, rewritten);
    assert!(import.of(&["One"]).await.unwrap_err().starts_with("it is shorter"));
}
