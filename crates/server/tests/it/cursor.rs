//! Positions of messages, and `codicil/subscribe`.

use codicil_protocol::{
    AgentMessageDelta, CodicilBehind, CodicilSubscribe, CodicilSubscribeParams, CodicilSubscribeResponse,
    CommandExecutionApproval, Initialize, MessageSeq, NotificationMethod, SnapshotReason, Thread, ThreadFork,
    ThreadForkParams, ThreadItemsList, ThreadNameSet, ThreadResume, ThreadResumeParams, ThreadRollback,
    ThreadSettingsUpdate, ThreadStart, ThreadStartParams, ThreadStarted, ThreadTurnsList, TurnCompleted,
    TurnPlanUpdated, TurnStatus, TurnSteer,
};
use codicil_testkit::{App, FoldedThread, ReceivedMessage, Script, TestClient};
use serde_json::{Value, json};

fn position(value: u64) -> MessageSeq {
    serde_json::from_value(value.into()).unwrap()
}

pub async fn subscribe(
    client: &mut TestClient,
    thread: &Thread,
    after: Option<MessageSeq>,
) -> CodicilSubscribeResponse {
    let params = CodicilSubscribeParams { after, ..CodicilSubscribeParams::new(thread.id.clone()) };
    client.call::<CodicilSubscribe>(params).await
}

/// Starts a thread and returns it with the position of its last message.
pub async fn start_thread(app: &mut App) -> (Thread, FoldedThread) {
    let cwd = Some(app.workspace().to_string_lossy().into_owned());
    let started = app.call::<ThreadStart>(ThreadStartParams { cwd, ..Default::default() }).await;
    app.take::<ThreadStarted>().await;
    let known = FoldedThread::at(started.seq);
    (started.thread, known)
}

/// Reads messages up to and including the end of a turn.
pub async fn until_turn_end(client: &mut TestClient) -> Vec<ReceivedMessage> {
    let mut messages = Vec::new();
    loop {
        let message = client.next_received().await.unwrap();
        let is_end = message.method == TurnCompleted::NAME;
        messages.push(message);
        if is_end {
            return messages;
        }
    }
}

/// Reads the messages of a replay: everything up to its position.
pub async fn replayed(client: &mut TestClient, answer: &CodicilSubscribeResponse) -> Vec<ReceivedMessage> {
    let CodicilSubscribeResponse::Replay { .. } = answer else { panic!("{answer:?}") };
    // An answer to another request comes after the replay.
    client.call::<codicil_protocol::ThreadLoadedList>(Default::default()).await;
    let mut messages = Vec::new();
    while let Some(message) = client.unread_message() {
        messages.push(message);
    }
    messages
}

pub fn sequenced(messages: &[ReceivedMessage]) -> Vec<ReceivedMessage> {
    messages.iter().filter(|message| message.seq.is_some()).cloned().collect()
}

#[tokio::test]
async fn the_extension_is_announced_to_clients_that_ask_for_it() {
    let mut app = App::builder().uninitialized().start().await;
    let hello = |capabilities: Value| {
        let info = json!({ "name": "x", "version": "1" });
        serde_json::from_value(json!({ "clientInfo": info, "capabilities": capabilities })).unwrap()
    };
    let plain = app.call::<Initialize>(hello(json!({}))).await;
    assert_eq!(plain.codicil, None);
    let mut other = app.another_client().await;
    let codicil = json!({ "codicil": { "version": 1, "cursor": true } });
    let support = other.call::<Initialize>(hello(codicil)).await.codicil.unwrap();
    assert_eq!(support.version, 1);
    assert!(support.features.contains(&"cursor".to_owned()), "{support:?}");
    assert_eq!(support.limits.replay_messages, Some(10_000));
}

