//! `command/exec`.

mod buffered;
#[cfg(target_os = "linux")]
mod ends;
mod input;
mod sandbox;
mod streams;
mod terminal;

use std::ops::ControlFlow;

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use codicil_protocol::{CommandExec, CommandExecResponse, CommandExecTerminate, CommandExecWrite};
use codicil_testkit::{App, PendingRequest, TestClient};
use serde_json::{Value, from_value, json};

const NO_SANDBOX: &str = "dangerFullAccess";

/// Makes params of a shell line without a sandbox, with more members.
fn shell(line: &str, more: Value) -> Value {
    with(json!({ "command": ["sh", "-c", line], "sandboxPolicy": { "type": NO_SANDBOX } }), more)
}

fn with(mut params: Value, more: Value) -> Value {
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    params
}

async fn app() -> App {
    App::builder().start().await
}

/// Runs a command.
async fn exec(client: &mut TestClient, params: Value) -> CommandExecResponse {
    client.call::<CommandExec>(from_value(params).unwrap()).await
}

/// Starts a command without waiting for its response.
async fn start(client: &mut TestClient, params: Value) -> PendingRequest<CommandExec> {
    client.send::<CommandExec>(from_value(params).unwrap()).await
}

async fn write(client: &mut TestClient, id: &str, text: &str) -> Result<(), String> {
    let params = json!({ "processId": id, "deltaBase64": STANDARD.encode(text) });
    error_text(client.try_call::<CommandExecWrite>(from_value(params).unwrap()).await)
}

async fn close(client: &mut TestClient, id: &str) -> Result<(), String> {
    let params = json!({ "processId": id, "closeStdin": true });
    error_text(client.try_call::<CommandExecWrite>(from_value(params).unwrap()).await)
}

async fn terminate(client: &mut TestClient, id: &str) -> Result<(), String> {
    error_text(client.try_call::<CommandExecTerminate>(from_value(json!({ "processId": id })).unwrap()).await)
}

/// Turns an error into its code and message.
fn error_text<T>(answer: Result<T, codicil_protocol::rpc::ErrorObject>) -> Result<(), String> {
    answer.map(drop).map_err(|error| format!("{} {}", error.code, error.message))
}

/// Returns the code and message of an error response.
async fn refusal(client: &mut TestClient, method: &str, params: Value) -> String {
    let answer = client.exchange(json!({ "id": "refused", "method": method, "params": params })).await;
    let error = &answer["error"];
    assert!(!error.is_null(), "{method} {params} was answered: {answer}");
    format!("{} {}", error["code"], error["message"].as_str().unwrap())
}

/// The output and the response of a streaming command.
#[derive(Debug, Default)]
struct Streamed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    deltas: usize,
    /// Streams whose cap is reached.
    capped: Vec<String>,
    answer: Value,
}

impl Streamed {
    fn take(&mut self, message: Value) -> ControlFlow<()> {
        if message.get("id").is_some() {
            self.answer = message;
            return ControlFlow::Break(());
        }
        assert_eq!(message["method"], "command/exec/outputDelta", "{message}");
        let params = &message["params"];
        let stream = params["stream"].as_str().unwrap().to_owned();
        assert!(!self.capped.contains(&stream), "a chunk after the last one: {message}");
        let bytes = STANDARD.decode(params["deltaBase64"].as_str().unwrap()).unwrap();
        match stream.as_str() {
            "stdout" => self.stdout.extend(bytes),
            "stderr" => self.stderr.extend(bytes),
            other => panic!("{other}"),
        }
        self.deltas += 1;
        if params["capReached"] == true {
            self.capped.push(stream);
        }
        ControlFlow::Continue(())
    }
}

/// Runs a streaming command, and fails if a message follows the response.
async fn streamed(client: &mut TestClient, params: Value) -> Streamed {
    let params = with(json!({ "processId": "s", "streamStdoutStderr": true }), params);
    let message = json!({ "id": "streamed", "method": "command/exec", "params": params });
    let mut seen = Streamed::default();
    client.flood([Bytes::from(message.to_string())], |message| seen.take(message)).await;
    assert_eq!(client.rest().await, "", "all deltas come before the response");
    assert_eq!(seen.answer["result"]["stdout"], "", "{:?}", seen.answer);
    assert_eq!(seen.answer["result"]["stderr"], "");
    seen
}
