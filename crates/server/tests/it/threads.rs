//! Threads over restarts, forks and rollbacks, with damaged files, and with several clients.

use std::fs;

use codicil_protocol::{
    ContextCompactedNotification, ItemCompleted, ThreadClosed, ThreadCompactStart, ThreadCompacted,
    ThreadFork, ThreadForkParams, ThreadItem, ThreadList, ThreadListParams, ThreadLoadedList, ThreadNameSet,
    ThreadResume, ThreadResumeParams, ThreadRollback, ThreadRollbackParams, ThreadShellCommand,
    ThreadUnsubscribe, ThreadUnsubscribeStatus, TurnCompleted, TurnStatus, TurnSteer,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

/// Returns the texts of the user and of the model in a request, without the context that the server adds.
fn conversation(app: &App, request: usize) -> Vec<String> {
    let requests = app.model().requests();
    let parts =
        requests[request].input().iter().flat_map(|item| item["content"].as_array().into_iter().flatten());
    let texts = parts.filter_map(|part| part["text"].as_str()).filter(|text| !text.starts_with('<'));
    texts.map(str::to_owned).collect()
}

fn params<T: serde::de::DeserializeOwned>(value: Value) -> T {
    from_value(value).unwrap()
}

#[tokio::test]
async fn a_thread_goes_on_after_a_restart() {
    let mut app = App::start(Script::new().say("four").then().say("six")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "two plus two").await;
    let before = app.read(&thread).await;

    app.restart().await;
    let resumed = app.resume(&thread).await;
    app.run_turn(&thread, "plus two").await;

    assert_eq!(resumed.turns, before.turns, "stored turns keep what was streamed, ids included");
    assert_eq!(conversation(&app, 1), ["two plus two", "four", "plus two"]);
    app.rest().await;
}

#[tokio::test]
async fn a_fork_does_not_change_its_source() {
    let mut app =
        App::start(Script::new().say("one").then().say("of the fork").then().say("of the base")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "first").await;
    let forked: ThreadForkParams = params(json!({ "threadId": thread.id }));
    let fork = app.call::<ThreadFork>(forked).await.thread;

    app.run_turn(&fork, "fork?").await;
    app.run_turn(&thread, "base?").await;

    assert_eq!(conversation(&app, 1), ["first", "one", "fork?"]);
    assert_eq!(conversation(&app, 2), ["first", "one", "base?"]);
    assert_eq!(app.read(&fork).await.turns.len(), 2);
    app.rest().await;
}

#[tokio::test]
async fn rolled_back_turns_are_gone_for_good() {
    let mut app = App::start(Script::new().say("a").then().say("b").then().say("c")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    app.run_turn(&thread, "two").await;

    let rolled_back = json!({ "threadId": thread.id, "numTurns": 1 });
    let left = app.call::<ThreadRollback>(params(rolled_back)).await.thread;
    assert_eq!(left.turns.len(), 1);
    app.restart().await;
    assert_eq!(app.resume(&thread).await.turns, left.turns);
    app.run_turn(&thread, "three").await;

    assert_eq!(conversation(&app, 2), ["one", "a", "three"]);
    app.rest().await;
}

#[tokio::test]
async fn a_failed_rollback_says_so_in_its_data() {
    let mut app = App::start(Script::new()).await;
    let kept = app.start_thread().await;
    let params = from_value(json!({ "ephemeral": true })).unwrap();
    let ephemeral = app.start_thread_with(params).await;
    for (thread, num_turns) in [(&kept, 0), (&ephemeral, 1)] {
        let params = ThreadRollbackParams { thread_id: thread.id.clone(), num_turns };
        let error = app.try_call::<ThreadRollback>(params).await.unwrap_err();
        let data = json!({ "message": error.message, "codexErrorInfo": "threadRollbackFailed",
            "additionalDetails": null });
        assert_eq!((error.code, error.data), (-32600, Some(data)));
    }
}

#[tokio::test]
async fn a_damaged_file_loses_only_what_is_damaged() {
    let mut app = App::start(Script::new().say("kept").then().say("still here")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "keep me").await;
    let path = thread.path.clone().unwrap();
    let mut file = fs::read_to_string(&path).unwrap();
    file.insert_str(file.find('\n').unwrap() + 1, "this is not a record\n");
    file.push_str(r#"{"v":1,"ordinal":99,"timest"#);
    app.restart().await;
    fs::write(&path, file).unwrap();

    let resumed = app.resume(&thread).await;
    app.run_turn(&thread, "and now?").await;

    assert_eq!(resumed.turns[0].items.len(), 2);
    assert_eq!(conversation(&app, 1), ["keep me", "kept", "and now?"]);
    assert_eq!(app.read(&thread).await.turns.len(), 2);
    app.rest().await;
}

#[tokio::test]
async fn steered_input_reaches_the_model_in_the_same_turn() {
    let script = Script::new().say("part").gate("go").say("rest").then().say("after");
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "first").await;
    app.model().reached("go").await;

    let input = json!([{ "type": "text", "text": "more" }]);
    let steer = json!({ "threadId": thread.id, "input": input, "expectedTurnId": turn.id });
    assert_eq!(app.call::<TurnSteer>(params(steer)).await.turn_id, turn.id);
    app.model().release("go");
    app.rest().await;

    assert_eq!(conversation(&app, 1), ["first", "part", "rest", "more"]);
    let stored = app.read(&thread).await;
    assert_eq!((stored.turns.len(), stored.turns[0].items.len()), (1, 5));
}

#[tokio::test]
async fn a_compaction_replaces_the_history_by_a_summary() {
    let script = Script::new().say("a long answer").then().say("THE SUMMARY").then().say("next");
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "a question").await;

    app.call::<ThreadCompactStart>(params(json!({ "threadId": thread.id }))).await;
    let ContextCompactedNotification { turn_id, .. } = app.until::<ThreadCompacted>().await;
    let completed = app.until::<TurnCompleted>().await.turn;
    app.run_turn(&thread, "what next?").await;

    assert_eq!((completed.id, completed.status), (turn_id, TurnStatus::Completed));
    let seen = conversation(&app, 2).join("\n");
    assert!(
        seen.contains("THE SUMMARY") && seen.contains("a question") && seen.contains("what next?"),
        "{seen}"
    );
    assert!(!seen.contains("a long answer"), "{seen}");
    app.rest().await;
}

#[tokio::test]
async fn the_last_unsubscribe_interrupts_the_turn_and_unloads_the_thread() {
    let mut app = App::start(Script::new().say("Let me").unfinished().gate("never").hang()).await;
    let mut other = app.another_client().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "go").await;
    app.model().reached("never").await;

    let leave = json!({ "threadId": thread.id });
    let left = app.call::<ThreadUnsubscribe>(params(leave)).await;
    assert_eq!(left.status, ThreadUnsubscribeStatus::Unsubscribed);
    assert_eq!(other.until::<ThreadClosed>().await.thread_id, thread.id);

    let stored = other.read(&thread).await;
    assert_eq!(stored.turns[0].status, TurnStatus::Interrupted);
    assert!(matches!(&stored.turns[0].items[1], ThreadItem::AgentMessage { text, .. } if text == "Let me"));
    other.ignore_rest();
    app.ignore_rest();
}

