//! An open connection to a server. Starting it and each request has a deadline; dropping it closes the connection.

use std::{
    ffi::OsStr,
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_exec::ProcessEnvironment;
use codicil_model::AccountAuth;
use codicil_protocol::{McpServerElicitationAction, McpServerElicitationRequest, McpServerInfo, Tool};
use codicil_telemetry::TracePosition;
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
    call_registry::{CallRegistry, CallWatch, WatchedRequest},
    config::{HttpConfig, ServerConfig, ServerTransport},
    elicitation::{Elicitor, ask_for_page, required_pages},
    http,
    limits::{LIST_TIMEOUT, PAGE_ROUNDS, PAGE_WAIT, TOOLS_PER_SERVER},
    lists::list,
    message_tap::MessageTap,
    oauth::{BearerSource, ChallengeRecord, CredentialsFile, OauthTokens},
    pending::PendingCall,
    service::{ClientIdentity, ClientService},
    start_error::StartError,
    stdio::StdioTransport,
    wire,
};

/// Time for a connection to close. Longer than the SDK and a server need together.
const CLOSE_TIME: Duration = Duration::from_secs(4);

const METHOD_NOT_FOUND: i32 = -32601;

/// The parts of the process that every connection uses.
pub(crate) struct ConnectionContext {
    pub(crate) identity: ClientIdentity,
    pub(crate) environment: ProcessEnvironment,
    pub(crate) account: Option<Arc<dyn AccountAuth>>,
    pub(crate) credentials: CredentialsFile,
    pub(crate) challenges: Arc<ChallengeRecord>,
}

/// An initialized server. Dropping it ends the server's process or session.
pub(crate) struct ServerConnection {
    running: RunningService<RoleClient, ClientService>,
    registry: Arc<CallRegistry>,
    tools: Mutex<Arc<[Tool]>>,
}

impl ServerConnection {
    /// Connects, initializes and lists the tools, all within the server's startup timeout.
    pub(crate) async fn start(
        name: &str,
        config: &ServerConfig,
        context: &ConnectionContext,
    ) -> Result<ServerConnection, StartError> {
        let after = config.startup_timeout;
        let registry = CallRegistry::new(name);
        let start = async {
            let connection = Self::connect(name, config, context, registry.clone()).await?;
            let listed = connection.list_tools().await;
            listed.map_err(StartError::unlisted)?;
            Ok(connection)
        };
        let started = match timeout(after, start).await {
            Ok(started) => started,
            Err(_) => Err(StartError::TimedOut { server: name.to_owned(), after }),
        };
        started.map_err(|error| error.with_stderr(registry.stderr.text()))
    }

    async fn connect(
        name: &str,
        config: &ServerConfig,
        context: &ConnectionContext,
        registry: Arc<CallRegistry>,
    ) -> Result<ServerConnection, StartError> {
        match &config.transport {
            ServerTransport::Stdio(stdio) => {
                let transport =
                    StdioTransport::spawn(name, stdio, &context.environment, registry.clone()).await;
                let transport = transport.map_err(|error| StartError::spawn(&stdio.command, &error))?;
                Self::initialize(transport, context, registry).await
            }
            ServerTransport::Http(http) => {
                let bearer = match (&config.apps, &context.account) {
                    (Some(_), Some(account)) => BearerSource::Account(account.clone()),
                    (Some(_), None) => BearerSource::None,
                    (None, _) => bearer_source(name, http, context)?,
                };
                let transport = http::transport(http, &context.environment, bearer).await?;
                Self::initialize(transport, context, registry).await
            }
        }
    }

