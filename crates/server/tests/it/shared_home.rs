//! Two servers on one home: a thread has one writer at a time, and both servers tell the same story.
//!
//! `CODICIL_INTERLEAVINGS=1000` tests a thousand random steps instead of sixty; `CODICIL_SEED` repeats a run.

use std::{
    env, fs, process,
    time::{SystemTime, UNIX_EPOCH},
};

use codicil_protocol::{
    ServerNotification, Thread, ThreadArchive, ThreadCompactStart, ThreadDelete, ThreadItem, ThreadNameSet,
    ThreadQueueAdd, ThreadQueueDelete, ThreadQueueList, ThreadQueueUpdate, ThreadResume, ThreadRollback,
    ThreadSettingsUpdate, Turn, TurnCompleted, TurnInterrupt, TurnStart, TurnStatus, TurnSteer, UserInput,
    rpc::ErrorObject,
};
use codicil_store::{Record, Store};
use codicil_testkit::{App, RecordedRequest, Reply, Script, TestClient};
use fastrand::Rng;
use serde_json::{Value, from_value, json};

fn always_ok() -> Script {
    Script::new().respond_with(|_: &RecordedRequest| Reply::new().say("Ok"))
}

fn user_texts(request: &RecordedRequest) -> Vec<String> {
    let users = request.input().iter().filter(|item| item["role"] == "user");
    let parts = users.flat_map(|item| item["content"].as_array().into_iter().flatten());
    let texts = parts.filter_map(|part| part["text"].as_str());
    texts.filter(|text| !text.starts_with(['<', '#'])).map(str::to_owned).collect()
}

