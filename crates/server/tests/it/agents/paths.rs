//! Agents that are addressed by the path of their task (`multi_agent_v2`).

use codicil_protocol::{CollabAgentTool, SubAgentActivityKind, ThreadItem, ThreadSourceKind};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::{is_agent, is_main, listed, next_call, notifications, output, requests, steps, texts};

const BY_PATH: &str = "[features]\nmulti_agent_v2 = true\n";

/// Scripts a model whose main thread makes these calls one after the other and whose agents repeat their last input.
fn calls(calls: Vec<(&'static str, Value)>) -> Script {
    Script::new().respond_with(move |request: &RecordedRequest| {
        if is_agent(request) {
            return Reply::new().say(texts(request).last().cloned().unwrap_or_default());
        }
        match calls.get(steps(request)) {
            Some((tool, arguments)) => {
                Reply::new().call(*tool, arguments.clone()).call_id(format!("call-{}", steps(request)))
            }
            None => Reply::new().say("done"),
        }
    })
}

#[tokio::test]
async fn an_agent_is_addressed_by_the_path_of_its_task() {
    let script = calls(vec![
        ("spawn_agent", json!({ "task_name": "read_docs", "message": "read" })),
        ("wait_agent", json!({})),
        ("spawn_agent", json!({ "task_name": "read_docs", "message": "again" })),
        ("spawn_agent", json!({ "task_name": "Read docs", "message": "again" })),
        ("list_agents", json!({})),
        ("list_agents", json!({ "path_prefix": "/root/other" })),
        ("assign_task", json!({ "target": "read_docs", "message": "write" })),
        ("wait_agent", json!({ "targets": ["/root/read_docs"] })),
        ("close_agent", json!({ "target": "/root/read_docs" })),
        ("list_agents", json!({})),
    ]);
    let mut app = App::builder().script(script).config(BY_PATH).start().await;
    let main = app.start_thread().await;
    app.run_turn(&main, "manage").await;
    app.rest().await;

    let asked = requests(&app, is_main);
    let tools = asked[0].tools();
    let ours = ["spawn_agent", "send_message", "assign_task", "wait_agent", "close_agent", "list_agents"];
    assert!(tools.ends_with(&ours), "{tools:?}");
    let last = asked.last().unwrap();
    let result = |at: usize| output(last, &format!("call-{at}"));
    assert_eq!(result(0)["task_name"], json!("/root/read_docs"));
    let id = result(0)["agent_id"].as_str().unwrap().to_owned();
    assert_eq!(result(1), json!({ "status": { id.as_str(): { "completed": "read" } }, "timed_out": false }));
    assert_eq!(result(2), json!("there is an agent /root/read_docs already; choose another task_name"));
    assert!(result(3).as_str().unwrap().starts_with("task_name must be made of"), "{}", result(3));
    let agents = &result(4)["agents"];
    assert_eq!(agents.as_array().map(Vec::len), Some(1));
    assert_eq!((&agents[0]["agent_name"], &agents[0]["agent_id"]), (&json!("/root/read_docs"), &json!(id)));
    assert_eq!(agents[0]["agent_status"], json!({ "completed": "read" }));
    assert_eq!(result(5), json!({ "agents": [] }));
    assert_eq!(result(7)["status"][&id], json!({ "completed": "write" }));
    assert_eq!(result(8), json!({ "previous_status": { "completed": "write" } }));
    assert_eq!(result(9), json!({ "agents": [] }));
    assert_eq!(notifications(last).len(), 2);
    let stored = listed(&mut app, Some(vec![ThreadSourceKind::SubAgentThreadSpawn])).await;
    let source = serde_json::to_value(&stored[0].source).unwrap();
    assert_eq!(source["subAgent"]["thread_spawn"]["agent_path"], json!("/root/read_docs"));
}

#[tokio::test]
async fn a_message_waits_for_the_next_task() {
    let script = calls(vec![
        ("spawn_agent", json!({ "task_name": "a", "message": "begin" })),
        ("wait_agent", json!({})),
        ("send_message", json!({ "target": "a", "message": "by the way" })),
        ("assign_task", json!({ "target": "a", "message": "go on" })),
        ("wait_agent", json!({ "targets": ["a"] })),
    ]);
    let mut app = App::builder().script(script).config(BY_PATH).start().await;
    let main = app.start_thread().await;
    app.start_turn(&main, "manage").await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        seen.push(next_call(&mut app).await.tool);
    }
    app.rest().await;

    use CollabAgentTool::{SendInput, SpawnAgent, Wait};
    assert_eq!(seen, [SpawnAgent, Wait, SendInput, SendInput, Wait]);
    let its = requests(&app, is_agent);
    assert_eq!(its.len(), 2, "a message alone starts no turn");
    let read = texts(&its[1]);
    assert_eq!(read[read.len() - 2..], ["by the way", "go on"]);
}

#[tokio::test]
async fn later_clients_see_what_an_agent_with_a_path_did() {
    let script = calls(vec![
        ("spawn_agent", json!({ "task_name": "docs", "message": "read" })),
        ("wait_agent", json!({})),
        ("send_message", json!({ "target": "docs", "message": "thanks" })),
        ("close_agent", json!({ "target": "docs" })),
    ]);
    let mut app = App::builder().later_client().script(script).config(BY_PATH).start().await;
    let main = app.start_thread().await;
    app.run_turn(&main, "manage").await;
    app.rest().await;
    let turns = app.read(&main).await.turns;
    app.rest().await;
    let activities: Vec<_> = turns
        .iter()
        .flat_map(|turn| &turn.items)
        .filter_map(|item| match item {
            ThreadItem::SubAgentActivity { kind, agent_path, .. } => {
                Some((kind.clone(), agent_path.as_str()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        activities,
        [
            (SubAgentActivityKind::Started, "/root/docs"),
            (SubAgentActivityKind::Interacted, "/root/docs"),
            (SubAgentActivityKind::Interrupted, "/root/docs"),
        ]
    );
}
