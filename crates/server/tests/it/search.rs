//! Search in messages, timelines, single items, and samples.

use codicil_protocol::{
    ThreadItemsRead, ThreadRevert, ThreadSample, ThreadSampleCancel, ThreadSearch, ThreadSearchOccurrences,
    ThreadTimelineEntry, ThreadTimelineList, ThreadTurnsList, TurnSettingsUpdate, TurnSettingsUpdateStatus,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

async fn start(script: Script) -> App {
    App::builder().experimental().script(script).start().await
}

async fn found(app: &mut App, params: Value) -> Vec<String> {
    let found = app.call::<ThreadSearch>(from_value(params).unwrap()).await;
    found.data.into_iter().map(|result| result.snippet).collect()
}

#[tokio::test]
async fn messages_are_found_in_any_case_and_not_after_they_were_dropped() {
    let script = Script::new().say("In the haystack.").then().say("A needle, Needle.").then().say("100% a_b");
    let mut app = start(script).await;
    let first = app.start_thread().await;
    app.run_turn(&first, "where is the NEEDLE?").await;
    let second = app.start_thread().await;
    app.run_turn(&second, "nothing here").await;
    app.run_turn(&second, "percent").await;
    app.rest().await;
    // The first round reads files, a later one uses the index as far as it is.
    for _ in 0..3 {
        let both = found(&mut app, json!({ "searchTerm": "needle" })).await;
        assert_eq!(both, ["A needle, Needle.", "where is the NEEDLE?"]);
        assert_eq!(found(&mut app, json!({ "searchTerm": "haystack" })).await, ["In the haystack."]);
        assert_eq!(found(&mut app, json!({ "searchTerm": "0% a_" })).await, ["100% a_b"]);
        assert_eq!(found(&mut app, json!({ "searchTerm": "%" })).await, ["100% a_b"]);
        assert_eq!(found(&mut app, json!({ "searchTerm": "absent" })).await, [""; 0]);
    }
    let page = json!({ "searchTerm": "needle", "limit": 1 });
    let page = app.call::<ThreadSearch>(from_value(page).unwrap()).await;
    let next = json!({ "searchTerm": "needle", "limit": 1, "cursor": page.next_cursor });
    let next = app.call::<ThreadSearch>(from_value(next).unwrap()).await;
    assert_eq!(next.data[0].snippet, "where is the NEEDLE?");
    let back = json!({ "searchTerm": "needle", "sortDirection": "asc", "cursor": next.backwards_cursor });
    assert_eq!(found(&mut app, back).await, ["where is the NEEDLE?", "A needle, Needle."]);

    let within = json!({ "threadId": second.id, "searchTerm": "needle" });
    let within = app.call::<ThreadSearchOccurrences>(from_value(within).unwrap()).await.data;
    let ranges: Vec<_> =
        within.iter().map(|it| (it.snippet_match_range.start, it.snippet_match_range.end)).collect();
    assert_eq!(ranges, [(2, 8), (10, 16)]);
    let turns = json!({ "threadId": second.id, "cursor": within[0].turn_cursor, "sortDirection": "desc" });
    let turns = app.call::<ThreadTurnsList>(from_value(turns).unwrap()).await.data;
    assert_eq!(turns[0].id, within[0].turn_id);

    let revert = json!({ "threadId": second.id, "beforeTurnId": within[0].turn_id });
    app.call::<ThreadRevert>(from_value(revert).unwrap()).await;
    assert_eq!(found(&mut app, json!({ "searchTerm": "needle" })).await, ["where is the NEEDLE?"]);
    let empty = app.try_call::<ThreadSearch>(from_value(json!({ "searchTerm": " " })).unwrap()).await;
    assert_eq!(empty.unwrap_err().message, "thread/search requires a non-empty searchTerm");
    app.ignore_rest();
}

#[tokio::test]
async fn a_timeline_is_read_from_its_end() {
    let mut app = start(Script::new().say("one").then().say("two")).await;
    let thread = app.start_thread().await;
    for text in ["first", "second"] {
        app.run_turn(&thread, text).await;
    }
    app.rest().await;
    let mut kinds = Vec::new();
    let mut cursor = None;
    loop {
        let params = json!({ "threadId": thread.id, "limit": 3, "cursor": cursor });
        let page = app.call::<ThreadTimelineList>(from_value(params).unwrap()).await;
        let kind = |entry: &ThreadTimelineEntry| match entry {
            ThreadTimelineEntry::TurnStarted { .. } => "started",
            ThreadTimelineEntry::Item { .. } => "item",
            ThreadTimelineEntry::TurnCompleted { .. } => "completed",
            _ => "other",
        };
        kinds.splice(0..0, page.data.iter().map(kind));
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(kinds, ["started", "item", "item", "completed", "started", "item", "item", "completed"]);
    let turns = app.read(&thread).await.turns;
    let whole = json!({ "id": 99, "method": "thread/timeline/list", "params": { "threadId": thread.id } });
    let answer = app.exchange(whole).await;
    let entries = answer["result"]["data"].as_array().unwrap();
    let (first, last) = (&entries[0], &entries[7]);
    // As the reference writes them, and as the schema has them.
    for (entry, turn) in [(first, &turns[0]), (last, &turns[1])] {
        assert_eq!((&entry["turnId"], &entry["turn_id"]), (&json!(turn.id), &json!(turn.id)));
        assert_eq!(
            (&entry["startedAt"], &entry["started_at"]),
            (&json!(turn.started_at), &json!(turn.started_at))
        );
    }
    assert_eq!(last["completedAt"], json!(turns[1].completed_at));
    assert_eq!(last["durationMs"], last["duration_ms"]);
    let wanted = turns[0].items[1].id().cloned().unwrap();
    let other = turns[1].items[0].id().cloned().unwrap();
    let first = turns[0].items[0].id().cloned().unwrap();
    let both = json!({ "threadId": thread.id, "turnId": turns[0].id, "itemIds": [wanted, first, wanted] });
    let both = app.call::<ThreadItemsRead>(from_value(both).unwrap()).await.data;
    let items: Vec<_> = both.into_iter().map(|entry| entry.item).collect();
    assert_eq!(items, turns[0].items, "in the order of the turn, each once");
    let read = json!({ "threadId": thread.id, "turnId": turns[0].id, "itemIds": [wanted, other] });
    let read = app.call::<ThreadItemsRead>(from_value(read).unwrap()).await.data;
    assert_eq!(read.iter().map(|entry| &entry.item).collect::<Vec<_>>(), [&turns[0].items[1]]);
    let none = json!({ "threadId": thread.id, "turnId": turns[0].id, "itemIds": [] });
    let none = app.try_call::<ThreadItemsRead>(from_value(none).unwrap()).await.unwrap_err();
    assert_eq!(none.message, "itemIds must contain 1 to 100 IDs");
}

#[tokio::test]
async fn a_sample_leaves_nothing_behind_and_can_be_cancelled() {
    let script = Script::new().say("one").then().say("idea").usage(40, 5, 7, 0).then().gate("late").say("x");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    let turn = app.run_turn(&thread, "first").await;
    app.rest().await;
    let params = json!({ "threadId": thread.id, "expectedTurnId": turn.id, "prompt": "What next?" });
    let sample = app.call::<ThreadSample>(from_value(params.clone()).unwrap()).await;
    assert_eq!(
        (sample.text.as_deref(), sample.input_tokens, sample.output_tokens),
        (Some("idea"), Some(40), Some(7))
    );
    let input = Value::from(app.model().requests()[1].input().to_vec()).to_string();
    assert!(input.contains("first") && input.contains("What next?"), "{input}");
    assert_eq!(app.read(&thread).await.turns.len(), 1);
    let id = 7000;
    app.send_raw(json!({ "id": id, "method": "thread/sample", "params": params }).to_string()).await;
    app.model().reached("late").await;
    let mut blank = params.clone();
    blank["prompt"] = json!("  ");
    let refused = app.try_call::<ThreadSample>(from_value(blank).unwrap()).await.unwrap_err();
    assert!(refused.message.starts_with("thread/sample requires expectedTurnId"), "{refused:?}");
    app.call::<ThreadSampleCancel>(from_value(json!({ "requestId": id })).unwrap()).await;
    let mut other = params.clone();
    other["expectedTurnId"] = json!("nope");
    let refused = app.try_call::<ThreadSample>(from_value(other).unwrap()).await.unwrap_err();
    assert_eq!(refused.message, "sample source turn must be the latest finished turn");
    app.model().release("late");
    app.ignore_rest();
}

#[tokio::test]
async fn settings_of_the_running_turn_reach_its_next_request_only() {
    let call = json!({ "cmd": "true" });
    let script = Script::new().gate("g").call("exec_command", call).then().say("done").then().say("next");
    let mut app = start(script).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "first").await;
    app.model().reached("g").await;
    let sample = json!({ "threadId": thread.id, "expectedTurnId": turn.id, "prompt": "What next?" });
    let busy = app.try_call::<ThreadSample>(from_value(sample).unwrap()).await.unwrap_err();
    assert_eq!(busy.message, "sample source must be idle");
    let change = |turn: &str| json!({ "threadId": thread.id, "turnId": turn, "model": "other-model" });
    let applied = app.call::<TurnSettingsUpdate>(from_value(change(&turn.id)).unwrap()).await;
    assert_eq!(applied.status, TurnSettingsUpdateStatus::Applied);
    app.model().release("g");
    app.until::<codicil_protocol::TurnCompleted>().await;
    let late = app.call::<TurnSettingsUpdate>(from_value(change(&turn.id)).unwrap()).await;
    assert_eq!(late.status, TurnSettingsUpdateStatus::TargetUnavailable);
    app.run_turn(&thread, "second").await;
    let models: Vec<_> =
        app.model().requests().iter().map(|request| request.body()["model"].clone()).collect();
    assert_ne!(models[0], json!("other-model"));
    assert_eq!(models[1], json!("other-model"));
    assert_eq!(models[2], models[0]);
    app.ignore_rest();
}