#[tokio::test]
async fn methods_of_the_extension_need_the_capability() {
    let mut app = App::builder().start().await;
    let thread = app.start_thread().await;
    let params = CodicilSubscribeParams::new(thread.id);
    let error = app.try_call::<CodicilSubscribe>(params.clone()).await.unwrap_err();
    assert_eq!(error.code, -32600);
    assert!(
        error.message.starts_with("codicil/subscribe requires the codicil capability: send "),
        "{error:?}"
    );
    let without_cursor = codicil_protocol::CodicilCapabilities { version: 1, ..Default::default() };
    let mut other = app.another_client_with(Some(without_cursor)).await;
    let error = other.try_call::<CodicilSubscribe>(params).await.unwrap_err();
    assert!(error.message.starts_with("codicil/subscribe requires a cursor: send "), "{error:?}");
}

#[tokio::test]
async fn messages_have_positions_for_clients_with_a_cursor_only() {
    let script =
        Script::new().say("Looking").call("exec_command", json!({ "cmd": "echo hi" })).then().say("Done");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, mut known) = start_thread(&mut app).await;
    let mut plain = app.another_client_with(None).await;
    let resumed = plain.call::<ThreadResume>(ThreadResumeParams::new(thread.id.clone())).await;
    assert_eq!(resumed.seq, None);

    app.start_turn(&thread, "Hi").await;
    let with_cursor = until_turn_end(&mut app).await;
    let without = until_turn_end(&mut plain).await;

    assert!(without.iter().all(|message| message.seq.is_none() && !message.is_replay));
    let of_thread = |message: &&ReceivedMessage| message.params.get("threadId").is_some();
    for message in with_cursor.iter().filter(of_thread) {
        assert!(message.seq.is_some(), "{message:?}");
    }
    let stripped = |messages: &[ReceivedMessage]| -> Vec<_> {
        messages.iter().map(|message| (message.method.clone(), message.params.clone())).collect()
    };
    let start = with_cursor.iter().position(|message| message.method == "thread/status/changed").unwrap();
    let plain_start =
        without.iter().position(|message| message.params["status"]["type"] == "active").unwrap();
    assert_eq!(stripped(&with_cursor[start..]), stripped(&without[plain_start..]));
    with_cursor.iter().for_each(|message| known.add(message));
    known.check(&app.read(&thread).await);
}

#[tokio::test]
async fn a_client_that_was_away_gets_what_it_missed_wherever_it_was_cut_off() {
    let script = Script::new()
        .think("Let me see")
        .say("Looking at it")
        .call("exec_command", json!({ "cmd": "echo one; echo two" }))
        .then()
        .say("It says one and two")
        .then()
        .say("Again");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, begin) = start_thread(&mut app).await;
    app.start_turn(&thread, "First").await;
    let mut messages = until_turn_end(&mut app).await;
    app.call::<ThreadNameSet>(
        serde_json::from_value(json!({ "threadId": thread.id, "name": "Echo" })).unwrap(),
    )
    .await;
    app.start_turn(&thread, "Second").await;
    messages.extend(until_turn_end(&mut app).await);
    let messages = sequenced(&messages);
    assert!(messages.iter().any(|message| message.method == "thread/name/updated"));
    let stored = app.read(&thread).await;

    for cut in 0..=messages.len() {
        let mut known = begin.clone();
        messages[..cut].iter().for_each(|message| known.add(message));
        let mut other = app.another_client().await;
        let answer = subscribe(&mut other, &thread, known.after()).await;
        known.subscribed(&answer);
        let missed = replayed(&mut other, &answer).await;
        assert!(missed.iter().all(|message| message.is_replay && message.seq.is_some()), "{missed:?}");
        missed.iter().for_each(|message| known.add(message));
        known.check(&stored);
        known.check_status(&stored);
        // A message of a record is replayed exactly as it was sent.
        let expected = messages[cut..].iter().filter(|message| is_durable(message)).map(without_replay);
        let durable: Vec<_> =
            missed.iter().filter(|message| is_durable(message)).map(without_replay).collect();
        assert_eq!(durable, expected.collect::<Vec<_>>(), "after {cut} messages");
    }
}

