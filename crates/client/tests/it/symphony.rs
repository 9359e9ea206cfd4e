//! The statements of the document that describes what orchestrators do on the wire, and the tests of each.
//!
//! | the document says | test |
//! |---|---|
//! | framing is one JSON object a line, buffered until the newline; no headers | `framing::a_message_may_arrive_in_pieces`, `framing::a_last_line_without_a_newline_is_read` |
//! | very large lines are split by the pipe | `framing::a_message_may_be_very_long` |
//! | `"jsonrpc"` is not sent, and tolerated | `seed::connecting_sends_initialize_with_id_0_and_then_initialized`, `framing::lines_that_are_not_messages_are_skipped` |
//! | `initialize`, its answer, `initialized`, `thread/start`, `turn/start`, in this order, with these members | [`the_session_starts_as_in_the_document`] |
//! | `thread.id` is taken from the answer; another shape is an error | [`a_response_without_a_thread_is_an_error`] |
//! | `turn.id` is taken from the answer | `seed::start_turn_sends_turn_start_and_returns_the_turn` |
//! | `turn/completed`, `turn/failed`, `turn/cancelled` end a turn | [`a_turn_ends_with_each_of_the_three_methods`], [`an_interrupted_turn_is_cancelled`] |
//! | approvals in both formats: `acceptForSession`, `approved_for_session` | [`approvals_are_answered_in_the_format_of_the_request`] |
//! | user input: the option that approves, or the sentence that no operator is available | [`questions_are_answered_without_an_operator`] |
//! | approvals of MCP tools are such user input (`tool_call_mcp_elicitation = false`), or are not asked for at all (`never`) | `tools::mcp` among the tests of `codicil-server` |
//! | `item/tool/call` runs a tool and answers to the same id | `tools::calls_are_answered_with_the_tools_output` |
//! | an unsupported tool is a failed call | [`an_unknown_tool_is_a_failed_call`] |
//! | unknown methods are generic notifications | [`unknown_methods_are_passed_on`] |
//! | lines that are not JSON, standard error among them, are logged and skipped | `framing::lines_that_are_not_messages_are_skipped`, `hostile::garbage_is_skipped` |
//! | one thread, a turn for each prompt; the session is `<thread>-<turn>` | [`a_session_is_a_thread_and_a_turn_for_each_prompt`] |
//! | `response_timeout` | [`a_missing_response_times_out`] |
//! | `port_exit` with the status | `ending::an_exit_is_reported_with_status_and_stderr` |
//! | `response_error` | `seed::an_error_response_keeps_code_message_and_data` |
//! | `turn_timeout` | [`a_turn_that_does_not_end_times_out_and_is_interrupted`], [`a_silent_turn_times_out_earlier`] |
//! | `turn_failed`, `turn_cancelled` with the params | [`a_turn_ends_with_each_of_the_three_methods`] |
//! | `turn_input_required`, `approval_required` with the payload | [`fail_turn_ends_a_turn_that_needs_an_approval`], [`fail_turn_ends_a_turn_that_needs_input`], [`every_notification_that_input_is_required_ends_the_turn`] |
//! | overload: `-32001` | `overload::a_refused_request_is_repeated_with_growing_delays` |
//! | ids are integers or texts, and keep their type in replies | [`approvals_are_answered_in_the_format_of_the_request`], `framing::responses_may_arrive_in_any_order_and_with_string_ids` |
//! | notifications may come while an answer is waited for | [`notifications_before_the_response_are_not_lost`] |
//!
//! Against the real binary, and the reference where it is installed: `client.rs` among the tests of `codicil-cli`.

use codicil_client::{
    ApproveAll, Client, ClientEvent, ClientTimeouts, ClientTools, FailTurn, protocol::*, turn,
};
use serde_json::{Value, json};
use std::time::Duration;

use crate::{
    fake::{connected, message, running, server},
    soon,
};

type Turning = tokio::task::JoinHandle<Result<codicil_client::CompletedTurn, codicil_client::ClientError>>;

fn run(client: &Client) -> Turning {
    let client = client.clone();
    tokio::spawn(async move { client.run_turn(turn(&"thread-123".into(), "<prompt>")).await })
}