    async fn initialize<T: RmcpTransport<RoleClient> + 'static>(
        transport: T,
        context: &ConnectionContext,
        registry: Arc<CallRegistry>,
    ) -> Result<ServerConnection, StartError> {
        let service = ClientService::new(context.identity.clone(), registry.clone());
        let tap = MessageTap::new(transport, registry.clone());
        let running = serve_client_with_ct(service, tap, CancellationToken::new()).await;
        let running = running.map_err(|error| StartError::initialize(&error, || registry.close_reason()))?;
        Ok(ServerConnection { running, registry, tools: Mutex::default() })
    }

    /// Closes the connection and waits, up to a limit, until its transport has ended.
    pub(crate) async fn close(&self) {
        self.begin_close();
        let _ = timeout(CLOSE_TIME, self.registry.transport_closed.cancelled()).await;
    }

    fn begin_close(&self) {
        self.registry.close("the connection was closed");
        self.running.cancellation_token().cancel();
    }

    /// Returns false once the connection can deliver no more messages.
    pub(crate) fn is_open(&self) -> bool {
        !self.registry.closed.is_cancelled() && !self.running.is_closed()
    }

    /// Waits until the connection closes and returns the reason.
    pub(crate) fn closed(&self) -> impl Future<Output = String> + Send + use<> {
        let registry = self.registry.clone();
        async move {
            registry.closed.cancelled().await;
            registry.close_reason()
        }
    }

    /// Returns the server's description of itself.
    pub(crate) fn server_info(&self) -> Option<McpServerInfo> {
        let info = self.running.peer().peer_info()?;
        serde_json::from_value(serde_json::to_value(&info.server_info).ok()?).ok()
    }

    /// Returns the capabilities that the server declares.
    pub(crate) fn capabilities(&self) -> Option<Value> {
        serde_json::to_value(&self.running.peer().peer_info()?.capabilities).ok()
    }

    /// Returns whether the server declares resources.
    pub(crate) fn has_resources(&self) -> bool {
        self.running.peer().peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Returns the tools. They are listed again if the server has reported a change.
    pub(crate) async fn tools(&self) -> Arc<[Tool]> {
        if self.registry.take_tools_changed()
            && let Err(error) = self.list_tools().await
        {
            tracing::warn!(server = self.registry.server, %error, "failed to list the changed tools");
        }
        self.tools.lock().clone()
    }

    async fn list_tools(&self) -> Result<(), CallError> {
        let tools: Vec<Tool> = match list(self, "tools/list", "tools", TOOLS_PER_SERVER).await {
            Ok(tools) => tools,
            // Servers without tools need not implement the method.
            Err(CallError::Server { code: METHOD_NOT_FOUND, .. }) => Vec::new(),
            Err(error) => return Err(error),
        };
        *self.tools.lock() = tools.into();
        Ok(())
    }

    /// Calls a tool. If the server requires that the user opens pages first, asks for that and calls again.
    pub(crate) async fn call(&self, call: McpCall, within: Duration) -> Result<ToolOutcome, CallError> {
        for _ in 0..PAGE_ROUNDS {
            let result = self.call_once(&call, within).await;
            let pages = result.as_ref().err().map(required_pages).unwrap_or_default();
            let Some(elicitor) = call.elicitor.as_deref().filter(|_| !pages.is_empty()) else {
                return result;
            };
            for page in pages {
                let is_accepted = tokio::select! {
                    is_accepted = self.ask_to_open(page, elicitor) => is_accepted,
                    () = call.cancel.cancelled() => return Err(CallError::Cancelled),
                    () = self.registry.closed.cancelled() => false,
                };
                if !is_accepted {
                    return result;
                }
            }
        }
        self.call_once(&call, within).await
    }

    /// Asks the user to open a page and waits for the end of the interaction. Servers need not report the end, so the
    /// wait is short: a server that still requires the page refuses the next call, and the user is asked again. Returns
    /// whether the user agreed.
    async fn ask_to_open(&self, question: McpServerElicitationRequest, elicitor: &dyn Elicitor) -> bool {
        let McpServerElicitationRequest::Url { elicitation_id, .. } = &question else { return false };
        let page = self.registry.watch_page(elicitation_id);
        let response = ask_for_page(elicitor, &self.registry.server, question, &page).await;
        if response.action != McpServerElicitationAction::Accept {
            return false;
        }
        let _ = timeout(PAGE_WAIT, page.completed()).await;
        true
    }

    async fn call_once(&self, call: &McpCall, within: Duration) -> Result<ToolOutcome, CallError> {
        let started = Instant::now();
        let params = call_params(call)?;
        let watch = CallWatch::new(call.progress.clone(), call.elicitor.clone());
        let mut request = CustomRequest::new("tools/call", Some(params));
        request.extensions.insert(WatchedRequest(Arc::downgrade(&watch)));
        if let Some(meta) = request_meta(call.meta.clone()) {
            request.extensions.insert(meta);
        }
        let pending = self.send(request).await?;
        let pending = PendingCall::new(pending, self.registry.clone()).watched(watch);
        let result = pending.result(within, &call.cancel).await?;
        ToolOutcome::of(result, started.elapsed())
    }

    /// Sends a request that is short and cannot be cancelled.
    pub(crate) async fn request(&self, method: &str, params: Value) -> Result<Value, CallError> {
        let pending = self.send(CustomRequest::new(method, Some(params))).await?;
        let pending = PendingCall::new(pending, self.registry.clone());
        pending.result(LIST_TIMEOUT, &CancellationToken::new()).await
    }

    async fn send(&self, mut request: CustomRequest) -> Result<RequestHandle<RoleClient>, CallError> {
        if !self.is_open() {
            return Err(CallError::Closed(self.registry.close_reason()));
        }
        // The transport has a task of its own, which is in no trace.
        let trace = TracePosition::current();
        if !trace.is_empty() {
            request.extensions.insert(trace);
        }
        let peer: &Peer<RoleClient> = self.running.peer();
        let request = ClientRequest::CustomRequest(request);
        peer.send_cancellable_request(request, PeerRequestOptions::no_options())
            .await
            .map_err(|error| service_error(error, &self.registry))
    }
}