/// Returns whether a message comes from a record and is sent once.
fn is_durable(message: &ReceivedMessage) -> bool {
    ["turn/started", "item/completed", "turn/completed", "thread/name/updated"]
        .contains(&message.method.as_str())
}

fn without_replay(message: &ReceivedMessage) -> ReceivedMessage {
    ReceivedMessage { is_replay: false, ..message.clone() }
}

#[tokio::test]
async fn recent_messages_of_a_running_turn_are_replayed_exactly() {
    let deltas: Vec<_> = (0..200).map(|number| format!("{number} ")).collect();
    let script = Script::new().say_deltas(deltas).unfinished().gate("more").say("The end");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, begin) = start_thread(&mut app).await;
    app.start_turn(&thread, "Count").await;
    let mut messages = Vec::new();
    while messages
        .iter()
        .filter(|message: &&ReceivedMessage| message.method == AgentMessageDelta::NAME)
        .count()
        < 200
    {
        messages.push(app.next_received().await.unwrap());
    }
    let messages = sequenced(&messages);
    let mut others = Vec::new();
    for cut in [0, 1, 3, 50, messages.len() - 1, messages.len()] {
        let mut known = begin.clone();
        messages[..cut].iter().for_each(|message| known.add(message));
        let mut other = app.another_client().await;
        let answer = subscribe(&mut other, &thread, known.after()).await;
        let missed = replayed(&mut other, &answer).await;
        let missed: Vec<_> = missed.iter().map(without_replay).collect();
        assert_eq!(missed, messages[cut..], "after {cut} messages");
        missed.iter().for_each(|message| known.add(message));
        others.push((other, known));
    }

    app.model().release("more");

    until_turn_end(&mut app).await;
    let stored = app.read(&thread).await;
    for (mut other, mut known) in others {
        until_turn_end(&mut other).await.iter().for_each(|message| known.add(message));
        known.check(&stored);
    }
}

#[tokio::test]
async fn of_earlier_messages_the_text_of_open_items_is_replayed() {
    let deltas: Vec<_> = (0..2000).map(|number| format!("{number} \"\n")).collect();
    let script = Script::new().say_deltas(deltas).unfinished().gate("more").say("The end");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, begin) = start_thread(&mut app).await;
    app.start_turn(&thread, "Count").await;
    app.model().reached("more").await;
    let mut messages = Vec::new();
    while messages
        .iter()
        .filter(|message: &&ReceivedMessage| message.method == AgentMessageDelta::NAME)
        .count()
        < 2000
    {
        messages.push(app.next_received().await.unwrap());
    }
    let messages = sequenced(&messages);
    let mut others = Vec::new();
    for cut in [0, 2, 5, 700, 1200, 1990] {
        let mut known = begin.clone();
        messages[..cut].iter().for_each(|message| known.add(message));
        let mut other = app.another_client().await;
        let answer = subscribe(&mut other, &thread, known.after()).await;
        known.subscribed(&answer);
        let missed = replayed(&mut other, &answer).await;
        assert!(missed.len() < 540, "{} messages", missed.len());
        missed.iter().for_each(|message| known.add(message));
        others.push((other, known));
    }
    // A client without a position gets the text so far with the open item.
    let mut other = app.another_client().await;
    let answer = subscribe(&mut other, &thread, None).await;
    let CodicilSubscribeResponse::Snapshot { open, why: None, .. } = &answer else { panic!("{answer:?}") };
    assert_eq!(open.len(), 1);
    let mut known = begin.clone();
    known.subscribed(&answer);
    others.push((other, known));

    app.model().release("more");

    until_turn_end(&mut app).await;
    let stored = app.read(&thread).await;
    for (mut other, mut known) in others {
        until_turn_end(&mut other).await.iter().for_each(|message| known.add(message));
        known.check(&stored);
    }
}

