//! An MCP server over HTTP, optionally protected by OAuth with its own issuer.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::oneshot;

use crate::web::{Handler, Reply, Seen, Web};

/// The behaviour of a site.
#[derive(Clone, Copy, Default)]
pub struct Habits {
    /// Requires a token.
    pub guarded: bool,
    /// Publishes metadata as of protocol version 2025-06-18; otherwise as before.
    pub modern: bool,
    /// Gives registered clients a secret.
    pub confidential: bool,
    /// Publishes no OAuth metadata.
    pub unpublished: bool,
    /// Redirects `/mcp` to `/mcp/`.
    pub redirects: bool,
    /// Challenges only messages, not the request for a stream.
    pub quiet: bool,
}

#[derive(Default)]
struct State {
    base: String,
    habits: Habits,
    sessions: HashSet<String>,
    session_count: usize,
    tokens: HashSet<String>,
    refresh_tokens: HashSet<String>,
    token_count: usize,
    /// PKCE challenges and scopes by code.
    codes: HashMap<String, (String, String)>,
    /// Tokens with the scope `write`.
    writers: HashSet<String>,
    /// Receiver of the next elicitation response.
    asked: Option<oneshot::Sender<Value>>,
}

#[derive(Clone)]
pub struct Site {
    pub web: Arc<Web>,
    state: Arc<Mutex<State>>,
}

impl Site {
    pub async fn start(habits: Habits) -> Site {
        let state = Arc::new(Mutex::new(State { habits, ..State::default() }));
        let shared = state.clone();
        let make = move |base: String| -> Handler {
            shared.lock().base = base;
            Arc::new(move |seen| {
                let state = shared.clone();
                Box::pin(async move { answer(seen, &state) })
            })
        };
        Site { web: Arc::new(Web::start(make).await), state }
    }

    pub fn url(&self) -> String {
        format!("{}/mcp", self.web.base)
    }

    pub fn table(&self, more: &str) -> String {
        format!("[mcp_servers.test]\nurl = {:?}\n{more}\n", self.url())
    }

    /// Accepts a token.
    pub fn allow(&self, token: &str) {
        self.state().tokens.insert(token.to_owned());
    }

    pub fn allow_refresh(&self, token: &str) {
        self.state().refresh_tokens.insert(token.to_owned());
    }

    pub fn revoke_all(&self) {
        self.state().tokens.clear();
    }

