//! Server requests that wait for an answer: listed, answered from any connection, given a default answer, and left for the next
//! server.

use std::fs;

use codicil_protocol::{
    CodicilRequestAnswer, CodicilRequestAnswerParams, CodicilRequestAnswerResponse as Outcome,
    CodicilRequestList, CodicilRequestListParams, CodicilWaitingRequest, CollabAgentTool,
    CommandExecutionApproval, CommandExecutionApprovalDecision as Decision,
    CommandExecutionRequestApprovalResponse, CommandExecutionStatus, FileChangeApproval, ItemStarted,
    PermissionsApproval, Thread, ThreadActiveFlag, ThreadArchive, ThreadClosed, ThreadInjectItems,
    ThreadItem, ThreadList, ThreadLoadedList, ThreadStatus, ThreadUnarchive, ThreadUnsubscribe,
    TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, Reply, Script, TestClient};
use serde_json::{Value, from_value, json};

use crate::tools::{command_end, thread};

fn escalated(line: &str) -> Value {
    json!({ "cmd": line, "sandbox_permissions": "require_escalated", "justification": "May I?" })
}

fn touching() -> Script {
    Script::new().call("exec_command", escalated("touch made")).call_id("c").then().say("Done")
}

fn response(decision: Decision) -> CommandExecutionRequestApprovalResponse {
    CommandExecutionRequestApprovalResponse { decision }
}

/// Starts a turn that waits for the approval of a command.
async fn asked(script: Script, config: &str) -> (App, Thread) {
    let mut app = App::builder().experimental().extension().config(config).script(script).start().await;
    let thread = thread(&mut app, json!({})).await;
    app.start_turn(&thread, "run").await;
    (app, thread)
}

async fn list(client: &mut TestClient, params: Value) -> (Vec<CodicilWaitingRequest>, Option<String>) {
    let params: CodicilRequestListParams = from_value(params).unwrap();
    let listed = client.call::<CodicilRequestList>(params).await;
    (listed.data, listed.next_cursor)
}

fn answer(thread: &Thread, request: &str, answer: Value) -> CodicilRequestAnswerParams {
    let mut params = json!({ "threadId": thread.id, "request": request });
    params.as_object_mut().unwrap().extend(answer.as_object().unwrap().clone());
    from_value(params).unwrap()
}

fn waiting() -> ThreadStatus {
    ThreadStatus::Active { active_flags: vec![ThreadActiveFlag::WaitingOnApproval] }
}

#[tokio::test]
async fn another_connection_answers_and_the_asked_client_sees_it() {
    let (mut app, thread) = asked(touching(), "").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let mut other = app.another_client().await;

    let (listed, _) = list(&mut other, json!({})).await;
    let request = listed[0].request.clone();
    assert_eq!(listed[0].params["itemId"], json!(question.params.item_id));
    let accept = answer(&thread, &request, json!({ "result": { "decision": "accept" } }));
    assert_eq!(other.call::<CodicilRequestAnswer>(accept.clone()).await, Outcome::Accepted {});

    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Completed);
    // The answer of the client that was asked comes too late.
    app.reply(&question, response(Decision::Decline)).await;
    assert!(app.rest().await.ends_with("← turn/completed completed"));
    assert!(app.workspace().join("made").exists());
    let again = other.call::<CodicilRequestAnswer>(accept).await;
    assert!(matches!(&again, Outcome::AlreadyResolved { by, .. } if by == "testkit"), "{again:?}");
    other.ignore_rest();
}

#[tokio::test]
async fn an_answer_of_the_wrong_shape_leaves_the_request_open() {
    let (mut app, thread) = asked(touching(), "").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let (listed, _) = list(&mut app, json!({ "threadId": thread.id })).await;
    let request = &listed[0].request;
    for (given, expected) in [
        (json!({ "result": {} }), "missing field `decision`"),
        (json!({ "result": { "decision": "perhaps" } }), "perhaps"),
        (json!({ "result": 7 }), "CommandExecutionRequestApprovalResponse"),
        (json!({}), "give either `result` or `error`"),
        (json!({ "result": {}, "error": { "code": 1, "message": "x" } }), "give either `result` or `error`"),
    ] {
        let refused =
            app.try_call::<CodicilRequestAnswer>(answer(&thread, request, given.clone())).await.unwrap_err();
        assert!(refused.message.contains(expected), "{given}: {}", refused.message);
        assert_eq!(refused.code, -32602, "{given}");
    }
    let unknown = answer(&thread, "no-such-request", json!({ "result": { "decision": "accept" } }));
    let refused = app.try_call::<CodicilRequestAnswer>(unknown).await.unwrap_err();
    assert_eq!(refused.message, "request not found: no-such-request");
    assert_eq!(list(&mut app, json!({})).await.0, listed);

    app.reply(&question, response(Decision::Decline)).await;
    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Declined);
    app.rest().await;
}

