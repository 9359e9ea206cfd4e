//! `codicil debug app-server send-message-v2`.

use std::process::{Command, Output, Stdio};

use codicil_testkit::{ModelServer, Reply, Script};
use serde_json::Value;

use crate::text;

async fn send(script: impl Into<Script>, arguments: &'static [&'static str]) -> Output {
    let model = ModelServer::start(script).await;
    let home = tempfile::tempdir().unwrap();
    let config = format!(
        "model_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\nbase_url = \"{}\"\n\
         wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n",
        model.base_url()
    );
    std::fs::write(home.path().join("config.toml"), config).unwrap();
    let run = move || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.args(["debug", "app-server"]).args(arguments).current_dir(home.path());
        command.env("CODICIL_HOME", home.path()).env_remove("RUST_LOG").stdin(Stdio::null());
        command.output().unwrap()
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_is_sent_and_every_message_of_the_connection_printed() {
    let arguments = &["send-message-v2", "Hello, world!", "-c", "model=some-model"];
    let output = send(Script::new().say("Hello back"), arguments).await;
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    let parse = |mark: &str| -> Vec<Value> {
        let lines = printed.lines().filter_map(|line| line.strip_prefix(mark));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let sent = parse("> ");
    let received = parse("< ");
    assert_eq!(sent.len() + received.len(), printed.lines().count());
    let methods: Vec<_> = sent.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "initialized", "thread/start", "turn/start"]);
    assert_eq!(sent[3]["params"]["input"][0]["text"], "Hello, world!");
    assert!(received.iter().any(|message| message["result"]["model"] == "some-model"), "{printed}");
    assert!(received.iter().any(|message| message["params"]["item"]["text"] == "Hello back"), "{printed}");
    assert_eq!(received.last().unwrap()["method"], "turn/completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_fails_is_an_error() {
    let output = send(Reply::status(401), &["send-message-v2", "Hello"]).await;
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("401"), "{}", text(&output.stderr));
}
