//! `command/exec`: commands of a client, outside any thread.

mod buffered;
#[cfg(target_os = "linux")]
mod ends;
mod input;
mod sandbox;
mod streams;
mod terminal;

use std::{fs, ops::ControlFlow, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use codicil_protocol::{CommandExec, CommandExecResponse, CommandExecTerminate, CommandExecWrite};
use codicil_testkit::{App, PendingRequest, TestClient};
use serde_json::{Value, from_value, json};
use tokio::time::timeout;

const NO_SANDBOX: &str = "dangerFullAccess";

/// Params of a shell line without a sandbox, with more members.
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

/// Runs a command that is answered with a result.
async fn exec(client: &mut TestClient, params: Value) -> CommandExecResponse {
    client.call::<CommandExec>(from_value(params).unwrap()).await
}

/// Starts a command whose answer is for later.
async fn start(client: &mut TestClient, params: Value) -> PendingRequest<CommandExec> {
    client.send::<CommandExec>(from_value(params).unwrap()).await
}

async fn write(client: &mut TestClient, id: &str, text: &str) -> Result<(), String> {
    let params = json!({ "processId": id, "deltaBase64": STANDARD.encode(text) });
    said(client.try_call::<CommandExecWrite>(from_value(params).unwrap()).await)
}

async fn close(client: &mut TestClient, id: &str) -> Result<(), String> {
    let params = json!({ "processId": id, "closeStdin": true });
    said(client.try_call::<CommandExecWrite>(from_value(params).unwrap()).await)
}

async fn terminate(client: &mut TestClient, id: &str) -> Result<(), String> {
    said(client.try_call::<CommandExecTerminate>(from_value(json!({ "processId": id })).unwrap()).await)
}

fn said<T>(answer: Result<T, codicil_protocol::rpc::ErrorObject>) -> Result<(), String> {
    answer.map(drop).map_err(|error| format!("{} {}", error.code, error.message))
}

/// Code and message of a refusal.
async fn refusal(client: &mut TestClient, method: &str, params: Value) -> String {
    let answer = client.exchange(json!({ "id": "refused", "method": method, "params": params })).await;
    let error = &answer["error"];
    assert!(!error.is_null(), "{method} {params} was answered: {answer}");
    format!("{} {}", error["code"], error["message"].as_str().unwrap())
}

/// What came of a command that tells its output as it comes.
#[derive(Debug, Default)]
struct Streamed {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    deltas: usize,
    /// Streams whose last chunk said that the cap is reached.
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

/// Runs it, and fails if anything about it comes after the answer.
async fn streamed(client: &mut TestClient, params: Value) -> Streamed {
    let params = with(json!({ "processId": "s", "streamStdoutStderr": true }), params);
    let message = json!({ "id": "streamed", "method": "command/exec", "params": params });
    let mut seen = Streamed::default();
    client.flood([Bytes::from(message.to_string())], |message| seen.take(message)).await;
    assert_eq!(client.rest().await, "", "all deltas come before the answer");
    assert_eq!(seen.answer["result"]["stdout"], "", "{:?}", seen.answer);
    assert_eq!(seen.answer["result"]["stderr"], "");
    seen
}

/// Waits until no process carries the mark in its environment. Nobody is told of their end, so it looks again
/// and again.
async fn until_none_is_marked(mark: &str) {
    let none = async {
        while !marked(mark).is_empty() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    if timeout(Duration::from_secs(20), none).await.is_err() {
        panic!("processes are left: {:?}", marked(mark));
    }
}

/// Processes that run with this value in their environment.
fn marked(mark: &str) -> Vec<u32> {
    let wanted = format!("COMMAND_MARK={mark}\0");
    let carries = |pid: &u32| {
        let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
        let is_zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
        read("environ").windows(wanted.len()).any(|part| part == wanted.as_bytes()) && !is_zombie
    };
    let names = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter_map(|name| name.parse().ok()).filter(carries).collect()
}

/// Waits for as many marked processes.
async fn until_marked(mark: &str, count: usize) {
    let all = async {
        while marked(mark).len() < count {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(Duration::from_secs(20), all).await.expect("the command starts its processes");
}
