//! `codicil login`, `login status`, `logout`, and credentials in the log of a server.

use std::{fs, path::Path};

use codicil_testkit::{ServerProcess, TestIssuer, visit_page};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

use crate::soon;

fn home(issuer: &TestIssuer) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("config.toml"), issuer.config()).unwrap();
    home
}

/// Starts a command without a desktop or a key in its environment.
fn spawn(home: &Path, arguments: &[&str]) -> ServerProcess {
    ServerProcess::spawn_with(home, arguments, |command| {
        for name in ["BROWSER", "DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "CODEX_API_KEY"] {
            command.env_remove(name);
        }
    })
}

/// Runs a command. Returns its exit code, standard output and standard error.
async fn run(home: &Path, arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut process = spawn(home, arguments);
    let mut stdin = process.take_stdin();
    // A command that does not read may have ended.
    let _ = stdin.write_all(input.as_bytes()).await;
    drop(stdin);
    let mut output = String::new();
    soon(process.take_stdout().read_to_string(&mut output)).await.unwrap();
    let code = process.wait().await.code().unwrap();
    (code, output.trim().to_owned(), process.whole_stderr().await.trim().to_owned())
}

#[tokio::test]
async fn a_key_is_read_from_standard_input() {
    let home = home(&TestIssuer::start().await);
    let home = home.path();
    let status = ["login", "status"];
    assert_eq!(run(home, &status, "").await, (1, "Not signed in".into(), String::new()));
    let signed_in = (0, "Signed in with an API key".to_owned(), String::new());
    assert_eq!(run(home, &["login", "--with-api-key"], " sk-canary\n").await, signed_in);
    assert_eq!(run(home, &status, "").await, signed_in);
    let stored: Value = serde_json::from_slice(&fs::read(home.join("auth.json")).unwrap()).unwrap();
    assert_eq!(stored["OPENAI_API_KEY"], "sk-canary");
    assert_eq!(run(home, &["logout"], "").await, (0, "Signed out".into(), String::new()));
    assert_eq!(run(home, &["logout"], "").await, (0, "Not signed in".into(), String::new()));
    assert_eq!(run(home, &status, "").await.0, 1);
}

#[tokio::test]
async fn failures_are_reported() {
    let home = home(&TestIssuer::start().await);
    let home = home.path();
    let (code, _, error) = run(home, &["login", "--with-api-key"], "  \n").await;
    assert_eq!((code, error.as_str()), (1, "codicil: there was no key on standard input"));
    let forced = ["-c", "forced_login_method=\"chatgpt\"", "login", "--with-api-key"];
    let (code, _, error) = run(home, &forced, "sk-1").await;
    assert_eq!((code, error.as_str()), (1, "codicil: API key login is disabled. Use ChatGPT login instead."));
    let nowhere = ["-c", "codicil.login.issuer=\"http://127.0.0.1:9\"", "login", "--device-auth"];
    let (code, _, error) = run(home, &nowhere, "").await;
    assert_eq!(code, 1);
    assert!(error.starts_with("codicil: failed to request device code: could not reach"), "{error}");
    let both = run(home, &["login", "--device-auth", "--with-api-key"], "").await;
    assert_eq!(both.0, 2, "a wrong command line");
}

#[tokio::test]
async fn the_url_is_printed_and_the_sign_in_awaited() {
    let issuer = TestIssuer::start().await;
    let home = home(&issuer);
    let mut process = spawn(home.path(), &["login"]);
    let mut lines = BufReader::new(process.take_stdout()).lines();
    let url = loop {
        let line = soon(lines.next_line()).await.unwrap().expect("an address");
        if line.trim().starts_with("http") {
            break line.trim().to_owned();
        }
    };

    let (status, page) = visit_page(&issuer.sign_in(&url)).await;

    assert_eq!(status, 200, "{page}");
    process.expect_success().await;
    let mut rest = Vec::new();
    while let Some(line) = soon(lines.next_line()).await.unwrap() {
        rest.push(line);
    }
    let last = rest.last().map(String::as_str);
    assert_eq!(last, Some("Signed in with ChatGPT as user@example.com (pro)"), "{rest:?}");
    assert_eq!(run(home.path(), &["login", "status"], "").await.0, 0);
}

#[tokio::test]
async fn a_device_code_is_shown() {
    let issuer = TestIssuer::start().await;
    let home = home(&issuer);
    issuer.type_code("ABCD-1234");
    let (code, output, error) = run(home.path(), &["login", "--device-auth"], "").await;
    assert_eq!((code, error.as_str()), (0, ""));
    assert!(output.contains("/codex/device") && output.contains("  ABCD-1234"), "{output}");
    assert!(output.ends_with("Signed in with ChatGPT as user@example.com (pro)"), "{output}");
}

/// Uses everything with secrets: a key, tokens, codes, and an error that repeats them.
#[tokio::test]
async fn no_secret_is_logged_at_any_level() {
    let issuer = TestIssuer::start().await;
    let home = home(&issuer);
    let mut process = ServerProcess::spawn_with(home.path(), ["app-server"], |command| {
        command.env("RUST_LOG", "trace").env_remove("CODEX_API_KEY");
    });
    let mut stdin = process.take_stdin();
    let stdout = process.take_stdout();
    let mut lines = BufReader::new(stdout).lines();
    let mut secrets = vec!["sk-canary".to_owned()];
    let mut call = async |id: u64, method: &str, params: Value| {
        let message = json!({ "id": id, "method": method, "params": params });
        stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
        loop {
            let line = soon(lines.next_line()).await.unwrap().expect("the server is running");
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
    };
    let hello = json!({ "clientInfo": { "name": "test", "version": "1" } });
    call(1, "initialize", hello).await;
    call(2, "account/login/start", json!({ "type": "apiKey", "apiKey": "sk-canary" })).await;
    let started = call(3, "account/login/start", json!({ "type": "chatgpt" })).await;
    let callback = issuer.sign_in(started["result"]["authUrl"].as_str().unwrap());
    secrets.push(callback.split("state=").nth(1).unwrap().to_owned());
    visit_page(&callback).await;
    let stored: Value = serde_json::from_slice(&fs::read(home.path().join("auth.json")).unwrap()).unwrap();
    let tokens = stored["tokens"].as_object().unwrap();
    secrets.extend(
        tokens
            .iter()
            .filter(|(name, _)| name.ends_with("_token"))
            .map(|(_, token)| token.as_str().unwrap().to_owned()),
    );
    issuer.expire();
    call(4, "account/rateLimits/read", Value::Null).await;
    secrets.push(issuer.access_token().unwrap());
    issuer.refuse(Some((401, json!({ "error": { "message": "refresh-2 was used" } }))));
    secrets.push("refresh-2".to_owned());
    call(5, "account/read", json!({ "refreshToken": true })).await;
    call(6, "account/logout", Value::Null).await;
    drop(stdin);
    process.expect_success().await;

    let log = process.whole_stderr().await;
    assert!(log.contains("account/rateLimits/read"), "the log is on:\n{log}");
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} shows in the log:\n{log}");
    }
}