#[tokio::test]
async fn an_error_is_an_answer_too() {
    let (mut app, thread) = asked(touching(), "").await;
    app.expect_request::<CommandExecutionApproval>().await;
    let (listed, _) = list(&mut app, json!({})).await;
    let error = json!({ "error": { "code": -1, "message": "no dialog" } });
    app.call::<CodicilRequestAnswer>(answer(&thread, &listed[0].request, error)).await;
    assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Failed);
    app.ignore_rest();
}

#[tokio::test]
async fn the_methods_need_the_capability() {
    let mut app = App::start(Script::new()).await;
    let refused = app.try_call::<CodicilRequestList>(Default::default()).await.unwrap_err();
    assert!(refused.message.contains("codicil capability"), "{}", refused.message);
}

#[tokio::test]
async fn requests_are_listed_page_by_page() {
    let two = || {
        let calls = Reply::new().call("exec_command", escalated("touch a")).call_id("a");
        calls.call("exec_command", escalated("touch b")).call_id("b")
    };
    let mut app = App::builder().experimental().extension().script(Script::new().repeat(two())).start().await;
    for _ in 0..2 {
        let thread = thread(&mut app, json!({})).await;
        app.start_turn(&thread, "run").await;
        app.expect_request::<CommandExecutionApproval>().await;
        app.expect_request::<CommandExecutionApproval>().await;
    }
    let (all, end) = list(&mut app, json!({})).await;
    assert_eq!((all.len(), end), (4, None));
    let mut pages = Vec::new();
    let mut cursor = None;
    loop {
        let (page, next) = list(&mut app, json!({ "limit": 3, "cursor": cursor })).await;
        pages.push(page.len());
        assert_eq!(all[pages.iter().sum::<usize>() - page.len()..][..page.len()], page);
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(pages, [3, 1]);

    // The same from the index, for threads that are not loaded.
    app.restart().await;
    assert!(app.call::<ThreadLoadedList>(Default::default()).await.data.is_empty());
    assert_eq!(list(&mut app, json!({})).await, (all, None));
    app.ignore_rest();
}

#[tokio::test]
async fn both_answers_of_parallel_calls_survive_a_restart() {
    let two = Reply::new().call("exec_command", escalated("touch a")).call_id("a");
    let two = two.call("exec_command", escalated("touch b")).call_id("b");
    let script = Script::new().reply(two).then().say("Done");
    let (mut app, thread) = asked(script, "").await;
    let first = app.expect_request::<CommandExecutionApproval>().await;
    let second = app.expect_request::<CommandExecutionApproval>().await;
    app.restart().await;

    app.resume(&thread).await;
    for asked in [&first, &second] {
        let again = app.expect_request::<CommandExecutionApproval>().await;
        assert_eq!(again.params, asked.params, "in the same order");
        app.reply(&again, response(Decision::Accept)).await;
    }
    assert!(app.rest().await.ends_with("← turn/completed completed"));
    assert!(app.workspace().join("a").exists() && app.workspace().join("b").exists());
}

#[tokio::test]
async fn nothing_is_added_to_a_turn_that_cannot_be_continued_yet() {
    let (mut app, thread) = asked(touching(), "").await;
    app.expect_request::<CommandExecutionApproval>().await;
    app.restart().await;
    // A process that cannot lock a file of its own starts and continues no turn.
    let servers = app.home().join("servers");
    fs::remove_dir_all(&servers).unwrap();
    std::os::unix::fs::symlink("/nonexistent/servers", &servers).unwrap();
    app.resume(&thread).await;
    let records = fs::read(thread.path.as_deref().unwrap()).unwrap();

    let message =
        json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "no" }] });
    let inject = json!({ "threadId": thread.id, "items": [message] });
    let refused = app.try_call::<ThreadInjectItems>(from_value(inject).unwrap()).await.map(drop).unwrap_err();
    assert_eq!(refused.code, -32001, "{}", refused.message);
    assert_eq!(fs::read(thread.path.as_deref().unwrap()).unwrap(), records);

    fs::remove_file(&servers).unwrap();
    app.resume(&thread).await;
    let again = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&again, response(Decision::Accept)).await;
    assert!(app.rest().await.ends_with("← turn/completed completed"));
}

