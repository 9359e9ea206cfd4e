//! What confines a client's commands: the request's policy, else the configuration.

use std::{fs, path::Path};

use codicil_sandbox::MachineProbe;
use codicil_testkit::App;
use serde_json::{Value, json};

use super::{exec, refusal};

/// Whether there is anything to confine commands with. If not, the test says that it is skipped.
fn confines() -> bool {
    let kind = MachineProbe::cached().kind();
    if let Err(reason) = &kind {
        eprintln!("skipped: commands cannot be confined here: {reason}");
    }
    kind.is_ok()
}

/// A directory that no policy makes writable: temporary ones are, under workspace-write.
fn outside() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

async fn touches(app: &mut App, file: &Path, more: Value) -> bool {
    let line = format!("touch {} 2>/dev/null", file.display());
    let answer = exec(app, super::with(json!({ "command": ["sh", "-c", line] }), more)).await;
    assert_eq!(answer.exit_code == 0, file.exists(), "{answer:?}");
    file.exists()
}

#[tokio::test]
async fn the_policy_of_the_request_counts_and_else_the_configuration() {
    if !confines() {
        return;
    }
    let outside = outside();
    let policy = |policy: &str| json!({ "sandboxPolicy": { "type": policy } });
    let mut app = App::builder().start().await;
    let inside = |name: &str| app.workspace().join(name);
    let (one, two, three) = (inside("one"), inside("two"), inside("three"));
    assert!(!touches(&mut app, &one, json!({})).await, "read-only is the default");
    assert!(!touches(&mut app, &one, policy("readOnly")).await);
    assert!(touches(&mut app, &one, policy("workspaceWrite")).await);
    assert!(!touches(&mut app, &outside.path().join("one"), policy("workspaceWrite")).await);
    assert!(touches(&mut app, &two, policy("dangerFullAccess")).await);
    assert!(touches(&mut app, &three, policy("externalSandbox")).await);
    let named = json!({ "sandboxPolicy": { "type": "workspaceWrite", "writableRoots": [outside.path()] } });
    assert!(touches(&mut app, &outside.path().join("two"), named).await);

    let mut app = App::builder().config("sandbox_mode = \"workspace-write\"").start().await;
    let one = app.workspace().join("one");
    assert!(touches(&mut app, &one, json!({})).await);
    assert!(!touches(&mut app, &outside.path().join("three"), json!({})).await);
}

#[tokio::test]
async fn a_command_is_told_that_it_has_no_network() {
    if !confines() {
        return;
    }
    let mut app = App::builder().start().await;
    let told = json!({ "command": ["sh", "-c", "echo $CODEX_SANDBOX_NETWORK_DISABLED"] });
    assert_eq!(exec(&mut app, told).await.stdout, "1\n");
}

#[tokio::test]
async fn a_policy_that_an_administrator_forbids_is_refused() {
    if !confines() {
        return;
    }
    let mut app = App::builder().start().await;
    let rules = "allowed_sandbox_modes = [\"read-only\", \"workspace-write\"]\n";
    fs::write(app.home().join("requirements.toml"), rules).unwrap();
    for policy in ["dangerFullAccess", "externalSandbox"] {
        let params = json!({ "command": ["true"], "sandboxPolicy": { "type": policy } });
        let refused = refusal(&mut app, "command/exec", params).await;
        let expected = "-32600 invalid sandbox policy: `sandbox_mode` may not be `danger-full-access`: ";
        assert!(refused.starts_with(expected), "{refused}");
    }
    let params = json!({ "command": ["true"], "sandboxPolicy": { "type": "workspaceWrite" } });
    assert_eq!(exec(&mut app, params).await.exit_code, 0);
}

#[tokio::test]
async fn roots_that_would_undo_the_policy_are_refused() {
    let mut app = App::builder().start().await;
    let policy = json!({ "type": "workspaceWrite", "writableRoots": ["/proc"] });
    let params = json!({ "command": ["true"], "sandboxPolicy": policy });
    let refused = refusal(&mut app, "command/exec", params).await;
    assert_eq!(refused, "-32600 not allowed as a writable root: /proc");
}

#[tokio::test]
async fn configured_limits_hold_under_every_policy() {
    let limits = "[sandbox_limits]\ncpu_seconds = 77\nfile_size_bytes = 65536\nmemory_bytes = 8589934592\n";
    let mut app = App::builder().config(limits).start().await;
    let policies: &[&str] =
        if confines() { &["dangerFullAccess", "readOnly"] } else { &["dangerFullAccess"] };
    for policy in policies {
        let params = json!({ "command": ["cat", "/proc/self/limits"], "sandboxPolicy": { "type": policy } });
        let table = exec(&mut app, params).await.stdout;
        let limit = |name: &str| {
            let line = table.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.split_whitespace().take(2).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(limit("Max cpu time"), ["77", "77"], "{policy}");
        assert_eq!(limit("Max file size"), ["65536", "65536"], "{policy}");
        assert_eq!(limit("Max address space"), ["8589934592", "8589934592"], "{policy}");
    }
}

#[tokio::test]
async fn a_configuration_that_cannot_be_read_runs_nothing() {
    let mut app = App::builder().start().await;
    fs::write(app.home().join("config.toml"), "sandbox_mode = 5\n").unwrap();
    // What the client is warned of depends on when the file was read.
    app.ignore_rest();
    let refused = refusal(&mut app, "command/exec", json!({ "command": ["true"] })).await;
    assert!(refused.starts_with("-32600 failed to load configuration: "), "{refused}");
    assert!(refused.contains("config.toml:1:16: "), "{refused}");
}

/// The reference server shows an empty `.git` to everybody while a command runs.
#[tokio::test]
async fn nothing_is_left_in_the_workspace() {
    if !confines() {
        return;
    }
    let mut app = App::builder().start().await;
    for policy in ["readOnly", "workspaceWrite"] {
        let params = json!({ "command": ["ls", "-A"], "sandboxPolicy": { "type": policy } });
        let answer = exec(&mut app, params).await;
        assert_eq!((answer.exit_code, &*answer.stdout), (0, ""), "{policy}");
        assert_eq!(fs::read_dir(app.workspace()).unwrap().count(), 0, "{policy}");
    }
}
