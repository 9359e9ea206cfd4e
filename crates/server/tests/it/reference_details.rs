//! Details of threads and turns that clients of the reference server rely on.

use codicil_protocol::{
    AgentMessageDelta, ServerNotification, Thread, ThreadClosed, ThreadForkParams, ThreadItem,
    ThreadStartParams, TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, Reply, Script};
use serde_json::{Value, json};

/// Sends a request and returns its result, or the message of its error.
async fn call(app: &mut App, method: &str, params: Value) -> Result<Value, String> {
    let answer = app.exchange(json!({ "id": "asked", "method": method, "params": params })).await;
    match answer.get("result") {
        Some(result) => Ok(result.clone()),
        None => Err(answer["error"]["message"].as_str().unwrap().to_owned()),
    }
}

fn params(value: Value) -> ThreadStartParams {
    serde_json::from_value(value).unwrap()
}

/// Starts a server with a client of the 0.166 generation.
async fn later(script: Script) -> App {
    App::builder().experimental().later_client().script(script).start().await
}

fn always(text: &str) -> Script {
    Script::new().repeat(Reply::new().say(text))
}

/// Returns the items of the last request: the role of a message with the beginning of each part, or else the type.
fn kinds(app: &App) -> Vec<String> {
    let request = app.model().requests().pop().unwrap();
    let begin = |part: &Value| {
        let text = part["text"].as_str().unwrap_or_default();
        text.split_inclusive('>').next().filter(|tag| tag.starts_with('<')).unwrap_or(text).to_owned()
    };
    let kind = |item: &Value| match item["role"].as_str() {
        Some(role) => {
            let parts: Vec<_> = item["content"].as_array().unwrap().iter().map(begin).collect();
            format!("{role} {}", parts.join(" "))
        }
        None => item["type"].as_str().unwrap().to_owned(),
    };
    request.input().iter().map(kind).collect()
}

#[tokio::test]
async fn thread_ids_are_uuids_in_any_notation() {
    let mut app = App::start(Script::new()).await;
    let thread = app.start_thread().await;
    let plain = thread.id.replace('-', "");
    for id in [thread.id.to_uppercase(), format!("urn:uuid:{}", thread.id), plain] {
        let read = call(&mut app, "thread/read", json!({ "threadId": id })).await.unwrap();
        assert_eq!(read["thread"]["id"], json!(thread.id));
    }
    for (id, reason) in [
        ("", "invalid length: expected length 32 for simple format, found 0"),
        (
            "00000000000000000000000000000000000",
            "invalid length: expected length 32 for simple format, found 35",
        ),
    ] {
        let error = call(&mut app, "thread/read", json!({ "threadId": id })).await.unwrap_err();
        assert_eq!(error, format!("invalid thread id: {reason}"));
    }
}

#[tokio::test]
async fn a_path_selects_the_thread_unless_that_is_loaded() {
    let mut app = App::builder().script(always("Hi")).experimental().start().await;
    let first = app.start_thread().await;
    let second = app.start_thread().await;
    app.run_turn(&first, "first").await;
    app.run_turn(&second, "second").await;
    app.rest().await;
    let path = second.path.clone().unwrap();
    let mixed = json!({ "threadId": first.id, "path": path });
    let error = call(&mut app, "thread/resume", mixed).await.unwrap_err();
    assert!(error.starts_with("cannot resume running thread"), "{error}");

    app.restart().await;
    let by_file = json!({ "threadId": crate::NO_THREAD, "path": path });
    let resumed = call(&mut app, "thread/resume", by_file).await.unwrap();
    assert_eq!(resumed["thread"]["id"], json!(second.id));
    for method in ["thread/resume", "thread/fork"] {
        let missing = json!({ "threadId": first.id, "path": "/no/such/file.jsonl" });
        let error = call(&mut app, method, missing).await.unwrap_err();
        assert_eq!(
            error,
            "failed to load rollout `/no/such/file.jsonl`: No such file or directory (os error 2)"
        );
    }
    app.rest().await;
}

