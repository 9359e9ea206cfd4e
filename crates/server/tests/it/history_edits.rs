//! `thread/revert` and `thread/inject_items`: clients change the history of a thread.

use codicil_protocol::{
    AgentMessageDelta, ServerNotification, Thread, ThreadFork, ThreadForkParams, ThreadInjectItems,
    ThreadItemsList, ThreadRevert, ThreadReverted, ThreadStartParams, ThreadTokenUsage, ThreadTurnsList,
    TurnCompleted, TurnStatus, rpc::ErrorObject,
};
use codicil_testkit::{App, RecordedRequest, Script};
use serde_json::{Value, from_value, json};

use super::NO_THREAD;

/// Returns the user's texts in a request.
fn user_texts(request: &RecordedRequest) -> Vec<String> {
    let users = request.input().iter().filter(|item| item["role"] == "user");
    let parts = users.flat_map(|item| item["content"].as_array().into_iter().flatten());
    let texts = parts.filter_map(|part| part["text"].as_str());
    texts.filter(|text| !text.starts_with(['<', '#'])).map(str::to_owned).collect()
}

async fn revert(app: &mut App, thread: &Thread, turn: &str) -> Result<Value, ErrorObject> {
    let params = from_value(json!({ "threadId": thread.id, "beforeTurnId": turn })).unwrap();
    app.try_call::<ThreadRevert>(params).await.map(|response| serde_json::to_value(response).unwrap())
}

async fn inject(app: &mut App, thread: &Thread, items: Value) -> Result<(), ErrorObject> {
    let params = from_value(json!({ "threadId": thread.id, "items": items })).unwrap();
    app.try_call::<ThreadInjectItems>(params).await.map(|_| ())
}

fn message(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    json!({ "type": "message", "role": role, "content": [{ "type": kind, "text": text }] })
}

/// Returns a thread with three turns, and their ids.
async fn three_turns(script: Script) -> (App, Thread, Vec<String>) {
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    let mut turns = Vec::new();
    for text in ["one", "two", "three"] {
        turns.push(app.run_turn(&thread, text).await.id.to_string());
    }
    app.rest().await;
    (app, thread, turns)
}

fn three_answers() -> Script {
    Script::new().say("1").then().say("2").then().say("3")
}

#[tokio::test]
async fn a_revert_drops_a_turn_and_all_after_it_for_good() {
    let (mut app, thread, turns) = three_turns(three_answers().then().say("4").then().say("5")).await;
    let reverted = revert(&mut app, &thread, &turns[1]).await.unwrap();
    assert_eq!((&reverted["thread"]["id"], &reverted["thread"]["turns"]), (&json!(thread.id), &json!([])));
    assert_eq!(reverted["thread"]["preview"], "one");
    assert_eq!(
        app.rest().await,
        "← thread/status/changed notLoaded\n← thread/status/changed idle\n← thread/reverted"
    );

    let page =
        json!({ "threadId": thread.id, "cursor": reverted["turnsBackwardsCursor"], "sortDirection": "desc" });
    let page = app.call::<ThreadTurnsList>(from_value(page).unwrap()).await;
    assert_eq!(page.data.iter().map(|turn| turn.id.to_string()).collect::<Vec<_>>(), turns[..1]);
    let page = json!({ "threadId": thread.id, "cursor": reverted["itemsBackwardsCursor"], "sortDirection": "desc",
        "limit": 1 });
    let items = app.call::<ThreadItemsList>(from_value(page).unwrap()).await.data;
    assert_eq!(serde_json::to_value(&items[0].item).unwrap()["text"], "1");

    app.run_turn(&thread, "four").await;
    assert_eq!(user_texts(&app.model().requests()[3]), ["one", "four"]);
    app.rest().await;
    app.restart().await.resume(&thread).await;
    app.run_turn(&thread, "five").await;
    assert_eq!(user_texts(&app.model().requests()[4]), ["one", "four", "five"]);
    let error = revert(&mut app, &thread, &turns[1]).await.unwrap_err();
    assert_eq!(error.message, format!("turn not found: {}", turns[1]), "it is gone");
    app.rest().await;
}

