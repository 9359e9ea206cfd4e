//! The built app-server with a scripted model, and a client that sends plain JSON.
//!
//! The model makes a list of tool calls in a turn. The prompt of the turn names the list, so that one model
//! can serve many threads and subagents.

use std::{
    collections::{HashMap, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use codicil_testkit::{ModelServer, RecordedRequest, Reply, Script, ServerProcess};
use futures_util::{SinkExt, StreamExt};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpStream,
    sync::mpsc,
    time::timeout,
};
use tokio_tungstenite::tungstenite;

use super::scene::{SECRET, Scene};
use crate::unix::connect;

/// Maximum time for a message. A batch of attempts takes a while on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A call that the model makes. In its arguments `"{session}"` stands for the last opened session, and
/// `"{agent}"` for the last started agent.
#[derive(Clone, Debug)]
pub enum ToolCall {
    Function(&'static str, Value),
    Freeform(&'static str, String),
    /// Polls the session until its command has ended.
    AwaitSession,
}

/// The calls of one prompt, and their outputs.
#[derive(Default)]
struct Play {
    calls: VecDeque<ToolCall>,
    made: usize,
    outputs: Vec<String>,
}

type Plays = Arc<Mutex<HashMap<String, Play>>>;

/// How the test's client is connected.
pub enum Listen {
    Stdio,
    /// The argument of `--listen`, and the path of the socket.
    Unix(String, PathBuf),
    WebSocket,
}

pub struct Server {
    pub process: ServerProcess,
    /// The id of the server process.
    pub pid: u32,
    /// `IP:PORT` of a websocket.
    pub address: Option<String>,
    outgoing: Option<mpsc::UnboundedSender<String>>,
    incoming: mpsc::UnboundedReceiver<Value>,
    next_id: u64,
    model: ModelServer,
    plays: Plays,
    /// Answers to the server's requests, by method. Other requests are declined.
    pub answers: HashMap<&'static str, Value>,
    /// Methods of the received requests.
    pub questions: Vec<String>,
}

/// A thread of the server, with the policy that its next turn names.
pub struct Thread {
    pub id: String,
    policy: Option<Value>,
}

impl Server {
    /// Starts a server in the scene's mode. `config` is TOML: keys first, tables after them.
    pub async fn start(scene: &Scene, listen: Listen, config: &str) -> Self {
        let plays = Plays::default();
        let decide = {
            let plays = plays.clone();
            move |request: &RecordedRequest| next_reply(&plays, request)
        };
        let model = ModelServer::start(Script::new().respond_with(decide)).await;
        let home = scene.home();
        scene.write(&home.join("config.toml"), &configuration(&model, config));
        let mut arguments = vec!["app-server".to_owned()];
        match &listen {
            Listen::Stdio => {}
            Listen::Unix(address, _) => arguments.extend(["--listen".to_owned(), address.clone()]),
            Listen::WebSocket => arguments.extend(["--listen".to_owned(), "ws://127.0.0.1:0".to_owned()]),
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut process = ServerProcess::spawn_with(&home, [""; 0], |command| {
            let mut codicil = scene.mode.codicil(scene, &arguments);
            use std::process::Stdio;
            codicil.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            *command = codicil.into();
            command.kill_on_drop(true);
        });
        let (outgoing, to_write) = mpsc::unbounded_channel();
        let (to_read, incoming) = mpsc::unbounded_channel();
        let mut address = None;
        match listen {
            Listen::Stdio => carry_lines(process.take_stdout(), process.take_stdin(), to_read, to_write),
            Listen::Unix(_, path) => {
                let (reader, writer) = connect(&path).await.into_split();
                carry_lines(reader, writer, to_read, to_write);
            }
            Listen::WebSocket => {
                let announced = process.announced_address().await;
                carry_frames(&announced, to_read, to_write).await;
                address = Some(announced);
            }
        }
        let pid = process.id();
        let mut server = Self {
            process,
            pid,
            address,
            outgoing: Some(outgoing),
            incoming,
            next_id: 0,
            model,
            plays,
            answers: HashMap::new(),
            questions: Vec::new(),
        };
        let capabilities = json!({ "experimentalApi": true });
        let hello =
            json!({ "clientInfo": { "name": "escapes", "version": "1" }, "capabilities": capabilities });
        server.call("initialize", hello).await;
        server
    }

    /// Ends the connection; over stdio the server ends with it.
    pub fn close(&mut self) {
        self.outgoing = None;
    }

    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        self.write(&json!({ "id": id, "method": method, "params": params }));
        id
    }

    fn write(&self, message: &Value) {
        // A server that has ended is noticed when reading.
        let _ = self.outgoing.as_ref().expect("the connection is open").send(message.to_string());
    }

    /// Returns the next notification or response. Requests of the server are answered on the way.
    pub async fn next(&mut self) -> Value {
        loop {
            let received = timeout(PATIENCE, self.incoming.recv()).await;
            let message = match received {
                Ok(Some(message)) => message,
                other => panic!("no message ({other:?}); standard error:\n{}", self.process.stderr()),
            };
            let (Some(method), Some(id)) = (message["method"].as_str(), message.get("id")) else {
                return message;
            };
            let answer = self.answers.get(method).cloned();
            let answer = answer.unwrap_or_else(|| json!({ "decision": "decline" }));
            self.questions.push(method.to_owned());
            self.write(&json!({ "id": id, "result": answer }));
        }
    }

    /// Waits for a response and drops the notifications before it.
    pub async fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.next().await;
            if message["id"] == id {
                return message;
            }
        }
    }

    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id).await
    }

    /// Returns the result of a request that must succeed.
    pub async fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.call(method, params.clone()).await;
        assert!(answer.get("result").is_some(), "{method} {params}: {answer}");
        answer["result"].clone()
    }

    pub async fn notification(&mut self, method: &str, matches: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.next().await;
            if message["method"] == method && matches(&message["params"]) {
                return message["params"].clone();
            }
        }
    }

    /// Starts a thread with the approval policy `never`. `more` are further members of `thread/start`.
    pub async fn start_thread(&mut self, cwd: &Path, policy: Value, more: Value) -> Thread {
        let sandbox = match policy["type"].as_str() {
            Some("readOnly") => "read-only",
            Some("dangerFullAccess") => "danger-full-access",
            _ => "workspace-write",
        };
        let mut params = json!({ "cwd": cwd, "approvalPolicy": "never", "sandbox": sandbox });
        let members = more.as_object().cloned().unwrap_or_default();
        params.as_object_mut().unwrap().extend(members);
        let started = self.result("thread/start", params).await;
        Thread { id: started["thread"]["id"].as_str().unwrap().to_owned(), policy: Some(policy) }
    }

    /// Runs a turn in which the model makes these calls, and returns their outputs.
    pub async fn turn(&mut self, thread: &mut Thread, calls: Vec<ToolCall>) -> Vec<String> {
        let prompt = self.start_turn(thread, calls).await;
        self.end_of_turn(&thread.id.clone()).await;
        self.outputs(&prompt)
    }

    /// Starts a turn and returns its prompt.
    pub async fn start_turn(&mut self, thread: &mut Thread, calls: Vec<ToolCall>) -> String {
        let prompt = self.script(calls);
        let mut params = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": prompt }] });
        if let Some(policy) = thread.policy.take() {
            params["sandboxPolicy"] = policy;
        }
        self.result("turn/start", params).await;
        prompt
    }

    pub async fn end_of_turn(&mut self, thread: &str) {
        self.notification("turn/completed", |params| params["threadId"] == thread).await;
    }

    /// Returns a prompt at which the model makes these calls.
    pub fn script(&mut self, calls: Vec<ToolCall>) -> String {
        let mut plays = self.plays.lock();
        let prompt = format!("play-{}-", plays.len());
        plays.insert(prompt.clone(), Play { calls: calls.into(), ..Play::default() });
        prompt
    }

    /// Returns the outputs of the calls at this prompt so far.
    pub fn outputs(&self, prompt: &str) -> Vec<String> {
        self.plays.lock().get(prompt).map(|play| play.outputs.clone()).unwrap_or_default()
    }
}