impl Drop for ServerConnection {
    /// Pending calls and elicitation requests end with the connection.
    fn drop(&mut self) {
        self.begin_close();
    }
}

/// Chooses the source of the token: the configuration or, without one, an OAuth login.
fn bearer_source(
    name: &str,
    config: &HttpConfig,
    context: &ConnectionContext,
) -> Result<BearerSource, StartError> {
    let variable = |name: &str| context.environment.get(OsStr::new(name))?.to_str().map(str::to_owned);
    if let Some(token) = config.bearer_token(variable).map_err(StartError::Environment)? {
        return Ok(BearerSource::Fixed(token));
    }
    if config.has_own_credentials() {
        return Ok(BearerSource::None);
    }
    Ok(BearerSource::Oauth(Arc::new(OauthTokens {
        file: context.credentials.clone(),
        server: name.to_owned(),
        url: config.url.clone(),
        resource: config.oauth_resource.clone(),
        challenges: context.challenges.clone(),
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

/// Converts an error of the SDK.
pub(crate) fn service_error(error: ServiceError, registry: &CallRegistry) -> CallError {
    match error {
        ServiceError::McpError(error) => {
            CallError::Server { code: error.code.0, message: error.message.into_owned(), data: error.data }
        }
        ServiceError::TransportSend(error) => CallError::transport(error.error.as_ref()),
        ServiceError::TransportClosed => CallError::Closed(registry.close_reason()),
        ServiceError::Cancelled { .. } => CallError::Cancelled,
        ServiceError::Timeout { timeout } => CallError::TimedOut(timeout),
        other => CallError::Unreadable(other.to_string()),
    }
}

/// Converts a result of the SDK to JSON.
pub(crate) fn response(
    response: Result<rmcp::model::ServerResult, ServiceError>,
    registry: &CallRegistry,
) -> Result<Value, CallError> {
    response.map(wire::raw).map_err(|error| service_error(error, registry))
}