#[tokio::test]
async fn an_archived_thread_can_be_read_but_not_renamed() {
    let mut app = App::start(always("Hi")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "keep").await;
    let id = json!(thread.id);
    call(&mut app, "thread/archive", json!({ "threadId": id })).await.unwrap();
    let read = call(&mut app, "thread/read", json!({ "threadId": id })).await.unwrap();
    assert_eq!(read["thread"]["preview"], "keep");
    let error = call(&mut app, "thread/read", json!({ "threadId": id, "includeTurns": true })).await;
    assert!(error.unwrap_err().starts_with("failed to locate rollout"));
    let error = call(&mut app, "thread/name/set", json!({ "threadId": id, "name": "n" })).await;
    assert_eq!(error.unwrap_err(), format!("thread not found: {}", thread.id));
    let turns = call(&mut app, "thread/turns/list", json!({ "threadId": id })).await.unwrap();
    assert_eq!(turns["data"].as_array().unwrap().len(), 1, "its pages of turns can be read");
    app.rest().await;
}

#[tokio::test]
async fn later_clients_learn_that_a_thread_is_archived() {
    let mut app = later(always("Hi")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "keep").await;
    let id = &thread.id;
    call(&mut app, "thread/archive", json!({ "threadId": id })).await.unwrap();
    for method in ["thread/resume", "thread/fork"] {
        let error = call(&mut app, method, json!({ "threadId": id })).await.unwrap_err();
        assert_eq!(
            error,
            format!("session {id} is archived. Run `codex unarchive {id}` to unarchive it first.")
        );
    }
    let error = call(&mut app, "thread/name/set", json!({ "threadId": id, "name": "n" })).await;
    assert_eq!(error.unwrap_err(), format!("no rollout found for thread id {id}"));

    app.rest().await;
    let read = call(&mut app, "thread/read", json!({ "threadId": id })).await.unwrap();
    let revision = &read["readState"]["revision"];
    let seen = json!({ "threadId": id, "expectedRevision": revision, "operation": { "type": "read" } });
    call(&mut app, "thread/readState/update", seen).await.unwrap();
    assert!(!app.rest().await.contains("readState"), "nobody is told what was read of an archived thread");
}

#[tokio::test]
async fn later_clients_fork_to_memory_without_turns() {
    let mut app = later(always("Hi")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "keep").await;
    let fork = json!({ "threadId": thread.id, "ephemeral": true });
    let error = call(&mut app, "thread/fork", fork.clone()).await.unwrap_err();
    assert_eq!(error, "ephemeral paginated thread/fork requires `excludeTurns: true`");
    let fork = json!({ "threadId": thread.id, "ephemeral": true, "excludeTurns": true });
    let forked = call(&mut app, "thread/fork", fork).await.unwrap();
    assert_eq!(forked["thread"]["ephemeral"], true);
    app.ignore_rest();
}

/// The usage is sent again if a response was broken off, not if there was none.
#[tokio::test]
async fn usage_is_not_repeated_after_a_refused_request() {
    let script = Script::new()
        .say("one")
        .usage(100, 0, 10, 0)
        .then()
        .reply(Reply::status(400))
        .then()
        .fail("invalid_prompt", "no");
    let mut app = later(script).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    app.rest().await;
    for (text, is_repeated) in [("two", false), ("three", true)] {
        app.start_turn(&thread, text).await;
        let messages = app.rest().await;
        assert!(messages.contains("failed"), "{messages}");
        assert_eq!(messages.contains("thread/tokenUsage/updated"), is_repeated, "{messages}");
    }
}

