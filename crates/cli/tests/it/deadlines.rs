//! Silent providers and tools: each phase of a turn ends at its deadline.

use codicil_protocol::{
    CodexErrorInfo, DynamicToolCall, DynamicToolCallStatus, ItemCompleted, ThreadItem, ThreadStartParams,
    TurnCompleted, TurnStatus,
};
use codicil_testkit::{App, AppBuilder, Script, TestTransport};
use serde_json::{Value, json};
use tokio::net::TcpSocket;

/// Returns an app with a short deadline for one phase.
fn with_short_deadline(phase: &str) -> AppBuilder {
    App::builder()
        .over(TestTransport::Stdio)
        .experimental()
        .config(&format!("codicil.deadlines.{phase} = 300"))
}

/// Runs a turn that fails because its provider is silent.
async fn failure(mut app: App) -> (CodexErrorInfo, String) {
    let thread = app.start_thread().await;
    let turn = app.run_turn(&thread, "hi").await;
    assert_eq!(turn.status, TurnStatus::Failed);
    app.ignore_rest();
    let error = turn.error.unwrap();
    (error.codex_error_info.unwrap(), error.message)
}

const CUT: CodexErrorInfo = CodexErrorInfo::ResponseStreamDisconnected { http_status_code: None };

#[tokio::test]
async fn a_first_token_that_does_not_come() {
    let app =
        with_short_deadline("first_token").script(Script::new().hold("never").say("late")).start().await;
    let (info, message) = failure(app).await;
    assert_eq!((info, message.contains("no answer within 0.3 s")), (CUT, true), "{message}");
}

#[tokio::test]
async fn a_stream_that_stops_between_tokens() {
    let script = Script::new().say("Let me").unfinished().hang();
    let (info, message) = failure(with_short_deadline("between_tokens").script(script).start().await).await;
    assert_eq!((info, message.contains("idle timeout")), (CUT, true), "{message}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_provider_that_takes_no_connections() {
    // A socket that listens without accepting lets connections wait once its queue is full.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let waiting: Vec<_> = (0..8).map(|_| tokio::spawn(tokio::net::TcpStream::connect(address))).collect();
    let provider = format!(
        "model_provider = \"deaf\"\n[model_providers.deaf]\nname = \"deaf\"\nbase_url = \"http://{address}/v1\"\n\
         request_max_retries = 0\nstream_max_retries = 0\n"
    );
    let (info, message) = failure(with_short_deadline("connect").config(&provider).start().await).await;
    assert_eq!(info, CodexErrorInfo::HttpConnectionFailed { http_status_code: None }, "{message}");
    waiting.iter().for_each(tokio::task::JoinHandle::abort);
}

fn params(value: Value) -> ThreadStartParams {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn a_client_that_never_answers_a_tool_call() {
    let script = Script::new().call("lookup", json!({})).call_id("c").then().say("Never mind");
    let mut app = with_short_deadline("tool").script(script).start().await;
    let tool = json!({ "name": "lookup", "description": "Looks up", "inputSchema": { "type": "object" } });
    let thread = app.start_thread_with(params(json!({ "dynamicTools": [tool] }))).await;
    app.start_turn(&thread, "hi").await;
    app.expect_request::<DynamicToolCall>().await;
    let item = app.until_where::<ItemCompleted>(|done| &**done.item.id().unwrap() == "c").await.item;
    let ThreadItem::DynamicToolCall { status, content_items, .. } = item else { panic!("{item:?}") };
    assert_eq!(status, DynamicToolCallStatus::Failed);
    assert!(format!("{content_items:?}").contains("timed out after 300 ms"), "{content_items:?}");

    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    let output = app.model().requests()[1].tool_output("c").unwrap();
    assert!(output.contains("timed out"), "{output}");
    app.ignore_rest();
}

#[tokio::test]
async fn a_command_with_a_longer_timeout_than_the_deadline() {
    let call = json!({ "command": "sleep 1000", "timeout_ms": 600_000 });
    let script = Script::new().call("shell_command", call).call_id("c").then().say("Too slow");
    let mut app =
        with_short_deadline("tool").config("features.unified_exec = false").script(script).start().await;
    let full = json!({ "approvalPolicy": "never", "sandbox": "danger-full-access" });
    let thread = app.start_thread_with(params(full)).await;
    app.start_turn(&thread, "hi").await;
    let item = app.until_where::<ItemCompleted>(|done| &**done.item.id().unwrap() == "c").await.item;
    assert!(matches!(item, ThreadItem::CommandExecution { exit_code: Some(124), .. }), "{item:?}");
    assert_eq!(app.until::<TurnCompleted>().await.turn.status, TurnStatus::Completed);
    app.ignore_rest();
}
