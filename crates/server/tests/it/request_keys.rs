//! Requests with keys: a repetition has no second effect and gets the first result.

use codicil_protocol::{
    KEYED_REQUESTS, Thread, ThreadItem, ThreadList, ThreadLoadedList, TurnCompleted, TurnStarted, TurnStatus,
};
use codicil_testkit::{App, AppBuilder, KeyedAnswer, Reply, Script, TestClient};
use serde_json::{Value, json};

fn builder() -> AppBuilder {
    App::builder().extension().experimental()
}

async fn start(script: impl Into<Script>) -> App {
    builder().script(script).start().await
}

fn turn(thread: &Thread, text: &str) -> Value {
    json!({ "threadId": thread.id, "input": [{ "type": "text", "text": text }] })
}

fn user_messages(thread: &Thread) -> usize {
    let items = thread.turns.iter().flat_map(|turn| &turn.items);
    items.filter(|item| matches!(item, ThreadItem::UserMessage { .. })).count()
}

async fn first(client: &mut TestClient, method: &str, params: &Value, key: &str) -> Value {
    let KeyedAnswer { result, is_replayed } = client.keyed(method, params, key).await;
    assert!(!is_replayed, "the first {method}");
    result
}

async fn again(client: &mut TestClient, method: &str, params: &Value, key: &str) -> Value {
    let KeyedAnswer { result, is_replayed } = client.keyed(method, params, key).await;
    assert!(is_replayed, "the second {method}");
    result
}

/// Sends a request twice, the second time on another connection, and returns the result.
async fn twice(app: &mut App, method: &str, params: &Value) -> Value {
    let key = format!("{method}-{params}").chars().take(200).collect::<String>();
    let result = first(app, method, params, &key).await;
    let mut other = app.another_client().await;
    other.ignore_rest();
    assert_eq!(again(&mut other, method, params, &key).await, result, "{method}");
    assert_eq!(again(app, method, params, &key).await, result, "{method}");
    result
}

#[tokio::test]
async fn a_turn_that_is_started_twice_runs_once() {
    let mut app = start(Script::new().say("Hello")).await;
    let thread = app.start_thread().await;
    let started = twice(&mut app, "turn/start", &turn(&thread, "Hi")).await;
    let completed = app.until::<TurnCompleted>().await;
    assert_eq!(started["turn"]["id"], *completed.turn.id);
    assert_eq!(started["turn"]["status"], "inProgress", "as it was returned");
    let read = app.read(&thread).await;
    assert_eq!((read.turns.len(), user_messages(&read)), (1, 1));
    assert_eq!(app.model().requests().len(), 1);
    app.ignore_rest();
}

#[tokio::test]
async fn every_change_of_a_thread_has_one_effect() {
    let reply = Reply::new().say("Done");
    let mut app = start(Script::new().repeat(reply)).await;
    let thread = app.start_thread().await;
    let id = &thread.id;
    for text in ["one", "two", "three", "four"] {
        app.run_turn(&thread, text).await;
    }

    twice(&mut app, "thread/name/set", &json!({ "threadId": id, "name": "Mine" })).await;
    let goal = json!({ "threadId": id, "objective": "Win", "status": "paused" });
    let goal = twice(&mut app, "thread/goal/set", &goal).await;
    assert_eq!(goal["goal"]["objective"], "Win");
    assert_eq!(twice(&mut app, "thread/goal/clear", &json!({ "threadId": id })).await["cleared"], true);
    twice(&mut app, "thread/settings/update", &json!({ "threadId": id, "effort": "high" })).await;
    let item =
        json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "Note" }] });
    twice(&mut app, "thread/inject_items", &json!({ "threadId": id, "items": [item] })).await;

    let rollback = json!({ "threadId": id, "numTurns": 1 });
    let rolled_back = first(&mut app, "thread/rollback", &rollback, "r").await;
    assert_eq!(again(&mut app, "thread/rollback", &rollback, "r").await, rolled_back);
    let kept = |result: &Value| result["thread"]["turns"].as_array().map(Vec::len);
    assert_eq!(kept(&rolled_back), Some(3), "one turn is dropped, not two");
    let before = rolled_back["thread"]["turns"][2]["id"].clone();
    twice(&mut app, "thread/revert", &json!({ "threadId": id, "beforeTurnId": before })).await;
    assert_eq!(app.read(&thread).await.turns.len(), 2);
    let replayed = again(&mut app, "thread/rollback", &rollback, "r").await;
    assert_eq!(replayed, rolled_back, "with the turns of then");

    let requests = app.model().requests().len();
    twice(&mut app, "thread/compact/start", &json!({ "threadId": id })).await;
    app.until::<TurnCompleted>().await;
    assert_eq!(app.model().requests().len(), requests + 1);
    let target = json!({ "type": "custom", "instructions": "Look" });
    let review = twice(&mut app, "review/start", &json!({ "threadId": id, "target": target })).await;
    assert_eq!(review["reviewThreadId"], **id);
    app.until::<TurnCompleted>().await;
    assert_eq!(app.model().requests().len(), requests + 2);

    let log = app.workspace().join("log");
    let command = format!("echo line >> {}", log.display());
    twice(&mut app, "thread/shellCommand", &json!({ "threadId": id, "command": command })).await;
    app.until::<TurnCompleted>().await;
    assert_eq!(std::fs::read_to_string(log).unwrap(), "line\n");
    app.ignore_rest();
}