#[tokio::test]
async fn a_session_is_a_thread_and_a_turn_for_each_prompt() {
    let (mut fake, client) = connected(Client::builder()).await;
    let starting = tokio::spawn({
        let client = client.clone();
        async move { client.start_thread(Default::default()).await }
    });
    let request = fake.expect("thread/start").await;
    fake.reply(&request, json!({ "thread": { "id": "thread-123" } })).await;
    let thread = soon(starting).await.unwrap().unwrap();
    for turn_id in ["turn-456", "turn-457"] {
        let turning = run(&client);
        let request = fake.expect("turn/start").await;
        fake.reply(&request, json!({ "turn": { "id": turn_id } })).await;
        fake.notify("turn/completed", json!({})).await;
        let done = soon(turning).await.unwrap().unwrap();
        assert_eq!((&done.thread_id, done.session_id()), (&thread.id, format!("thread-123-{turn_id}")));
    }
}

#[tokio::test]
async fn a_turn_ends_with_each_of_the_three_methods() {
    let check = async |end: Value, name: Option<&str>, message: &str| {
        let (mut fake, client) = connected(Client::builder()).await;
        let turning = run(&client);
        fake.take_turn("thread-123", "turn-456").await;
        fake.send(end.clone()).await;
        match (soon(turning).await.unwrap(), name) {
            (Ok(done), None) => assert_eq!(done.turn.status, TurnStatus::Completed),
            (Err(error), Some(name)) => {
                assert_eq!(error.name(), name, "{end}");
                let unfinished = error.unfinished().unwrap();
                assert_eq!(unfinished.message, message, "{end}");
                assert_eq!(unfinished.payload, end["params"], "{end}");
            }
            (result, _) => panic!("{end}: {result:?}"),
        }
    };
    check(json!({ "method": "turn/completed" }), None, "").await;
    check(
        json!({ "method": "turn/failed", "params": { "message": "broken" } }),
        Some("turn_failed"),
        "broken",
    )
    .await;
    check(json!({ "method": "turn/failed" }), Some("turn_failed"), "no reason given").await;
    check(
        json!({ "method": "turn/cancelled", "params": { "reason": "stop" } }),
        Some("turn_cancelled"),
        "stop",
    )
    .await;
    let waits = json!({ "method": "turn/input_required", "params": { "message": "Which?" } });
    check(waits, Some("turn_input_required"), "Which?").await;
}

#[tokio::test]
async fn the_session_starts_as_in_the_document() {
    let (mut fake, endpoint) = server();
    let schema = json!({ "type": "object", "required": ["query"] });
    let tools =
        ClientTools::new().add("linear_graphql", "Asks.", schema.clone(), |_| async { Ok(String::new()) });
    let builder = Client::builder().name("symphony-orchestrator", "0.1.0").title("Symphony Orchestrator");
    let session = tokio::spawn(async move {
        let client = builder.tools(tools).connect(endpoint).await.unwrap();
        let cwd = Some("/abs/workspace/path".to_owned());
        let params = ThreadStartParams { cwd: cwd.clone(), ..Default::default() };
        let thread = client.start_thread(params).await.unwrap();
        let policy: SandboxPolicy =
            serde_json::from_value(json!({ "type": "workspaceWrite", "networkAccess": false })).unwrap();
        let params = TurnStartParams {
            cwd,
            approval_policy: Some(AskForApproval::Never),
            sandbox_policy: Some(policy),
            ..turn(&thread.id, "<prompt>")
        };
        client.run_turn(params).await
    });
    let hello = fake.expect("initialize").await;
    assert_eq!(hello["params"]["capabilities"], json!({ "experimentalApi": true }));
    let info =
        json!({ "name": "symphony-orchestrator", "title": "Symphony Orchestrator", "version": "0.1.0" });
    assert_eq!(hello["params"]["clientInfo"], info);
    fake.reply(&hello, json!({ "userAgent": "..." })).await;
    fake.expect("initialized").await;
    let start = fake.expect("thread/start").await;
    let tool = json!({ "name": "linear_graphql", "description": "Asks.", "inputSchema": schema });
    for (name, value) in [
        ("approvalPolicy", json!("never")),
        ("sandbox", json!("workspace-write")),
        ("cwd", json!("/abs/workspace/path")),
        ("dynamicTools", json!([tool])),
    ] {
        assert_eq!(start["params"][name], value, "{name}");
    }
    fake.reply(&start, json!({ "thread": { "id": "thread-123" } })).await;
    let request = fake.expect("turn/start").await;
    let params = &request["params"];
    assert_eq!(
        (&params["threadId"], &params["input"][0]["text"]),
        (&json!("thread-123"), &json!("<prompt>"))
    );
    assert_eq!((&params["cwd"], &params["approvalPolicy"]), (&json!("/abs/workspace/path"), &json!("never")));
    assert_eq!(params["sandboxPolicy"]["type"], "workspaceWrite");
    assert_eq!(params["sandboxPolicy"]["networkAccess"], false);
    fake.reply(&request, json!({ "turn": { "id": "turn-456" } })).await;
    fake.send(json!({ "method": "turn/completed" })).await;
    assert_eq!(soon(session).await.unwrap().unwrap().session_id(), "thread-123-turn-456");
}

