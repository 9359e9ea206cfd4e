//! What we are to a server: who we say we are, and how its requests are answered. There is one that means
//! something, `elicitation/create`; others are unknown to us.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleClient, Service,
    model::{
        ClientCapabilities, ClientConfig, ClientResult, CustomResult, ErrorCode, Implementation,
        ProtocolVersion, RequestId, ServerNotification, ServerRequest,
    },
    service::{InboundStreamOrigin, NotificationContext, RequestContext},
};
use serde::Deserialize;
use serde_json::Value;

use crate::{
    elicitation::{self, Elicitor},
    switchboard::{AskedBy, CallRegistry, CallWatch},
};

/// What servers are told about the program that connects.
#[derive(Clone, Debug)]
pub struct ClientIdentity {
    pub name: String,
    pub version: String,
}

pub(crate) struct ClientService {
    identity: ClientIdentity,
    board: Arc<CallRegistry>,
}

#[derive(Deserialize)]
struct ServerQuestion {
    method: String,
    #[serde(default)]
    params: Option<Value>,
}

impl ClientService {
    pub(crate) fn new(identity: ClientIdentity, board: Arc<CallRegistry>) -> ClientService {
        ClientService { identity, board }
    }

    async fn answer(
        &self,
        request: ServerQuestion,
        context: &RequestContext<RoleClient>,
    ) -> Result<Value, ErrorData> {
        if request.method != "elicitation/create" {
            return Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None));
        }
        let Ok(_place) = self.board.questions.try_acquire() else {
            return Err(ErrorData::new(ErrorCode::INTERNAL_ERROR, "too many open questions", None));
        };
        let params = elicitation::parse(with_meta(request.params.unwrap_or_default(), context))
            .map_err(|reason| ErrorData::new(ErrorCode::INVALID_PARAMS, reason, None))?;
        let Some((call, elicitor)) = self.asked(context) else { return Ok(elicitation::declined()) };
        let _asking = ClockPause::begin(&call);
        tokio::select! {
            response = elicitor.elicit(&self.board.server, params) => Ok(elicitation::answer(response)),
            () = call.over.cancelled() => Ok(elicitation::cancelled()),
            () = self.board.closed.cancelled() => Ok(elicitation::cancelled()),
            () = context.ct.cancelled() => Ok(elicitation::cancelled()),
        }
    }

    fn asked(&self, context: &RequestContext<RoleClient>) -> Option<(Arc<CallWatch>, Arc<dyn Elicitor>)> {
        match self.board.asked(origin(context)) {
            AskedBy::Call(call) => {
                let elicitor = call.elicitor.clone()?;
                Some((call, elicitor))
            }
            AskedBy::Nobody => None,
            AskedBy::Unclear => {
                tracing::warn!(
                    server = self.board.server,
                    "a question was declined: several threads wait for this server, and it does not say whose it is"
                );
                None
            }
        }
    }
}

/// The request whose answer the question came with, where the transport can tell.
fn origin(context: &RequestContext<RoleClient>) -> Option<&RequestId> {
    match context.extensions.get::<InboundStreamOrigin>() {
        Some(InboundStreamOrigin::OutboundRequest(id)) => Some(id),
        _ => None,
    }
}

/// The SDK takes the metadata out of the params of what it decodes itself.
fn with_meta(mut params: Value, context: &RequestContext<RoleClient>) -> Value {
    if let Some(object) = params.as_object_mut()
        && !object.contains_key("_meta")
        && let Ok(meta @ Value::Object(_)) = serde_json::to_value(&context.meta)
    {
        object.insert("_meta".to_owned(), meta);
    }
    params
}

/// Stops the clock of a call while a person thinks.
struct ClockPause<'a>(&'a CallWatch);

impl ClockPause<'_> {
    fn begin(call: &CallWatch) -> ClockPause<'_> {
        call.asking.send_modify(|open| *open += 1);
        ClockPause(call)
    }
}

impl Drop for ClockPause<'_> {
    fn drop(&mut self) {
        self.0.asking.send_modify(|open| *open = open.saturating_sub(1));
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

    /// All that matter have been dealt with on the way here.
    async fn handle_notification(
        &self,
        _: ServerNotification,
        _: NotificationContext<RoleClient>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    /// The reference declares no capabilities, and servers have got used to asking all the same.
    fn get_info(&self) -> ClientConfig {
        let implementation = Implementation::new(&self.identity.name, &self.identity.version);
        ClientConfig::new(ClientCapabilities::default(), implementation)
            .with_protocol_version(ProtocolVersion::V_2025_06_18)
    }
}