#[tokio::test]
async fn an_active_goal_that_is_set_twice_runs_once() {
    let script = Script::new().call("update_goal", json!({ "status": "complete" })).then().say("Done");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    let goal = json!({ "threadId": thread.id, "objective": "Win", "status": "active" });
    let goal = twice(&mut app, "thread/goal/set", &goal).await;
    assert_eq!(goal["goal"]["status"], "active", "as it was returned");
    app.until::<TurnCompleted>().await;
    assert_eq!(app.read(&thread).await.turns.len(), 1);
    assert_eq!(app.model().requests().len(), 2);
    app.ignore_rest();
}

#[tokio::test]
async fn a_thread_that_is_started_twice_is_one_thread() {
    let mut app = start(Script::new().say("Hello")).await;
    let started = twice(&mut app, "thread/start", &json!({ "model": "m" })).await;
    assert_eq!(app.call::<ThreadLoadedList>(Default::default()).await.data.len(), 1);
    let thread: Thread = serde_json::from_value(started["thread"].clone()).unwrap();

    // The connection of the repetition is subscribed like that of the first request.
    let mut other = app.another_client().await;
    again(&mut other, "thread/start", &json!({ "model": "m" }), "thread/start-{\"model\":\"m\"}").await;
    app.run_turn(&thread, "Hi").await;
    other.until::<TurnCompleted>().await;
    other.ignore_rest();

    let fork = twice(&mut app, "thread/fork", &json!({ "threadId": thread.id })).await;
    assert_eq!(fork["thread"]["turns"].as_array().map(Vec::len), Some(1));
    let listed = app.call::<ThreadList>(Default::default()).await.data;
    assert_eq!(listed.len(), 2, "the thread and one fork");
    let fork_id = fork["thread"]["id"].clone();
    twice(&mut app, "thread/archive", &json!({ "threadId": fork_id })).await;
    assert_eq!(app.call::<ThreadList>(Default::default()).await.data.len(), 1);
    twice(&mut app, "thread/unarchive", &json!({ "threadId": fork_id })).await;
    assert_eq!(app.call::<ThreadList>(Default::default()).await.data.len(), 2);
    twice(&mut app, "thread/delete", &json!({ "threadId": fork_id })).await;
    assert_eq!(app.call::<ThreadList>(Default::default()).await.data.len(), 1);
    app.ignore_rest();
}

#[tokio::test]
async fn a_detached_review_is_forked_and_run_once() {
    let mut app = start(Script::new().repeat(Reply::new().say("Fine"))).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "Hi").await;
    let target = json!({ "type": "custom", "instructions": "Look" });
    let params = json!({ "threadId": thread.id, "target": target, "delivery": "detached" });
    let review = twice(&mut app, "review/start", &params).await;
    assert_ne!(review["reviewThreadId"], *thread.id);
    app.until::<TurnCompleted>().await;
    assert_eq!(app.call::<ThreadLoadedList>(Default::default()).await.data.len(), 2);
    assert_eq!(app.model().requests().len(), 2);
    app.ignore_rest();
}