impl Server {
    /// Returns whether a request to the model at this prompt contained this text.
    pub fn model_saw(&self, prompt: &str, text: &str) -> bool {
        let requests = self.model.requests();
        let requests = requests.iter().filter(|request| prompt_of(request).as_deref() == Some(prompt));
        requests.into_iter().any(|request| String::from_utf8_lossy(request.bytes()).contains(text))
    }
}

impl Thread {
    /// A thread that was opened otherwise, and keeps its policy.
    pub fn opened(answer: &Value) -> Self {
        Self { id: answer["thread"]["id"].as_str().unwrap().to_owned(), policy: None }
    }
}

fn configuration(model: &ModelServer, config: &str) -> String {
    format!(
        "model = \"mock-model\"\nmodel_provider = \"mock\"\nallow_login_shell = false\n\
         tool_output_token_limit = 200000\n{config}\n\
         [model_providers.mock]\nname = \"mock\"\nbase_url = \"{}\"\nwire_api = \"responses\"\n\
         request_max_retries = 0\nstream_max_retries = 0\n\
         http_headers = {{ \"X-Key\" = \"{SECRET}\" }}\n",
        model.base_url()
    )
}

/// Returns the next call of the play that the request belongs to.
fn next_reply(plays: &Plays, request: &RecordedRequest) -> Reply {
    let Some(prompt) = prompt_of(request) else { return Reply::new().say("Nothing to do") };
    let mut plays = plays.lock();
    let Some(play) = plays.get_mut(&prompt) else { return Reply::new().say("Nothing to do") };
    let outputs = (0..play.made).map_while(|made| request.tool_output(&format!("{prompt}.{made}")));
    play.outputs = outputs.collect();
    while let Some(call) = play.calls.front().cloned() {
        let id = format!("{prompt}.{}", play.made);
        let reply = match call {
            ToolCall::AwaitSession if !is_running(play.outputs.last()) => {
                play.calls.pop_front();
                continue;
            }
            ToolCall::AwaitSession => {
                let mut look = json!({ "session_id": "{session}", "chars": "", "yield_time_ms": 30_000 });
                fill_in(&mut look, &play.outputs);
                play.made += 1;
                return Reply::new().call("write_stdin", look).call_id(id);
            }
            ToolCall::Function(name, mut arguments) => {
                fill_in(&mut arguments, &play.outputs);
                Reply::new().call(name, arguments)
            }
            ToolCall::Freeform(name, input) => Reply::new().custom_call(name, input),
        };
        play.calls.pop_front();
        play.made += 1;
        return reply.call_id(id);
    }
    Reply::new().say("Done")
}

