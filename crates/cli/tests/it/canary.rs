//! Keys and tokens stay where they belong: not in logs at any level, errors, answers, reports or stored threads.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use codicil_testkit::{ModelServer, Reply, Script, TestIssuer, visit};
use serde_json::{Value, json};

use crate::{raw::Raw, text};

const KEY: &str = "sk-canary-0123456789abcdefghijklmnop";
const BEARER: &str = "canary-bearer-9876543210zyxwvutsrq";
/// Part of both, and of nothing else.
const CANARY: &str = "canary-";

/// Files that are there to keep credentials, each for its owner only.
const KEEPERS: [&str; 2] = ["auth.json", "config.toml"];

struct Place {
    folder: tempfile::TempDir,
    issuer: TestIssuer,
    model: ModelServer,
}

impl Place {
    async fn new(script: Script) -> Self {
        let (issuer, model) = (TestIssuer::start().await, ModelServer::start(script).await);
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

    async fn server(&self) -> Raw {
        let log = File::options().create(true).append(true).open(self.log()).unwrap();
        let work = self.folder.path().to_owned();
        Raw::start(&self.home(), |command| {
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
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

fn assert_silent(what: &str, said: &str, secrets: &[&str]) {
    for secret in secrets {
        let at = said.find(secret);
        let around = at.map(|at| &said[said.floor_char_boundary(at.saturating_sub(300))..]);
        assert!(at.is_none(), "{what} shows {secret}: {}", &around.unwrap_or_default()[..300]);
    }
}

/// Everything that is said until the turn is over, which is what a client would log.
async fn turn(server: &mut Raw, thread: &Value, words: &str) -> String {
    let input = json!([{ "type": "text", "text": words }]);
    server.send("turn/start", json!({ "threadId": thread, "input": input })).await;
    let mut said = String::new();
    loop {
        let message = server.next().await.expect("the server goes on");
        said.push_str(&message.to_string());
        if message["method"] == "turn/completed" {
            return said;
        }
    }
}

async fn everything_said(place: &Place, server: &mut Raw) -> String {
    let mut said = String::new();
    let started = server.call("thread/start", json!({})).await;
    let thread = started["result"]["thread"]["id"].clone();
    said.push_str(&started.to_string());
    said.push_str(&turn(server, &thread, "hello").await);
    said.push_str(&turn(server, &thread, "and again").await);
    for (method, params) in [
        ("thread/read", json!({ "threadId": thread, "includeTurns": true })),
        ("account/read", json!({})),
        ("account/rateLimits/read", json!({})),
        ("mcpServerStatus/list", json!({})),
        ("feedback/upload", json!({ "classification": "bug", "threadId": thread, "includeLogs": true })),
    ] {
        said.push_str(&server.call(method, params).await.to_string());
    }
    assert!(!files(&place.home().join("feedback")).is_empty());
    said
}

fn assert_nothing_leaked(place: &Place, said: &str, secrets: &[&str]) {
    assert_silent("what clients are told", said, secrets);
    assert_silent("the log", &fs::read_to_string(place.log()).unwrap(), secrets);
    assert_silent("doctor", &place.doctor(), secrets);
    for path in files(&place.home()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !KEEPERS.contains(&name.as_str()) {
            let content = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
            assert_silent(&path.display().to_string(), &content, secrets);
        }
    }
}

/// A provider that repeats the key it refuses, as some do.
fn refusal() -> Reply {
    Reply::status(401).body(json!({ "error": { "message": format!("Incorrect API key provided: {KEY}") } }))
}

#[tokio::test]
async fn a_key_is_nowhere_to_be_seen() {
    let place = Place::new(Script::new().say("Hello").reply(refusal())).await;
    let mut server = place.server().await;
    let signed_in = server.call("account/login/start", json!({ "type": "apiKey", "apiKey": KEY })).await;
    let said = signed_in.to_string() + &everything_said(&place, &mut server).await;

    let sent = place.model.requests();
    assert_eq!(sent[0].header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(sent[0].header("x-secret"), Some(BEARER));
    assert!(said.contains("Incorrect API key provided"), "{said}");
    assert_nothing_leaked(&place, &said, &[CANARY, KEY, BEARER]);
    server.close();
    server.process.wait().await;
}

#[tokio::test]
async fn tokens_and_codes_are_nowhere_to_be_seen() {
    let place = Place::new(Script::new().say("Hello").say("Again")).await;
    let mut server = place.server().await;
    let login = server.call("account/login/start", json!({ "type": "chatgpt" })).await;
    let auth_url = login["result"]["authUrl"].as_str().unwrap();
    let callback = place.issuer.sign_in(auth_url);
    let (status, page) = visit(&callback).await;
    assert_eq!(status, 200, "{page}");
    while server.next().await.unwrap()["method"] != "account/updated" {}
    let said = page + &everything_said(&place, &mut server).await;
    server.call("account/logout", json!({})).await;

    let access = place.model.requests()[0].header("authorization").unwrap().replace("Bearer ", "");
    let exchange = place.issuer.requests().into_iter().find(|(head, _)| head == "POST /oauth/token").unwrap();
    let code = callback.split("code=").nth(1).unwrap().split('&').next().unwrap();
    let verifier = exchange.1.split("code_verifier=").nth(1).unwrap().split('&').next().unwrap().to_owned();
    // The payload of a token is as secret as the token.
    let payload = access.split('.').nth(1).unwrap();
    assert_nothing_leaked(
        &place,
        &said,
        &[&access, payload, "refresh-1", &verifier, &format!("code={code}")],
    );
    server.close();
    server.process.wait().await;
}
