//! `codicil doctor`, and what the server says of itself when it starts.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use codicil_sandbox::Probe;
use codicil_testkit::Process;
use serde_json::Value;

use crate::text;

fn doctor(home: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.arg("doctor").args(flags).stdin(Stdio::null()).current_dir(home);
    command.env("CODICIL_HOME", home).env_remove("RUST_LOG").env_remove("OPENAI_API_KEY");
    command.env("DOCTOR_TEST_KEY", "s3cret-value").output().unwrap()
}

fn finding(output: &Output, name: &str) -> Value {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{report}")).clone()
}

#[test]
fn a_sound_home_is_told_to_work() {
    let home = tempfile::tempdir().unwrap();
    let output = doctor(home.path(), &["--json"]);
    let confines = Probe::cached().kind();
    assert_eq!(output.status.code(), Some(i32::from(confines.is_err())), "{output:?}");
    assert_eq!(finding(&output, "home")["status"], "ok");
    assert_eq!(finding(&output, "config")["summary"], "no files, defaults apply");
    assert_eq!(finding(&output, "secrets")["summary"], "no files with credentials");
    let provider = finding(&output, "providers");
    assert_eq!(provider["status"], "warning");
    assert_eq!(provider["details"][0], "openai: OPENAI_API_KEY is not set; a login does as well");
    if let Ok(kind) = confines {
        assert_eq!(finding(&output, "sandbox")["summary"], kind.to_string());
    }
    let shown = text(&doctor(home.path(), &[]).stdout);
    for name in ["sandbox", "bubblewrap", "shell", "git", "home", "secrets", "config", "providers"] {
        let line = shown.lines().find(|line| line.contains(&format!("  {name} ")));
        assert!(line.is_some(), "{name} is missing:\n{shown}");
    }
}

#[test]
fn a_broken_configuration_is_named_by_its_place() {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("config.toml"), "\nmodel = 5\n").unwrap();
    let output = doctor(home.path(), &["--json"]);
    assert_eq!(output.status.code(), Some(1));
    let found = finding(&output, "config");
    assert_eq!(found["status"], "error");
    let details = found["details"].to_string();
    assert!(
        details.contains("config.toml:2:9: invalid type: integer") && details.contains("in `model`"),
        "{details}"
    );
}

#[test]
fn keys_are_found_and_never_shown() {
    let home = tempfile::tempdir().unwrap();
    let config = "model_provider = \"mine\"\n[model_providers.mine]\nbase_url = \"http://localhost/v1\"\n\
        env_key = \"DOCTOR_TEST_KEY\"\n[model_providers.other]\nbase_url = \"http://localhost/v1\"\n\
        experimental_bearer_token = \"s3cret-token\"\n";
    let file = home.path().join("config.toml");
    fs::write(&file, config).unwrap();
    fs::write(home.path().join("auth.json"), "{}").unwrap();
    fs::set_permissions(home.path().join("auth.json"), PermissionsExt::from_mode(0o644)).unwrap();
    fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
    for flags in [&["--json"][..], &[]] {
        let output = doctor(home.path(), flags);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains("s3cret"), "{said}");
        assert!(said.contains("mine: DOCTOR_TEST_KEY is set"), "{said}");
        assert!(said.contains("other: a token in the configuration"), "{said}");
        for name in ["auth.json", "config.toml"] {
            assert!(said.contains(&format!("chmod 600 {}", home.path().join(name).display())), "{said}");
        }
    }
    for name in ["auth.json", "config.toml"] {
        fs::set_permissions(home.path().join(name), PermissionsExt::from_mode(0o600)).unwrap();
    }
    assert_eq!(finding(&doctor(home.path(), &["--json"]), "secrets")["status"], "ok");
}

#[test]
fn a_home_that_is_a_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("home");
    fs::write(&file, "").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    let output = command.args(["doctor", "--json"]).env("CODICIL_HOME", &file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(finding(&output, "home")["status"], "error");
}

#[tokio::test]
async fn the_server_says_how_it_confines() {
    let home = tempfile::tempdir().unwrap();
    let mut process = Process::spawn_with(home.path(), ["app-server"], |command| {
        command.env("RUST_LOG", "info");
    });
    let line = process.stderr_line("confine").await;
    assert!(line.contains(&Probe::cached().summary()), "{line}");
    drop(process.take_stdin());
    process.expect_success().await;
}