fn prompt_of(request: &RecordedRequest) -> Option<String> {
    let parts = |item: &Value| item["content"].as_array().cloned().unwrap_or_default();
    let texts = request.input().iter().rev().filter(|item| item["role"] == "user").flat_map(parts);
    let mut texts = texts.filter_map(|part| part["text"].as_str().map(str::to_owned));
    texts.find(|text| text.starts_with("play-"))
}

const RUNNING: &str = "Process running with session ID ";

fn is_running(output: Option<&String>) -> bool {
    output.is_some_and(|output| output.contains(RUNNING))
}

/// Fills in the placeholders of sessions and agents.
fn fill_in(arguments: &mut Value, outputs: &[String]) {
    let session = || {
        let found = outputs.iter().rev().find_map(|output| output.split_once(RUNNING));
        found.and_then(|(_, rest)| rest.lines().next()?.trim().parse::<u64>().ok()).unwrap_or(0).into()
    };
    let agent = || {
        let started = outputs.iter().rev().filter_map(|output| serde_json::from_str::<Value>(output).ok());
        started.map(|output| output["agent_id"].clone()).find(Value::is_string).unwrap_or_default()
    };
    match arguments {
        Value::String(text) if text == "{session}" => *arguments = session(),
        Value::String(text) if text == "{agent}" => *arguments = agent(),
        Value::Array(list) => list.iter_mut().for_each(|value| fill_in(value, outputs)),
        Value::Object(members) => members.values_mut().for_each(|value| fill_in(value, outputs)),
        _ => {}
    }
}

/// Moves messages between channels and lines. Both tasks end with their channel or their stream.
fn carry_lines(
    reader: impl AsyncRead + Unpin + Send + 'static,
    mut writer: impl AsyncWrite + Unpin + Send + 'static,
    to_read: mpsc::UnboundedSender<Value>,
    mut to_write: mpsc::UnboundedReceiver<String>,
) {
    tokio::spawn(async move {
        let mut lines = BufReader::new(reader).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let _ = to_read.send(serde_json::from_str(&line).expect("the server writes JSON"));
        }
    });
    tokio::spawn(async move {
        while let Some(line) = to_write.recv().await {
            if writer.write_all((line + "\n").as_bytes()).await.is_err() {
                return;
            }
        }
    });
}

/// As [`carry_lines`], with a websocket.
async fn carry_frames(
    address: &str,
    to_read: mpsc::UnboundedSender<Value>,
    mut to_write: mpsc::UnboundedReceiver<String>,
) {
    let stream = TcpStream::connect(address).await.expect("the server listens");
    let connected = tokio_tungstenite::client_async(format!("ws://{address}/"), stream).await;
    let (stream, _) = connected.expect("the server takes websockets");
    let (mut writer, mut reader) = stream.split();
    tokio::spawn(async move {
        while let Some(Ok(message)) = reader.next().await {
            if let tungstenite::Message::Text(text) = message {
                let _ = to_read.send(serde_json::from_str(&text).expect("the server writes JSON"));
            }
        }
    });
    tokio::spawn(async move {
        while let Some(text) = to_write.recv().await {
            if writer.send(tungstenite::Message::Text(text.into())).await.is_err() {
                return;
            }
        }
    });
}
