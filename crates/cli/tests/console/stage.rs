//! A console with a scripted model, and the steps that most tests begin with.

use std::{fs, path::Path};

use codicil_testkit::{ModelServer, Script, ServerProcess, TestHome};
use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines},
    net::TcpStream,
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
        let asks_for_token = "return document.querySelector('form[action=\"/sign-in\"]') !== null";
        if browser.script(asks_for_token, json!([])).await == json!(true) {
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
        self.start_thread_in(browser, self.home.workspace(), message).await
    }

    /// The same, in this directory.
    pub async fn start_thread_in(&self, browser: &Browser, directory: &Path, message: &str) -> String {
        self.visit(browser, "/new").await;
        browser.fill([("combobox", "Directory")], &directory.display().to_string()).await;
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

    /// Signs in without a browser. Returns the cookie.
    pub async fn sign_in(&self) -> String {
        let body = format!("token={}", TOKEN.replace(' ', "+"));
        let response = self.request("POST", "/sign-in", "", &body).await;
        let cookie = response.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        cookie.and_then(|cookie| cookie.split(';').next()).expect("the token signs in").to_owned()
    }

    /// Sends a form without a browser. Returns where the answer leads.
    pub async fn post(&self, cookie: &str, path: &str, fields: &str) -> String {
        let page = self.request("GET", "/", cookie, "").await;
        let token = page.split("name=\"csrf\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
        let body = format!("csrf={}&{fields}", token.expect("a page has the token"));
        let response = self.request("POST", path, cookie, &body).await;
        let location = response.lines().find_map(|line| line.strip_prefix("location: "));
        location.unwrap_or_else(|| panic!("{path} was refused: {response}")).to_owned()
    }

    /// Sends a request without a browser. Returns the head and the body of the response.
    pub async fn request(&self, method: &str, path: &str, cookie: &str, body: &str) -> String {
        let host = self.origin.trim_start_matches("http://");
        let mut stream = TcpStream::connect(host).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: {}\r\nCookie: {cookie}\r\nConnection: close\r\n\
             Content-Length: {}\r\n\r\n{body}",
            self.origin,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        response.replace("\r\n", "\n")
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
