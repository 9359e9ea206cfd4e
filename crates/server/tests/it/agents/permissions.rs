//! An agent may do no more than the thread that started it, also when that thread may do less than before.

use codicil_protocol::{
    ThreadResume, ThreadSettingsUpdate, ThreadSettingsUpdated, ThreadStartParams, TurnStatus,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, from_value, json};

use super::{agent_done, is_agent, main_done, output, spawn, steps, texts};

/// The first turn starts an agent and waits for it; the second one has it go on. The agent runs `touch` whenever it
/// is asked to.
fn model() -> Script {
    Script::new().respond_with(|request: &RecordedRequest| {
        if is_agent(request) {
            let tasks = texts(request).iter().filter(|text| text.starts_with("task")).count();
            return match steps(request) < tasks {
                true => Reply::new().call("exec_command", json!({ "cmd": format!("touch made-{tasks}") })),
                false => Reply::new().say("ok"),
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
async fn an_agent_loses_what_its_parent_loses() {
    let mut app = App::builder().experimental().script(model()).start().await;
    let params =
        json!({ "cwd": app.workspace(), "sandbox": "workspace-write", "approvalPolicy": "on-request" });
    let main = app.start_thread_with(from_value::<ThreadStartParams>(params).unwrap()).await;
    app.start_turn(&main, "begin").await;
    let (agent, _) = agent_done(&mut app, &main).await;
    assert_eq!(main_done(&mut app, &main).await, TurnStatus::Completed);
    assert!(app.workspace().join("made-1").exists(), "it may do what its parent may");

    let update = json!({ "threadId": main.id, "sandboxPolicy": { "type": "readOnly" },
        "approvalPolicy": "never" });
    app.call::<ThreadSettingsUpdate>(from_value(update).unwrap()).await;
    app.until::<ThreadSettingsUpdated>().await;
    app.start_turn(&main, "again").await;
    assert_eq!(main_done(&mut app, &main).await, TurnStatus::Completed);
    assert!(!app.workspace().join("made-2").exists(), "its parent may not write any more");
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
async fn an_agent_that_is_opened_by_a_client_has_what_its_parent_has_left() {
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
