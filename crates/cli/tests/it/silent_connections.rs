//! Silent connections do not keep clients out, even with few file descriptors.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::Path,
    process::Stdio,
};

use codicil_testkit::ServerProcess;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpStream, UnixStream},
    process::Command,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::{soon, unix::connect};

/// The limit of open files of the server, and a number of silent connections above it.
const DESCRIPTORS: u32 = 256;
const SILENT: usize = 400;

/// Starts a server with low soft and hard limits of open files.
fn limited_server(home: &Path, arguments: &[&OsStr]) -> ServerProcess {
    ServerProcess::spawn_with(home, arguments, |command| {
        let given = command.as_std();
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(format!("ulimit -n {DESCRIPTORS}; exec \"$0\" \"$@\""));
        shell.arg(given.get_program()).args(given.get_args());
        let set = |(name, value): (&OsStr, Option<&OsStr>)| Some((name.to_owned(), value?.to_owned()));
        shell.envs(given.get_envs().filter_map(set).collect::<Vec<(OsString, OsString)>>());
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        *command = shell;
    })
}

fn hello() -> Value {
    json!({ "id": 0, "method": "initialize", "params": { "clientInfo": { "name": "x", "version": "1" } } })
}

/// Returns requests that need the store and a few descriptors.
fn work() -> [Value; 2] {
    let unconfined = json!({ "type": "dangerFullAccess" });
    [
        json!({ "id": 0, "method": "thread/start", "params": {} }),
        json!({ "id": 0, "method": "command/exec", "params": { "command": ["echo", "hi"], "sandboxPolicy": unconfined } }),
    ]
}

type WebSocket = WebSocketStream<TcpStream>;

async fn ask(socket: &mut WebSocket, request: Value) -> Value {
    socket.send(Message::text(request.to_string())).await.unwrap();
    loop {
        let message = soon(socket.next()).await.unwrap().unwrap();
        let message: Value = serde_json::from_str(message.to_text().unwrap()).unwrap();
        if message.get("id").is_some() {
            return message;
        }
    }
}

async fn sign_in(address: &str) -> WebSocket {
    let mut request = format!("ws://{address}/").into_client_request().unwrap();
    request.headers_mut().insert("authorization", "Bearer s3cret".parse().unwrap());
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut socket, _) = soon(client_async(request, stream)).await.unwrap();
    let answer = ask(&mut socket, hello()).await;
    assert!(answer.get("result").is_some(), "{answer}");
    socket
}

#[tokio::test]
async fn silent_connections_do_not_block_a_websocket_listener() {
    let home = tempfile::tempdir().unwrap();
    let token = home.path().join("token");
    fs::write(&token, "s3cret").unwrap();
    let arguments = ["app-server", "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token"];
    let arguments: Vec<_> = arguments.into_iter().chain(["--ws-token-file"]).map(OsStr::new).collect();
    let mut process = limited_server(home.path(), &[&arguments[..], &[token.as_os_str()]].concat());
    let address = process.announced_address().await;
    let mut early = sign_in(&address).await;

    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(TcpStream::connect(&address).await.unwrap());
    }

    let mut late = sign_in(&address).await;
    for socket in [&mut early, &mut late] {
        for request in work() {
            let answer = ask(socket, request).await;
            assert!(answer.get("result").is_some(), "{answer}");
        }
    }
    // The oldest silent connection was closed, long before its timeout.
    let end = soon(silent[0].read(&mut [0])).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    process.terminate();
    process.expect_success().await;
}

async fn ask_in_lines(stream: &mut BufReader<UnixStream>, request: Value) -> Value {
    stream.write_all(format!("{request}\n").as_bytes()).await.unwrap();
    loop {
        let mut line = String::new();
        soon(stream.read_line(&mut line)).await.unwrap();
        let message: Value = serde_json::from_str(&line).unwrap();
        if message.get("id").is_some() {
            return message;
        }
    }
}

#[tokio::test]
async fn silent_connections_do_not_block_a_unix_socket() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let listen = format!("unix://{}", path.display());
    let arguments = ["app-server", "--listen", &listen].map(OsStr::new);
    let mut process = limited_server(home.path(), &arguments);
    let mut early = BufReader::new(connect(&path).await);
    ask_in_lines(&mut early, hello()).await;

    let mut silent = Vec::new();
    for _ in 0..SILENT {
        silent.push(connect(&path).await);
    }

    let mut late = BufReader::new(connect(&path).await);
    for stream in [&mut early, &mut late] {
        ask_in_lines(stream, hello()).await;
        for request in work() {
            let answer = ask_in_lines(stream, request).await;
            assert!(answer.get("result").is_some(), "{answer}");
        }
    }
    let end = soon(silent[0].read(&mut [0])).await;
    assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
    process.terminate();
    process.expect_success().await;
}