#[tokio::test]
async fn a_replayed_response_is_not_announced_again() {
    let mut app = builder().start().await;
    let params = json!({});
    first(&mut app, "thread/start", &params, "k").await;
    app.rest().await;
    again(&mut app, "thread/start", &params, "k").await;
    let rest = app.rest().await;
    assert!(!rest.contains("thread/started"), "{rest}");
}

#[tokio::test]
async fn a_key_belongs_to_one_request() {
    let mut app = start(Script::new().say("Hello")).await;
    let thread = app.start_thread().await;
    first(&mut app, "turn/start", &turn(&thread, "Hi"), "k-1").await;
    first(&mut app, "thread/start", &json!({}), "k-1").await;
    for (method, params) in [
        ("turn/start", turn(&thread, "Ho")),
        ("thread/name/set", json!({ "threadId": thread.id, "name": "Hi" })),
        ("thread/start", json!({ "model": "other" })),
        ("thread/delete", json!({ "threadId": thread.id })),
    ] {
        let error = app.try_keyed(method, &params, "k-1").await.unwrap_err();
        assert_eq!(error.code, -32602, "{method}");
        assert_eq!(error.data, Some(json!({ "codicil": { "code": "keyConflict" } })), "{method}");
    }
    // Members in another order are the same params.
    let same = json!({ "input": [{ "text": "Hi", "type": "text" }], "threadId": thread.id });
    again(&mut app, "turn/start", &same, "k-1").await;
    app.until::<TurnCompleted>().await;
    app.ignore_rest();
}

#[tokio::test]
async fn a_failed_request_can_be_repeated_with_its_key() {
    let mut app = start(Script::new().say("Hello")).await;
    let thread = app.start_thread().await;
    let empty = json!({ "threadId": thread.id, "input": [] });
    app.try_keyed("turn/start", &empty, "k").await.unwrap_err();
    first(&mut app, "turn/start", &turn(&thread, "Hi"), "k").await;
    app.until::<TurnCompleted>().await;
    let missing = json!({ "threadId": "0199a213-81c0-7800-8aa1-bbab2a035a53" });
    for method in ["thread/archive", "thread/delete"] {
        app.try_keyed(method, &missing, method).await.unwrap_err();
        app.try_keyed(method, &missing, method).await.unwrap_err();
    }
    app.ignore_rest();
}

#[tokio::test]
async fn keys_are_refused_where_they_have_no_meaning() {
    let mut app = builder().start().await;
    let error = app.try_keyed("thread/list", &json!({}), "k").await.unwrap_err();
    assert_eq!(error.code, -32602);
    assert!(error.message.starts_with("thread/list takes no key"), "{}", error.message);
    for key in [json!(""), json!(7), json!("k".repeat(257))] {
        let message = json!({ "id": "x", "method": "thread/start", "params": {}, "codicil": { "key": key } });
        assert_eq!(app.exchange(message).await["error"]["code"], -32602, "{key}");
    }
    assert!(app.call::<ThreadLoadedList>(Default::default()).await.data.is_empty());
}

#[tokio::test]
async fn a_client_without_the_extension_is_served_as_before() {
    let mut app = App::builder().script(Script::new().say("one").then().say("two")).start().await;
    let thread = app.start_thread().await;
    for method in ["thread/start", "thread/list"] {
        let answer = app.try_keyed(method, &json!({}), "k").await.unwrap();
        assert!(!answer.is_replayed);
        assert!(!app.try_keyed(method, &json!({}), "k").await.unwrap().is_replayed);
    }
    let mut params = turn(&thread, "Hi");
    params["clientUserMessageId"] = json!("m");
    for _ in 0..2 {
        assert!(!app.keyed("turn/start", &params, "k").await.is_replayed);
        app.until::<TurnCompleted>().await;
    }
    assert_eq!(app.read(&thread).await.turns.len(), 2);
    app.ignore_rest();
}

