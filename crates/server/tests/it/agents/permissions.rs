//! An agent never has more permissions than the thread that spawned it, even if that thread loses some.

use codicil_protocol::{
    ThreadResume, ThreadSettingsUpdate, ThreadSettingsUpdated, ThreadStartParams, TurnStatus,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, from_value, json};

use super::{agent_done, is_agent, main_done, output, spawn, steps, texts};

/// Scripts a model whose first turn spawns an agent and waits for it, and whose second turn sends it input. The agent
/// runs `touch` for each input.
fn model() -> Script {
    Script::new().respond_with(|request: &RecordedRequest| {
        if is_agent(request) {
            let tasks = texts(request).iter().filter(|text| text.starts_with("task")).count();
            return if steps(request) < tasks {
                Reply::new().call("exec_command", json!({ "cmd": format!("touch made-{tasks}") }))
            } else {
                Reply::new().say("ok")
            };
        }
        let is_second = texts(request).iter().any(|text| text == "again");
        match (steps(request), is_second) {
            (0, _) => spawn("task one"),
            (1, false) => call("wait_agent", json!({ "targets": [agent(request)] })),
            (2, true) => call("send_input", json!({ "target": agent(request), "message": "task two" })),
            (3, true) => call("wait_agent", json!({ "targets": [agent(request)] })),
            _ => Reply::new().say("done"),
        }
    })
}

fn call(tool: &str, arguments: Value) -> Reply {
    Reply::new().call(tool, arguments).call_id(tool)
}

fn agent(request: &RecordedRequest) -> String {
    output(request, "spawn")["agent_id"].as_str().expect("an agent was started").to_owned()
}

#[tokio::test]
async fn an_agent_loses_the_permissions_that_its_parent_loses() {
    let mut app = App::builder().experimental().script(model()).start().await;
    let params =
        json!({ "cwd": app.workspace(), "sandbox": "workspace-write", "approvalPolicy": "on-request" });
    let main = app.start_thread_with(from_value::<ThreadStartParams>(params).unwrap()).await;
    app.start_turn(&main, "begin").await;
    let (agent, _) = agent_done(&mut app, &main).await;
    assert_eq!(main_done(&mut app, &main).await, TurnStatus::Completed);
    assert!(app.workspace().join("made-1").exists(), "the agent has the permissions of its parent");

    let update = json!({ "threadId": main.id, "sandboxPolicy": { "type": "readOnly" },
        "approvalPolicy": "never" });
    app.call::<ThreadSettingsUpdate>(from_value(update).unwrap()).await;
    app.until::<ThreadSettingsUpdated>().await;
    app.start_turn(&main, "again").await;
    assert_eq!(main_done(&mut app, &main).await, TurnStatus::Completed);
    assert!(!app.workspace().join("made-2").exists(), "the parent cannot write any more");
    app.rest().await;

    let same = || from_value(json!({ "threadId": agent, "sandbox": null })).unwrap();
    let of = |answer| serde_json::to_value(answer).unwrap();
    let loaded = of(app.call::<ThreadResume>(same()).await);
    assert_eq!(
        (&loaded["sandbox"]["type"], &loaded["approvalPolicy"]),
        (&json!("readOnly"), &json!("never"))
    );
    app.rest().await;
}

#[tokio::test]
async fn an_agent_resumed_by_a_client_is_limited_by_its_parent() {
    let mut app = App::builder().experimental().script(model()).start().await;
    let params =
        json!({ "cwd": app.workspace(), "sandbox": "danger-full-access", "approvalPolicy": "on-request" });
    let main = app.start_thread_with(from_value::<ThreadStartParams>(params).unwrap()).await;
    app.start_turn(&main, "begin").await;
    let (agent, _) = agent_done(&mut app, &main).await;
    assert_eq!(main_done(&mut app, &main).await, TurnStatus::Completed);
    let update = json!({ "threadId": main.id, "sandboxPolicy": { "type": "readOnly" },
        "approvalPolicy": "never" });
    app.call::<ThreadSettingsUpdate>(from_value(update).unwrap()).await;
    app.rest().await;
    for is_parent_loaded in [false, true] {
        app.restart().await;
        if is_parent_loaded {
            app.resume(&main).await;
        }
        let params = from_value(json!({ "threadId": agent, "sandbox": null })).unwrap();
        let opened = serde_json::to_value(app.call::<ThreadResume>(params).await).unwrap();
        assert_eq!(
            (&opened["sandbox"]["type"], &opened["approvalPolicy"]),
            (&json!("readOnly"), &json!("never"))
        );
        app.rest().await;
    }
}
