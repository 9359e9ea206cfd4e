//! Methods that later clients call.

use std::fs;

use codicil_protocol::{
    CommandExecutionApproval, CommandExecutionStatus, HooksList, ItemCompleted, ItemStarted, Thread,
    ThreadBackgroundTerminalsList, ThreadBackgroundTerminalsTerminate, ThreadItem, ThreadItemsList,
    ThreadSettingsUpdate, ThreadSettingsUpdated, ThreadTurnsList, TurnCompleted,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

use super::tools::{command_end, free_thread};

fn params<T: serde::de::DeserializeOwned>(value: Value) -> T {
    from_value(value).unwrap()
}

/// Returns a thread with three turns.
async fn three_turns() -> (App, Thread) {
    let mut app = App::start(Script::new().say("1").then().say("2").then().say("3")).await;
    let thread = app.start_thread().await;
    for text in ["one", "two", "three"] {
        app.run_turn(&thread, text).await;
    }
    app.rest().await;
    (app, thread)
}

#[tokio::test]
async fn turns_are_listed_newest_first_and_page_by_page() {
    let (mut app, thread) = three_turns().await;
    let stored: Vec<_> = app.read(&thread).await.turns;
    let page = params(json!({ "threadId": thread.id, "limit": 2, "itemsView": "notLoaded" }));
    let page = app.call::<ThreadTurnsList>(page).await;
    let ids: Vec<_> = page.data.iter().map(|turn| &turn.id).collect();
    assert_eq!(ids, [&stored[2].id, &stored[1].id]);
    assert!(page.data.iter().all(|turn| turn.items.is_empty()));

    let next =
        params(json!({ "threadId": thread.id, "limit": 2, "cursor": page.next_cursor, "itemsView": "full" }));
    let next = app.call::<ThreadTurnsList>(next).await;
    assert_eq!((next.data.as_slice(), next.next_cursor), (&stored[..1], None));

    let ascending = params(json!({ "threadId": thread.id, "sortDirection": "asc", "itemsView": "full" }));
    assert_eq!(app.call::<ThreadTurnsList>(ascending).await.data, stored);
}

#[tokio::test]
async fn items_are_listed_with_their_turns() {
    let (mut app, thread) = three_turns().await;
    let stored = app.read(&thread).await.turns;
    let all = app.call::<ThreadItemsList>(params(json!({ "threadId": thread.id }))).await;
    let expected: Vec<_> = stored.iter().flat_map(|turn| turn.items.iter().cloned()).collect();
    assert_eq!(all.data.into_iter().map(|entry| entry.item).collect::<Vec<_>>(), expected);

    let last = json!({ "threadId": thread.id, "turnId": stored[2].id, "sortDirection": "desc", "limit": 1 });
    let last = app.call::<ThreadItemsList>(params(last)).await;
    assert_eq!((&last.data[0].item, &last.data[0].turn_id), (&stored[2].items[1], &stored[2].id));
    assert!(last.next_cursor.is_some());

    // A cursor is a place in the thread, whichever turn is listed.
    let before_last = json!({ "threadId": thread.id, "turnId": stored[0].id, "sortDirection": "desc", "cursor": last.next_cursor });
    let of_first = app.call::<ThreadItemsList>(params(before_last)).await.data;
    assert_eq!(of_first.len(), stored[0].items.len());
    let after = json!({ "threadId": thread.id, "turnId": stored[0].id, "cursor": last.next_cursor });
    assert_eq!(app.call::<ThreadItemsList>(params(after)).await.data, []);
}

#[tokio::test]
async fn updated_settings_apply_to_the_next_turn_and_are_announced() {
    let script = Script::new().say("1").gate("go").then().say("2");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "one").await;
    app.model().reached("go").await;

    let change =
        json!({ "threadId": thread.id, "model": "another", "approvalPolicy": "never", "effort": "low" });
    app.call::<ThreadSettingsUpdate>(params(change)).await;
    let settings = app.until::<ThreadSettingsUpdated>().await.thread_settings;
    assert_eq!(
        (settings.model.as_str(), settings.collaboration_mode.settings.model.as_str()),
        ("another", "another")
    );
    app.model().release("go");
    app.until::<TurnCompleted>().await;
    app.run_turn(&thread, "two").await;

    let models: Vec<_> = app.model().requests().iter().map(|sent| sent.model().unwrap().to_owned()).collect();
    assert_eq!(models[1], "another");
    assert_ne!(models[0], "another", "a running turn keeps its settings");
    app.rest().await;
    let resumed = app.restart().await.resume(&thread).await;
    assert_eq!(resumed.id, thread.id);
    app.rest().await;
}

