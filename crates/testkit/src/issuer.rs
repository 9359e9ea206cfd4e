//! An OAuth issuer on loopback, with the account backend that its tokens are for.
//!
//! It checks what a real issuer checks: the challenge against the verifier, that a code and a refresh token
//! are used once, that a request to the backend carries the newest token. A test acts as the user
//! ([`sign_in`](TestIssuer::sign_in), [`type_code`](TestIssuer::type_code)) and injects failures. The backend
//! also serves the tools of apps, as an MCP server ([`offer_apps`](TestIssuer::offer_apps)).

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    sync::Arc,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, Response,
    body::Incoming,
    header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::{Mutex, MutexGuard};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, JoinSet},
};

/// The client that the issuer knows.
const CLIENT_ID: &str = "codicil-test";
/// The code that the user enters in the device flow.
const USER_CODE: &str = "ABCD-1234";
const APPS: &str = "POST /backend-api/wham/apps";
/// The account that tokens are issued for.
const ACCOUNT_ID: &str = "acc-1";

/// A scripted issuer. Dropping it closes the port.
pub struct TestIssuer {
    address: String,
    state: Arc<Mutex<IssuerState>>,
    serving: JoinHandle<()>,
}

#[derive(Default)]
struct IssuerState {
    url: String,
    /// Codes that have not been exchanged, with their challenge and redirect URI.
    codes: HashMap<String, (String, String)>,
    /// The issued refresh tokens that have not been used.
    refresh_tokens: HashSet<String>,
    access_token: Option<String>,
    tokens_issued: u64,
    refreshes: u64,
    code_entered: bool,
    announces_revocation: bool,
    /// Status and body for every request to `/oauth/token`, in place of tokens.
    refusal: Option<(u16, Value)>,
    /// The tools of the account's apps; `None` without an MCP server for them.
    app_tools: Option<Vec<Value>>,
    requests: Vec<(String, String)>,
}

/// What a response depends on.
struct IssuerRequest<'r> {
    /// Method and path.
    head: &'r str,
    content_type: &'r str,
    bearer: Option<&'r str>,
    account_id: Option<&'r str>,
    body: &'r str,
}

impl TestIssuer {
    /// Listens on a free port of 127.0.0.1.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound").to_string();
        let state =
            Arc::new(Mutex::new(IssuerState { url: format!("http://{address}"), ..IssuerState::default() }));
        let serving = tokio::spawn(serve(listener, state.clone()));
        Self { address, state, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns keys and a table for `config.toml` that direct all account requests here, and let callbacks
    /// use any port.
    pub fn config(&self) -> String {
        let url = self.url();
        format!(
            "chatgpt_base_url = \"{url}/backend-api\"\n[codicil.login]\nissuer = \"{url}\"\n\
             client_id = \"{CLIENT_ID}\"\ncallback_port = 0\n"
        )
    }

    /// Acts as a user who opens `auth_url` and agrees. Returns the URL that the browser is redirected to.
    pub fn sign_in(&self, auth_url: &str) -> String {
        let (issuer, query) = auth_url.split_once('?').expect("an address with a query");
        assert_eq!(issuer, format!("{}/oauth/authorize", self.url()));
        let query = pairs(query);
        let get = |name: &str| query.get(name).unwrap_or_else(|| panic!("no {name} in {auth_url}"));
        assert_eq!((get("response_type").as_str(), get("client_id").as_str()), ("code", CLIENT_ID));
        assert_eq!(get("code_challenge_method"), "S256");
        let code = format!("code+{}", self.lock().codes.len());
        let redirect = get("redirect_uri").clone();
        self.lock().codes.insert(code.clone(), (get("code_challenge").clone(), redirect.clone()));
        format!("{redirect}?code={}&state={}", code.replace('+', "%2B"), get("state"))
    }

    /// Acts as a user who enters the code of a device.
    pub fn type_code(&self, user_code: &str) {
        assert_eq!(user_code, USER_CODE);
        self.lock().code_entered = true;
    }

    /// Answers every request for tokens with this status and body; `None` ends that.
    pub fn refuse(&self, refusal: Option<(u16, Value)>) {
        self.lock().refusal = refusal;
    }

    /// Invalidates the newest access token, as if it had expired.
    pub fn expire(&self) {
        self.lock().access_token = None;
    }

    /// Publishes the revocation endpoint from now on, as in RFC 8414.
    pub fn announce_revocation(&self) {
        self.lock().announces_revocation = true;
    }

    /// Serves these tools to the account, as the MCP server of its apps. A call returns its params.
    pub fn offer_apps(&self, tools: impl IntoIterator<Item = Value>) {
        self.lock().app_tools = Some(tools.into_iter().collect());
    }

    /// Returns the params of all calls of the apps' tools.
    pub fn app_calls(&self) -> Vec<Value> {
        let requests = self.requests();
        let messages = requests.iter().filter(|(head, _)| head == APPS).map(|(_, body)| read_json(body));
        let calls = messages.filter(|message| message.get("method") == Some(&json!("tools/call")));
        calls.filter_map(|call| call.get("params").cloned()).collect()
    }

    /// Returns whether a refresh token can still be exchanged.
    pub fn takes(&self, refresh_token: &str) -> bool {
        self.lock().refresh_tokens.contains(refresh_token)
    }

    /// Returns the valid access token.
    pub fn access_token(&self) -> Option<String> {
        self.lock().access_token.clone()
    }

    /// Returns how often a refresh token was exchanged.
    pub fn refreshes(&self) -> u64 {
        self.lock().refreshes
    }

    /// Returns all requests: method and path, and body.
    pub fn requests(&self) -> Vec<(String, String)> {
        self.lock().requests.clone()
    }

    /// Returns the content of an `auth.json` after a sign-in.
    pub fn auth_json(&self) -> Value {
        let mut tokens = self.lock().issue_tokens();
        if let Some(tokens) = tokens.as_object_mut() {
            tokens.insert("account_id".to_owned(), json!(ACCOUNT_ID));
        }
        json!({ "auth_mode": "chatgpt", "OPENAI_API_KEY": null, "tokens": tokens, "last_refresh": "2999-01-01T00:00:00Z" })
    }

    fn lock(&self) -> MutexGuard<'_, IssuerState> {
        self.state.lock()
    }
}