#[tokio::test]
async fn a_subscription_continues_after_a_restart() {
    let script = Script::new().say("One").then().say("Two").then().say("Three");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, mut known) = start_thread(&mut app).await;
    app.start_turn(&thread, "First").await;
    until_turn_end(&mut app).await.iter().for_each(|message| known.add(message));
    app.run_turn(&thread, "Second").await;
    app.restart().await;

    let answer = subscribe(&mut app, &thread, known.after()).await;
    known.subscribed(&answer);
    replayed(&mut app, &answer).await.iter().for_each(|message| known.add(message));
    known.check(&app.read(&thread).await);
    app.start_turn(&thread, "Third").await;
    until_turn_end(&mut app).await.iter().for_each(|message| known.add(message));
    known.check(&app.read(&thread).await);
}

#[tokio::test]
async fn removed_turns_need_a_snapshot() {
    let script = Script::new().say("One").then().say("Two");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, mut known) = start_thread(&mut app).await;
    app.start_turn(&thread, "First").await;
    until_turn_end(&mut app).await.iter().for_each(|message| known.add(message));
    app.start_turn(&thread, "Second").await;
    until_turn_end(&mut app).await.iter().for_each(|message| known.add(message));

    let params = json!({ "threadId": thread.id, "numTurns": 1 });
    app.call::<ThreadRollback>(serde_json::from_value(params).unwrap()).await;

    let behind = app.until::<CodicilBehind>().await;
    assert_eq!(behind.thread_id, thread.id);
    let answer = subscribe(&mut app, &thread, Some(behind.after)).await;
    let CodicilSubscribeResponse::Snapshot { at, why, thread: now, .. } = &answer else {
        panic!("{answer:?}")
    };
    assert_eq!((why, now.turns.len()), (&Some(SnapshotReason::RolledBack), 1));
    known.subscribed(&answer);
    known.check(&app.read(&thread).await);
    let again = subscribe(&mut app, &thread, Some(*at)).await;
    assert!(matches!(again, CodicilSubscribeResponse::Replay { .. }), "{again:?}");
    app.ignore_rest();
}

#[tokio::test]
async fn a_thread_that_is_resumed_sends_its_messages_again() {
    let script = Script::new().say("One").then().say("Two");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, _) = start_thread(&mut app).await;
    app.run_turn(&thread, "First").await;
    let params = json!({ "threadId": thread.id, "numTurns": 1 });
    app.call::<ThreadRollback>(serde_json::from_value(params).unwrap()).await;
    app.until::<CodicilBehind>().await;

    let resumed = app.call::<ThreadResume>(ThreadResumeParams::new(thread.id.clone())).await;

    let mut known = FoldedThread::at(resumed.seq);
    app.start_turn(&thread, "Second").await;
    until_turn_end(&mut app).await.iter().for_each(|message| known.add(message));
    known.check(&app.read(&thread).await);
    app.ignore_rest();
}

#[tokio::test]
async fn a_client_that_missed_the_end_of_a_turn_learns_the_status_and_the_settings() {
    let mut app = App::builder().script(Script::new().say("One")).cursor().experimental().start().await;
    let (thread, known) = start_thread(&mut app).await;
    app.run_turn(&thread, "First").await;
    let settings = json!({ "threadId": thread.id, "effort": "high" });
    app.call::<ThreadSettingsUpdate>(serde_json::from_value(settings).unwrap()).await;
    let mut other = app.another_client().await;
    // Makes the connection one of 0.166.
    let queue = json!({ "id": "q", "method": "thread/queue/list", "params": { "threadId": thread.id } });
    other.exchange(queue).await;

    let answer = subscribe(&mut other, &thread, known.after()).await;

    let missed = replayed(&mut other, &answer).await;
    let last = |method: &str| missed.iter().rfind(|message| message.method == method).unwrap();
    assert_eq!(last("thread/status/changed").params["status"]["type"], "idle");
    assert_eq!(last("thread/settings/updated").params["threadSettings"]["effort"], "high");
    let CodicilSubscribeResponse::Replay { at, .. } = answer else { panic!("{answer:?}") };
    assert_eq!(missed.last().unwrap().seq, Some(at.value()));
    other.ignore_rest();
    app.ignore_rest();
}

