//! The client SDK with the real binary, over each transport; and with `codex` if it is installed.

use std::path::Path;

use codicil_client::{
    Client, ClientError, ClientEvent, DisconnectCause, ServerLaunch, UnixSocket, WebSocket, protocol::*, turn,
};
use codicil_testkit::{ModelServer, Reply, Script, ServerProcess, skipped};

use crate::{soon, unix::connect};

/// Returns a home that is configured for the scripted model.
pub fn home(model: &ModelServer) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let config = format!(
        "model = \"mock-model\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\n\
         base_url = \"{}\"\nwire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
        model.base_url()
    );
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    home
}

fn launch(program: impl AsRef<std::ffi::OsStr>, home: &Path) -> ServerLaunch {
    ServerLaunch::new(program)
        .env("CODICIL_HOME", home)
        .env("CODEX_HOME", home)
        .env("HOME", home)
        .env_remove("RUST_LOG")
}

fn codicil(home: &Path) -> ServerLaunch {
    launch(env!("CARGO_BIN_EXE_codicil"), home)
}

/// The two integration tests of the TypeScript client's specification.
async fn list_models_and_run_a_turn(server: ServerLaunch, work: &Path) {
    let client = soon(Client::builder().connect(server)).await.unwrap();
    let models = soon(client.list_models(Default::default())).await.unwrap();
    assert_eq!(models.data.iter().filter(|model| model.is_default).count(), 1);

    let cwd = Some(work.to_string_lossy().into_owned());
    let thread = soon(client.start_thread(ThreadStartParams { cwd, ..Default::default() })).await.unwrap();
    let mut running = soon(client.turn(turn(&thread.id, "echo hello world"))).await.unwrap();
    let mut streamed = String::new();
    while let Some(event) = soon(running.next()).await {
        if let ClientEvent::Notification(ServerNotification::AgentMessageDelta(delta)) = event {
            streamed.push_str(&delta.delta);
        }
    }
    let done = soon(running.finish()).await.unwrap();
    assert_eq!((done.agent_message.as_str(), streamed.as_str()), ("hello world", "hello world"));
    assert_eq!(done.turn.status, TurnStatus::Completed);
    let ended = soon(client.close()).await;
    assert_eq!(ended.cause, DisconnectCause::ClosedByClient);
}

#[tokio::test]
async fn over_stdio() {
    let model = ModelServer::start(Script::new().say_deltas(["hello ", "world"])).await;
    let home = home(&model);
    list_models_and_run_a_turn(codicil(home.path()), home.path()).await;
}

#[tokio::test]
async fn with_the_reference_if_it_is_installed() {
    let found = std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join("codex").is_file()));
    if !found {
        return skipped("there is no codex on the path");
    }
    let model = ModelServer::start(Script::new().repeat(Reply::new().say_deltas(["hello ", "world"]))).await;
    let home = home(&model);
    list_models_and_run_a_turn(launch("codex", home.path()), home.path()).await;
}

#[tokio::test]
async fn over_a_websocket_with_a_token() {
    let model = ModelServer::start(Script::new().say("Hello")).await;
    let home = home(&model);
    let token = home.path().join("token");
    std::fs::write(&token, "s3cret\n").unwrap();
    let token = token.to_str().unwrap();
    let arguments = [
        "app-server",
        "--listen",
        "ws://127.0.0.1:0",
        "--ws-auth",
        "capability-token",
        "--ws-token-file",
        token,
    ];
    let mut process = ServerProcess::spawn(home.path(), arguments);
    let url = format!("ws://{}", process.announced_address().await);
    let refused = soon(Client::builder().connect(WebSocket::new(&url))).await.unwrap_err();
    assert!(refused.to_string().contains("401"), "{refused}");
    let client = soon(Client::builder().connect(WebSocket::new(&url).bearer("s3cret"))).await.unwrap();
    let thread = soon(client.start_thread(Default::default())).await.unwrap();
    let done = soon(client.run_turn(turn(&thread.id, "Hi"))).await.unwrap();
    assert_eq!(done.agent_message, "Hello");
    soon(client.close()).await;
    process.terminate();
    process.expect_success().await;
}

#[tokio::test]
async fn over_a_unix_socket() {
    let model = ModelServer::start(Script::new()).await;
    let home = home(&model);
    let path = home.path().join("socket");
    let listen = format!("unix://{}", path.display());
    let mut process = ServerProcess::spawn(home.path(), ["app-server", "--listen", &listen]);
    drop(connect(&path).await);
    let client = soon(Client::builder().connect(UnixSocket::new(&path))).await.unwrap();
    assert!(soon(client.list_threads(Default::default())).await.unwrap().data.is_empty());
    soon(client.close()).await;
    process.terminate();
    process.expect_success().await;
}

#[tokio::test]
async fn a_server_that_cannot_start_says_why() {
    let home = tempfile::tempdir().unwrap();
    let broken = codicil(home.path()).arg("--strict-config").config("no_such_key", 1);
    let error = soon(Client::builder().connect(broken)).await.unwrap_err();
    let ClientError::Disconnected(ended) = &error else { panic!("{error}") };
    assert!(matches!(ended.cause, DisconnectCause::Exited(exit) if exit.code() == 1), "{error}");
    assert!(error.to_string().contains("no_such_key"), "{error}");
}
