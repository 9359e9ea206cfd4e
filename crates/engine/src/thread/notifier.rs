//! The notifications of one thread to its subscribers.

use std::sync::Arc;

use codicil_protocol::{
    ErrorNotification, ErrorReported, Frame, ItemCompleted, ItemCompletedNotification, ItemStarted,
    ItemStartedNotification, NotificationMethod, RawResponseItemCompleted,
    RawResponseItemCompletedNotification, ResponseItem, ServerRequestResolved,
    ServerRequestResolvedNotification, ThreadId, ThreadItem, ThreadTokenUsage, ThreadTokenUsageUpdated,
    ThreadTokenUsageUpdatedNotification, Turn, TurnCompleted, TurnCompletedNotification, TurnError, TurnId,
    TurnStarted, TurnStartedNotification, rpc::RequestId,
};

use super::open_questions::QuestionKind;
use crate::{clock::unix_now_ms, thread_clients::ThreadClients};

/// Whether a failed model request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retry {
    Planned,
    No,
}

/// Sends the notifications of one thread.
pub(super) struct ThreadNotifier {
    pub clients: Arc<dyn ThreadClients>,
    pub thread_id: ThreadId,
    /// Whether subscribers also get the raw items of the model's history.
    pub has_raw_events: bool,
    /// Whether another process has taken over the thread, so that nothing more is sent.
    pub is_silent: bool,
}

impl ThreadNotifier {
    pub fn notify<N: NotificationMethod>(&self, params: &N::Params) {
        self.send(&Frame::notification::<N>(params));
    }

    pub fn send(&self, frame: &Frame) {
        if self.is_silent {
            return;
        }
        self.clients.notify_subscribers(&self.thread_id, frame);
    }

    pub fn turn_started(&self, turn: Turn) {
        self.notify::<TurnStarted>(&TurnStartedNotification { thread_id: self.thread_id.clone(), turn });
    }

    pub fn turn_completed(&self, turn: Turn) {
        self.notify::<TurnCompleted>(&TurnCompletedNotification { thread_id: self.thread_id.clone(), turn });
    }

    pub fn item_started(&self, turn_id: &TurnId, item: &ThreadItem) {
        self.notify::<ItemStarted>(&ItemStartedNotification {
            item: item.clone(),
            thread_id: self.thread_id.clone(),
            turn_id: turn_id.clone(),
            started_at_ms: Some(unix_now_ms()),
        });
    }

    pub fn item_completed(&self, turn_id: &TurnId, item: &ThreadItem) {
        self.notify::<ItemCompleted>(&ItemCompletedNotification {
            item: item.clone(),
            thread_id: self.thread_id.clone(),
            turn_id: turn_id.clone(),
            completed_at_ms: Some(unix_now_ms()),
        });
    }

    pub fn raw_items(&self, turn_id: &TurnId, items: &[ResponseItem]) {
        if !self.has_raw_events {
            return;
        }
        for item in items {
            self.notify::<RawResponseItemCompleted>(&RawResponseItemCompletedNotification {
                thread_id: self.thread_id.clone(),
                turn_id: turn_id.clone(),
                item: item.clone(),
            });
        }
    }

    pub fn token_usage(&self, turn_id: &TurnId, token_usage: &ThreadTokenUsage) {
        self.notify::<ThreadTokenUsageUpdated>(&ThreadTokenUsageUpdatedNotification {
            thread_id: self.thread_id.clone(),
            turn_id: turn_id.clone(),
            token_usage: token_usage.clone(),
        });
    }

    pub fn error(&self, turn_id: &TurnId, error: TurnError, retry: Retry) {
        self.notify::<ErrorReported>(&ErrorNotification {
            error,
            will_retry: retry == Retry::Planned,
            thread_id: self.thread_id.clone(),
            turn_id: turn_id.clone(),
        });
    }

    /// Announces that a server request is over, if clients are to know.
    pub fn request_resolved(&self, request_id: RequestId, kind: QuestionKind) {
        if kind.is_announced() {
            let thread_id = self.thread_id.clone();
            self.notify::<ServerRequestResolved>(&ServerRequestResolvedNotification {
                thread_id,
                request_id,
            });
        }
    }
}
