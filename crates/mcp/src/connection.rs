//! One running connection: started with a deadline, asked with deadlines, ended on drop.

use std::{
    ffi::OsStr,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_exec::ProcessEnvironment;
use codicil_protocol::Tool;
use parking_lot::Mutex;
use rmcp::{
    Peer, RoleClient,
    model::{ClientRequest, CustomRequest, RequestMetaObject},
    service::{PeerRequestOptions, RequestHandle, RunningService, ServiceError, serve_client_with_ct},
    transport::Transport as RmcpTransport,
};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{
    call::{CallError, McpCall, ToolOutcome},
    config::{HttpConfig, ServerConfig, ServerTransport},
    http,
    limits::{LIST_TIMEOUT, TOOLS_PER_SERVER},
    lists::list,
    oauth::{BearerSource, CredentialsFile, OauthTokens},
    pending::PendingCall,
    service::{ClientIdentity, ClientService},
    start_error::{StartError, root},
    stdio::StdioTransport,
    switchboard::{CallRegistry, CallWatch, WatchedRequest},
    tap::MessageTap,
    wire,
};

/// How long the end of a connection is waited for. Longer than what the SDK and a server take at most.
const CLOSING: Duration = Duration::from_secs(4);

const METHOD_NOT_FOUND: i32 = -32601;

/// What every connection needs to know about the program it belongs to.
pub(crate) struct ConnectionContext {
    pub(crate) identity: ClientIdentity,
    pub(crate) environment: ProcessEnvironment,
    pub(crate) credentials: CredentialsFile,
}

/// A server that has been initialized. Dropping it ends the server or its session.
pub(crate) struct ServerConnection {
    running: RunningService<RoleClient, ClientService>,
    board: Arc<CallRegistry>,
    tools: Mutex<Arc<[Tool]>>,
}

impl ServerConnection {
    /// Connects, initializes and learns the tools, all within the server's startup timeout.
    pub(crate) async fn start(
        name: &str,
        config: &ServerConfig,
        surroundings: &ConnectionContext,
    ) -> Result<ServerConnection, StartError> {
        let after = config.startup_timeout;
        let start = async {
            let connection = Self::connect(name, config, surroundings).await?;
            let listed = connection.list_tools().await;
            listed.map_err(|error| StartError::Failed(format!("its tools could not be listed: {error}")))?;
            Ok(connection)
        };
        match timeout(after, start).await {
            Ok(started) => started,
            Err(_) => Err(StartError::TimedOut { server: name.to_owned(), after }),
        }
    }

    async fn connect(
        name: &str,
        config: &ServerConfig,
        surroundings: &ConnectionContext,
    ) -> Result<ServerConnection, StartError> {
        let board = CallRegistry::new(name);
        match &config.transport {
            ServerTransport::Stdio(stdio) => {
                let transport =
                    StdioTransport::spawn(name, stdio, &surroundings.environment, board.clone()).await;
                let transport = transport.map_err(|error| StartError::spawn(&stdio.command, &error))?;
                Self::initialize(transport, surroundings, board).await
            }
            ServerTransport::Http(http) => {
                let bearer = bearer(name, http, surroundings)?;
                let transport = http::transport(http, &surroundings.environment, bearer).await?;
                Self::initialize(transport, surroundings, board).await
            }
        }
    }

    async fn initialize<T: RmcpTransport<RoleClient> + 'static>(
        transport: T,
        surroundings: &ConnectionContext,
        board: Arc<CallRegistry>,
    ) -> Result<ServerConnection, StartError> {
        let service = ClientService::new(surroundings.identity.clone(), board.clone());
        let tap = MessageTap::new(transport, board.clone());
        let running = serve_client_with_ct(service, tap, CancellationToken::new()).await;
        let running = running.map_err(|error| StartError::initialize(&error, || board.ending()))?;
        Ok(ServerConnection { running, board, tools: Mutex::default() })
    }

    /// Ends the connection and waits, within reason, until its transport is gone.
    pub(crate) async fn close(&self) {
        self.end();
        let _ = timeout(CLOSING, self.board.gone.cancelled()).await;
    }

    fn end(&self) {
        self.board.ended("the connection was closed");
        self.running.cancellation_token().cancel();
    }

    /// False once nothing can come any more.
    pub(crate) fn is_open(&self) -> bool {
        !self.board.closed.is_cancelled() && !self.running.is_closed()
    }

    /// Waits for the end of the connection and says why it came.
    pub(crate) fn ended(&self) -> impl Future<Output = String> + Send + use<> {
        let board = self.board.clone();
        async move {
            board.closed.cancelled().await;
            board.ending()
        }
    }

    /// Whether the server says that it has resources.
    pub(crate) fn has_resources(&self) -> bool {
        self.running.peer().peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// The tools as they were last listed, or listed anew if the server has said that they changed.
    pub(crate) async fn tools(&self) -> Arc<[Tool]> {
        if self.board.take_tools_changed()
            && let Err(error) = self.list_tools().await
        {
            tracing::warn!(server = self.board.server, %error, "the changed list of tools could not be read");
        }
        self.tools.lock().clone()
    }

    async fn list_tools(&self) -> Result<(), CallError> {
        let tools: Vec<Tool> = match list(self, "tools/list", "tools", TOOLS_PER_SERVER).await {
            Ok(tools) => tools,
            // A server that has none need not know the method.
            Err(CallError::Server { code: METHOD_NOT_FOUND, .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        *self.tools.lock() = tools.into();
        Ok(())
    }

    /// Calls a tool.
    pub(crate) async fn call(&self, call: McpCall, within: Duration) -> Result<ToolOutcome, CallError> {
        let started = Instant::now();
        let params = call_params(&call)?;
        let watch = CallWatch::new(call.progress, call.elicitor);
        let mut request = CustomRequest::new("tools/call", Some(params));
        request.extensions.insert(WatchedRequest(Arc::downgrade(&watch)));
        if let Some(meta) = request_meta(call.meta) {
            request.extensions.insert(meta);
        }
        let pending = self.send(request).await?;
        let pending = PendingCall::new(pending, self.board.clone()).watched(watch);
        let result = pending.result(within, &call.cancel).await?;
        ToolOutcome::of(result, started.elapsed())
    }

    /// Asks for something that is neither long nor interrupted.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let pending = self.send(CustomRequest::new(method, Some(params))).await?;
        let pending = PendingCall::new(pending, self.board.clone());
        pending.result(LIST_TIMEOUT, &CancellationToken::new()).await
    }

    async fn send(&self, request: CustomRequest) -> Result<RequestHandle<RoleClient>, CallError> {
        if !self.is_open() {
            return Err(CallError::Closed(self.board.ending()));
        }
        let peer: &Peer<RoleClient> = self.running.peer();
        let request = ClientRequest::CustomRequest(request);
        peer.send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(|error| service_error(error, &self.board))
    }
}

impl Drop for ServerConnection {
    /// What waits for answers, or for a person, must not hold up the end.
    fn drop(&mut self) {
        self.end();
    }
}

/// The configuration's own token, else that of somebody who has signed in.
fn bearer(
    name: &str,
    config: &HttpConfig,
    surroundings: &ConnectionContext,
) -> Result<BearerSource, StartError> {
    let variable = |name: &str| surroundings.environment.get(OsStr::new(name))?.to_str().map(str::to_owned);
    if let Some(token) = config.bearer_token(variable).map_err(StartError::Environment)? {
        return Ok(BearerSource::Fixed(token));
    }
    if config.has_own_credentials() {
        return Ok(BearerSource::None);
    }
    Ok(BearerSource::Oauth(Arc::new(OauthTokens {
        file: surroundings.credentials.clone(),
        server: name.to_owned(),
        url: config.url.clone(),
        resource: config.oauth_resource.clone(),
    })))
}

fn call_params(call: &McpCall) -> Result<Value, CallError> {
    match &call.arguments {
        Value::Object(arguments) => Ok(json!({ "name": call.tool, "arguments": arguments })),
        Value::Null => Ok(json!({ "name": call.tool, "arguments": {} })),
        _ => Err(CallError::Arguments),
    }
}

fn request_meta(meta: Option<Value>) -> Option<RequestMetaObject> {
    let meta: Map<String, Value> = serde_json::from_value(meta?).ok()?;
    serde_json::from_value(Value::Object(meta)).ok()
}

/// What the SDK says, in this crate's words.
pub(crate) fn service_error(error: ServiceError, board: &CallRegistry) -> CallError {
    match error {
        ServiceError::McpError(error) => {
            CallError::Server { code: error.code.0, message: error.message.into_owned() }
        }
        ServiceError::TransportSend(error) => CallError::Closed(root(error.error.as_ref())),
        ServiceError::TransportClosed => CallError::Closed(board.ending()),
        ServiceError::Cancelled { .. } => CallError::Cancelled,
        ServiceError::Timeout { timeout } => CallError::TimedOut(timeout),
        other => CallError::Unreadable(other.to_string()),
    }
}

/// The result of the SDK as JSON.
pub(crate) fn response(
    response: Result<rmcp::model::ServerResult, ServiceError>,
    board: &CallRegistry,
) -> Result<Value, CallError> {
    response.map(wire::raw).map_err(|error| service_error(error, board))
}