#[tokio::test]
async fn a_thread_without_subscribers_is_unloaded_while_it_waits() {
    let (mut app, thread) = asked(touching(), "").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    app.call::<ThreadUnsubscribe>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
    app.until::<ThreadClosed>().await;

    assert!(app.call::<ThreadLoadedList>(Default::default()).await.data.is_empty());
    let listed = app.call::<ThreadList>(Default::default()).await.data;
    assert_eq!(listed[0].status, waiting(), "it is still active");
    assert_eq!(app.read(&thread).await.turns[0].status, TurnStatus::InProgress);
    assert_eq!(app.resume(&thread).await.status, waiting());
    let again = app.expect_request::<CommandExecutionApproval>().await;
    assert_eq!(again.params, question.params);
    app.reply(&again, response(Decision::Accept)).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert!(app.workspace().join("made").exists());
    app.ignore_rest();
}

#[tokio::test]
async fn a_waiting_thread_is_unloaded_after_the_idle_time() {
    let (mut app, thread) = asked(touching(), "[codicil.deadlines]\nidle_thread = 1\n").await;
    app.expect_request::<CommandExecutionApproval>().await;
    let mut other = app.another_client().await;
    app.disconnect();
    other.until::<ThreadClosed>().await;

    assert_eq!(other.resume(&thread).await.status, waiting());
    let again = other.expect_request::<CommandExecutionApproval>().await;
    other.reply(&again, response(Decision::Decline)).await;
    assert_eq!(other.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    other.ignore_rest();
}

#[tokio::test]
async fn an_interrupt_and_the_archive_end_a_waiting_turn() {
    let (mut app, thread) = asked(Script::new().call("exec_command", escalated("touch made")), "").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let (listed, _) = list(&mut app, json!({})).await;
    app.restart().await;
    app.resume(&thread).await;
    app.expect_request::<CommandExecutionApproval>().await;
    let params = json!({ "threadId": thread.id, "turnId": question.params.turn_id });
    app.call::<codicil_protocol::TurnInterrupt>(from_value(params).unwrap()).await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Interrupted);
    let late = answer(&thread, &listed[0].request, json!({ "result": { "decision": "accept" } }));
    let late = app.call::<CodicilRequestAnswer>(late).await;
    assert!(matches!(&late, Outcome::AlreadyResolved { by, .. } if by == "turnEnd"), "{late:?}");
    // Every call has an output in the next request.
    app.model().push(Script::new().call("exec_command", escalated("touch made")));
    app.start_turn(&thread, "again").await;
    app.expect_request::<CommandExecutionApproval>().await;
    app.restart().await;

    app.call::<ThreadArchive>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
    assert!(list(&mut app, json!({})).await.0.is_empty());
    app.call::<ThreadUnarchive>(from_value(json!({ "threadId": thread.id })).unwrap()).await;
    let resumed = app.resume(&thread).await;
    assert_eq!(resumed.status, ThreadStatus::Idle);
    let statuses: Vec<_> = resumed.turns.iter().map(|turn| turn.status.clone()).collect();
    assert_eq!(statuses, [TurnStatus::Interrupted, TurnStatus::Interrupted]);
    assert!(!app.workspace().join("made").exists());
    assert_eq!(app.model().faults(), Vec::<String>::new());
    app.ignore_rest();
}

#[tokio::test]
async fn an_approval_without_an_answer_is_declined_or_cancelled_at_its_deadline() {
    for (default, expected) in [("decline", TurnStatus::Completed), ("cancel", TurnStatus::Interrupted)] {
        let config = format!("[codicil.approvals]\ndeadline_ms = 1\ndefault = \"{default}\"\n");
        let (mut app, _) = asked(touching(), &config).await;
        app.expect_request::<CommandExecutionApproval>().await;
        assert_eq!(command_end(&mut app).await.0, CommandExecutionStatus::Declined, "{default}");
        assert_eq!(app.until::<TurnCompleted>().await.turn.status, expected, "{default}");
        assert!(!app.workspace().join("made").exists());
        app.ignore_rest();
    }
    let patch = "*** Begin Patch\n*** Add File: new.txt\n+one\n*** End Patch";
    let script = Script::new().custom_call("apply_patch", patch).call_id("p").then().say("Done");
    let (mut app, _) = asked(script, "[codicil.approvals]\ndeadline_ms = 1\n").await;
    app.expect_request::<FileChangeApproval>().await;
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    assert!(!app.workspace().join("new.txt").exists());
    app.ignore_rest();
}

