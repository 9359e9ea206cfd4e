//! `codicil trust`, and configuration that a command puts into a trusted project.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use codicil_testkit::skipped;
use serde_json::{Value, json};

use crate::{raw::Raw, text};

struct Place {
    _folder: tempfile::TempDir,
    home: PathBuf,
    project: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir_in("/var/tmp").unwrap();
        let base = folder.path().canonicalize().unwrap();
        let (home, project) = (base.join("home"), base.join("project"));
        fs::create_dir_all(&home).unwrap();
        fs::create_dir_all(project.join(".git")).unwrap();
        Self { _folder: folder, home, project }
    }

    fn codicil(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.args(arguments).current_dir(&self.project).env("CODICIL_HOME", &self.home);
        command.env_remove("RUST_LOG").output().unwrap()
    }

    /// The model that the project's configuration says, and why it is not used.
    async fn model_and_reason(&self) -> (Value, Value) {
        let mut server = Raw::start(&self.home, |_| {}).await;
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
async fn configuration_that_a_command_made_waits_for_a_person() {
    let place = Place::new();
    let trusted = place.codicil(&["trust"]);
    assert!(trusted.status.success() && text(&trusted.stdout).contains("is trusted"), "{trusted:?}");

    let plant = "mkdir -p .codex && echo \"model = 'planted'\" > .codex/config.toml";
    let planted = place.codicil(&["sandbox", "--mode", "workspace-write", "--", "sh", "-c", plant]);
    if !planted.status.success() {
        return skipped(format!("planted configuration, as nothing can be confined here: {planted:?}"));
    }
    let (model, reason) = place.model_and_reason().await;
    assert_ne!(model, "planted");
    let hint = format!("run `codicil trust {}`", place.project.display());
    assert!(reason.as_str().is_some_and(|reason| reason.contains(&hint)), "{reason}");

    assert!(place.codicil(&["trust"]).status.success());
    assert_eq!(place.model_and_reason().await, (json!("planted"), Value::Null));
    // From now on commands cannot change it, so a change is a person's.
    configure(&place.project, "changed");
    assert_eq!(place.model_and_reason().await, (json!("changed"), Value::Null));
}

#[tokio::test]
async fn configuration_from_before_the_first_command_stays_in_use() {
    let place = Place::new();
    configure(&place.project, "mine");
    assert!(place.codicil(&["trust"]).status.success());
    place.codicil(&["sandbox", "--mode", "workspace-write", "--", "true"]);
    assert_eq!(place.model_and_reason().await, (json!("mine"), Value::Null));
}

#[test]
fn only_a_folder_can_be_trusted() {
    let place = Place::new();
    let missing = place.codicil(&["trust", "missing"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert!(text(&missing.stderr).contains("cannot find missing"), "{missing:?}");
}