#[tokio::test]
async fn a_resumed_thread_is_in_its_last_directory() {
    let mut app = later(always("Hi")).await;
    let thread = app.start_thread().await;
    let moved = json!({ "threadId": thread.id, "cwd": "/nonexistent" });
    call(&mut app, "thread/settings/update", moved).await.unwrap();
    app.run_turn(&thread, "here").await;
    app.rest().await;
    app.restart().await;
    let resumed = call(&mut app, "thread/resume", json!({ "threadId": thread.id })).await.unwrap();
    assert_eq!((&resumed["cwd"], &resumed["thread"]["cwd"]), (&json!("/nonexistent"), &resumed["cwd"]));
    app.ignore_rest();
}

#[tokio::test]
async fn an_empty_text_is_kept_for_later_clients() {
    for (mut app, parts) in [(later(always("Hi")).await, 1), (App::start(always("Hi")).await, 0)] {
        let thread = app.start_thread().await;
        app.run_turn(&thread, "").await;
        app.rest().await;
        let read = json!({ "threadId": thread.id, "includeTurns": true });
        let read = call(&mut app, "thread/read", read).await.unwrap();
        let message = &read["thread"]["turns"][0]["items"][0];
        assert_eq!(message["content"].as_array().unwrap().len(), parts, "{message}");
    }
}

