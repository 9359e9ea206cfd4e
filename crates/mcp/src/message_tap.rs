//! A transport around a transport that sees every message.
//!
//! The SDK handles each notification in a task of its own, so that reports of progress could overtake each
//! other, or the result; and a server could start as many tasks as it likes. Here they are dealt with on
//! the spot, in order, and do not reach the SDK.

use std::{future::Future, sync::Arc};

use rmcp::{
    RoleClient,
    model::{
        ClientJsonRpcMessage, GetExtensions, GetMeta, JsonRpcMessage, ServerJsonRpcMessage,
        ServerNotification,
    },
    transport::Transport,
};
use tokio_util::sync::DropGuard;

use crate::{
    limits::LOGGED_LINE_BYTES,
    switchboard::{CallRegistry, WatchedRequest},
    text::cut,
};

pub(crate) struct MessageTap<T> {
    inner: T,
    board: Arc<CallRegistry>,
    /// Dropped after the transport.
    _gone: DropGuard,
}

impl<T> MessageTap<T> {
    pub(crate) fn new(inner: T, board: Arc<CallRegistry>) -> MessageTap<T> {
        let _gone = board.gone.clone().drop_guard();
        MessageTap { inner, board, _gone }
    }

    fn enter(&self, message: &ClientJsonRpcMessage) {
        let JsonRpcMessage::Request(request) = message else { return };
        let watched = request.request.extensions().get::<WatchedRequest>();
        let token = request.request.get_meta().get_progress_token();
        if let (Some(WatchedRequest(watch)), Some(token)) = (watched, token) {
            self.board.enter(token, request.id.clone(), watch);
        }
    }

    /// Deals with a notification. Only cancellations are the SDK's business.
    #[expect(deprecated, reason = "servers of the protocol version that we ask for still send log messages")]
    fn note(&self, notification: ServerNotification) -> Option<ServerNotification> {
        match notification {
            ServerNotification::CancelledNotification(_) => return Some(notification),
            ServerNotification::ProgressNotification(progress) => self.board.progress(progress.params),
            ServerNotification::ToolListChangedNotification(_) => self.board.note_tools_changed(),
            ServerNotification::LoggingMessageNotification(log) => {
                let text = cut(&log.params.data.to_string(), LOGGED_LINE_BYTES);
                tracing::debug!(server = self.board.server, level = ?log.params.level, "log: {text}");
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
        self.enter(&item);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            match self.inner.receive().await {
                Some(JsonRpcMessage::Notification(message)) => {
                    if let Some(notification) = self.note(message.notification) {
                        return Some(JsonRpcMessage::notification(notification));
                    }
                }
                Some(message) => return Some(message),
                None => {
                    self.board.ended("the connection was closed");
                    return None;
                }
            }
        }
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.inner.close()
    }
}