#[tokio::test]
async fn a_background_command_is_listed_and_ended_by_its_process_id() {
    let line = json!({ "cmd": "sleep 1000", "yield_time_ms": 250 });
    let script = Script::new().call("exec_command", line).call_id("open").then().say("On its way");
    let mut app = App::builder().experimental().script(script).start().await;
    let thread = free_thread(&mut app).await;
    app.run_turn(&thread, "open").await;
    let list = || params(json!({ "threadId": thread.id }));
    let listed = app.call::<ThreadBackgroundTerminalsList>(list()).await.data;
    assert_eq!(listed.len(), 1);
    assert_eq!(&*listed[0].item_id, "open");
    assert_eq!(listed[0].command, "sleep 1000");

    let end = |process: &str| params(json!({ "threadId": thread.id, "processId": process }));
    assert!(!app.call::<ThreadBackgroundTerminalsTerminate>(end("4711")).await.terminated);
    assert!(app.call::<ThreadBackgroundTerminalsTerminate>(end(&listed[0].process_id)).await.terminated);
    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Failed);
    app.rest().await;
    assert_eq!(app.call::<ThreadBackgroundTerminalsList>(list()).await.data, []);
}

#[tokio::test]
async fn declared_hooks_are_listed() {
    let mut app =
        App::builder().config("[features]\ncodex_hooks = true\n").script(Script::new()).start().await;
    let hook = json!({ "type": "command", "command": "./check", "timeout": 5 });
    let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash|Edit", "hooks": [hook] }] } });
    fs::write(app.home().join("hooks.json"), hooks.to_string()).unwrap();

    let cwd = app.workspace().display().to_string();
    let listed = app.call::<HooksList>(params(json!({ "cwds": [cwd] }))).await.data;
    assert_eq!((listed.len(), listed[0].cwd.as_str()), (1, cwd.as_str()));
    let found = serde_json::to_value(&listed[0].hooks[0]).unwrap();
    assert_eq!(found["eventName"], "preToolUse");
    assert_eq!((&found["matcher"], &found["command"]), (&json!("Bash|Edit"), &json!("./check")));
    assert_eq!(
        (&found["timeoutSec"], &found["enabled"], &found["async"]),
        (&json!(5), &json!(true), &json!(false))
    );
    assert!(found["currentHash"].as_str().unwrap().starts_with("sha256:"));
}

/// Clients that count background commands recognize the end of one by its process id.
#[tokio::test]
async fn a_command_with_an_approval_keeps_its_process_id() {
    let line = json!({ "cmd": "true > made", "sandbox_permissions": "require_escalated" });
    let script = Script::new().call("exec_command", line).call_id("c").then().say("Done");
    let mut app = App::start(script).await;
    let thread = super::tools::thread(&mut app, json!({})).await;
    app.start_turn(&thread, "run").await;
    let process = |item: &ThreadItem| match item {
        ThreadItem::CommandExecution { process_id, .. } => Some(process_id.clone()),
        _ => None,
    };
    let begun = app.until_where::<ItemStarted>(|notification| process(&notification.item).is_some()).await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&question, params(json!({ "decision": "accept" }))).await;
    let ended = app.until_where::<ItemCompleted>(|notification| process(&notification.item).is_some()).await;

    assert!(matches!(process(&begun.item), Some(Some(_))), "{begun:?}");
    assert_eq!(process(&begun.item), process(&ended.item));
    app.rest().await;
}
