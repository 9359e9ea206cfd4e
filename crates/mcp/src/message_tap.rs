//! A transport that wraps another and sees every message.
//!
//! The SDK handles each notification in a task of its own. Progress reports could then overtake each other or the
//! result, and a server could start any number of tasks. Notifications are therefore handled here, in order, and
//! do not reach the SDK.

use std::{future::Future, sync::Arc};

use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, GetExtensions, GetMeta, JsonRpcMessage, ServerJsonRpcMessage,
        ServerNotification,
    },
    transport::Transport,
};
use serde_json::Value;
use tokio_util::sync::DropGuard;

use crate::{
    call_registry::{CallRegistry, WatchedRequest},
    limits::LOGGED_LINE_BYTES,
    text::cut,
};

/// Method by which a server reports that the user is done with a page. The SDK has no type for it.
const ELICITATION_COMPLETE: &str = "notifications/elicitation/complete";

pub(crate) struct MessageTap<T> {
    inner: T,
    registry: Arc<CallRegistry>,
    /// The last field, so that it is dropped after the transport.
    _closed: DropGuard,
}

impl<T> MessageTap<T> {
    pub(crate) fn new(inner: T, registry: Arc<CallRegistry>) -> MessageTap<T> {
        let _closed = registry.transport_closed.clone().drop_guard();
        MessageTap { inner, registry, _closed }
    }

    fn register_call(&self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else { return };
        let watched = request.request.extensions().get::<WatchedRequest>();
        let token = request.request.get_meta().get_progress_token();
        if let (Some(WatchedRequest(watch)), Some(token)) = (watched, token) {
            self.registry.register(token, request.id.clone(), watch);
        }
    }

    /// Handles a notification. Only cancellations are passed on to the SDK.
    #[expect(deprecated, reason = "servers of the requested protocol version still send log messages")]
    fn handle_notification(&self, notification: ServerNotification) -> Option<ServerNotification> {
        match notification {
            ServerNotification::CancelledNotification(_) => return Some(notification),
            ServerNotification::ProgressNotification(progress) => {
                self.registry.report_progress(progress.params)
            }
            ServerNotification::ToolListChangedNotification(_) => self.registry.note_tools_changed(),
            ServerNotification::LoggingMessageNotification(log) => {
                let text = cut(&log.params.data.to_string(), LOGGED_LINE_BYTES);
                tracing::debug!(server = self.registry.server, level = ?log.params.level, "log: {text}");
            }
            ServerNotification::CustomNotification(custom) if custom.method == ELICITATION_COMPLETE => {
                let id = custom.params.as_ref().and_then(|params| params.get("elicitationId"));
                if let Some(id) = id.and_then(Value::as_str) {
                    self.registry.complete_page(id);
                }
            }
            _ => {}
        }
        None
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for MessageTap<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.register_call(&item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.inner.receive().await {
                Some(JsonRpcMessage::Notification(message)) => {
                    if let Some(notification) = self.handle_notification(message.notification) {
                        return Some(JsonRpcMessage::notification(notification));
                    }
                }
                Some(message) => return Some(message),
                None => {
                    self.registry.close("the connection was closed");
                    return None;
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}