#[tokio::test]
async fn ephemeral_threads_refuse_what_needs_a_file() {
    let mut app = App::start(Script::new()).await;
    let id = app.start_thread_with(params(json!({ "ephemeral": true }))).await.id;
    let refused = [
        ("thread/resume", json!({}), format!("no rollout found for thread id {id}")),
        (
            "thread/metadata/update",
            json!({ "gitInfo": { "branch": "b" } }),
            format!("ephemeral thread does not support metadata updates: {id}"),
        ),
        (
            "thread/rollback",
            json!({ "numTurns": 1 }),
            "thread rollback requires a persisted rollout path".to_owned(),
        ),
    ];
    for (method, mut params, expected) in refused {
        params["threadId"] = json!(id);
        assert_eq!(call(&mut app, method, params).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn later_clients_read_the_words_of_their_reference_about_bad_requests() {
    let mut app = later(always("ok")).await;
    let stored = app.start_thread().await.id;
    let ephemeral = app.start_thread_with(params(json!({ "ephemeral": true }))).await.id;
    let stray = "invalid character: expected an optional prefix of `urn:uuid:` followed by [0-9a-fA-F-], found `x` at 1";
    for method in ["thread/resume", "thread/fork", "thread/archive", "thread/unarchive"] {
        let refused = call(&mut app, method, json!({ "threadId": "x" })).await.unwrap_err();
        assert_eq!(refused, format!("invalid session id: {stray}"));
    }
    let local = json!({ "environmentId": "local", "cwd": app.workspace() });
    let verification = "Invalid verification challenge or display text.";
    let no_cursor = "Invalid request: data did not match any variant of untagged enum ThreadItemsListCursor";
    let refused = [
        (
            "thread/memoryMode/set",
            json!({ "threadId": ephemeral, "mode": "disabled" }),
            format!("ephemeral thread does not support metadata updates: {ephemeral}"),
        ),
        (
            "thread/start",
            json!({ "environments": [local, local] }),
            "duplicate turn environment id `local`".to_owned(),
        ),
        (
            "thread/start",
            json!({ "environments": [{ "environmentId": "local", "cwd": "src" }] }),
            "invalid cwd for environment `local`: path `src` does not use absolute POSIX or Windows path syntax".to_owned(),
        ),
        (
            "thread/items/list",
            json!({ "threadId": stored, "turnId": "t", "cursor": { "type": "page", "itemId": "i" } }),
            no_cursor.to_owned(),
        ),
        (
            "userVerification/verify",
            json!({ "challenge": "YQ==", "title": "t", "description": "d" }),
            verification.to_owned(),
        ),
        (
            "userVerification/verify",
            json!({ "challenge": "YQ", "title": "", "description": "d" }),
            verification.to_owned(),
        ),
        (
            "userVerification/verify",
            json!({ "challenge": "YQ", "title": "t", "description": "" }),
            "User verification is not available in this build or account.".to_owned(),
        ),
    ];
    for (method, params, expected) in refused {
        assert_eq!(call(&mut app, method, params).await.unwrap_err(), expected);
    }
    app.ignore_rest();
}

#[tokio::test]
async fn the_summary_of_a_running_turn_has_no_message_of_the_agent() {
    let mut app = later(Script::new().say("part").then().gate("go").say("rest")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let list = json!({ "threadId": thread.id, "limit": 1 });
    let ended = call(&mut app, "thread/turns/list", list.clone()).await.unwrap();
    assert_eq!(ended["data"][0]["items"].as_array().unwrap().len(), 2);
    app.start_turn(&thread, "two").await;
    let running = call(&mut app, "thread/turns/list", list).await.unwrap();
    assert_eq!(running["data"][0]["items"][0]["type"], "userMessage");
    assert_eq!(running["data"][0]["items"].as_array().unwrap().len(), 1);
    app.model().release("go");
    app.until::<TurnCompleted>().await;
    app.rest().await;
}

#[tokio::test]
async fn a_thread_that_is_read_is_in_its_current_directory() {
    let mut app = later(always("ok")).await;
    let thread = app.start_thread().await;
    let update = json!({ "threadId": thread.id, "cwd": "elsewhere" });
    call(&mut app, "thread/settings/update", update).await.unwrap();
    let read = call(&mut app, "thread/read", json!({ "threadId": thread.id })).await.unwrap();
    let elsewhere = read["thread"]["cwd"].as_str().unwrap().to_owned();
    assert!(elsewhere.ends_with("/elsewhere"), "{read}");
    // A relative path begins at the directory of the server, not at that of the thread.
    let input = json!([{ "type": "text", "text": "go" }]);
    let turn = json!({ "threadId": thread.id, "input": input, "cwd": "elsewhere" });
    call(&mut app, "turn/start", turn).await.unwrap();
    app.until::<TurnCompleted>().await;
    let read = call(&mut app, "thread/read", json!({ "threadId": thread.id })).await.unwrap();
    assert_eq!(read["thread"]["cwd"], json!(elsewhere));
    app.ignore_rest();
}

#[tokio::test]
async fn directories_are_normalized() {
    let mut app = App::start(always("Hi")).await;
    let work = app.workspace().to_str().unwrap().to_owned();
    let thread = app.start_thread_with(params(json!({ "cwd": format!("{work}/a/../") }))).await;
    assert_eq!(thread.cwd, work);
    app.run_turn(&thread, "here").await;
    let found = call(&mut app, "thread/list", json!({ "cwd": format!("{work}/") })).await.unwrap();
    assert_eq!(found["data"].as_array().unwrap().len(), 1);
    app.rest().await;
}

#[tokio::test]
async fn the_preview_is_the_first_text_or_image() {
    let mut app = App::start(always("Hi")).await;
    let image = json!({ "type": "image", "url": "https://example.com/a.png" });
    let text = |text: &str| json!({ "type": "text", "text": text });
    for (first, preview) in [(image, "[Image]"), (text("  later  "), "later")] {
        let thread = app.start_thread().await;
        for input in [text(" "), first] {
            call(&mut app, "turn/start", json!({ "threadId": thread.id, "input": [input] })).await.unwrap();
            app.until::<TurnCompleted>().await;
        }
        assert_eq!(app.read(&thread).await.preview, preview);
        let git = json!({ "threadId": thread.id, "gitInfo": { "branch": " b " } });
        let updated = call(&mut app, "thread/metadata/update", git).await.unwrap();
        assert_eq!(updated["thread"]["gitInfo"]["branch"], "b");
    }
    app.rest().await;
}

#[tokio::test]
async fn instructions_of_a_resume_stay_until_others_replace_them() {
    let mut app = App::start(always("Hi")).await;
    let thread = app.start_thread_with(params(json!({ "baseInstructions": "BASE" }))).await;
    app.run_turn(&thread, "one").await;
    for (given, expected) in
        [(json!("OTHER"), "OTHER"), (Value::Null, "OTHER"), (json!("BASE"), "BASE"), (Value::Null, "BASE")]
    {
        app.rest().await;
        app.restart().await;
        let resume = json!({ "threadId": thread.id, "baseInstructions": given });
        call(&mut app, "thread/resume", resume).await.unwrap();
        app.run_turn(&thread, "two").await;
        assert_eq!(app.model().requests().pop().unwrap().body()["instructions"], expected);
    }
    app.rest().await;
}

#[tokio::test]
async fn the_context_of_a_rolled_back_turn_is_sent_again() {
    let mut app = App::start(always("Hi")).await;
    let thread = app.start_thread().await;
    app.run_turn(&thread, "one").await;
    let input = json!([{ "type": "text", "text": "two" }]);
    let turn = json!({ "threadId": thread.id, "input": input, "cwd": "/", "model": "another" });
    call(&mut app, "turn/start", turn).await.unwrap();
    app.until::<TurnCompleted>().await;
    call(&mut app, "thread/rollback", json!({ "threadId": thread.id, "numTurns": 1 })).await.unwrap();
    app.run_turn(&thread, "three").await;
    let items = kinds(&app);
    let tail: Vec<_> = items.iter().rev().take(3).rev().map(String::as_str).collect();
    assert_eq!(tail, ["developer <model_switch>", "user <environment_context>", "user three"], "{items:?}");
    app.rest().await;
}

#[tokio::test]
async fn settings_sent_during_a_turn_apply_to_the_next_one() {
    let mut app =
        App::start(Script::new().gate("go").say("one").then().repeat(Reply::new().say("two"))).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "one").await;
    app.model().reached("go").await;
    let input = json!([{ "type": "text", "text": "joined" }]);
    let join = json!({ "threadId": thread.id, "input": input, "model": "another" });
    call(&mut app, "turn/start", join).await.unwrap();
    app.model().release("go");
    app.until::<TurnCompleted>().await;
    app.run_turn(&thread, "after").await;
    let requests = app.model().requests();
    let models: Vec<_> = requests.iter().map(|request| request.model().unwrap()).collect();
    assert_eq!(models, ["mock-model", "mock-model", "another"]);
    app.rest().await;
}

#[tokio::test]
async fn a_fork_of_a_running_turn_marks_it_as_interrupted() {
    let mut app =
        App::start(Script::new().say("part").gate("go").then().repeat(Reply::new().say("Hi"))).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "one").await;
    app.model().reached("go").await;
    app.until::<AgentMessageDelta>().await;
    let fork: ThreadForkParams = serde_json::from_value(json!({ "threadId": thread.id })).unwrap();
    let fork: Thread = app.call::<codicil_protocol::ThreadFork>(fork).await.thread;
    assert_eq!(fork.turns.last().unwrap().status, TurnStatus::Interrupted);
    app.model().release("go");
    app.until::<TurnCompleted>().await;
    app.run_turn(&fork, "two").await;
    let items = kinds(&app);
    let tail: Vec<_> = items.iter().rev().take(2).rev().map(String::as_str).collect();
    assert_eq!(tail, ["user <turn_aborted>", "user two"], "{items:?}");
    app.rest().await;
}

#[tokio::test]
async fn a_partial_message_is_shown_but_not_sent_to_the_model() {
    let script = Script::new().say("half an ans").unfinished().hang().repeat(Reply::new().say("Hi"));
    let mut app = App::start(script).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "one").await;
    app.until::<AgentMessageDelta>().await;
    app.interrupt(&turn).await;
    app.rest().await;
    app.run_turn(&thread, "two").await;
    assert!(format!("{:?}", app.read(&thread).await.turns[0].items).contains("half an"));
    assert!(!kinds(&app).iter().any(|kind| kind.starts_with("assistant")), "{:?}", kinds(&app));
    app.rest().await;
}

#[tokio::test]
async fn the_last_subscriber_receives_the_end_of_the_turn() {
    let mut app = App::start(Script::new().say("Let me").unfinished().hang()).await;
    let thread = app.start_thread().await;
    let turn = app.start_turn(&thread, "one").await;
    app.until::<AgentMessageDelta>().await;
    call(&mut app, "thread/unsubscribe", json!({ "threadId": thread.id })).await.unwrap();
    let ended = app.until::<TurnCompleted>().await.turn;
    assert_eq!((ended.id, ended.status), (turn.id, TurnStatus::Interrupted));
    app.until::<ThreadClosed>().await;
    app.rest().await;
}

#[tokio::test]
async fn a_compaction_interrupts_the_running_turn() {
    let mut app = App::start(Script::new().say("Let me").unfinished().hang().say("summary")).await;
    let thread = app.start_thread().await;
    app.start_turn(&thread, "one").await;
    app.until::<AgentMessageDelta>().await;
    call(&mut app, "thread/compact/start", json!({ "threadId": thread.id })).await.unwrap();
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Interrupted);
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    app.rest().await;
}