#[tokio::test]
async fn a_revert_to_before_the_first_turn_leaves_an_empty_thread() {
    let (mut app, thread, turns) = three_turns(three_answers().then().say("4")).await;
    let reverted = revert(&mut app, &thread, &turns[0]).await.unwrap();
    assert_eq!(
        (&reverted["turnsBackwardsCursor"], &reverted["itemsBackwardsCursor"]),
        (&Value::Null, &Value::Null)
    );
    app.run_turn(&thread, "again").await;
    assert_eq!(user_texts(&app.model().requests()[3]), ["again"]);
    let input = app.model().requests()[3].input().to_vec();
    assert!(input.iter().any(|item| item.to_string().contains("<environment_context>")), "{input:?}");
    app.rest().await;
}

#[tokio::test]
async fn a_revert_interrupts_the_running_turn() {
    let mut app = App::start(Script::new().say("1").then().say("Let me look").hang()).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let running = app.start_turn(&thread, "two").await;
    app.until::<AgentMessageDelta>().await;
    revert(&mut app, &thread, &running.id).await.unwrap();
    let ended = app.until::<TurnCompleted>().await.turn;
    assert_eq!((ended.id, ended.status), (running.id, TurnStatus::Interrupted));
    app.until::<ThreadReverted>().await;
    assert_eq!(app.read(&thread).await.turns.len(), 1);
    app.rest().await;
}

#[tokio::test]
async fn the_token_usage_is_counted_from_the_turns_that_are_left() {
    let mut app = App::start(three_answers()).await;
    let thread = app.start_thread().await;
    let (_, first) = run_and_count(&mut app, &thread, "one").await;
    let (second, _) = run_and_count(&mut app, &thread, "two").await;
    revert(&mut app, &thread, &second).await.unwrap();
    let (_, third) = run_and_count(&mut app, &thread, "three").await;
    assert!(first.total.total_tokens > 0);
    assert_eq!(third.total.total_tokens, first.total.total_tokens + third.last.total_tokens);
    app.rest().await;
}

/// Runs a turn. Returns its id and the token usage at its end.
async fn run_and_count(app: &mut App, thread: &Thread, text: &str) -> (String, ThreadTokenUsage) {
    let turn = app.start_turn(thread, text).await.id;
    let mut usage = ThreadTokenUsage::default();
    loop {
        match app.next_notification().await {
            Some(ServerNotification::ThreadTokenUsageUpdated(updated)) => usage = updated.token_usage,
            Some(ServerNotification::TurnCompleted(_)) => return (turn.to_string(), usage),
            Some(_) => {}
            None => panic!("the turn did not end"),
        }
    }
}

#[tokio::test]
async fn a_refused_revert_changes_nothing() {
    let mut app = App::start(Script::new().say("1").then().say("Let me look").gate("go")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    app.start_turn(&thread, "two").await;
    app.until::<AgentMessageDelta>().await;
    let error = revert(&mut app, &thread, "no-such-turn").await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32600, "turn not found: no-such-turn"));
    let unknown = Thread { id: NO_THREAD.into(), ..thread.clone() };
    let error = revert(&mut app, &unknown, "t").await.unwrap_err();
    assert_eq!(error.message, format!("thread not found: {NO_THREAD}"));
    app.model().release("go");
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert_eq!(app.read(&thread).await.turns.len(), 2);

    let params = ThreadStartParams { ephemeral: Some(true), ..ThreadStartParams::default() };
    let ephemeral = app.start_thread_with(params).await;
    let error = revert(&mut app, &ephemeral, "t").await.unwrap_err();
    assert_eq!(error.message, "ephemeral threads do not support thread/revert");
    app.rest().await;
}