/// The other client disconnects without unsubscribing. The first client sees the status of the thread.
#[tokio::test]
async fn a_thread_without_subscribers_is_unloaded_and_can_be_resumed() {
    let script = Script::new().say("Hello").then().say("Here again");
    let config = "[codicil.deadlines]\nidle_thread = 300";
    let mut app = App::builder().script(script).config(config).start().await;
    let mut other = app.another_client().await;
    let left = other.start_thread().await;
    let kept = app.start_thread().await;
    other.run_turn(&left, "Hi").await;

    other.disconnect();
    let closed = app.until::<ThreadClosed>().await;
    assert_eq!(closed.thread_id, left.id);
    let loaded = app.call::<ThreadLoadedList>(Default::default()).await;
    assert_eq!(loaded.data, [kept.id]);

    app.resume(&left).await;
    assert_eq!(app.run_turn(&left, "Still there?").await.status, TurnStatus::Completed);
    assert_eq!(conversation(&app, 1), ["Hi", "Hello", "Still there?"]);
    app.ignore_rest();
}

#[tokio::test]
async fn a_thread_is_found_by_its_name_after_a_restart() {
    let mut app = App::start(Script::new().say("ok")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "what shall we call it").await;
    app.call::<ThreadNameSet>(params(json!({ "threadId": thread.id, "name": "  Tidy up " }))).await;
    app.rest().await;

    app.restart().await;
    let search = ThreadListParams { search_term: Some("Tidy".into()), ..ThreadListParams::default() };
    let found = app.call::<ThreadList>(search).await.data;

    assert_eq!(found.len(), 1);
    assert_eq!(found[0].name.as_deref(), Some("Tidy up"));
}