#[tokio::test]
async fn a_failed_review_reports_its_error_first() {
    let mut app = App::start(Reply::status(401)).await;
    let thread = app.start_thread().await;
    let target = json!({ "type": "custom", "instructions": "look" });
    call(&mut app, "review/start", json!({ "threadId": thread.id, "target": target })).await.unwrap();
    let mut said = Vec::new();
    while said.last() != Some(&"end") {
        said.extend(match app.next_notification().await.unwrap() {
            ServerNotification::ErrorReported(_) => Some("error"),
            ServerNotification::ItemStarted(started) => match started.item {
                ThreadItem::ExitedReviewMode { .. } => Some("exited"),
                ThreadItem::AgentMessage { text, .. } if text.starts_with("Review was interrupted.") => {
                    Some("message")
                }
                _ => None,
            },
            ServerNotification::TurnCompleted(_) => Some("end"),
            _ => None,
        });
    }
    assert_eq!(said, ["error", "exited", "message", "end"]);
    app.rest().await;
}

#[tokio::test]
async fn a_message_that_is_only_a_plan_is_only_a_plan() {
    let plan = "<proposed_plan>\n- one\n</proposed_plan>";
    let mut app = App::builder().script(Script::new().say_deltas([plan])).experimental().start().await;
    let thread = app.start_thread().await;
    let mode = json!({ "mode": "plan", "settings": { "model": "mock-model", "reasoning_effort": null,
        "developer_instructions": null } });
    let input = json!([{ "type": "text", "text": "plan it" }]);
    let turn = json!({ "threadId": thread.id, "input": input, "collaborationMode": mode });
    call(&mut app, "turn/start", turn).await.unwrap();
    app.until::<TurnCompleted>().await;
    let items = format!("{:?}", app.read(&thread).await.turns[0].items);
    assert!(items.contains("Plan {") && !items.contains("AgentMessage {"), "{items}");
    app.rest().await;
}

#[tokio::test]
async fn methods_without_params_reject_other_values() {
    let mut app = App::start(Script::new()).await;
    for params in [Value::Null, json!({})] {
        call(&mut app, "configRequirements/read", params).await.unwrap();
    }
    let error = call(&mut app, "configRequirements/read", json!([])).await.unwrap_err();
    assert_eq!(error, "Invalid request: invalid type: sequence, expected unit");
    let odd = json!({ "threadId": crate::NO_THREAD, "input": ["x"] });
    let error = call(&mut app, "turn/start", odd).await.unwrap_err();
    assert_eq!(
        error,
        "Invalid request: invalid type: string \"x\", expected internally tagged enum UserInput"
    );
    let error = call(&mut app, "thread/start", json!({ "personality": 5 })).await.unwrap_err();
    assert_eq!(error, "Invalid request: invalid type: integer `5`, expected string or map");
}