#[tokio::test]
async fn a_snapshot_can_be_limited_to_the_newest_turns() {
    let script = Script::new().say("One").then().say("Two").then().say("Three");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, _) = start_thread(&mut app).await;
    for input in ["First", "Second", "Third"] {
        app.run_turn(&thread, input).await;
    }
    for (limit, expected) in [(1, 1), (2, 2), (3, 3), (9, 3)] {
        let turns = Some(limit);
        let params = CodicilSubscribeParams { turns, ..CodicilSubscribeParams::new(thread.id.clone()) };
        let answer = app.call::<CodicilSubscribe>(params).await;
        let CodicilSubscribeResponse::Snapshot { thread: now, older_turns, .. } = answer else { panic!() };
        assert_eq!(now.turns.len(), expected);
        let params = json!({ "threadId": thread.id, "cursor": older_turns });
        let older = match &older_turns {
            Some(_) => app.call::<ThreadTurnsList>(serde_json::from_value(params).unwrap()).await.data,
            None => Vec::new(),
        };
        let ids = older.iter().rev().chain(&now.turns).map(|turn| &turn.id);
        let all = app.read(&thread).await;
        assert!(ids.eq(all.turns.iter().map(|turn| &turn.id)), "{limit}");
    }
    app.ignore_rest();
}

#[tokio::test]
async fn a_snapshot_can_be_limited_to_the_newest_items() {
    let script = Script::new().say("One").say("Two").then().say("Three").say("Four");
    let mut app = App::builder().script(script).cursor().experimental().later_client().start().await;
    let (thread, _) = start_thread(&mut app).await;
    for input in ["First", "Second"] {
        app.run_turn(&thread, input).await;
    }
    let all = app.read(&thread).await;
    let all: Vec<_> = all.turns.iter().flat_map(|turn| &turn.items).filter_map(|item| item.id()).collect();
    assert_eq!(all.len(), 6);
    // The limit, and the items of each turn that remains.
    for (limit, expected) in
        [(0, vec![0]), (1, vec![1]), (3, vec![3]), (4, vec![1, 3]), (6, vec![3, 3]), (99, vec![3, 3])]
    {
        let params =
            CodicilSubscribeParams { items: Some(limit), ..CodicilSubscribeParams::new(thread.id.clone()) };
        let answer = app.call::<CodicilSubscribe>(params).await;
        let CodicilSubscribeResponse::Snapshot { thread: now, older_turns, older_items, .. } = answer else {
            panic!()
        };
        assert_eq!(now.turns.iter().map(|turn| turn.items.len()).collect::<Vec<_>>(), expected, "{limit}");
        assert_eq!(older_turns.is_some(), expected.len() < 2, "{limit}");
        let params = json!({ "threadId": thread.id, "cursor": older_items, "sortDirection": "desc" });
        let older = match &older_items {
            Some(_) => app.call::<ThreadItemsList>(serde_json::from_value(params).unwrap()).await.data,
            None => Vec::new(),
        };
        let older = older.iter().rev().map(|entry| &entry.item);
        let ids = older.chain(now.turns.iter().flat_map(|turn| &turn.items)).filter_map(|item| item.id());
        assert!(ids.eq(all.iter().copied()), "{limit}");
    }
    app.ignore_rest();
}

