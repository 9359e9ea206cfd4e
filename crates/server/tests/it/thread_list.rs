//! The filters and pages of `thread/list`, and the members of threads and turns for clients of later generations.

use std::fs;

use codicil_protocol::{
    ReasoningEffort, Thread, ThreadFork, ThreadForkParams, ThreadHistoryMode, ThreadList, ThreadListResponse,
    ThreadRead, ThreadReadParams, ThreadStart, ThreadStartParams, TurnItemsView, TurnStart, TurnStartParams,
    TurnStarted, rpc::ErrorObject,
};
use codicil_testkit::{App, Script, TestClient};
use serde_json::{Value, from_value, json};

use super::NO_THREAD;

async fn list(client: &mut TestClient, params: Value) -> Result<ThreadListResponse, ErrorObject> {
    client.try_call::<ThreadList>(from_value(params).unwrap()).await
}

async fn previews(client: &mut TestClient, params: Value) -> Vec<String> {
    list(client, params).await.unwrap().data.into_iter().map(|thread| thread.preview).collect()
}

/// Starts three threads, each in its own directory below the workspace and named after it.
async fn three_threads() -> (App, Vec<Thread>) {
    let script = Script::new().say("1").then().say("2").then().say("3");
    let mut app = App::builder().experimental().script(script).start().await;
    let mut threads = Vec::new();
    for name in ["a", "b", "c"] {
        let cwd = app.workspace().join(name);
        fs::create_dir(&cwd).unwrap();
        let cwd = Some(cwd.to_string_lossy().into_owned());
        let thread = app.start_thread_with(ThreadStartParams { cwd, ..Default::default() }).await;
        app.run_turn(&thread, name).await;
        threads.push(thread);
    }
    app.rest().await;
    (app, threads)
}

#[tokio::test]
async fn filters_that_are_accepted_filter() {
    let (mut app, threads) = three_threads().await;
    let cwds = |names: &[usize]| names.iter().map(|at| threads[*at].cwd.clone()).collect::<Vec<_>>();
    for (params, expected) in [
        (json!({}), &["c", "b", "a"][..]),
        (json!({ "sortDirection": "asc" }), &["a", "b", "c"]),
        (json!({ "excludedThreadIds": [threads[1].id] }), &["c", "a"]),
        (json!({ "excludedThreadIds": [] }), &["c", "b", "a"]),
        (json!({ "cwd": cwds(&[0, 2]) }), &["c", "a"]),
        (json!({ "cwd": threads[0].cwd }), &["a"]),
        (json!({ "cwd": format!("{}/", threads[0].cwd) }), &["a"]),
        (json!({ "cwd": [] }), &[]),
        (json!({ "parentThreadId": threads[0].id }), &[]),
        (json!({ "ancestorThreadId": threads[0].id }), &[]),
        (json!({ "parentThreadId": NO_THREAD }), &[]),
        (json!({ "sectionId": "01984de2-8f74-7c91-a3b2-5c5e937cf318" }), &[]),
        (json!({ "sectionId": null, "projectId": null, "originators": null }), &["c", "b", "a"]),
    ] {
        assert_eq!(previews(&mut app, params.clone()).await, expected, "{params}");
    }
}

#[tokio::test]
async fn filters_that_cannot_be_honoured_are_refused() {
    let mut app = App::builder().experimental().start().await;
    let stray = "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `x` at 1";
    for (params, code, expected) in [
        (
            json!({ "parentThreadId": NO_THREAD, "ancestorThreadId": NO_THREAD }),
            -32600,
            "parentThreadId and ancestorThreadId are mutually exclusive".to_owned(),
        ),
        (json!({ "parentThreadId": "x" }), -32600, format!("invalid parent thread id: {stray}")),
        (json!({ "ancestorThreadId": "x" }), -32600, format!("invalid ancestor thread id: {stray}")),
        (json!({ "excludedThreadIds": ["x"] }), -32602, format!("invalid excluded thread id: {stray}")),
        (json!({ "projectId": "p" }), -32602, "project not found: p".to_owned()),
        (
            json!({ "sortKey": "section_position" }),
            -32600,
            "section-position sorting requires a section filter".to_owned(),
        ),
        (
            json!({ "originators": ["codex-tui"] }),
            -32602,
            "originator filtering is not supported by the local app-server".to_owned(),
        ),
    ] {
        let error = list(&mut app, params.clone()).await.unwrap_err();
        assert_eq!((error.code, error.message), (code, expected), "{params}");
    }
    let params = from_value(json!({ "projectId": "p" })).unwrap();
    let error = app.try_call::<ThreadStart>(params).await.unwrap_err();
    assert_eq!((error.code, error.message.as_str()), (-32600, "project not found: p"));
}