#[tokio::test]
async fn a_response_without_a_thread_is_an_error() {
    for answer in [json!({}), json!({ "thread": {} }), json!({ "thread": "t" }), json!(null), json!([])] {
        let (mut fake, client) = connected(Client::builder()).await;
        let starting = tokio::spawn(async move { client.start_thread(Default::default()).await });
        let request = fake.expect("thread/start").await;
        fake.reply(&request, answer.clone()).await;
        assert_eq!(soon(starting).await.unwrap().unwrap_err().name(), "response_invalid", "{answer}");
    }
}

#[tokio::test]
async fn every_notification_that_input_is_required_ends_the_turn() {
    for (method, name) in [
        ("turn/input_required", "turn_input_required"),
        ("turn/inputRequired", "turn_input_required"),
        ("turn/needs_input", "turn_input_required"),
        ("turn/need_input", "turn_input_required"),
        ("turn/request_input", "turn_input_required"),
        ("turn/request_response", "turn_input_required"),
        ("turn/provide_input", "turn_input_required"),
        ("turn/approval_required", "approval_required"),
    ] {
        let (mut fake, client) = connected(Client::builder()).await;
        let turning = run(&client);
        fake.take_turn("thread-123", "turn-456").await;
        fake.notify(method, json!({ "threadId": "thread-123", "turnId": "turn-456", "message": "?" })).await;
        let error = soon(turning).await.unwrap().unwrap_err();
        assert_eq!(error.name(), name, "{method}");
        assert_eq!(error.unfinished().unwrap().payload["message"], "?", "{method}");
    }
}

/// Older servers answer `turn/start` with null and send notifications without ids.
#[tokio::test]
async fn a_turn_without_any_ids_is_collected() {
    let (mut fake, client) = connected(Client::builder()).await;
    assert_eq!(client.names_threads(), None);
    let turning = run(&client);
    let request = fake.expect("turn/start").await;
    fake.reply(&request, Value::Null).await;
    fake.notify("turn/started", json!({})).await;
    fake.notify("item/started", json!({ "itemId": "item_1", "itemType": "agent_message" })).await;
    fake.notify("item/agentMessage/delta", json!({ "delta": "Hi there" })).await;
    fake.notify("item/agentMessage/delta", json!({ "delta": "! How can I help?" })).await;
    fake.notify("item/agentMessage/completed", json!({ "text": "Hi there! How can I help?" })).await;
    fake.notify("item/completed", json!({ "itemId": "item_1" })).await;
    fake.notify("turn/completed", json!({ "status": "completed" })).await;
    let done = soon(turning).await.unwrap().unwrap();
    assert_eq!(done.agent_message, "Hi there! How can I help?");
    assert_eq!(client.names_threads(), Some(false));

    let (mut fake, client) = connected(Client::builder()).await;
    let turning = run(&client);
    fake.take_turn("thread-123", "u").await;
    fake.complete("thread-123", "u").await;
    soon(turning).await.unwrap().unwrap();
    assert_eq!(client.names_threads(), Some(true));
}

#[tokio::test]
async fn an_interrupted_turn_is_cancelled() {
    let (mut fake, client) = connected(Client::builder()).await;
    let turning = run(&client);
    fake.take_turn("thread-123", "u").await;
    fake.item("thread-123", "u", message("i", "Half")).await;
    let turn = json!({ "id": "u", "items": [], "status": "interrupted", "error": null });
    fake.notify("turn/completed", json!({ "threadId": "thread-123", "turn": turn })).await;
    let error = soon(turning).await.unwrap().unwrap_err();
    assert_eq!(error.name(), "turn_cancelled");
    assert_eq!(error.unfinished().unwrap().so_far.agent_message, "Half");
}