#[tokio::test]
async fn a_shell_command_of_the_user_is_part_of_the_history() {
    let mut app = App::start(Script::new().say("I saw it")).await;
    let thread = app.start_thread().await;
    let command = json!({ "threadId": thread.id, "command": "printf 'h\u{e4}llo\\n'; exit 3" });
    app.call::<ThreadShellCommand>(params(command)).await;
    let completed = app.until::<TurnCompleted>().await.turn;
    app.run_turn(&thread, "what did I run?").await;

    assert_eq!(completed.status, TurnStatus::Completed);
    let requests = app.model().requests();
    let input = serde_json::to_string(requests[0].input()).unwrap();
    assert!(input.contains("h\u{e4}llo") && input.contains("exit 3"), "{input}");
    let stored = app.read(&thread).await;
    let ThreadItem::CommandExecution { exit_code, aggregated_output, .. } = &stored.turns[0].items[0] else {
        panic!("{stored:?}");
    };
    assert_eq!((*exit_code, aggregated_output.as_deref()), (Some(3), Some("h\u{e4}llo\n")));
    app.rest().await;
}

/// Otherwise each client would have its own copy, and both would write to the same file.
#[tokio::test]
async fn two_clients_that_load_a_thread_at_once_share_it() {
    let mut app = App::start(Script::new().say("one").then().say("two")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "first").await;
    app.restart().await;
    let mut other = app.another_client().await;

    let resume = || ThreadResumeParams::new(thread.id.clone());
    let (mine, theirs) =
        (app.send::<ThreadResume>(resume()).await, other.send::<ThreadResume>(resume()).await);
    app.answer(mine).await.unwrap();
    other.answer(theirs).await.unwrap();
    app.run_turn(&thread, "second").await;

    let seen = other.rest().await;
    assert!(seen.contains("← item/completed agentMessage <two>"), "{seen}");
    app.rest().await;
}

#[tokio::test]
async fn a_client_that_resumes_during_a_turn_misses_nothing() {
    let mut app = App::start(Script::new().say("before").gate("middle").say("after")).await;
    let mut other = app.another_client().await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "go").await;
    app.model().reached("middle").await;
    let is_agents =
        |item: &ThreadItem, said: &str| matches!(item, ThreadItem::AgentMessage { text, .. } if text == said);
    app.until_where::<ItemCompleted>(|completed| is_agents(&completed.item, "before")).await;

    let joined = other.resume(&thread).await;
    app.model().release("middle");

    assert!(joined.turns[0].items.iter().any(|item| is_agents(item, "before")), "{joined:?}");
    other.until_where::<ItemCompleted>(|completed| is_agents(&completed.item, "after")).await;
    assert_eq!(other.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    other.rest().await;
    app.rest().await;
}

/// Later clients store kinds of items that this server does not know.
#[tokio::test]
async fn injected_history_is_accepted_without_items_of_unknown_kinds() {
    let mut app = App::builder().experimental().script(Script::new().say("ok")).start().await;
    let history = json!([
        { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "before" }] },
        { "type": "of_tomorrow", "parts": [1, 2] },
    ]);
    let resume = json!({ "threadId": super::NO_THREAD, "history": history });
    let answer = app.exchange(json!({ "id": "r", "method": "thread/resume", "params": resume })).await;
    let thread = params(answer["result"]["thread"].clone());

    app.run_turn(&thread, "after").await;

    assert_eq!(conversation(&app, 0), ["before", "after"]);
    assert!(!app.model().requests()[0].body().to_string().contains("of_tomorrow"));
    app.rest().await;
}