#[tokio::test]
async fn a_page_can_be_followed_in_both_directions() {
    let (mut app, _) = three_threads().await;
    let first = list(&mut app, json!({ "limit": 2 })).await.unwrap();
    let second = list(&mut app, json!({ "limit": 2, "cursor": first.next_cursor })).await.unwrap();
    assert_eq!((second.data[0].preview.as_str(), &second.next_cursor), ("a", &None));
    let back = json!({ "limit": 2, "cursor": second.backwards_cursor, "sortDirection": "asc" });
    assert_eq!(previews(&mut app, back).await, ["b", "c"]);
    // From a list that begins with the oldest, the way back includes the first thread of the page again.
    let first = list(&mut app, json!({ "limit": 1, "sortDirection": "asc" })).await.unwrap();
    let next = json!({ "limit": 1, "sortDirection": "asc", "cursor": first.next_cursor });
    let second = list(&mut app, next).await.unwrap();
    let back = json!({ "cursor": second.backwards_cursor, "sortDirection": "desc" });
    assert_eq!(previews(&mut app, back).await, ["b", "a"]);
    // So it does in lists by the time of the last change.
    let by_change = list(&mut app, json!({ "limit": 1, "sortKey": "recency_at" })).await.unwrap();
    let back =
        json!({ "cursor": by_change.backwards_cursor, "sortKey": "recency_at", "sortDirection": "asc" });
    assert_eq!(previews(&mut app, back).await, [by_change.data[0].preview.clone()]);
    assert_eq!(previews(&mut app, json!({ "originators": [] })).await.len(), 3);
    let empty = list(&mut app, json!({ "cwd": [] })).await.unwrap();
    assert_eq!((empty.next_cursor, empty.backwards_cursor), (None, None));
    let error = list(&mut app, json!({ "cursor": "x", "sortDirection": "asc" })).await.unwrap_err();
    assert_eq!(error.message, "invalid cursor: x");
}

#[tokio::test]
async fn lists_below_a_thread_are_experimental() {
    let mut app = App::start(Script::new()).await;
    for member in ["parentThreadId", "ancestorThreadId", "projectId"] {
        let error = list(&mut app, json!({ member: NO_THREAD })).await.unwrap_err();
        assert_eq!(error.message, format!("thread/list.{member} requires experimentalApi capability"));
    }
}

#[tokio::test]
async fn threads_say_where_they_come_from_and_what_they_use() {
    let script = Script::new().say("1");
    let mut app = App::builder().experimental().script(script).start().await;
    let params = json!({ "threadSource": "user", "historyMode": "legacy", "model": "m-1",
        "config": { "model_reasoning_effort": "high" } });
    let thread = app.start_thread_with(from_value(params).unwrap()).await;
    let check = |thread: &Thread, stage: &str| {
        // Lists of 0.166 leave it out.
        let source = (stage != "listed").then_some("user");
        assert_eq!(thread.thread_source.as_deref(), source, "{stage}");
        assert_eq!(thread.history_mode, ThreadHistoryMode::Legacy, "{stage}");
        assert_eq!(thread.model.as_deref(), Some("m-1"), "{stage}");
        assert_eq!(thread.reasoning_effort, Some(ReasoningEffort::High), "{stage}");
        assert!(thread.originator.as_deref().is_some_and(|name| !name.is_empty()), "{stage}");
        assert_eq!(thread.session_id.as_ref(), Some(&thread.id), "{stage}");
        assert_eq!(thread.recency_at, Some(thread.updated_at), "{stage}");
        assert_eq!((&thread.forked_from_id, &thread.parent_thread_id), (&None, &None), "{stage}");
    };
    check(&thread, "started");
    app.run_turn(&thread, "one").await;
    check(&app.read(&thread).await, "read");
    check(&list(&mut app, json!({})).await.unwrap().data[0], "listed");
    let fork = app.call::<ThreadFork>(ThreadForkParams::new(thread.id.clone())).await.thread;
    assert_eq!(fork.forked_from_id.as_ref(), Some(&thread.id));
    assert_eq!((fork.thread_source, fork.history_mode), (None, ThreadHistoryMode::Legacy));
    app.rest().await;

    app.restart().await;
    let params = ThreadReadParams { thread_id: thread.id.clone(), include_turns: false };
    check(&app.call::<ThreadRead>(params).await.thread, "read without being loaded");
    let resumed = app.resume(&thread).await;
    check(&resumed, "resumed");
    let json = app.exchange(json!({ "id": 9, "method": "thread/list", "params": {} })).await;
    assert_eq!(json["result"]["data"][0]["projectId"], Value::Null);
    assert!(json["result"]["data"][0].as_object().unwrap().contains_key("projectId"));
    app.rest().await;
}

#[tokio::test]
async fn turns_have_times_and_say_which_items_they_contain() {
    let mut app = App::start(Script::new().say("1")).await;
    let thread = app.start_thread().await;
    let text = vec![codicil_protocol::UserInput::Text { text: "one".into(), text_elements: Vec::new() }];
    let accepted = app.call::<TurnStart>(TurnStartParams::new(thread.id.clone(), text)).await.turn;
    assert_eq!((accepted.started_at, accepted.items_view), (None, TurnItemsView::NotLoaded));
    assert_eq!(accepted.root_turn_id.as_ref(), Some(&accepted.id));
    let started = app.until::<TurnStarted>().await.turn;
    assert!(started.started_at.is_some() && started.completed_at.is_none());
    let ended = app.until::<codicil_protocol::TurnCompleted>().await.turn;
    assert_eq!((ended.started_at, ended.items_view), (started.started_at, TurnItemsView::NotLoaded));
    assert!(ended.completed_at >= ended.started_at && ended.duration_ms.is_some());
    app.rest().await;
    let stored = app.restart().await.read(&thread).await.turns.remove(0);
    assert_eq!((stored.items_view, &stored.root_turn_id), (TurnItemsView::Full, &Some(stored.id.clone())));
    assert!(stored.started_at.is_some() && stored.completed_at >= stored.started_at);
    assert!(stored.duration_ms.is_some());
}
