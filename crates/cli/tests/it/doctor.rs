//! `codicil doctor`, and the log of the sandbox at the start of a server.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output, Stdio},
};

use codicil_sandbox::MachineProbe;
use codicil_testkit::{ModelServer, Script, ServerProcess};
use serde_json::Value;

use crate::{soon, text};

fn doctor(home: &Path, flags: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.args(["doctor", "--offline"]).args(flags).stdin(Stdio::null()).current_dir(home);
    command.env("CODICIL_HOME", home).env_remove("RUST_LOG").env_remove("OPENAI_API_KEY");
    command.env("DOCTOR_TEST_KEY", "s3cret-value").output().unwrap()
}

fn finding(output: &Output, name: &str) -> Value {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    let checks = report["checks"].as_array().unwrap();
    checks.iter().find(|check| check["name"] == name).unwrap_or_else(|| panic!("{report}")).clone()
}

#[test]
fn a_valid_home_has_no_errors() {
    let home = tempfile::tempdir().unwrap();
    let output = doctor(home.path(), &["--json"]);
    let confines = MachineProbe::cached().kind();
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
    for name in [
        "versions",
        "sandbox",
        "proxy",
        "shell",
        "git",
        "home",
        "secrets",
        "config",
        "account",
        "threads",
        "providers",
    ] {
        let line = shown.lines().find(|line| line.contains(&format!("  {name} ")));
        assert!(line.is_some(), "{name} is missing:\n{shown}");
    }
}

#[test]
fn an_invalid_configuration_is_reported_with_its_position() {
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
fn keys_are_found_and_not_shown() {
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
        let output = text(&output.stdout) + &text(&output.stderr);
        assert!(!output.contains("s3cret"), "{output}");
        assert!(output.contains("mine: DOCTOR_TEST_KEY is set"), "{output}");
        assert!(output.contains("other: a token in the configuration"), "{output}");
        for name in ["auth.json", "config.toml"] {
            assert!(output.contains(&format!("chmod 600 {}", home.path().join(name).display())), "{output}");
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
    let output = command.args(["doctor", "--json", "--offline"]).env("CODICIL_HOME", &file).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(finding(&output, "home")["status"], "error");
}

/// Runs the doctor with network checks.
async fn doctor_online(home: &Path, provider: &str) -> Output {
    let config = format!(
        "model_provider = \"mine\"\n[model_providers.mine]\nname = \"mine\"\nbase_url = \"{provider}\"\n"
    );
    fs::write(home.join("config.toml"), config).unwrap();
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_codicil"));
    command.args(["doctor", "--json"]).env("CODICIL_HOME", home).env_remove("RUST_LOG").current_dir(home);
    soon(command.stdin(Stdio::null()).output()).await.unwrap()
}

#[tokio::test]
async fn the_provider_is_contacted() {
    let home = tempfile::tempdir().unwrap();
    let model = ModelServer::start(Script::new()).await;
    let network = finding(&doctor_online(home.path(), &model.base_url()).await, "network");
    assert_eq!(network["status"], "ok", "{network}");
    assert_eq!(network["summary"], format!("{} answers", model.address()));

    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let output = doctor_online(home.path(), &format!("http://someone:s3cret@{closed}/v1?key=s3cret")).await;
    let network = finding(&output, "network");
    assert_eq!(network["status"], "warning", "{network}");
    assert!(
        network["summary"].as_str().unwrap().starts_with(&format!("{closed} does not answer")),
        "{network}"
    );
    assert!(network["details"][0].as_str().unwrap().contains("HTTPS_PROXY"), "{network}");
    assert!(!text(&output.stdout).contains("s3cret"), "{network}");
}

#[tokio::test]
async fn the_server_logs_its_confinement() {
    let home = tempfile::tempdir().unwrap();
    let mut process = ServerProcess::spawn_with(home.path(), ["app-server"], |command| {
        command.env("RUST_LOG", "info");
    });
    let line = process.stderr_line("confine").await;
    assert!(line.contains(&MachineProbe::cached().summary()), "{line}");
    drop(process.take_stdin());
    process.expect_success().await;
}
