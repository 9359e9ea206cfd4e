//! `codicil trust`, and configuration that a command writes into a trusted project.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use codicil_testkit::skipped;
use serde_json::{Value, json};

use crate::{raw_server::RawServer, text};

struct TrustTest {
    _folder: tempfile::TempDir,
    home: PathBuf,
    project: PathBuf,
}

impl TrustTest {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let base = folder.path().canonicalize().unwrap();
        let home = base.join("home");
        let project = base.join("project");
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(project.join(".git")).unwrap();
        Self { _folder: folder, home, project }
    }

    fn codicil(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.args(arguments).current_dir(&self.project).env("CODICIL_HOME", &self.home);
        command.env_remove("RUST_LOG").output().unwrap()
    }

    /// Returns the effective model, and why the project's configuration is not used.
    async fn model_and_reason(&self) -> (Value, Value) {
        let mut server = RawServer::start(&self.home, |_| {}).await;
        let params = json!({ "cwd": self.project, "includeLayers": true });
        let answer = server.call("config/read", params).await;
        let layers = answer["result"]["layers"].as_array().unwrap_or_else(|| panic!("{answer}"));
        let project = layers.iter().find(|layer| layer["name"]["type"] == "project");
        let reason = project.map_or(Value::Null, |layer| layer["disabledReason"].clone());
        (answer["result"]["config"]["model"].clone(), reason)
    }
}

fn configure(project: &Path, model: &str) {
    fs::create_dir_all(project.join(".codex")).unwrap();
    fs::write(project.join(".codex/config.toml"), format!("model = '{model}'\n")).unwrap();
}

#[tokio::test]
async fn configuration_written_by_a_command_is_not_used() {
    let test = TrustTest::new();
    let trusted = test.codicil(&["trust"]);
    assert!(trusted.status.success() && text(&trusted.stdout).contains("is trusted"), "{trusted:?}");

    let plant = "mkdir -p .codex && echo \"model = 'planted'\" > .codex/config.toml";
    let planted = test.codicil(&["sandbox", "--mode", "workspace-write", "--", "sh", "-c", plant]);
    if !planted.status.success() {
        return skipped(format!("planted configuration, as nothing can be confined here: {planted:?}"));
    }
    let (model, reason) = test.model_and_reason().await;
    assert_ne!(model, "planted");
    let hint = format!("run `codicil trust {}`", test.project.display());
    assert!(reason.as_str().is_some_and(|reason| reason.contains(&hint)), "{reason}");

    assert!(test.codicil(&["trust"]).status.success());
    assert_eq!(test.model_and_reason().await, (json!("planted"), Value::Null));
    // From now on commands cannot change the file, so a change was made by the user.
    configure(&test.project, "changed");
    assert_eq!(test.model_and_reason().await, (json!("changed"), Value::Null));
}

#[tokio::test]
async fn configuration_from_before_the_first_command_is_used() {
    let test = TrustTest::new();
    configure(&test.project, "mine");
    assert!(test.codicil(&["trust"]).status.success());
    test.codicil(&["sandbox", "--mode", "workspace-write", "--", "true"]);
    assert_eq!(test.model_and_reason().await, (json!("mine"), Value::Null));
}

#[test]
fn only_a_folder_can_be_trusted() {
    let test = TrustTest::new();
    let missing = test.codicil(&["trust", "missing"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(text(&missing.stderr).contains("cannot find missing"), "{missing:?}");
}
