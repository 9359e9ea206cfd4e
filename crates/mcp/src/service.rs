//! The client side of a connection: its identity, and the responses to the server's requests. Only
//! `elicitation/create` and `ping` are supported.

use std::sync::Arc;

use codicil_protocol::{McpServerElicitationRequest, McpServerElicitationRequestResponse};
use rmcp::{
    ErrorData, RoleClient, Service,
    model::{
        ClientCapabilities, ClientConfig, ClientResult, CustomResult, ElicitationCapability, ErrorCode,
        FormElicitationCapability, Implementation, ProtocolVersion, RequestId, ServerNotification,
        ServerRequest, UrlElicitationCapability,
    },
    service::{InboundStreamOrigin, NotificationContext, RequestContext},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    call_registry::{AskedBy, CallRegistry, CallWatch},
    elicitation::{self, Elicitor},
};

/// Name and version of the program, as servers see it.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    pub name: String,
    pub version: String,
}

pub(crate) struct ClientService {
    identity: ClientIdentity,
    registry: Arc<CallRegistry>,
}

#[derive(Deserialize)]
struct ServerQuestion {
    method: String,
    #[serde(default)]
    params: Option<Value>,
}

impl ClientService {
    pub(crate) fn new(identity: ClientIdentity, registry: Arc<CallRegistry>) -> ClientService {
        ClientService { identity, registry }
    }

    async fn answer(
        &self,
        request: ServerQuestion,
        context: &RequestContext<RoleClient>,
    ) -> Result<Value, ErrorData> {
        if request.method != "elicitation/create" {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let Ok(_permit) = self.registry.questions.try_acquire() else {
            return Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, "too many open questions", None));
        };
        let params = with_meta(request.params.unwrap_or_default(), context);
        let defaults = elicitation::defaults(&params);
        let question = elicitation::parse(params)
            .map_err(|reason| ErrorData::new(ErrorCode::INVALID_PARAMS, reason, None))?;
        let Some((call, elicitor)) = self.find_elicitor(context) else { return Ok(elicitation::declined()) };
        let _pause = ClockPause::begin(&call);
        tokio::select! {
            response = ask(&*elicitor, &self.registry, question) => {
                Ok(elicitation::response_for_server(response, defaults))
            }
            () = call.ended.cancelled() => Ok(elicitation::cancelled()),
            () = self.registry.closed.cancelled() => Ok(elicitation::cancelled()),
            () = context.ct.cancelled() => Ok(elicitation::cancelled()),
        }
    }

    fn find_elicitor(
        &self,
        context: &RequestContext<RoleClient>,
    ) -> Option<(Arc<CallWatch>, Arc<dyn Elicitor>)> {
        match self.registry.find_asking_call(origin(context)) {
            AskedBy::Call(call) => {
                let elicitor = call.elicitor.clone()?;
                Some((call, elicitor))
            }
            AskedBy::NoCall => None,
            AskedBy::Ambiguous => {
                tracing::warn!(
                    server = self.registry.server,
                    "declined an elicitation request: several threads call this server, and the request does not name the call"
                );
                None
            }
        }
    }
}

async fn ask(
    elicitor: &dyn Elicitor,
    registry: &CallRegistry,
    question: McpServerElicitationRequest,
) -> McpServerElicitationRequestResponse {
    let McpServerElicitationRequest::Url { elicitation_id, .. } = &question else {
        return elicitor.elicit(&registry.server, question).await;
    };
    let page = registry.watch_page(elicitation_id);
    elicitation::ask_for_page(elicitor, &registry.server, question, &page).await
}

/// Returns the request on whose response stream the server's request arrived, if the transport knows it.
fn origin(context: &RequestContext<RoleClient>) -> Option<&RequestId> {
    match context.extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
        _ => None,
    }
}

/// Restores the metadata, which the SDK removes from the params of requests that it decodes.
fn with_meta(mut params: Value, context: &RequestContext<RoleClient>) -> Value {
    if let Some(object) = params.as_object_mut()
        && !object.contains_key("_meta")
        && let Ok(meta @ Value::Object(_)) = serde_json::to_value(&context.meta)
    {
        object.insert("_meta".to_owned(), meta);
    }
    params
}

/// Pauses the timeout of a call while an elicitation request is open.
struct ClockPause<'a>(&'a CallWatch);

impl ClockPause<'_> {
    fn begin(call: &CallWatch) -> ClockPause<'_> {
        call.open_questions.send_modify(|open| *open += 1);
        ClockPause(call)
    }
}

impl Drop for ClockPause<'_> {
    fn drop(&mut self) {
        self.0.open_questions.send_modify(|open| *open = open.saturating_sub(1));
    }
}

impl Service<RoleClient> for ClientService {
    async fn handle_request(
        &self,
        request: ServerRequest,
        context: RequestContext<RoleClient>,
    ) -> Result<ClientResult, ErrorData> {
        if matches!(request, ServerRequest::PingRequest(_)) {
            return Ok(ClientResult::empty(()));
        }
        let request = serde_json::to_value(request).and_then(serde_json::from_value);
        let request =
            request.map_err(|_| ErrorData::new(ErrorCode::INVALID_REQUEST, "invalid request", None))?;
        self.answer(request, &context).await.map(|answer| ClientResult::CustomResult(CustomResult(answer)))
    }

    /// Does nothing: `MessageTap` has handled the notification.
    async fn handle_notification(
        &self,
        _: ServerNotification,
        _: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    /// Declares both kinds of elicitation: servers of the official SDKs do not ask a client that declares none.
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new(&self.identity.name, &self.identity.version);
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::new())
            .with_url(UrlElicitationCapability::new());
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(elicitation);
        ClientConfig::new(capabilities, implementation)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }
}
