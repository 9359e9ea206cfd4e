//! A console with a scripted model, and the steps that most tests begin with.

use std::fs;

use codicil_testkit::{ModelServer, Script, ServerProcess, TestHome};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::ChildStdout,
};

use crate::browser::{Browser, button, textbox};

/// The token of every console here.
const TOKEN: &str = "a token of sixteen characters";

/// The real binary as `codicil console`, with a home of its own.
pub struct Stage {
    pub model: ModelServer,
    pub home: TestHome,
    pub server: ServerProcess,
    /// The link that signs in once.
    pub link: String,
    /// `http://127.0.0.1:PORT`.
    pub origin: String,
    _output: Lines<BufReader<ChildStdout>>,
}

impl Stage {
    /// Starts a console whose threads ask for every command.
    pub async fn start(script: impl Into<Script>) -> Self {
        Self::configured(script, "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n").await
    }

    pub async fn configured(script: impl Into<Script>, config: &str) -> Self {
        let model = ModelServer::start(script).await;
        let home = TestHome::new(config, Some(model.base_url()), "");
        fs::write(home.path().join("token"), TOKEN).unwrap();
        let (server, link, output) = launch(&home, "127.0.0.1:0").await;
        let origin = link.split("/sign-in").next().unwrap_or_default().to_owned();
        Self { model, home, server, link, origin, _output: output }
    }

    /// Kills the server and starts it again at the same address.
    pub async fn kill_and_restart(&mut self) {
        self.server.kill();
        self.server.wait().await;
        let address = self.origin.trim_start_matches("http://").to_owned();
        (self.server, self.link, self._output) = launch(&self.home, &address).await;
    }

    /// Opens a page, after signing in if the browser has not yet.
    pub async fn visit(&self, browser: &Browser, path: &str) {
        browser.open(&format!("{}{path}", self.origin)).await;
        if browser.count([button("Sign in")]).await > 0 {
            browser.fill([textbox("Token")], TOKEN).await;
            browser.click([button("Sign in")]).await;
            browser.until("the list of threads", "return location.pathname === '/'", json!([])).await;
            browser.open(&format!("{}{path}", self.origin)).await;
            // The browser reports the refusal before the sign-in as an error.
            browser.errors().await;
        }
    }

    /// Starts a thread with a message. Returns the path of its page, which is then open.
    pub async fn start_thread(&self, browser: &Browser, message: &str) -> String {
        self.visit(browser, "/new").await;
        browser.fill([("combobox", "Directory")], &self.home.workspace().display().to_string()).await;
        browser.fill([textbox("Message")], message).await;
        browser.click([button("Start thread")]).await;
        let is_open = "return location.pathname.startsWith('/threads/')";
        browser.until("the page of the thread", is_open, json!([])).await;
        browser.address().await.trim_start_matches(&self.origin).to_owned()
    }

    /// Sends a message in the thread that is open.
    pub async fn send(&self, browser: &Browser, message: &str) {
        browser.fill([textbox("Message")], message).await;
        browser.click([button("Send")]).await;
    }

    pub fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.home.workspace().join(name)).ok()
    }
}

async fn launch(home: &TestHome, listen: &str) -> (ServerProcess, String, Lines<BufReader<ChildStdout>>) {
    let token_file = home.path().join("token").display().to_string();
    let workspace = home.workspace().to_owned();
    let arguments = ["console", "--listen", listen, "--token-file", &token_file];
    let mut server = ServerProcess::spawn_with(home.path(), arguments, |command| {
        command.current_dir(workspace);
    });
    let mut lines = BufReader::new(server.take_stdout()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if let Some((_, link)) = line.split_once("The console is at ") {
            return (server, link.to_owned(), lines);
        }
    }
    panic!("the console did not start:\n{}", server.stderr());
}

/// Returns the arguments of a command that needs an approval.
pub fn escalated(command: &str) -> serde_json::Value {
    json!({ "cmd": command, "sandbox_permissions": "require_escalated", "justification": "May I?" })
}

/// Returns a patch that replaces the only line of a file.
pub fn patch(file: &str, old: &str, new: &str) -> String {
    format!("*** Begin Patch\n*** Update File: {file}\n@@\n-{old}\n+{new}\n*** End Patch\n")
}
