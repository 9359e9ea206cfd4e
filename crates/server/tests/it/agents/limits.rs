//! The limits of agents, and the errors that the model gets.

use codicil_protocol::{CollabAgentToolCallStatus, ThreadSourceKind};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::{is_agent, is_main, listed, next_call, output, requests, spawn, spawned, steps};

#[tokio::test]
async fn agents_cannot_spawn_agents_by_default() {
    let script = Script::new()
        .reply(spawn("delegate further").when(is_main))
        .reply(Reply::new().say("delegated").when(is_main))
        .reply(spawn("and further").when(is_agent))
        .reply(Reply::new().say("alone then").when(is_agent))
        .repeat(Reply::new().say("noted"));
    let mut app = App::start(script).await;
    let main = app.start_thread().await;
    app.run_turn(&main, "delegate").await;
    app.rest().await;

    let its = requests(&app, is_agent);
    assert!(!its[0].tools().contains(&"spawn_agent"));
    assert_eq!(output(&its[1], "spawn"), json!("unsupported call: spawn_agent"));
}

#[tokio::test]
async fn agents_may_spawn_agents_up_to_the_configured_depth() {
    let depth = |request: &RecordedRequest| -> usize {
        let last = request.last_user_text().unwrap_or_default();
        last.matches("further").count()
    };
    let script = Script::new().respond_with(move |request| {
        match (steps(request), is_agent(request), depth(request)) {
            (0, false, _) => spawn("further"),
            (0, true, 1) => spawn("further further"),
            (1, false, _) | (1, true, 1) => {
                Reply::new().call("wait_agent", json!({ "targets": [spawned(request)] })).call_id("wait")
            }
            _ => Reply::new().say("done"),
        }
    });
    let mut app = App::builder().script(script).config("[agents]\nmax_depth = 2\n").start().await;
    let main = app.start_thread().await;
    app.run_turn(&main, "delegate").await;
    app.rest().await;

    let offered: Vec<_> = requests(&app, is_agent)
        .iter()
        .filter(|request| steps(request) == 0)
        .map(|request| request.tools().contains(&"spawn_agent"))
        .collect();
    assert_eq!(offered, [true, false]);
    let agents = listed(&mut app, Some(vec![ThreadSourceKind::SubAgentThreadSpawn])).await;
    assert_eq!(agents.len(), 2);
}

#[tokio::test]
async fn the_number_of_concurrent_agents_is_limited() {
    let script = Script::new().respond_with(|request| {
        if is_agent(request) {
            return Reply::new().say("done");
        }
        match steps(request) {
            0 => spawn("one"),
            1 => Reply::new().call("spawn_agent", json!({ "message": "two" })).call_id("refused"),
            2 => Reply::new().call("close_agent", json!({ "target": spawned(request) })),
            3 => Reply::new().call("spawn_agent", json!({ "message": "two" })).call_id("again"),
            4 => {
                let agent = output(request, "again")["agent_id"].clone();
                Reply::new().call("wait_agent", json!({ "targets": [agent] }))
            }
            _ => Reply::new().say("done"),
        }
    });
    let mut app = App::builder().script(script).config("[agents]\nmax_threads = 1\n").start().await;
    let main = app.start_thread().await;
    app.start_turn(&main, "delegate").await;
    next_call(&mut app).await;
    let refused = next_call(&mut app).await;
    app.rest().await;

    assert_eq!(refused.status, CollabAgentToolCallStatus::Failed);
    assert!(refused.receivers.is_empty());
    let last = requests(&app, is_main).pop().unwrap();
    let Value::String(text) = output(&last, "refused") else { panic!() };
    assert!(text.starts_with("all 1 places for agents are taken"), "{text}");
    assert!(output(&last, "again")["agent_id"].is_string(), "closing an agent frees its slot");
}

#[tokio::test]
async fn invalid_calls_are_explained_to_the_model() {
    const NOBODY: &str = "0199a213-81c0-7800-8aa1-bbab2a035a53";
    let wrong = [
        ("spawn_agent", json!({}), "give message or items"),
        (
            "spawn_agent",
            json!({ "message": "x", "agent_type": "king" }),
            "unknown agent_type: king; there are: broken, default, explorer, worker",
        ),
        (
            "spawn_agent",
            json!({ "message": "x", "reasoning_effort": "huge" }),
            "unknown reasoning_effort: huge",
        ),
        (
            "spawn_agent",
            json!({ "message": "x", "agent_type": "broken" }),
            "the role's configuration cannot be used: failed to read ",
        ),
        ("send_input", json!({ "target": NOBODY, "message": "x" }), "agent not found: 0199a213"),
        ("send_input", json!({ "target": "MAIN", "message": "x" }), "agent not found: "),
        (
            "send_input",
            json!({ "target": "the other one", "message": "x" }),
            "no such agent: \"the other one\"",
        ),
        ("wait_agent", json!({ "targets": [] }), "there are no agents to wait for"),
        (
            "wait_agent",
            json!({ "targets": [NOBODY], "timeout_ms": -1 }),
            "timeout_ms must be greater than zero",
        ),
        ("close_agent", json!({ "target": NOBODY }), "agent not found: 0199a213"),
        ("resume_agent", json!({ "id": NOBODY }), "the agent could not be opened again: "),
        ("resume_agent", json!({ "id": "MAIN" }), "the agent could not be opened again: thread not found"),
        ("close_agent", json!({}), "failed to parse function arguments: "),
    ];
    let calls = wrong.clone();
    let script = Script::new().respond_with(move |request| {
        let main = request.header("session_id").unwrap_or_default();
        match calls.get(steps(request)) {
            Some((tool, arguments, _)) => {
                let arguments = arguments.to_string().replace("MAIN", main);
                Reply::new().call_text(*tool, arguments).call_id(format!("call-{}", steps(request)))
            }
            None => Reply::new().say("I see"),
        }
    });
    let role = "[agents.broken]\nconfig_file = \"none.toml\"\n";
    let mut app = App::builder().script(script).config(role).start().await;
    let main = app.start_thread().await;
    app.run_turn(&main, "try").await;
    app.rest().await;

    let last = requests(&app, is_main).pop().unwrap();
    for (at, (tool, _, expected)) in wrong.iter().enumerate() {
        let text = last.tool_output(&format!("call-{at}")).unwrap();
        assert!(text.starts_with(expected), "{tool}: {text}");
    }
    assert!(requests(&app, is_agent).is_empty());
}

#[tokio::test]
async fn agents_can_be_disabled() {
    let mut app = App::builder()
        .script(Script::new().say("alone"))
        .config("[features]\nmulti_agent = false\n")
        .start()
        .await;
    let main = app.start_thread().await;
    app.run_turn(&main, "hello").await;
    assert!(!app.model().requests()[0].tools().iter().any(|tool| tool.ends_with("_agent")));
    app.rest().await;
}