/// Returns the user's text of each turn.
fn texts_of(thread: &Thread) -> Vec<String> {
    let text = |turn: &Turn| match turn.items.first() {
        Some(ThreadItem::UserMessage { content, .. }) => match &content[0] {
            UserInput::Text { text, .. } => text.clone(),
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    thread.turns.iter().map(text).collect()
}

fn turn_params<T: serde::de::DeserializeOwned>(thread: &Thread, text: &str) -> T {
    from_value(json!({ "threadId": thread.id, "input": [{ "type": "text", "text": text }] })).unwrap()
}

fn about<T: serde::de::DeserializeOwned>(thread: &Thread, more: Value) -> T {
    let mut params = json!({ "threadId": thread.id });
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    from_value(params).unwrap()
}

/// Checks that the ordinals of a thread's file count without a gap.
fn check_ordinals(thread: &Thread) {
    let text = fs::read_to_string(thread.path.as_deref().unwrap()).unwrap();
    for (number, line) in text.lines().enumerate() {
        assert_eq!(serde_json::from_str::<Value>(line).unwrap()["ordinal"], number, "{line}");
    }
}

fn check_in_use(refused: Result<(), ErrorObject>) {
    let error = refused.expect_err("another server runs a turn");
    let pid = process::id();
    assert_eq!(error.code, -32600, "{}", error.message);
    assert!(error.message.contains(&format!("is in use: process {pid}")), "{}", error.message);
    assert_eq!(error.data.unwrap(), json!({ "reason": "threadInUse", "pid": pid }));
}

#[tokio::test]
async fn a_second_server_is_refused_while_the_first_runs_a_turn() {
    let script = Script::new().say("one").then().gate("go").say("two").then().say("three");
    let mut first = App::builder().experimental().script(script).start().await;
    let thread = first.start_thread().await;
    first.run_turn(&thread, "first").await;
    let running = first.start_turn(&thread, "second").await;
    first.model().reached("go").await;

    // Reading works, and shows that the turn runs.
    let mut second = first.another_server().await;
    for seen in [second.read(&thread).await, second.resume(&thread).await, second.resume(&thread).await] {
        let statuses: Vec<_> = seen.turns.iter().map(|turn| turn.status.clone()).collect();
        assert_eq!(statuses, [TurnStatus::Completed, TurnStatus::InProgress]);
    }
    let before = fs::read(thread.path.as_deref().unwrap()).unwrap();
    check_in_use(second.try_call::<TurnStart>(turn_params(&thread, "no")).await.map(drop));
    let steer = json!({ "expectedTurnId": running.id, "input": [{ "type": "text", "text": "no" }] });
    check_in_use(second.try_call::<TurnSteer>(about(&thread, steer)).await.map(drop));
    let turn = json!({ "turnId": running.id });
    check_in_use(second.try_call::<TurnInterrupt>(about(&thread, turn)).await.map(drop));
    check_in_use(second.try_call::<ThreadRollback>(about(&thread, json!({ "numTurns": 1 }))).await.map(drop));
    check_in_use(second.try_call::<ThreadCompactStart>(about(&thread, json!({}))).await.map(drop));
    check_in_use(second.try_call::<ThreadArchive>(about(&thread, json!({}))).await.map(drop));
    // From here on the connection is one of 0.166, whose methods these are.
    let model = json!({ "model": "another" });
    check_in_use(second.try_call::<ThreadSettingsUpdate>(about(&thread, model)).await.map(drop));
    let refused = second.try_call::<ThreadDelete>(about(&thread, json!({}))).await.map(drop).unwrap_err();
    assert_eq!(refused.message, format!("thread {} already has an active writer", thread.id));
    assert_eq!(fs::read(thread.path.as_deref().unwrap()).unwrap(), before);

    // A name does not concern the conversation.
    second.call::<ThreadNameSet>(about(&thread, json!({ "name": "from the second" }))).await;

    first.model().release("go");
    let ended = first.until_where::<TurnCompleted>(|ended| ended.turn.id == running.id).await;
    assert_eq!(ended.turn.status, TurnStatus::Completed);
    assert_eq!(first.read(&thread).await.name.as_deref(), Some("from the second"));
    assert_eq!(second.run_turn(&thread, "third").await.status, TurnStatus::Completed);
    assert_eq!(user_texts(first.model().requests().last().unwrap()), ["first", "second", "third"]);
    check_ordinals(&thread);
    second.ignore_rest();
    first.ignore_rest();
}

#[tokio::test]
async fn servers_that_take_turns_see_every_turn() {
    let mut first = App::start(always_ok()).await;
    let thread = first.start_thread().await;
    first.run_turn(&thread, "first").await;
    let mut second = first.another_server().await;
    second.resume(&thread).await;
    second.run_turn(&thread, "second").await;
    first.run_turn(&thread, "third").await;
    assert_eq!(user_texts(first.model().requests().last().unwrap()), ["first", "second", "third"]);
    second.call::<ThreadRollback>(about(&thread, json!({ "numTurns": 1 }))).await;
    first.run_turn(&thread, "fourth").await;
    assert_eq!(user_texts(first.model().requests().last().unwrap()), ["first", "second", "fourth"]);
    for server in [&mut *first, &mut *second] {
        assert_eq!(texts_of(&server.read(&thread).await), ["first", "second", "fourth"]);
    }
    check_ordinals(&thread);
    second.ignore_rest();
    first.ignore_rest();
}

#[tokio::test]
async fn later_clients_cannot_take_a_thread_that_another_server_has_loaded() {
    let mut first = App::builder().experimental().script(always_ok()).start().await;
    let thread = first.start_thread().await;
    first.run_turn(&thread, "first").await;
    let mut second = first.another_server().await;
    let queue = json!({ "id": "q", "method": "thread/queue/list", "params": { "threadId": thread.id } });
    assert!(second.exchange(queue).await.get("result").is_some(), "makes the connection one of 0.166");
    let refused = second.try_call::<ThreadResume>(about(&thread, json!({}))).await.map(drop).unwrap_err();
    assert_eq!(refused.message, format!("thread {} already has an active writer", thread.id));
    let refused = second.try_call::<ThreadArchive>(about(&thread, json!({}))).await.map(drop).unwrap_err();
    assert_eq!(refused.message, format!("thread {} already has an active writer", thread.id));
    let refused = second.try_call::<ThreadDelete>(about(&thread, json!({}))).await.map(drop).unwrap_err();
    assert_eq!(refused.message, format!("thread {} already has an active writer", thread.id));
    first.ignore_rest();
    second.ignore_rest();
}

#[tokio::test]
async fn settings_of_one_server_hold_for_the_next_turn_of_another() {
    let mut first = App::start(always_ok()).await;
    let thread = first.start_thread().await;
    first.run_turn(&thread, "first").await;
    let mut second = first.another_server().await;
    second.resume(&thread).await;
    let other = json!({ "input": [{ "type": "text", "text": "second" }], "model": "another" });
    second.call::<TurnStart>(about(&thread, other)).await;
    second.until::<TurnCompleted>().await;
    first.run_turn(&thread, "third").await;
    assert_eq!(first.model().requests().last().unwrap().body()["model"], "another");
    second.ignore_rest();
    first.ignore_rest();
}

/// A writer that does not know about runs, such as an earlier version, takes over in the middle of a turn.
#[tokio::test]
async fn a_turn_that_is_overtaken_stops_and_sends_nothing_more() {
    // Longer than it takes to notice the other writer; it is killed.
    let command = json!({ "cmd": "exec sleep 1000 > alive", "yield_time_ms": 250 });
    let script =
        Script::new().call("exec_command", command).then().gate("go").say("never seen").then().say("and on");
    let config = "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"";
    let mut app = App::builder().config(config).script(script).start().await;
    let alive = app.workspace().join("alive");
    assert!(process::Command::new("mkfifo").arg(&alive).status().unwrap().success());
    let thread = app.start_thread().await;
    app.start_turn(&thread, "first").await;
    let command = tokio::task::spawn_blocking(move || fs::read(alive));
    app.model().reached("go").await;
    let store = Store::open(app.home()).unwrap();
    let mut log = store.open_log(&thread.id).await.unwrap();
    log.append(&[
        Record::Turn { turn_id: "theirs".into(), run: None },
        Record::TurnEnd { turn_id: "theirs".into(), status: TurnStatus::Completed, error: None, cause: None },
    ])
    .await
    .unwrap();
    app.model().release("go");

    let mut seen = Vec::new();
    while !matches!(seen.last(), Some(ServerNotification::ThreadClosed(_))) {
        seen.push(app.next_notification().await.expect("the connection goes on"));
    }
    let ends_turn = |message: &ServerNotification| {
        matches!(message, ServerNotification::TurnCompleted(_) | ServerNotification::ErrorReported(_))
    };
    assert!(!seen.iter().any(ends_turn), "{seen:?}");
    let completed: Vec<_> =
        seen.iter().filter(|message| matches!(message, ServerNotification::ItemCompleted(_))).collect();
    assert_eq!(completed.len(), 1, "only the input was completed before: {completed:?}");
    assert_eq!(command.await.unwrap().unwrap(), b"", "the command has ended");
    let seen = app.resume(&thread).await;
    let ids: Vec<_> = seen.turns.iter().map(|turn| turn.id.to_string()).collect();
    assert_eq!((ids.len(), ids[1].as_str()), (2, "theirs"));
    assert_eq!(app.run_turn(&thread, "third").await.status, TurnStatus::Completed);
    check_ordinals(&thread);
    app.ignore_rest();
}

#[tokio::test]
async fn a_turn_whose_end_cannot_be_stored_fails() {
    let mut app = App::start(Script::new().gate("held").say("late").then().say("Ok")).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "one").await;
    app.model().reached("held").await;
    let holder = fs::File::open(thread.path.as_ref().unwrap()).unwrap();
    holder.lock().unwrap();
    app.interrupt(&turn).await;
    let ended = app.until::<TurnCompleted>().await.turn;
    assert_eq!(ended.status, TurnStatus::Failed);
    let message = ended.error.unwrap().message;
    assert!(message.starts_with("the end of the turn could not be stored: "), "{message}");
    drop(holder);
    app.model().release("held");
    assert_eq!(app.run_turn(&thread, "two").await.status, TurnStatus::Completed);
    let stored = app.restart().await.read(&thread).await;
    assert_eq!(stored.turns[0].status, TurnStatus::Failed, "what was sent is stored");
    assert!(stored.turns[0].error.as_ref().unwrap().message.starts_with("the end of the turn"));
    app.ignore_rest();
}

/// A script whose turns wait with their text as the gate, if the text says so.
fn held() -> Script {
    Script::new().respond_with(|request: &RecordedRequest| {
        let text = request.last_user_text().unwrap_or_default();
        match text.strip_prefix("hold ") {
            Some(gate) => Reply::new().gate(gate).say("Ok"),
            None => Reply::new().say("Ok"),
        }
    })
}

/// Sends a request with a key to both servers at once, and again until both have its result.
async fn keyed_at_both(servers: [&mut TestClient; 2], method: &str, params: &Value, key: &str) -> Value {
    let [first, second] = servers;
    let answers = tokio::join!(first.try_keyed(method, params, key), second.try_keyed(method, params, key));
    let mut results = Vec::new();
    for (server, answer) in [(first, answers.0), (second, answers.1)] {
        match answer {
            Ok(answer) => results.push(answer.result),
            Err(error) => {
                assert_eq!(error.code, -32001, "{}", error.message);
                let answer = server.keyed(method, params, key).await;
                assert!(answer.is_replayed, "{method}");
                results.push(answer.result);
            }
        }
    }
    assert_eq!(results[0], results[1], "{method}");
    results.remove(0)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_two_servers_get_at_once_has_one_effect() {
    let mut first = App::builder().extension().experimental().script(held()).start().await;
    let thread = first.start_thread().await;
    first.run_turn(&thread, "begin").await;
    let mut second = first.another_server().await;
    second.resume(&thread).await;
    let turn = first.start_turn(&thread, "hold g").await;
    first.model().reached("g").await;
    for round in 0..25 {
        let input = json!([{ "type": "text", "text": format!("queued {round}") }]);
        let id = format!("c-{round}");
        let add = json!({ "threadId": thread.id, "input": input, "clientUserMessageId": id });
        keyed_at_both([&mut *first, &mut *second], "thread/queue/add", &add, &format!("a-{round}")).await;
        let name = json!({ "threadId": thread.id, "name": format!("name {round}") });
        keyed_at_both([&mut *first, &mut *second], "thread/name/set", &name, &format!("n-{round}")).await;
    }
    let queue = first.call::<ThreadQueueList>(about(&thread, json!({ "limit": 100 }))).await.data;
    let ids: Vec<_> = queue.into_iter().map(|queued| queued.client_user_message_id).collect();
    assert_eq!(ids, (0..25).map(|round| format!("c-{round}")).collect::<Vec<_>>());
    let records = fs::read_to_string(thread.path.as_deref().unwrap()).unwrap();
    for round in 0..25 {
        assert_eq!(records.matches(&format!("\"name\":\"name {round}\"")).count(), 1, "round {round}");
    }
    first.interrupt(&turn).await;
    let ended = first.until_where::<TurnCompleted>(|ended| ended.turn.id == turn.id).await;
    assert_eq!(ended.turn.status, TurnStatus::Interrupted, "the turn was not abandoned");
    check_ordinals(&thread);
    second.ignore_rest();
    first.ignore_rest();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_submission_that_another_server_deletes_is_gone() {
    let mut first = App::builder().extension().experimental().script(held()).start().await;
    let thread = first.start_thread().await;
    first.run_turn(&thread, "begin").await;
    let mut second = first.another_server().await;
    second.resume(&thread).await;
    let mut texts = vec!["begin".to_owned()];
    for round in 0..25 {
        let turn = first.start_turn(&thread, &format!("hold g{round}")).await;
        first.model().reached(&format!("g{round}")).await;
        let mut added = Vec::new();
        for text in [format!("changed {round}"), format!("queued {round}")] {
            let input = json!([{ "type": "text", "text": text }]);
            let add = json!({ "input": input, "clientUserMessageId": text });
            added.push(second.call::<ThreadQueueAdd>(about(&thread, add)).await.queued_submission.id);
        }
        // A change does not bring back what was deleted.
        let (changed, queued) =
            (json!({ "queuedSubmissionId": added[0] }), json!({ "queuedSubmissionId": added[1] }));
        let change =
            json!({ "queuedSubmissionId": added[0], "input": [{ "type": "text", "text": "other" }] });
        let (deleted, _) = tokio::join!(
            first.call::<ThreadQueueDelete>(about(&thread, changed)),
            second.try_call::<ThreadQueueUpdate>(about(&thread, change)),
        );
        assert!(deleted.deleted);
        for server in [&mut *first, &mut *second] {
            let queue = server.call::<ThreadQueueList>(about(&thread, json!({}))).await.data;
            let ids: Vec<_> = queue.into_iter().map(|queued| queued.id).collect();
            assert_eq!(ids, [added[1].as_str()], "round {round}");
        }

        // Either it is deleted, or it runs.
        first.model().release(&format!("g{round}"));
        let deleted = second.call::<ThreadQueueDelete>(about(&thread, queued)).await.deleted;
        first.until_where::<TurnCompleted>(|ended| ended.turn.id == turn.id).await;
        texts.push(format!("hold g{round}"));
        if !deleted {
            first.until::<TurnCompleted>().await;
            texts.push(format!("queued {round}"));
        }
        // Handled after a turn of the queue would have begun.
        assert!(first.call::<ThreadQueueList>(about(&thread, json!({}))).await.data.is_empty());
        assert_eq!(texts_of(&first.read(&thread).await), texts, "round {round}, deleted: {deleted}");
    }
    check_ordinals(&thread);
    second.ignore_rest();
    first.ignore_rest();
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().expect("a number"))
}

/// The story that both servers must agree on.
struct SharedStory {
    thread: Thread,
    texts: Vec<String>,
    name: Option<String>,
}

/// Starts a turn and waits for its end. Returns whether it was accepted.
async fn try_turn(client: &mut TestClient, thread: &Thread, text: &str) -> bool {
    match client.try_call::<TurnStart>(turn_params(thread, text)).await {
        Ok(started) => {
            let ended = client.until_where::<TurnCompleted>(|ended| ended.turn.id == started.turn.id).await;
            assert_eq!(ended.turn.status, TurnStatus::Completed, "{:?}", ended.turn.error);
            true
        }
        Err(error) => {
            assert!(error.message.contains("is in use"), "{}", error.message);
            false
        }
    }
}

impl SharedStory {
    /// Checks that both servers and the last requests of the model tell this story.
    async fn check(&self, servers: [&mut TestClient; 2], requests: &[RecordedRequest]) {
        for server in servers {
            let seen = server.read(&self.thread).await;
            assert_eq!(texts_of(&seen), self.texts);
            assert_eq!(seen.name, self.name);
        }
        for request in requests {
            let sent = user_texts(request);
            let end = self.texts.iter().position(|text| Some(text) == sent.last()).unwrap();
            assert_eq!(sent, self.texts[..=end], "a request without the whole story before it");
        }
        check_ordinals(&self.thread);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_interleavings_of_two_servers_never_diverge() {
    let steps = number("CODICIL_INTERLEAVINGS").unwrap_or(60);
    let seed = number("CODICIL_SEED").unwrap_or_else(|| {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| u64::from(now.subsec_nanos()))
    });
    println!("CODICIL_SEED={seed} CODICIL_INTERLEAVINGS={steps}");
    let mut random = Rng::with_seed(seed);
    let mut first = App::start(always_ok()).await;
    let mut second = first.another_server().await;
    let mut story: Option<SharedStory> = None;
    let mut last_request = 0;
    for step in 0..steps {
        if story.as_ref().is_none_or(|_| step % 50 == 0) {
            let thread = first.start_thread().await;
            first.run_turn(&thread, "begin").await;
            second.resume(&thread).await;
            story = Some(SharedStory { thread, texts: vec!["begin".to_owned()], name: None });
        }
        let story = story.as_mut().unwrap();
        let thread = story.thread.clone();
        let [one, other]: [&mut TestClient; 2] =
            if random.bool() { [&mut *first, &mut *second] } else { [&mut *second, &mut *first] };
        match random.u32(0..6) {
            0 | 1 => {
                assert!(try_turn(one, &thread, &format!("turn {step}")).await);
                story.texts.push(format!("turn {step}"));
            }
            2 => {
                let name = format!("name {step}");
                one.call::<ThreadNameSet>(about(&thread, json!({ "name": name }))).await;
                story.name = Some(name);
            }
            3 => {
                let dropped = random.usize(1..3).min(story.texts.len() - 1).max(1);
                if story.texts.len() > dropped {
                    one.call::<ThreadRollback>(about(&thread, json!({ "numTurns": dropped }))).await;
                    story.texts.truncate(story.texts.len() - dropped);
                }
            }
            4 => {
                let texts = [format!("left {step}"), format!("right {step}")];
                let (left, right) =
                    tokio::join!(try_turn(one, &thread, &texts[0]), try_turn(other, &thread, &texts[1]));
                assert!(left || right, "both servers were refused");
                let stored = texts_of(&one.read(&thread).await);
                let added = &stored[story.texts.len()..];
                assert_eq!(added.len(), usize::from(left) + usize::from(right), "{added:?}");
                assert!(!left || added.contains(&texts[0]), "{added:?}");
                assert!(!right || added.contains(&texts[1]), "{added:?}");
                story.texts.extend(added.to_vec());
            }
            _ => {
                let name = format!("beside {step}");
                let text = format!("turn {step}");
                let named = other.call::<ThreadNameSet>(about(&thread, json!({ "name": name })));
                let (accepted, _) = tokio::join!(try_turn(one, &thread, &text), named);
                assert!(accepted);
                story.texts.push(text);
                story.name = Some(name);
            }
        }
        let mut requests = first.model().requests();
        requests.retain(|request| request.number() > last_request);
        story.check([&mut *first, &mut *second], &requests).await;
        last_request = requests.last().map_or(last_request, RecordedRequest::number);
    }
    second.ignore_rest();
    first.ignore_rest();
}