    pub fn forget_sessions(&self) {
        self.state().sessions.clear();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

fn answer(seen: Seen, state: &Mutex<State>) -> Reply {
    let mut state = state.lock();
    match (seen.method.as_str(), seen.path.as_str()) {
        ("POST", "/mcp") if state.habits.redirects => Reply::status(307).with("location", "/mcp/"),
        ("POST", "/mcp" | "/mcp/") => state.post(&seen),
        ("DELETE", "/mcp" | "/mcp/") => {
            let id = seen.header("mcp-session-id").unwrap_or_default();
            Reply::status(if state.sessions.remove(id) { 200 } else { 404 })
        }
        ("GET", "/mcp" | "/mcp/") if state.habits.guarded && state.habits.modern && !state.habits.quiet => {
            state.challenge()
        }
        ("GET", "/mcp" | "/mcp/") => Reply::status(405),
        ("GET", path) if path.contains("/.well-known/") => state.publish(path),
        ("POST", "/register") => state.register(),
        ("GET", "/authorize") => state.authorize(&seen),
        ("POST", "/token") => state.token(&seen),
        _ => Reply::status(404),
    }
}

impl State {
    fn challenge(&self) -> Reply {
        let challenge = if self.habits.modern {
            format!(
                "Bearer error=\"invalid_token\", resource_metadata=\"{}/.well-known/resource\", scope=\"wanted\"",
                self.base
            )
        } else {
            "Bearer".to_owned()
        };
        Reply::status(401).with("www-authenticate", challenge)
    }

    fn publish(&self, path: &str) -> Reply {
        let base = &self.base;
        if self.habits.unpublished {
            return Reply::status(404);
        }
        match (self.habits.modern, path) {
            (true, "/.well-known/resource") => Reply::json(&json!({
                "resource": format!("{base}/mcp"), "authorization_servers": [format!("{base}/issuer")],
                "scopes_supported": ["ignored"],
            })),
            (true, "/.well-known/oauth-authorization-server/issuer") => {
                self.metadata(&format!("{base}/issuer"))
            }
            // Servers of earlier versions name their issuer without the path.
            (false, "/.well-known/oauth-authorization-server/mcp") => self.metadata(base),
            _ => Reply::status(404),
        }
    }

    fn metadata(&self, issuer: &str) -> Reply {
        let base = &self.base;
        Reply::json(&json!({
            "issuer": issuer, "authorization_endpoint": format!("{base}/authorize"),
            "token_endpoint": format!("{base}/token"), "registration_endpoint": format!("{base}/register"),
            "response_types_supported": ["code"], "code_challenge_methods_supported": ["S256"],
            "scopes_supported": ["a", "b"], "authorization_response_iss_parameter_supported": self.habits.modern,
        }))
    }

    fn register(&self) -> Reply {
        let mut client = json!({ "client_id": "client-1" });
        if self.habits.confidential {
            client["client_secret"] = json!("hush");
        }
        let mut reply = Reply::json(&client);
        reply.status = 201;
        reply
    }

    /// Approves the request and redirects the browser.
    fn authorize(&mut self, seen: &Seen) -> Reply {
        let query = &seen.query;
        assert_eq!(query["response_type"], "code");
        assert_eq!(query["code_challenge_method"], "S256");
        let code = format!("code-{}", self.codes.len());
        let scope = query.get("scope").cloned().unwrap_or_default();
        self.codes.insert(code.clone(), (query["code_challenge"].clone(), scope));
        let mut back = format!("{}?code={code}&state={}", query["redirect_uri"], query["state"]);
        if self.habits.modern {
            back.push_str(&format!("&iss={}/issuer", self.base));
        }
        Reply::status(302).with("location", back)
    }

    fn token(&mut self, seen: &Seen) -> Reply {
        let form = seen.form();
        let mut granted = "a".to_owned();
        let fits = match form["grant_type"].as_str() {
            "authorization_code" => self.codes.remove(&form["code"]).is_some_and(|(challenge, scope)| {
                if scope.contains("write") {
                    granted = scope;
                }
                URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"])) == challenge
            }),
            // A refresh token can be used only once.
            _ => self.refresh_tokens.remove(&form["refresh_token"]),
        };
        let known =
            !self.habits.confidential || seen.header("authorization") == Some("Basic Y2xpZW50LTE6aHVzaA==");
        if !fits || !known {
            let mut refusal = Reply::json(&json!({ "error": "invalid_grant", "error_description": "no" }));
            refusal.status = 400;
            return refusal;
        }
        self.token_count += 1;
        let (token, refresh) =
            (format!("token-{}", self.token_count), format!("refresh-{}", self.token_count));
        self.tokens.insert(token.clone());
        if granted.contains("write") {
            self.writers.insert(token.clone());
        }
        self.refresh_tokens.insert(refresh.clone());
        Reply::json(&json!({ "access_token": token, "token_type": "Bearer", "expires_in": 3600,
            "refresh_token": refresh, "scope": granted }))
    }

    fn post(&mut self, seen: &Seen) -> Reply {
        let token = seen.header("authorization").and_then(|header| header.strip_prefix("Bearer "));
        if self.habits.guarded && !token.is_some_and(|token| self.tokens.contains(token)) {
            return self.challenge();
        }
        let message = seen.json();
        if message["params"]["name"] == "write" && !token.is_some_and(|token| self.writers.contains(token)) {
            let challenge = "Bearer error=\"insufficient_scope\", scope=\"write\"";
            return Reply::status(403).with("www-authenticate", challenge);
        }
        let session = seen.header("mcp-session-id").unwrap_or_default().to_owned();
        if message["method"] == "initialize" {
            return self.initialize(&message);
        }
        if !self.sessions.contains(&session) {
            return Reply::status(404);
        }
        if message["method"].is_null() {
            if let Some(asked) = self.asked.take() {
                let _ = asked.send(message["result"].clone());
            }
            return Reply::status(202);
        }
        if message["id"].is_null() {
            return Reply::status(202);
        }
        self.request(seen, &message)
    }

    fn initialize(&mut self, message: &Value) -> Reply {
        self.session_count += 1;
        let session = format!("session-{}", self.session_count);
        self.sessions.insert(session.clone());
        let result = json!({ "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": { "tools": {} }, "serverInfo": { "name": "site", "version": "1" } });
        Reply::json(&json!({ "jsonrpc": "2.0", "id": message["id"], "result": result }))
            .with("mcp-session-id", session)
    }

    fn request(&mut self, seen: &Seen, message: &Value) -> Reply {
        let id = message["id"].clone();
        let done = move |result: Value| json!({ "jsonrpc": "2.0", "id": id, "result": result });
        let text = |text: String| json!({ "content": [{ "type": "text", "text": text, "extra": 1 }] });
        let params = &message["params"];
        match (message["method"].as_str().unwrap(), params["name"].as_str()) {
            ("tools/list", _) => {
                let names =
                    ["headers", "count", "ask", "huge", "hang", "huge_event", "broken", "cut", "write"];
                let tools = names.map(|name| json!({ "name": name, "inputSchema": { "type": "object" } }));
                Reply::json(&done(json!({ "tools": tools })))
            }
            (_, Some("headers")) => Reply::json(&done(text(json!(seen.headers).to_string()))),
            (_, Some("huge")) => Reply::json(&done(text("z".repeat(codicil_mcp::MESSAGE_BYTES)))),
            (_, Some("huge_event")) => {
                let (reply, events) = Reply::events();
                events.send(&done(text("z".repeat(codicil_mcp::MESSAGE_BYTES))));
                reply
            }
            (_, Some("write")) => Reply::json(&done(text("written".to_owned()))),
            (_, Some("cut")) => Reply::events().0,
            (_, Some("broken")) => Reply::json(&json!("what?")),
            (_, Some("count")) => {
                let (reply, events) = Reply::events();
                for step in 1..=3 {
                    let params =
                        json!({ "progressToken": params["_meta"]["progressToken"], "progress": step });
                    events.send(
                        &json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }),
                    );
                }
                events.send(&done(text("counted".to_owned())));
                reply
            }
            (_, Some("ask")) => {
                let (reply, events) = Reply::events();
                let (sender, answer) = oneshot::channel();
                self.asked = Some(sender);
                events.send(&json!({ "jsonrpc": "2.0", "id": "ask", "method": "elicitation/create",
                    "params": params["arguments"]["params"] }));
                tokio::spawn(async move {
                    if let Ok(answer) = answer.await {
                        events.send(&done(text(answer.to_string())));
                    }
                });
                reply
            }
            (_, Some("hang")) => {
                let (reply, events) = Reply::events();
                let params = json!({ "progressToken": params["_meta"]["progressToken"], "progress": 0 });
                events
                    .send(&json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
                // Stays open until the client disconnects.
                std::mem::forget(events);
                reply
            }
            _ => Reply::json(&done(json!({}))),
        }
    }
}