impl Drop for TestIssuer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Acts as a browser. Returns the status and the text of a page.
pub async fn visit_page(url: &str) -> (u16, String) {
    let rest = url.strip_prefix("http://").expect("an address on loopback");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let address = host.replace("localhost", "127.0.0.1");
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let request = format!("GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the request is taken");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the answer is text");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
    (status.expect("an HTTP answer"), answer)
}

/// Returns a token in the form of the issuer's, for tests without an issuer.
pub fn test_token(number: u64, account: &str) -> String {
    let auth = json!({ "chatgpt_plan_type": "pro", "chatgpt_account_id": account });
    let payload = json!({
        "n": number, "email": "user@example.com", "exp": 4_000_000_000_u64, "https://api.openai.com/auth": auth,
    });
    format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(payload.to_string()))
}

impl IssuerState {
    fn answer(&mut self, request: &IssuerRequest<'_>) -> (u16, Value) {
        let IssuerRequest { head, content_type, bearer, body, .. } = *request;
        let is_authorized = bearer.is_some() && bearer == self.access_token.as_deref();
        match head {
            "POST /oauth/token" => match self.refusal.clone() {
                Some(refusal) => refusal,
                None if content_type.starts_with("application/json") => self.refresh(&read_json(body)),
                None => self.exchange(&pairs(body)),
            },
            "GET /.well-known/openid-configuration" if self.announces_revocation => {
                (200, json!({ "revocation_endpoint": format!("{}/revoke", self.url) }))
            }
            "POST /revoke" => self.revoke(pairs(body).get("token")),
            "POST /oauth/revoke" => {
                self.revoke(read_json(body).get("token").and_then(Value::as_str).map(str::to_owned).as_ref())
            }
            "POST /api/accounts/deviceauth/usercode" => {
                (200, json!({ "device_auth_id": "device-1", "user_code": USER_CODE, "interval": "0" }))
            }
            "POST /api/accounts/deviceauth/token" => self.device(&read_json(body)),
            "GET /backend-api/wham/usage" if is_authorized => {
                let window =
                    json!({ "used_percent": 25, "limit_window_seconds": 900, "reset_at": 1_900_000_000 });
                (200, json!({ "plan_type": "pro", "rate_limit": { "primary_window": window } }))
            }
            APPS if is_authorized && request.account_id == Some(ACCOUNT_ID) => {
                self.answer_app(&read_json(body))
            }
            "GET /backend-api/wham/usage" | APPS => (401, json!({ "detail": "unauthorized" })),
            _ => (404, json!({ "detail": "not found" })),
        }
    }