#[tokio::test]
async fn approvals_are_answered_in_the_format_of_the_request() {
    let (mut fake, _client) = connected(Client::builder().handler(ApproveAll::for_session())).await;
    let command = json!({ "command": "gh pr view", "cwd": "/tmp", "reason": "need approval" });
    let answer = fake.ask(99, "item/commandExecution/requestApproval", command).await;
    assert_eq!(answer, json!({ "id": 99, "result": { "decision": "acceptForSession" } }));
    let change = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "reason": null, "grantRoot": null });
    let answer = fake.ask("one", "item/fileChange/requestApproval", change).await;
    assert_eq!(answer, json!({ "id": "one", "result": { "decision": "acceptForSession" } }));
    let older = json!({
        "conversationId": "t", "callId": "c", "command": ["ls", "a b"], "cwd": "/", "parsedCmd": [],
        "approvalId": null, "reason": null,
    });
    let answer = fake.ask(100, "execCommandApproval", older).await;
    assert_eq!(answer["result"], json!({ "decision": "approved_for_session" }));
    let older =
        json!({ "conversationId": "t", "callId": "c", "fileChanges": {}, "reason": null, "grantRoot": null });
    let answer = fake.ask(101, "applyPatchApproval", older).await;
    assert_eq!(answer["result"], json!({ "decision": "approved_for_session" }));
}

fn approval_question() -> Value {
    let option = |label: &str| json!({ "label": label, "description": "" });
    let options = ["Approve Once", "Approve this Session", "Deny", "Cancel"].map(option);
    json!({
        "itemId": "call-717", "threadId": "thread-717", "turnId": "turn-717",
        "questions": [{
            "id": "mcp_tool_call_approval_call-717", "header": "Approve app tool call?", "question": "Run it?",
            "isOther": false, "isSecret": false, "options": options,
        }],
    })
}

fn free_question() -> Value {
    json!({
        "itemId": "call-718", "threadId": "thread-718", "turnId": "turn-718",
        "questions": [{ "id": "freeform-718", "header": "Input", "question": "What?", "options": null }],
    })
}

#[tokio::test]
async fn questions_are_answered_without_an_operator() {
    let (mut fake, _client) = connected(Client::builder().handler(ApproveAll::for_session())).await;
    let answer = fake.ask(110, "item/tool/requestUserInput", approval_question()).await;
    let expected = json!({ "mcp_tool_call_approval_call-717": { "answers": ["Approve this Session"] } });
    assert_eq!(answer, json!({ "id": 110, "result": { "answers": expected } }));
    let answer = fake.ask(111, "item/tool/requestUserInput", free_question()).await;
    let sentence = "This is a non-interactive session. Operator input is unavailable.";
    assert_eq!(answer["result"]["answers"], json!({ "freeform-718": { "answers": [sentence] } }));
}

#[tokio::test]
async fn an_unknown_tool_is_a_failed_call() {
    let (mut fake, _client) = connected(Client::builder()).await;
    let call = json!({ "tool": "some_tool", "callId": "c", "threadId": "t", "turnId": "u", "arguments": {} });
    let answer = fake.ask(101, "item/tool/call", call).await;
    let text = "Unsupported dynamic tool: some_tool";
    let items = json!([{ "type": "inputText", "text": text }]);
    assert_eq!(answer, json!({ "id": 101, "result": { "success": false, "contentItems": items } }));
}

#[tokio::test]
async fn fail_turn_ends_a_turn_that_needs_an_approval() {
    let (mut fake, client) = connected(Client::builder().handler(FailTurn)).await;
    let turning = run(&client);
    fake.take_turn("thread-123", "turn-456").await;
    let command =
        json!({ "threadId": "thread-123", "turnId": "turn-456", "itemId": "i", "command": "rm -rf /" });
    let answer = fake.ask(99, "item/commandExecution/requestApproval", command.clone()).await;
    assert_eq!(answer["result"], json!({ "decision": "cancel" }));
    let error = soon(turning).await.unwrap().unwrap_err();
    assert_eq!(error.name(), "approval_required");
    let unfinished = error.unfinished().unwrap();
    assert_eq!(unfinished.payload["params"], command);
    assert_eq!(unfinished.message, "item/commandExecution/requestApproval (rm -rf /)");
}

