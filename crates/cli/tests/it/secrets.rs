//! Keys and tokens do not appear in logs of any level, errors, answers, reports or stored threads.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use codicil_testkit::{ModelServer, Reply, Script, TestIssuer, visit_page};
use serde_json::{Value, json};

use crate::{raw_server::RawServer, text};

const KEY: &str = "sk-canary-0123456789abcdefghijklmnop";
const BEARER: &str = "canary-bearer-9876543210zyxwvutsrq";
/// Part of both secrets, and of nothing else.
const CANARY: &str = "canary-";

/// Files that store credentials, readable by their owner only.
const CREDENTIAL_FILES: [&str; 2] = ["auth.json", "config.toml"];

struct TestServer {
    folder: tempfile::TempDir,
    issuer: TestIssuer,
    model: ModelServer,
}

impl TestServer {
    async fn new(script: Script) -> Self {
        let issuer = TestIssuer::start().await;
        let model = ModelServer::start(script).await;
        let folder = tempfile::tempdir().unwrap();
        let config = format!(
            "model = \"mock-model\"\nmodel_provider = \"mock\"\n{}\n[model_providers.mock]\nname = \"mock\"\n\
             base_url = \"{}\"\nwire_api = \"responses\"\nrequires_openai_auth = true\nrequest_max_retries = 0\n\
             stream_max_retries = 0\nhttp_headers = {{ x-secret = \"{BEARER}\" }}\n\
             [mcp_servers.far]\nurl = \"http://127.0.0.1:9/mcp\"\nhttp_headers = {{ Authorization = \"Bearer {BEARER}\" }}\n",
            issuer.config(),
            model.base_url()
        );
        fs::create_dir(folder.path().join("home")).unwrap();
        fs::write(folder.path().join("home/config.toml"), config).unwrap();
        Self { folder, issuer, model }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn log(&self) -> PathBuf {
        self.folder.path().join("log")
    }

    async fn server(&self) -> RawServer {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let work = self.folder.path().to_owned();
        RawServer::start(&self.home(), |command| {
            command.env("RUST_LOG", "trace").stderr(Stdio::from(log)).current_dir(work);
        })
        .await
    }

    fn doctor(&self) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.args(["doctor", "--json"]).env("CODICIL_HOME", self.home()).env("RUST_LOG", "trace");
        let output = command.stdin(Stdio::null()).current_dir(self.home()).output().unwrap();
        text(&output.stdout) + &text(&output.stderr)
    }
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

fn assert_absent(what: &str, messages: &str, secrets: &[&str]) {
    for secret in secrets {
        let at = messages.find(secret);
        let around = at.map(|at| &messages[messages.floor_char_boundary(at.saturating_sub(300))..]);
        assert!(at.is_none(), "{what} shows {secret}: {}", &around.unwrap_or_default()[..300]);
    }
}

/// Runs a turn and returns all its messages, as a client would log them.
async fn turn(server: &mut RawServer, thread: &Value, text: &str) -> String {
    let input = json!([{ "type": "text", "text": text }]);
    server.send("turn/start", json!({ "threadId": thread, "input": input })).await;
    let mut messages = String::new();
    loop {
        let message = server.next().await.expect("the server is running");
        messages.push_str(&message.to_string());
        if message["method"] == "turn/completed" {
            return messages;
        }
    }
}

async fn all_messages(test: &TestServer, server: &mut RawServer) -> String {
    let mut messages = String::new();
    let started = server.call("thread/start", json!({})).await;
    let thread = started["result"]["thread"]["id"].clone();
    messages.push_str(&started.to_string());
    messages.push_str(&turn(server, &thread, "hello").await);
    messages.push_str(&turn(server, &thread, "and again").await);
    for (method, params) in [
        ("thread/read", json!({ "threadId": thread, "includeTurns": true })),
        ("account/read", json!({})),
        ("account/rateLimits/read", json!({})),
        ("mcpServerStatus/list", json!({})),
        ("feedback/upload", json!({ "classification": "bug", "threadId": thread, "includeLogs": true })),
    ] {
        messages.push_str(&server.call(method, params).await.to_string());
    }
    assert!(!files(&test.home().join("feedback")).is_empty());
    messages
}

fn assert_nothing_leaked(test: &TestServer, messages: &str, secrets: &[&str]) {
    assert_absent("the messages to clients", messages, secrets);
    assert_absent("the log", &fs::read_to_string(test.log()).unwrap(), secrets);
    assert_absent("doctor", &test.doctor(), secrets);
    for path in files(&test.home()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !CREDENTIAL_FILES.contains(&name.as_str()) {
            let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            assert_absent(&path.display().to_string(), &content, secrets);
        }
    }
}

/// Returns an error that repeats the rejected key, as some providers send.
fn rejected_key() -> Reply {
    Reply::status(401).body(json!({ "error": { "message": format!("Incorrect API key provided: {KEY}") } }))
}

#[tokio::test]
async fn a_key_does_not_leak() {
    let test = TestServer::new(Script::new().say("Hello").reply(rejected_key())).await;
    let mut server = test.server().await;
    let signed_in = server.call("account/login/start", json!({ "type": "apiKey", "apiKey": KEY })).await;
    let messages = signed_in.to_string() + &all_messages(&test, &mut server).await;

    let sent = test.model.requests();
    assert_eq!(sent[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(sent[0].header("x-secret"), Some(BEARER));
    assert!(messages.contains("Incorrect API key provided"), "{messages}");
    assert_nothing_leaked(&test, &messages, &[CANARY, KEY, BEARER]);
    server.close();
    server.process.wait().await;
}

#[tokio::test]
async fn tokens_and_codes_do_not_leak() {
    let test = TestServer::new(Script::new().say("Hello").say("Again")).await;
    let mut server = test.server().await;
    let login = server.call("account/login/start", json!({ "type": "chatgpt" })).await;
    let auth_url = login["result"]["authUrl"].as_str().unwrap();
    let callback = test.issuer.sign_in(auth_url);
    let (status, page) = visit_page(&callback).await;
    assert_eq!(status, 200, "{page}");
    while server.next().await.unwrap()["method"] != "account/updated" {}
    let messages = page + &all_messages(&test, &mut server).await;
    server.call("account/logout", json!({})).await;

    let access = test.model.requests()[0].header("authorization").unwrap().replace("Bearer ", "");
    let exchange = test.issuer.requests().into_iter().find(|(head, _)| head == "POST /oauth/token").unwrap();
    let code = callback.split("code=").nth(1).unwrap().split('&').next().unwrap();
    let verifier = exchange.1.split("code_verifier=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    // The payload of a token is as secret as the token.
    let payload = access.split('.').nth(1).unwrap();
    assert_nothing_leaked(
        &test,
        &messages,
        &[&access, payload, "refresh-1", &verifier, &format!("code={code}")],
    );
    server.close();
    server.process.wait().await;
}