    fn answer_app(&self, message: &Value) -> (u16, Value) {
        let Some(tools) = &self.app_tools else { return (404, json!({ "detail": "not found" })) };
        let Some(id) = message.get("id") else { return (202, json!({})) };
        let result = match message.get("method").and_then(Value::as_str) {
            Some("initialize") => json!({
                "protocolVersion": "2025-06-18",
                "capabilities": { "tools": {} },
                "serverInfo": { "name": "apps", "version": "1" },
            }),
            Some("tools/list") => json!({ "tools": tools }),
            Some("tools/call") => {
                let params = message.get("params").cloned().unwrap_or_default();
                json!({ "content": [{ "type": "text", "text": params.to_string() }] })
            }
            _ => json!({}),
        };
        (200, json!({ "jsonrpc": "2.0", "id": id, "result": result }))
    }

    fn exchange(&mut self, form: &HashMap<String, String>) -> (u16, Value) {
        let get = |name: &str| form.get(name).cloned().unwrap_or_default();
        let known = self.codes.remove(&get("code"));
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(get("code_verifier")));
        let matches = (known, get("grant_type").as_str(), get("client_id").as_str())
            == (Some((challenge, get("redirect_uri"))), "authorization_code", CLIENT_ID);
        if !matches {
            return (400, json!({ "error": "invalid_grant", "error_description": "the code does not fit" }));
        }
        (200, self.issue_tokens())
    }

    fn refresh(&mut self, request: &Value) -> (u16, Value) {
        let used = request.get("refresh_token").and_then(Value::as_str).unwrap_or_default();
        if request.get("client_id") != Some(&json!(CLIENT_ID)) || !self.refresh_tokens.remove(used) {
            return (
                401,
                json!({ "error": { "code": "refresh_token_reused", "message": format!("{used} was used") } }),
            );
        }
        self.refreshes += 1;
        (200, self.issue_tokens())
    }

    /// Revokes a token. Unknown tokens are a success too, as in RFC 7009.
    fn revoke(&mut self, token: Option<&String>) -> (u16, Value) {
        if let Some(token) = token {
            self.refresh_tokens.remove(token);
            self.access_token = None;
        }
        (200, json!({}))
    }

    fn device(&mut self, request: &Value) -> (u16, Value) {
        if request != &json!({ "device_auth_id": "device-1", "user_code": USER_CODE }) {
            return (400, json!({ "error": "invalid_request" }));
        }
        if !self.code_entered {
            return (403, json!({ "error": "authorization_pending" }));
        }
        let verifier = "device-verifier";
        let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(verifier));
        let redirect = format!("{}/deviceauth/callback", self.url);
        self.codes.insert("device-code".to_owned(), (challenge, redirect));
        (200, json!({ "authorization_code": "device-code", "code_verifier": verifier }))
    }

    fn issue_tokens(&mut self) -> Value {
        self.tokens_issued += 1;
        let number = self.tokens_issued;
        let access = test_token(number, ACCOUNT_ID);
        let refresh = format!("refresh-{number}");
        self.access_token = Some(access.clone());
        self.refresh_tokens.insert(refresh.clone());
        json!({ "id_token": test_token(number, ACCOUNT_ID), "access_token": access, "refresh_token": refresh })
    }
}

async fn serve(listener: TcpListener, state: Arc<Mutex<IssuerState>>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let state = state.clone();
        connections.spawn(async move {
            let service = service_fn(|request| answer(request, state.clone()));
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Mutex<IssuerState>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = Limited::new(body, 1 << 20).collect().await;
    let body = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned()).unwrap_or_default();
    let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok());
    let head = format!("{} {}", parts.method, parts.uri.path());
    let request = IssuerRequest {
        head: &head,
        content_type: header(CONTENT_TYPE.as_str()).unwrap_or_default(),
        bearer: header(AUTHORIZATION.as_str()).and_then(|value| value.strip_prefix("Bearer ")),
        account_id: header("chatgpt-account-id"),
        body: &body,
    };
    let mut state = state.lock();
    let (status, json) = state.answer(&request);
    state.requests.push((head, body));
    let mut response = Response::new(Full::new(json.to_string().into()));
    *response.status_mut() = status.try_into().expect("a status");
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn read_json(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_default()
}

/// Parses the pairs of a query or a form.
fn pairs(text: &str) -> HashMap<String, String> {
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn decode(text: &str) -> String {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let digit =
            |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16)).unwrap_or_default();
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => u8::try_from(digit(bytes.next()) * 16 + digit(bytes.next())).unwrap_or_default(),
            other => other,
        });
    }
    String::from_utf8_lossy(&decoded).into_owned()
}
