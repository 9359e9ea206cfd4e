//! The processes that a server starts do not inherit its credentials.

use std::{fs, path::Path, time::Duration};

use codicil_protocol::{CommandExec, ThreadShellCommand, TurnCompleted, TurnStatus};
use codicil_testkit::{Script, TestTransport};
use serde_json::{from_value, json};
use tokio::time::{sleep, timeout};

use crate::database::TestDatabase;

const SECRET: &str = "authorization=Bearer%20verysecret";

/// Waits until a process has written its environment, and checks it.
async fn check(dumps: &Path, name: &str, database: &TestDatabase) {
    let path = dumps.join(name);
    let written = async {
        loop {
            match fs::read_to_string(&path) {
                Ok(text) if text.ends_with("end\n") => return text,
                _ => sleep(Duration::from_millis(20)).await,
            }
        }
    };
    let text =
        timeout(Duration::from_secs(60), written).await.unwrap_or_else(|_| panic!("{name} has not run"));
    assert!(text.contains("PATH="), "{name}: {text}");
    assert!(!text.contains("verysecret") && !text.contains(&database.address()), "{name}: {text}");
}

#[tokio::test]
async fn no_process_of_a_server_sees_its_credentials() {
    let Some(database) = TestDatabase::create().await else { return };
    let dumps = tempfile::tempdir().unwrap();
    let dump = |name: &str| format!("env > {0}/{name}; echo end >> {0}/{name}", dumps.path().display());
    let config = format!(
        "sandbox_mode = \"danger-full-access\"\napproval_policy = \"never\"\nnotify = [\"/bin/sh\", \"-c\", {:?}]\n\
         [features]\ncodex_hooks = true\n\
         [shell_environment_policy]\ninherit = \"all\"\nignore_default_excludes = true\n\
         [mcp_servers.dump]\ncommand = \"/bin/sh\"\nargs = [\"-c\", {:?}]\n\
         env_vars = [\"CODICIL_STORE\", \"OTEL_EXPORTER_OTLP_HEADERS\"]\n",
        dump("notify"),
        dump("mcp"),
    );
    let script = Script::new().call("exec_command", json!({ "cmd": dump("tool") })).then().say("done");
    let builder = codicil_testkit::App::builder().script(script).config(&config).experimental();
    let builder = builder.over(TestTransport::Stdio).environment("CODICIL_STORE", &database.address());
    let mut app = builder.environment("OTEL_EXPORTER_OTLP_HEADERS", SECRET).start().await;
    let hook = json!([{ "hooks": [{ "type": "command", "command": dump("hook"), "timeout": 20 }] }]);
    fs::write(app.home().join("hooks.json"), json!({ "hooks": { "UserPromptSubmit": hook } }).to_string())
        .unwrap();

    let thread = app.start_thread().await;
    assert_eq!(app.run_turn(&thread, "go").await.status, TurnStatus::Completed);
    let typed = json!({ "threadId": thread.id, "command": dump("shell") });
    app.call::<ThreadShellCommand>(from_value(typed).unwrap()).await;
    app.until::<TurnCompleted>().await;
    let run = json!({ "command": ["/bin/sh", "-c", dump("command")], "sandboxPolicy": { "type": "dangerFullAccess" } });
    app.call::<CommandExec>(from_value(run).unwrap()).await;
    for name in ["hook", "tool", "notify", "mcp", "shell", "command"] {
        check(dumps.path(), name, &database).await;
    }
    app.ignore_rest();
}
