//! The sandbox of a client's commands: the policy of the request, or else of the configuration.

use std::{fs, path::Path};

use codicil_sandbox::MachineProbe;
use codicil_testkit::App;
use serde_json::{Value, json};

use super::{exec, refusal};

/// Returns whether this machine has a sandbox. If not, the test is skipped with a message.
fn confines() -> bool {
    let kind = MachineProbe::cached().kind();
    if let Err(reason) = &kind {
        eprintln!("skipped: commands cannot be confined here: {reason}");
    }
    kind.is_ok()
}

/// Makes a directory that no policy makes writable. Temporary directories are writable with workspace-write.
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
async fn the_policy_of_the_request_overrides_the_configuration() {
    if !confines() {
        return;
    }
    let outside = outside();
    let policy = |policy: &str| json!({ "sandboxPolicy": { "type": policy } });
    let mut app = App::builder().start().await;
    let inside = |name: &str| app.workspace().join(name);
    let one = inside("one");
    let two = inside("two");
    let three = inside("three");
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
async fn the_permission_profile_of_the_request_overrides_the_configuration() {
    if !confines() {
        return;
    }
    let outside = outside();
    fs::write(outside.path().join("secret"), "hidden").unwrap();
    let config = "sandbox_mode = \"danger-full-access\"\n[permissions.narrow.filesystem]\n\":minimal\" = \"read\"\n\
                  \":workspace_roots\" = { \".\" = \"write\" }\n";
    let mut app = App::builder().experimental().config(config).start().await;
    let profile = |id: &str| json!({ "permissionProfile": id });
    let inside = app.workspace().join("inside");
    assert!(!touches(&mut app, &inside, profile(":read-only")).await);
    assert!(touches(&mut app, &inside, profile(":workspace")).await);
    assert!(!touches(&mut app, &outside.path().join("one"), profile(":workspace")).await);
    assert!(!touches(&mut app, &outside.path().join("one"), profile("narrow")).await);
    let read = json!({ "command": ["cat", outside.path().join("secret")] });
    let shown = exec(&mut app, super::with(read.clone(), profile(":read-only"))).await;
    assert_eq!(shown.stdout, "hidden", "{shown:?}");
    let refused = exec(&mut app, super::with(read, profile("narrow"))).await;
    assert!(refused.exit_code != 0 && refused.stdout.is_empty(), "{refused:?}");
    assert!(touches(&mut app, &outside.path().join("one"), profile(":danger-full-access")).await);
}

#[tokio::test]
async fn a_command_without_network_has_a_variable_for_it() {
    if !confines() {
        return;
    }
    let mut app = App::builder().start().await;
    let params = json!({ "command": ["sh", "-c", "echo $CODEX_SANDBOX_NETWORK_DISABLED"] });
    assert_eq!(exec(&mut app, params).await.stdout, "1\n");
}

#[tokio::test]
async fn a_policy_that_the_requirements_forbid_is_refused() {
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
async fn writable_roots_that_defeat_the_policy_are_refused() {
    let mut app = App::builder().start().await;
    let policy = json!({ "type": "workspaceWrite", "writableRoots": ["/proc"] });
    let params = json!({ "command": ["true"], "sandboxPolicy": policy });
    let refused = refusal(&mut app, "command/exec", params).await;
    assert_eq!(refused, "-32600 not allowed as a writable root: /proc");
}

#[tokio::test]
async fn configured_limits_apply_to_every_policy() {
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
async fn no_command_runs_with_an_unreadable_configuration() {
    let mut app = App::builder().start().await;
    fs::write(app.home().join("config.toml"), "sandbox_mode = 5\n").unwrap();
    // The warnings depend on when the file was read.
    app.ignore_rest();
    let refused = refusal(&mut app, "command/exec", json!({ "command": ["true"] })).await;
    assert!(refused.starts_with("-32600 failed to load configuration: "), "{refused}");
    assert!(refused.contains("config.toml:1:16: "), "{refused}");
}

/// The reference server leaves an empty `.git` visible while a command runs.
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