#[tokio::test]
async fn plans_are_part_of_a_snapshot_and_of_a_replay_also_after_a_restart() {
    let plan = |step: &str, status: &str| json!({ "plan": [{ "step": step, "status": status }] });
    let script = Script::new()
        .call("update_plan", plan("Look", "pending"))
        .then()
        .call("update_plan", plan("Look", "completed"))
        .then()
        .say("Done")
        .then()
        .call("update_plan", plan("Act", "in_progress"))
        .then()
        .say("Acting")
        .unfinished()
        .gate("acting");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, start) = start_thread(&mut app).await;
    app.run_turn(&thread, "First").await;
    app.start_turn(&thread, "Second").await;
    app.until::<AgentMessageDelta>().await;

    let steps = |plans: &[Value]| {
        let step = |plan: &Value| format!("{} {}", plan["plan"][0]["step"], plan["plan"][0]["status"]);
        plans.iter().map(step).collect::<Vec<_>>()
    };
    let expected = ["\"Look\" \"completed\"", "\"Act\" \"inProgress\""];
    let mut other = app.another_client().await;
    let answer = subscribe(&mut other, &thread, None).await;
    let plans = serde_json::to_value(&answer).unwrap()["plans"].as_array().cloned().unwrap_or_default();
    assert_eq!(steps(&plans), expected, "while the second turn is running");
    other.ignore_rest();
    app.model().release("acting");
    app.until::<TurnCompleted>().await;
    app.ignore_rest();

    app.restart().await;
    let answer = subscribe(&mut app, &thread, None).await;
    let plans = serde_json::to_value(&answer).unwrap()["plans"].as_array().cloned().unwrap_or_default();
    assert_eq!(steps(&plans), expected, "after a restart");
    let answer = subscribe(&mut app, &thread, start.after()).await;
    let messages = replayed(&mut app, &answer).await;
    let replayed = messages.iter().filter(|message| message.method == TurnPlanUpdated::NAME);
    assert_eq!(steps(&replayed.map(|message| message.params.clone()).collect::<Vec<_>>()), expected);
    app.ignore_rest();
}

#[tokio::test]
async fn an_unknown_position_needs_a_snapshot() {
    let mut app = App::builder().script(Script::new().say("One")).cursor().start().await;
    let (thread, _) = start_thread(&mut app).await;
    app.run_turn(&thread, "First").await;
    let answer = subscribe(&mut app, &thread, Some(position(1 << 50))).await;
    let CodicilSubscribeResponse::Snapshot { why, .. } = &answer else { panic!("{answer:?}") };
    assert_eq!(*why, Some(SnapshotReason::Unknown));
}

#[tokio::test]
async fn a_long_way_back_needs_a_snapshot() {
    let mut app = App::builder().script(Script::new().say("x".repeat(5 << 20))).cursor().start().await;
    let (thread, known) = start_thread(&mut app).await;
    app.run_turn(&thread, "Long").await;
    let answer = subscribe(&mut app, &thread, known.after()).await;
    let CodicilSubscribeResponse::Snapshot { why, .. } = &answer else { panic!("{answer:?}") };
    assert_eq!(*why, Some(SnapshotReason::TooFar));
}

#[tokio::test]
async fn messages_of_an_ephemeral_thread_are_replayed_only_while_they_are_recent() {
    let script = Script::new().say("One").unfinished().gate("more").say("Two");
    let mut app = App::builder().script(script).cursor().start().await;
    let params = ThreadStartParams { ephemeral: Some(true), ..Default::default() };
    let started = app.call::<ThreadStart>(params).await;
    app.take::<ThreadStarted>().await;
    let mut known = FoldedThread::at(started.seq);
    let thread = started.thread;
    app.start_turn(&thread, "First").await;
    app.until::<AgentMessageDelta>().await;
    let mut other = app.another_client().await;
    let answer = subscribe(&mut other, &thread, known.after()).await;
    known.subscribed(&answer);
    app.model().release("more");
    let missed = until_turn_end(&mut other).await;
    missed.iter().for_each(|message| known.add(message));
    until_turn_end(&mut app).await;

    let params = CodicilSubscribeParams { after: started.seq, ..CodicilSubscribeParams::new(thread.id) };
    let error = other.try_call::<CodicilSubscribe>(params).await.unwrap_err();
    assert!(error.message.contains("only messages of its running turn can be replayed"), "{error:?}");
}

