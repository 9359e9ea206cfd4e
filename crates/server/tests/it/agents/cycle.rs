//! The life of an agent, call by call: spawn, wait, send input, close, resume.

use codicil_protocol::{
    CollabAgentStatus, CollabAgentTool, CollabAgentToolCallStatus, ItemCompleted, ItemStarted, Thread,
    ThreadItem, ThreadLoadedList, ThreadStatus, ThreadStatusChanged, Turn, TurnStatus,
};
use codicil_testkit::{App, RecordedRequest, Reply, Script};
use serde_json::{Value, json};

use super::{
    agent_done, is_agent, is_main, main_done, next_call, notifications, output, requests, spawn, spawned,
    steps, texts,
};

/// Scripts a model whose main thread makes these calls one after the other, with the id of its agent as `AGENT`, and
/// whose agents reply with the number of messages they got.
fn calls(calls: Vec<(&'static str, Value)>) -> Script {
    Script::new().respond_with(move |request: &RecordedRequest| {
        if is_agent(request) {
            let mine = texts(request).iter().filter(|text| text.starts_with("task")).count();
            return Reply::new().say(format!("answer {mine}"));
        }
        let Some(step) = steps(request).checked_sub(1) else { return spawn("task one") };
        let Some((tool, arguments)) = calls.get(step) else { return Reply::new().say("done") };
        let arguments = arguments.to_string().replace("AGENT", &spawned(request));
        Reply::new().call_text(*tool, arguments).call_id(format!("call-{step}"))
    })
}

/// Starts a server and a turn of its main thread.
async fn managing(script: Script) -> (App, Thread, Turn) {
    let mut app = App::start(script).await;
    let main = app.start_thread().await;
    let turn = app.start_turn(&main, "manage").await;
    (app, main, turn)
}

#[tokio::test]
async fn an_agent_is_awaited_sent_input_closed_and_resumed() {
    let wait = || ("wait_agent", json!({ "targets": ["AGENT"] }));
    let script = calls(vec![
        wait(),
        ("send_input", json!({ "target": "AGENT", "message": "task two" })),
        wait(),
        ("close_agent", json!({ "target": "AGENT" })),
        wait(),
        ("resume_agent", json!({ "id": "AGENT" })),
        ("send_input", json!({ "target": "AGENT", "message": "task three" })),
        wait(),
    ]);
    let (mut app, main, _) = managing(script).await;

    let mut seen = Vec::new();
    for _ in 0..9 {
        seen.push(next_call(&mut app).await);
    }
    assert_eq!(main_done(&mut app, &main).await, TurnStatus::Completed);
    app.rest().await;

    use CollabAgentStatus::{Completed, NotFound, PendingInit, Running};
    use CollabAgentTool::{CloseAgent, ResumeAgent, SendInput, SpawnAgent, Wait};
    let words = |text: &str| Some(text.to_owned());
    let expected = [
        (SpawnAgent, (Running, None)),
        (Wait, (Completed, words("answer 1"))),
        (SendInput, (Running, None)),
        (Wait, (Completed, words("answer 2"))),
        (CloseAgent, (Completed, words("answer 2"))),
        (Wait, (NotFound, None)),
        (ResumeAgent, (PendingInit, None)),
        (SendInput, (Running, None)),
        (Wait, (Completed, words("answer 3"))),
    ];
    let agent = seen[0].receivers.clone();
    for (at, (seen, (tool, state))) in seen.iter().zip(expected).enumerate() {
        let status = match state.0 {
            NotFound => CollabAgentToolCallStatus::Failed,
            _ => CollabAgentToolCallStatus::Completed,
        };
        assert_eq!((&seen.tool, &seen.status), (&tool, &status), "call {at}");
        assert_eq!((&seen.receivers, &seen.states), (&agent, &vec![state]), "call {at}");
    }

    let last = requests(&app, is_main).pop().unwrap();
    let id = agent[0].to_string();
    let done = |text: &str| json!({ "status": { id.as_str(): { "completed": text } }, "timed_out": false });
    assert_eq!(output(&last, "call-0"), done("answer 1"));
    assert!(output(&last, "call-1")["submission_id"].is_string());
    assert_eq!(output(&last, "call-3"), json!({ "previous_status": { "completed": "answer 2" } }));
    assert_eq!(
        output(&last, "call-4"),
        json!({ "status": { id.as_str(): "not_found" }, "timed_out": false })
    );
    assert_eq!(output(&last, "call-5"), json!({ "status": "pending_init" }));
    assert_eq!(output(&last, "call-7"), done("answer 3"));
    assert_eq!(requests(&app, is_main).len(), 10, "an awaited result causes no further request");
    assert_eq!(notifications(&last).len(), 3, "one for each turn of the agent");
    let turns = app.read(&Thread { id: agent[0].clone(), ..main.clone() }).await.turns;
    assert_eq!(turns.len(), 3);
}

#[tokio::test]
async fn a_closed_agent_has_the_status_not_loaded() {
    let script = calls(vec![
        ("wait_agent", json!({ "targets": ["AGENT"] })),
        ("close_agent", json!({ "target": "AGENT" })),
        ("resume_agent", json!({ "id": "AGENT" })),
        ("close_agent", json!({ "target": "AGENT" })),
    ]);
    let (mut app, main, started) = managing(script).await;

    let mut statuses = Vec::new();
    while statuses.len() < 6 {
        let changed = app.until_where::<ThreadStatusChanged>(|changed| changed.thread_id != main.id).await;
        statuses.push(match changed.status {
            ThreadStatus::Idle => "idle",
            ThreadStatus::Active { .. } => "active",
            ThreadStatus::NotLoaded => "notLoaded",
            _ => "?",
        });
    }
    main_done(&mut app, &main).await;

    assert_eq!(statuses, ["idle", "active", "idle", "notLoaded", "idle", "notLoaded"]);
    let loaded = app.call::<ThreadLoadedList>(Default::default()).await.data;
    assert_eq!(loaded, std::slice::from_ref(&main.id));
    let stored = app.read(&main).await;
    let kinds =
        stored.turns[0].items.iter().filter(|item| matches!(item, ThreadItem::CollabAgentToolCall { .. }));
    assert_eq!((kinds.count(), &stored.turns[0].id), (5, &started.id), "calls about agents are stored");
    app.rest().await;
}

#[tokio::test]
async fn input_steers_or_interrupts_the_turn_of_an_agent() {
    let to =
        |message: &str, interrupt| json!({ "target": "AGENT", "message": message, "interrupt": interrupt });
    let script = Script::new()
        .reply(spawn("task one").when(is_main))
        .reply(Reply::new().say("part").unfinished().gate("first").when(is_agent))
        .respond_with(move |request| {
            if is_agent(request) {
                return Reply::new().say(texts(request).last().cloned().unwrap_or_default());
            }
            let arguments = |value: Value| value.to_string().replace("AGENT", &spawned(request));
            match steps(request) {
                1 => Reply::new().hold("main").call_text("send_input", arguments(to("joins", false))),
                2 => Reply::new().call_text("send_input", arguments(to("instead", true))),
                3 => Reply::new().call_text("wait_agent", arguments(json!({ "targets": ["AGENT"] }))),
                _ => Reply::new().say("done"),
            }
        });
    let (mut app, main, _) = managing(script).await;
    app.model().reached("first").await;
    app.model().release("main");

    let (agent, first) = agent_done(&mut app, &main).await;
    let (_, second) = agent_done(&mut app, &main).await;
    main_done(&mut app, &main).await;

    assert_eq!((first, second), (TurnStatus::Interrupted, TurnStatus::Completed));
    let stored = app.read(&Thread { id: agent, ..main.clone() }).await;
    let last = stored.turns.last().and_then(|turn| turn.items.last());
    assert!(matches!(last, Some(ThreadItem::AgentMessage { text, .. }) if text == "instead"), "{stored:?}");
    let notices = notifications(&requests(&app, is_main).pop().unwrap());
    assert_eq!(notices.len(), 1, "an interrupted agent has not ended: {notices:?}");
    app.rest().await;
}

#[tokio::test]
async fn steered_input_is_answered_in_the_running_turn_of_the_agent() {
    let script = Script::new()
        .reply(spawn("task one").when(is_main))
        .reply(Reply::new().say("part").gate("first").when(is_agent))
        .respond_with(|request| {
            if is_agent(request) {
                return Reply::new().say("both");
            }
            let target = spawned(request);
            match steps(request) {
                1 => Reply::new()
                    .hold("main")
                    .call("send_input", json!({ "target": target, "message": "more" })),
                _ => Reply::new().say("done"),
            }
        });
    let (mut app, main, _) = managing(script).await;
    app.model().reached("first").await;
    app.model().release("main");
    let sent = loop {
        let call = next_call(&mut app).await;
        if call.tool == CollabAgentTool::SendInput {
            break call;
        }
    };
    app.model().release("first");
    let (agent, status) = agent_done(&mut app, &main).await;
    app.rest().await;

    assert_eq!((sent.states, status), (vec![(CollabAgentStatus::Running, None)], TurnStatus::Completed));
    let turns = app.read(&Thread { id: agent, ..main.clone() }).await.turns;
    assert_eq!((turns.len(), turns[0].items.len()), (1, 4), "two messages and their answers, in one turn");
}

#[tokio::test]
async fn an_agent_whose_model_fails_is_reported_as_errored() {
    let script = Script::new()
        .reply(spawn("task one").when(is_main))
        .reply(Reply::status(400).when(is_agent))
        .respond_with(|request| match steps(request) {
            1 => Reply::new().call("wait_agent", json!({ "targets": [spawned(request)] })).call_id("wait"),
            _ => Reply::new().say("done"),
        });
    let (mut app, main, _) = managing(script).await;
    next_call(&mut app).await;
    let waited = next_call(&mut app).await;
    main_done(&mut app, &main).await;

    assert_eq!((waited.tool, waited.status), (CollabAgentTool::Wait, CollabAgentToolCallStatus::Failed));
    assert_eq!(waited.states[0].0, CollabAgentStatus::Errored);
    let last = requests(&app, is_main).pop().unwrap();
    assert!(output(&last, "wait")["status"].to_string().contains("errored"));
    assert_eq!(notifications(&last)[0]["status"], json!("errored"));
    app.rest().await;
}

#[tokio::test]
async fn an_interrupted_wait_fails_and_the_agent_goes_on() {
    let script = Script::new()
        .reply(spawn("task one").when(is_main))
        .reply(Reply::new().gate("agent").say("late").when(is_agent))
        .respond_with(|request| match steps(request) {
            1 => Reply::new()
                .call("wait_agent", json!({ "targets": [spawned(request)], "timeout_ms": 3600000 })),
            _ => Reply::new().say("never asked"),
        });
    let (mut app, main, turn) = managing(script).await;
    app.model().reached("agent").await;
    let is_wait = |item: &ThreadItem| {
        matches!(item, ThreadItem::CollabAgentToolCall { tool: CollabAgentTool::Wait, .. })
    };
    app.until_where::<ItemStarted>(|started| is_wait(&started.item)).await;

    app.interrupt(&turn).await;
    let waited = app.until_where::<ItemCompleted>(|completed| is_wait(&completed.item)).await.item;
    assert_eq!(main_done(&mut app, &main).await, TurnStatus::Interrupted);
    app.model().release("agent");
    let (_, status) = agent_done(&mut app, &main).await;

    let ThreadItem::CollabAgentToolCall { status: call, .. } = waited else { panic!() };
    assert_eq!((call, status), (CollabAgentToolCallStatus::Failed, TurnStatus::Completed));
    app.rest().await;
}