#[tokio::test]
async fn the_clients_id_of_a_message_is_a_key() {
    let mut app = start(Script::new().say("one").gate("go").say("two")).await;
    let thread = app.start_thread().await;
    let mut params = turn(&thread, "Hi");
    params["clientUserMessageId"] = json!("m-1");
    let start = json!({ "id": "a", "method": "turn/start", "params": params });
    let started = app.exchange(start.clone()).await;
    assert_eq!(started.get("codicil"), None);
    let repeated = app.exchange(start).await;
    assert_eq!(repeated["codicil"], json!({ "replayed": true }));
    assert_eq!(repeated["result"], started["result"]);

    app.until::<TurnStarted>().await;
    let turn_id = &started["result"]["turn"]["id"];
    let steer = json!({ "id": "b", "method": "turn/steer", "params": {
        "threadId": thread.id, "input": [{ "type": "text", "text": "More" }], "expectedTurnId": turn_id,
        "clientUserMessageId": "m-2",
    } });
    let steered = app.exchange(steer.clone()).await;
    assert_eq!(app.exchange(steer).await["result"], steered["result"]);
    app.model().release("go");
    app.until::<TurnCompleted>().await;
    let read = app.read(&thread).await;
    assert_eq!((read.turns.len(), user_messages(&read)), (1, 2));
    app.ignore_rest();
}

#[tokio::test]
async fn the_clients_id_of_a_message_is_a_key_beside_another_one() {
    let mut app = start(Script::new().say("one")).await;
    let thread = app.start_thread().await;
    let mut params = turn(&thread, "Hi");
    params["clientUserMessageId"] = json!("m-1");
    let started = first(&mut app, "turn/start", &params, "k").await;
    let without_key = app.exchange(json!({ "id": "a", "method": "turn/start", "params": params })).await;
    assert_eq!((&without_key["result"], &without_key["codicil"]["replayed"]), (&started, &json!(true)));
    assert_eq!(again(&mut app, "turn/start", &params, "k-2").await, started);
    params["input"][0]["text"] = json!("Other");
    let conflict = app.try_keyed("turn/start", &params, "k-3").await.unwrap_err();
    assert_eq!(conflict.data.unwrap()["codicil"]["code"], "keyConflict");
    app.until::<TurnCompleted>().await;
    assert_eq!(app.read(&thread).await.turns.len(), 1);
    app.ignore_rest();
}

#[tokio::test]
async fn input_for_a_running_turn_is_added_once() {
    let mut app = start(Script::new().say("one").gate("go").say("two").then().say("three")).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "Hi").await;
    app.until::<TurnStarted>().await;
    twice(&mut app, "turn/start", &turn(&thread, "More")).await;
    app.model().release("go");
    app.until::<TurnCompleted>().await;
    let read = app.read(&thread).await;
    assert_eq!((read.turns.len(), user_messages(&read)), (1, 2));
    app.ignore_rest();
}

#[tokio::test]
async fn an_interrupt_stops_no_other_turn() {
    let mut app = start(Script::new().say("one").hang().then().say("two").hang()).await;
    let thread = app.start_thread().await;
    let turn_one = app.start_turn(&thread, "one").await;
    app.until::<TurnStarted>().await;
    let error = app.try_keyed("turn/interrupt", &json!({ "threadId": thread.id, "turnId": "" }), "k").await;
    assert!(error.unwrap_err().message.contains("needs `turnId`"));

    let params = json!({ "threadId": thread.id, "turnId": turn_one.id });
    let ids = [
        app.send_keyed("turn/interrupt", &params, "k-1").await,
        app.send_keyed("turn/interrupt", &params, "k-1").await,
    ];
    assert!(!app.keyed_answer(&ids[0], "turn/interrupt").await.unwrap().is_replayed);
    assert!(app.keyed_answer(&ids[1], "turn/interrupt").await.unwrap().is_replayed);
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Interrupted);

    let turn_two = app.start_turn(&thread, "two").await;
    app.until::<TurnStarted>().await;
    again(&mut app, "turn/interrupt", &params, "k-1").await;
    // Without a known key, the id of a turn that is over protects the running one.
    let error = app.try_keyed("turn/interrupt", &params, "k-2").await.unwrap_err();
    assert!(error.message.contains(&*turn_two.id), "{}", error.message);
    app.interrupt(&turn_two).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.id, turn_two.id);
    app.ignore_rest();
}