#[tokio::test]
async fn open_requests_are_part_of_the_answer_and_can_be_answered() {
    let script = Script::new().call("exec_command", json!({ "cmd": "touch made", "justification": "x" }));
    let script = script.then().say("Done");
    let mut app = App::builder().script(script).cursor().start().await;
    let params = json!({ "cwd": app.workspace(), "approvalPolicy": "untrusted" });
    let started = app.call::<ThreadStart>(serde_json::from_value(params).unwrap()).await;
    let thread = started.thread;
    app.start_turn(&thread, "Touch").await;
    let asked = app.expect_request::<CommandExecutionApproval>().await;

    let mut other = app.another_client().await;
    let answer = subscribe(&mut other, &thread, started.seq).await;
    let CodicilSubscribeResponse::Replay { requests, .. } = &answer else { panic!("{answer:?}") };
    let [request] = requests.as_slice() else { panic!("{requests:?}") };
    assert_eq!(request.id, asked.id);
    assert_eq!(request.method, "item/commandExecution/requestApproval");
    assert_eq!(request.params["itemId"], json!(asked.params.item_id));

    let response = json!({ "id": request.id, "result": { "decision": "accept" } });
    other.send_raw(response.to_string()).await;

    let mut known = FoldedThread::at(started.seq);
    until_turn_end(&mut other).await.iter().for_each(|message| known.add(message));
    let stored = other.read(&thread).await;
    assert_eq!(stored.turns[0].status, TurnStatus::Completed);
    known.check(&stored);
    app.ignore_rest();
}

#[tokio::test]
async fn steered_input_and_input_without_a_request_are_announced() {
    let script =
        Script::new().say("One").gate("go").call("exec_command", json!({ "cmd": "true" })).then().say("Two");
    let mut app = App::builder().script(script).cursor().start().await;
    let (thread, begin) = start_thread(&mut app).await;
    let turn = app.start_turn(&thread, "First").await;
    app.model().reached("go").await;
    let input = json!([{ "type": "text", "text": "And " }, { "type": "text", "text": "more" }]);
    let params = json!({ "threadId": thread.id, "expectedTurnId": turn.id, "input": input });
    app.call::<TurnSteer>(serde_json::from_value(params).unwrap()).await;
    app.model().release("go");
    let messages = sequenced(&until_turn_end(&mut app).await);
    let stored = app.read(&thread).await;
    for cut in 0..=messages.len() {
        let mut known = begin.clone();
        messages[..cut].iter().for_each(|message| known.add(message));
        let mut other = app.another_client().await;
        let answer = subscribe(&mut other, &thread, known.after()).await;
        known.subscribed(&answer);
        replayed(&mut other, &answer).await.iter().for_each(|message| known.add(message));
        known.check(&stored);
    }
}

#[tokio::test]
async fn a_fork_and_a_resumed_thread_have_positions() {
    let mut app = App::builder().script(Script::new().say("One")).cursor().start().await;
    let (thread, _) = start_thread(&mut app).await;
    app.run_turn(&thread, "First").await;
    let fork = app.call::<ThreadFork>(ThreadForkParams::new(thread.id.clone())).await;
    assert!(fork.seq.is_some());
    let resumed = app.call::<ThreadResume>(ThreadResumeParams::new(thread.id.clone())).await;
    let answer = subscribe(&mut app, &thread, resumed.seq).await;
    assert_eq!(replayed(&mut app, &answer).await.iter().filter(|message| message.is_replay).count(), 0);
    app.ignore_rest();
}