#[tokio::test]
async fn fail_turn_ends_a_turn_that_needs_input() {
    let (mut fake, client) = connected(Client::builder().handler(FailTurn)).await;
    let turning = run(&client);
    fake.take_turn("thread-123", "turn-456").await;
    let mut question = free_question();
    question["threadId"] = "thread-123".into();
    question["turnId"] = "turn-456".into();
    let answer = fake.ask(111, "item/tool/requestUserInput", question).await;
    assert_eq!(answer["error"]["message"], "this client does not answer; the turn ends");
    let stop = fake.expect("turn/interrupt").await;
    assert_eq!(stop["params"], json!({ "threadId": "thread-123", "turnId": "turn-456" }));
    assert_eq!(soon(turning).await.unwrap().unwrap_err().name(), "turn_input_required");
}

#[tokio::test]
async fn unknown_methods_are_passed_on() {
    let (mut fake, client) = connected(Client::builder()).await;
    let mut events = client.events();
    fake.notify("some/future", json!({ "x": 1 })).await;
    let Some(ClientEvent::Notification(ServerNotification::Unknown(unknown))) = soon(events.next()).await
    else {
        panic!("it is passed on");
    };
    assert_eq!((unknown.method.as_str(), unknown.params), ("some/future", Some(json!({ "x": 1 }))));
    let answer = fake.ask(5, "some/question", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601);
    assert!(client.is_connected());
}

#[tokio::test]
async fn notifications_before_the_response_are_not_lost() {
    let (mut fake, client) = connected(Client::builder()).await;
    let turning = run(&client);
    let request = fake.expect("turn/start").await;
    let other = json!({ "threadId": "thread-123", "turnId": "older", "item": message("x", "Not mine") });
    fake.notify("item/completed", other).await;
    fake.notify("turn/started", json!({ "threadId": "thread-123", "turn": running("u") })).await;
    fake.item("thread-123", "u", message("i", "Early")).await;
    fake.complete("thread-123", "u").await;
    fake.reply(&request, json!({ "turn": running("u") })).await;
    let done = soon(turning).await.unwrap().unwrap();
    assert_eq!((done.agent_message.as_str(), done.items.len()), ("Early", 1));
}

#[tokio::test(start_paused = true)]
async fn a_missing_response_times_out() {
    let (mut fake, client) = connected(Client::builder()).await;
    let began = tokio::time::Instant::now();
    let error = client.list_models(Default::default()).await.unwrap_err();
    assert_eq!((error.name(), began.elapsed().as_secs()), ("response_timeout", 30));
    assert_eq!(error.to_string(), "model/list was not answered within 30s");
    // A late response is ignored.
    let request = fake.expect("model/list").await;
    fake.reply(&request, json!({ "data": [], "nextCursor": null })).await;
    let quick = client.call_within::<ModelList>(Default::default(), Duration::from_secs(2)).await;
    assert_eq!((quick.unwrap_err().name(), began.elapsed().as_secs()), ("response_timeout", 32));
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_does_not_end_times_out_and_is_interrupted() {
    let (mut fake, client) = connected(Client::builder()).await;
    let began = tokio::time::Instant::now();
    let turning = run(&client);
    fake.take_turn("thread-123", "u").await;
    fake.item("thread-123", "u", message("i", "Half")).await;
    let error = turning.await.unwrap().unwrap_err();
    assert_eq!((error.name(), began.elapsed().as_secs()), ("turn_timeout", 300));
    assert_eq!(error.unfinished().unwrap().so_far.agent_message, "Half");
    assert_eq!(error.to_string(), "the turn did not end in time: no end within 300s");
    fake.expect("turn/interrupt").await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_turn_times_out_earlier() {
    let timeouts = ClientTimeouts {
        turn: None,
        turn_silence: Some(Duration::from_secs(60)),
        ..ClientTimeouts::default()
    };
    let (mut fake, client) = connected(Client::builder().timeouts(timeouts)).await;
    let began = tokio::time::Instant::now();
    let starting = tokio::spawn(async move { client.turn(turn(&"thread-123".into(), "<prompt>")).await });
    fake.take_turn("thread-123", "u").await;
    let mut running = starting.await.unwrap().unwrap();
    for _ in 0..10 {
        tokio::time::advance(Duration::from_secs(50)).await;
        fake.item("thread-123", "u", message("i", "Still here")).await;
        assert!(running.next().await.is_some());
    }
    let error = running.finish().await.unwrap_err();
    assert_eq!((error.name(), began.elapsed().as_secs()), ("turn_timeout", 560));
    assert_eq!(error.unfinished().unwrap().message, "no message within 60s");
}