#[tokio::test]
async fn permissions_are_requested_again_after_a_restart() {
    let wanted = json!({ "network": { "enabled": true } });
    let script = Script::new()
        .call("request_permissions", json!({ "permissions": wanted, "reason": "To fetch" }))
        .call_id("c")
        .then()
        .say("Done");
    let (mut app, thread) = asked(script, "[features]\nrequest_permissions_tool = true\n").await;
    let first = app.expect_request::<PermissionsApproval>().await;
    app.restart().await;

    app.resume(&thread).await;
    let again = app.expect_request::<PermissionsApproval>().await;
    assert_eq!(again.params, first.params);
    let granted = json!({ "permissions": { "network": { "enabled": true } }, "scope": "turn" });
    app.reply(&again, from_value(granted).unwrap()).await;
    assert!(app.rest().await.ends_with("← turn/completed completed"));
    let output = app.model().requests().last().unwrap().tool_output("c").unwrap();
    assert!(output.contains("\"enabled\":true"), "{output}");
}

#[tokio::test]
async fn messages_that_were_added_to_a_waiting_turn_reach_the_model_after_a_restart() {
    let (mut app, thread) = asked(touching(), "").await;
    let question = app.expect_request::<CommandExecutionApproval>().await;
    let steer = json!({ "threadId": thread.id, "expectedTurnId": question.params.turn_id,
        "input": [{ "type": "text", "text": "hurry up" }] });
    app.call::<codicil_protocol::TurnSteer>(from_value(steer).unwrap()).await;
    app.restart().await;
    app.resume(&thread).await;
    let again = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&again, response(Decision::Accept)).await;
    app.rest().await;
    assert_eq!(app.model().requests().last().unwrap().last_user_text().as_deref(), Some("hurry up"));
}

#[tokio::test]
async fn the_output_schema_of_a_turn_survives_a_restart() {
    let mut app = App::builder().experimental().script(touching()).start().await;
    let thread = thread(&mut app, json!({})).await;
    let schema = json!({ "type": "object", "properties": {}, "additionalProperties": false });
    let params = json!({ "threadId": thread.id, "outputSchema": schema,
        "input": [{ "type": "text", "text": "run" }] });
    app.call::<codicil_protocol::TurnStart>(from_value(params).unwrap()).await;
    app.expect_request::<CommandExecutionApproval>().await;
    app.restart().await;
    app.resume(&thread).await;
    let again = app.expect_request::<CommandExecutionApproval>().await;
    app.reply(&again, response(Decision::Accept)).await;
    app.until::<TurnCompleted>().await;
    let requests = app.model().requests();
    let schemas: Vec<_> =
        requests.iter().map(|request| request.body()["text"]["format"]["schema"].clone()).collect();
    assert_eq!(schemas, [schema.clone(), schema]);
    app.ignore_rest();
}

#[tokio::test]
async fn a_subagent_that_waits_ends_with_the_server() {
    let script = Script::new().respond_with(|request| {
        let is_agent = request.header("x-openai-subagent") == Some("collab_spawn");
        match (is_agent, request.tool_output("spawn"), request.tool_output("wait")) {
            (true, ..) => Reply::new().call("exec_command", escalated("touch made")),
            (false, None, _) => {
                Reply::new().call("spawn_agent", json!({ "message": "touch" })).call_id("spawn")
            }
            (false, Some(spawned), None) => {
                let spawned: Value = serde_json::from_str(&spawned).unwrap();
                Reply::new().call("wait_agent", json!({ "targets": [spawned["agent_id"]] })).call_id("wait")
            }
            (false, Some(_), Some(_)) => Reply::new().say("Done"),
        }
    });
    let (mut app, thread) = asked(script, "[features]\nmulti_agent = true\n").await;
    // A wait that has not begun would begin after the restart.
    while !matches!(
        app.take::<ItemStarted>().await.item,
        ThreadItem::CollabAgentToolCall { tool: CollabAgentTool::Wait, .. }
    ) {}
    let question = app.expect_request::<CommandExecutionApproval>().await;
    assert_ne!(question.params.thread_id, thread.id);
    let (listed, _) = list(&mut app, json!({})).await;
    assert_eq!(listed[0].thread_id, question.params.thread_id, "it can be answered while the server runs");
    app.restart().await;

    assert!(list(&mut app, json!({})).await.0.is_empty());
    let resumed = app.resume(&thread).await;
    assert_eq!(
        (resumed.status, resumed.turns[0].status.clone()),
        (ThreadStatus::Idle, TurnStatus::Interrupted)
    );
    let agent = app.read(&Thread { id: question.params.thread_id.clone(), ..thread.clone() }).await;
    assert_eq!(agent.turns[0].status, TurnStatus::Interrupted);
    let is_command = |item: &&ThreadItem| matches!(item, ThreadItem::CommandExecution { .. });
    assert_eq!(agent.turns[0].items.iter().filter(is_command).count(), 1);
    assert!(!app.workspace().join("made").exists());
    app.ignore_rest();
}