#[tokio::test]
async fn the_model_sees_injected_items_and_clients_do_not() {
    let mut app = App::start(three_answers()).await;
    let thread = app.start_thread().await;
    inject(&mut app, &thread, json!([message("user", "Before the first turn")])).await.unwrap();
    app.run_turn(&thread, "one").await;
    let first = &app.model().requests()[0];
    let at = |text: &str| first.input().iter().position(|item| item.to_string().contains(text)).unwrap();
    assert!(at("<environment_context>") < at("Before the first turn"), "the context comes first");
    app.rest().await;
    let side = json!([message("user", "On the side"), message("assistant", "Noted")]);
    inject(&mut app, &thread, side).await.unwrap();
    assert_eq!(app.rest().await, "", "no notifications");
    app.run_turn(&thread, "two").await;
    let sent = app.model().requests()[1].clone();
    assert_eq!(user_texts(&sent), ["Before the first turn", "one", "On the side", "two"]);
    assert!(sent.body().to_string().contains("Noted"));
    let stored = app.read(&thread).await;
    assert!(stored.turns.iter().all(|turn| turn.items.len() == 2), "{:?}", stored.turns);

    app.rest().await;
    app.restart().await.resume(&thread).await;
    app.run_turn(&thread, "three").await;
    let sent = app.model().requests()[2].clone();
    assert_eq!(user_texts(&sent), ["Before the first turn", "one", "On the side", "two", "three"]);
    app.rest().await;
}

#[tokio::test]
async fn injected_items_go_with_the_turn_that_they_follow() {
    let mut app = App::start(three_answers().then().say("4")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let second = app.run_turn(&thread, "two").await;
    inject(&mut app, &thread, json!([message("user", "After the second")])).await.unwrap();
    app.rest().await;
    let fork = app.call::<ThreadFork>(ThreadForkParams::new(thread.id.clone())).await.thread;
    revert(&mut app, &thread, &second.id).await.unwrap();
    app.run_turn(&thread, "three").await;
    assert_eq!(user_texts(&app.model().requests()[2]), ["one", "three"]);
    app.run_turn(&fork, "four").await;
    assert_eq!(user_texts(&app.model().requests()[3]), ["one", "two", "After the second", "four"]);
    app.rest().await;
}

#[tokio::test]
async fn a_running_turn_sends_injected_items_with_one_more_request() {
    let mut app = App::start(Script::new().say("Let me look").gate("go").then().say("I see")).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "one").await;
    app.until::<AgentMessageDelta>().await;
    inject(&mut app, &thread, json!([message("developer", "The tests are broken")])).await.unwrap();
    app.model().release("go");
    app.until::<TurnCompleted>().await;
    let requests = app.model().requests();
    assert_eq!(requests.len(), 2);
    assert!(requests[1].body().to_string().contains("The tests are broken"));
    app.rest().await;
}

#[tokio::test]
async fn invalid_items_are_refused_as_a_whole() {
    let mut app = App::start(Script::new().say("1")).await;
    let thread = app.start_thread().await;
    let valid = message("user", "Never seen");
    let image = json!({ "type": "input_image", "image_url": "https://example.com/a.png" });
    let with_image = json!({ "type": "message", "role": "user", "content": [image] });
    for (items, expected) in [
        (json!([]), "items must not be empty"),
        (json!([{ "role": "user" }]), "items[0] is not a valid response item: missing field `type`"),
        (
            json!(["text"]),
            "items[0] is not a valid response item: invalid type: string \"text\", expected internally tagged \
             enum ResponseItem",
        ),
        (
            json!([valid, { "type": "message", "role": "user" }]),
            "items[1] is not a valid response item: missing field `content`",
        ),
        (json!([with_image]), "remote image URLs are not supported; use an inline data URL instead"),
    ] {
        let error = inject(&mut app, &thread, items.clone()).await.unwrap_err();
        assert_eq!((error.code, error.message.as_str()), (-32600, expected), "{items}");
    }
    inject(&mut app, &thread, json!([{ "type": "of_the_future" }])).await.unwrap();
    let unknown = Thread { id: NO_THREAD.into(), ..thread.clone() };
    let error = inject(&mut app, &unknown, json!([message("user", "x")])).await.unwrap_err();
    assert_eq!(error.message, format!("thread not found: {NO_THREAD}"));
    app.run_turn(&thread, "one").await;
    let sent = app.model().requests()[0].clone();
    assert_eq!(user_texts(&sent), ["one"]);
    assert!(!sent.body().to_string().contains("of_the_future"));
    app.rest().await;
}