#[tokio::test]
async fn requests_that_are_repeated_while_they_run_wait_for_the_first() {
    let mut app = builder().start().await;
    let mut other = app.another_client().await;
    for round in 0..20 {
        let key = format!("k-{round}");
        let mut ids = Vec::new();
        for _ in 0..3 {
            ids.push(app.send_keyed("thread/start", &json!({}), &key).await);
        }
        let elsewhere = other.send_keyed("thread/start", &json!({}), &key).await;
        let mut answers = Vec::new();
        for id in &ids {
            answers.push(app.keyed_answer(id, "thread/start").await.unwrap());
        }
        answers.push(other.keyed_answer(&elsewhere, "thread/start").await.unwrap());
        assert_eq!(answers.iter().filter(|answer| !answer.is_replayed).count(), 1);
        assert!(answers.iter().all(|answer| answer.result == answers[0].result));
    }
    assert_eq!(app.call::<ThreadLoadedList>(Default::default()).await.data.len(), 20);
    app.ignore_rest();
    other.ignore_rest();
}

#[tokio::test]
async fn keys_survive_a_restart() {
    let mut app = start(Script::new().say("Hello").then().say("fork")).await;
    let started = first(&mut app, "thread/start", &json!({}), "s").await;
    let thread: Thread = serde_json::from_value(started["thread"].clone()).unwrap();
    let turned = first(&mut app, "turn/start", &turn(&thread, "Hi"), "t").await;
    app.until::<TurnCompleted>().await;
    let name = json!({ "threadId": thread.id, "name": "Mine" });
    first(&mut app, "thread/name/set", &name, "n").await;

    app.restart().await;
    // Not loaded: the key is read from the file.
    again(&mut app, "thread/name/set", &name, "n").await;
    let goal = json!({ "threadId": thread.id, "objective": "Win" });
    let set = first(&mut app, "thread/goal/set", &goal, "g").await;
    assert_eq!(again(&mut app, "thread/goal/set", &goal, "g").await, set);
    // Replaying the start loads the thread, so that the next request finds it.
    assert_eq!(again(&mut app, "thread/start", &json!({}), "s").await, started);
    assert_eq!(again(&mut app, "turn/start", &turn(&thread, "Hi"), "t").await, turned);
    assert_eq!(again(&mut app, "thread/goal/set", &goal, "g").await, set);
    assert_eq!(app.read(&thread).await.turns.len(), 1);

    // A copy of the thread has none of its keys.
    let fork = first(&mut app, "thread/fork", &json!({ "threadId": thread.id }), "f").await;
    let fork: Thread = serde_json::from_value(fork["thread"].clone()).unwrap();
    first(&mut app, "turn/start", &turn(&fork, "Hi"), "t").await;
    app.until::<TurnCompleted>().await;
    app.ignore_rest();
}

#[tokio::test]
async fn a_thread_in_memory_keeps_its_keys_in_memory() {
    let mut app = start(Script::new().say("Hello")).await;
    let params = json!({ "ephemeral": true });
    let started = twice(&mut app, "thread/start", &params).await;
    let thread: Thread = serde_json::from_value(started["thread"].clone()).unwrap();
    twice(&mut app, "turn/start", &turn(&thread, "Hi")).await;
    app.until::<TurnCompleted>().await;
    assert_eq!(app.model().requests().len(), 1);

    // After a restart nothing is left of it, so the request starts it again.
    app.restart().await;
    let key = format!("thread/start-{params}");
    let again = app.keyed("thread/start", &params, &key).await;
    assert!(!again.is_replayed);
    assert_eq!(again.result["thread"]["id"], started["thread"]["id"]);
    app.ignore_rest();
}

#[tokio::test]
async fn every_keyed_request_takes_a_key() {
    let mut app = builder().start().await;
    for method in KEYED_REQUESTS {
        let message = json!({ "id": "x", "method": method, "params": 7, "codicil": { "key": "k" } });
        let error = &app.exchange(message).await["error"];
        let text = error["message"].as_str().unwrap();
        assert!(text.starts_with("Invalid request: "), "the params are refused, not the key: {text}");
    }
}
