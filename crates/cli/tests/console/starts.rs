//! The ways to start a console: on a server that others use, for a server elsewhere, and with the demo.

use std::fs;

use codicil_testkit::{ModelServer, Script, ServerProcess, TestHome};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::ChildStdout,
};

use crate::{
    browser::{Browser, article, button, textbox},
    stage::escalated,
};

const TOKEN: &str = "a token of sixteen characters";

/// Returns the link that a console prints to standard output, and the output, which has to stay open.
async fn printed_link(process: &mut ServerProcess) -> (String, Lines<BufReader<ChildStdout>>) {
    let mut lines = BufReader::new(process.take_stdout()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some((_, link)) = line.split_once("The console is at ") {
            return (link.to_owned(), lines);
        }
    }
    panic!("no link was printed:\n{}", process.stderr());
}

#[tokio::test]
async fn a_console_shows_a_server_elsewhere() {
    let Some(browser) = Browser::start().await else { return };
    let script =
        Script::new().call("exec_command", escalated("echo far > far")).then().say("Greetings from afar");
    let model = ModelServer::start(script).await;
    let config = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n";
    let home = TestHome::new(config, Some(model.base_url()), "");
    let token = home.path().join("token");
    fs::write(&token, TOKEN).unwrap();
    let token = token.display().to_string();
    let mut server = ServerProcess::spawn(
        home.path(),
        [
            "app-server",
            "--listen",
            "ws://127.0.0.1:0",
            "--ws-auth",
            "capability-token",
            "--ws-token-file",
            &token,
        ],
    );
    let address = format!("ws://{}", server.announced_address().await);

    let own = TestHome::new("", None, "");
    let arguments = ["console", "--listen", "127.0.0.1:0", "--connect", &address, "--token-file", &token];
    let mut console = ServerProcess::spawn(own.path(), arguments);
    let (link, _console_output) = printed_link(&mut console).await;
    browser.open(&link).await;
    browser.find([("main", "Threads")]).await;
    browser.click([("main", "Threads"), ("link", "New thread")]).await;
    browser.fill([("combobox", "Directory")], &home.workspace().display().to_string()).await;
    browser.fill([textbox("Message")], "Say hello").await;
    browser.click([button("Start thread")]).await;
    browser.click([("main", "Thread"), article("Run echo far*"), button("Approve")]).await;
    browser.sees([article("Agent message")], "Greetings from afar").await;
    assert_eq!(fs::read_to_string(home.workspace().join("far")).unwrap(), "far\n");
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_console_is_added_to_a_server() {
    let Some(browser) = Browser::start().await else { return };
    let model = ModelServer::start(Script::new().say("Seen by both")).await;
    let home = TestHome::new("", Some(model.base_url()), "");
    let arguments = ["app-server", "--listen", "ws://127.0.0.1:0", "--console", "http://127.0.0.1:0"];
    let mut server = ServerProcess::spawn(home.path(), arguments);
    let address = format!("ws://{}", server.announced_address().await);
    let line = server.stderr_line("http://").await;
    let link = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();

    // Another client of the same server starts a thread, which appears in the browser by itself.
    browser.open(&link).await;
    browser.sees([("main", "Threads")], "There are no threads yet.").await;
    let client = codicil_client::Client::builder().connect(codicil_client::WebSocket::new(&address));
    let client = client.await.unwrap();
    let thread = client.start_thread(Default::default()).await.unwrap();
    let turn = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "From another client" }] });
    client.run_turn(serde_json::from_value(turn).unwrap()).await.unwrap();
    browser.click([("navigation", "Threads"), ("link", "From another client*")]).await;
    browser.sees([article("Agent message")], "Seen by both").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_demo_is_answered_in_the_browser() {
    let Some(browser) = Browser::start().await else { return };
    let home = TestHome::new("", None, "");
    let mut demo = ServerProcess::spawn(home.path(), ["demo", "--console", "--listen", "127.0.0.1:0"]);
    let (link, _output) = printed_link(&mut demo).await;
    browser.open(&link).await;
    browser.click([("main", "Threads"), ("listitem", ""), ("link", "*")]).await;
    browser.click([("main", "Thread"), button("Approve")]).await;
    browser.gone([button("Stop")]).await;
    browser.sees([("region", "Turn")], "Done").await;
    browser.find([("main", "Thread"), article("Agent message")]).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_console_on_a_network_needs_a_token_and_says_that_it_has_no_tls() {
    let home = TestHome::new("", None, "");
    for arguments in [
        &["console", "--listen", "0.0.0.0:0"][..],
        &["app-server", "--listen", "ws://127.0.0.1:0", "--console", "http://0.0.0.0:0"],
    ] {
        let mut refused = ServerProcess::spawn(home.path(), arguments);
        assert!(!refused.wait().await.success(), "{arguments:?}");
        refused.stderr_line("refusing to show the console on 0.0.0.0:0 without a token").await;
    }
    let token = home.path().join("token");
    for (content, is_enough) in [("short", false), (TOKEN, true)] {
        fs::write(&token, content).unwrap();
        let token = token.display().to_string();
        let arguments = ["console", "--listen", "0.0.0.0:0", "--token-file", &token];
        let mut console = ServerProcess::spawn(home.path(), arguments);
        if is_enough {
            console.stderr_line("without encryption").await;
            console.kill();
        } else {
            console.stderr_line("no token of at least 16 characters").await;
        }
        console.wait().await;
    }
}
