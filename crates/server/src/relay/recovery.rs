//! Threads whose owner is lost: they are continued at their next owner, or on this node, at the position of the last message that
//! the client was sent.

use std::sync::Arc;

use codicil_engine::ThreadSubscription;
use codicil_protocol::{
    CodicilOpenRequest, CodicilSubscribeParams, Frame, MessagePlace, MessageSeq, ThreadClosed,
    ThreadClosedNotification, ThreadId, rpc::RequestId,
};
use codicil_store::ThreadHome;
use serde::Deserialize;
use serde_json::value::{RawValue, to_raw_value};
use tokio::time::{Instant, sleep};

use super::{
    ClientRelay, SEARCH_PAUSE,
    owner_message::{ThreadMessage, request_method},
    questions::TakenQuestion,
    table::ThreadPosition,
};
use crate::{cx::Cx, handlers::codicil::subscribe_client, limits::OWNER_SEARCH_TIME};

/// What became of the attempt to continue a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContinueOutcome {
    Continued,
    /// The client has missed messages that cannot be sent again.
    Impossible,
    /// The node could not be reached, or does not own the thread.
    NotServed,
}

impl ClientRelay {
    /// Continues a thread. If that is not possible in time, the client sees that the thread is closed.
    pub(super) async fn recover(self: &Arc<Self>, position: ThreadPosition) {
        let deadline = Instant::now() + OWNER_SEARCH_TIME;
        loop {
            match self.try_to_continue(&position).await {
                ContinueOutcome::Continued => return,
                ContinueOutcome::NotServed if Instant::now() < deadline => sleep(SEARCH_PAUSE).await,
                ContinueOutcome::Impossible | ContinueOutcome::NotServed => break,
            }
        }
        tracing::warn!(thread = %position.thread, "a thread of another node cannot be continued for a client");
        self.close_thread(position.thread);
    }

    async fn try_to_continue(self: &Arc<Self>, position: &ThreadPosition) -> ContinueOutcome {
        match self.owner(&position.thread).await {
            Ok(Some(owner)) => self.upstream(&owner).continue_thread(position.clone()).await,
            Ok(None) if self.reaches_workspace(&position.thread).await => self.continue_here(position).await,
            // A node that has the workspace may take the thread.
            Ok(None) => ContinueOutcome::NotServed,
            Err(error) => {
                tracing::debug!("cannot look up the owner of a thread: {error}");
                ContinueOutcome::NotServed
            }
        }
    }

    async fn reaches_workspace(&self, thread: &ThreadId) -> bool {
        let Some(backend) = self.shared.setup.store.backend() else { return false };
        backend.entry(thread).await.is_ok_and(|entry| entry.place == ThreadHome::Here)
    }

    /// Continues a thread that belongs to this node now. It is loaded if it is not.
    async fn continue_here(&self, position: &ThreadPosition) -> ContinueOutcome {
        let cx = Cx::new(self.client.clone(), self.shared.clone());
        let params = CodicilSubscribeParams {
            after: position.after,
            scope: position.scope.clone(),
            ..CodicilSubscribeParams::new(position.thread.clone())
        };
        let answer = match subscribe_client(&cx, params).await {
            Ok(answer) => answer,
            Err(error) => {
                tracing::debug!("cannot continue a thread on this node: {}", error.object().message);
                return ContinueOutcome::NotServed;
            }
        };
        let is_replay = matches!(answer.subscription, ThreadSubscription::Replay { .. });
        if !is_replay && !self.can_subscribe_again(position) {
            self.shared.clients.unsubscribe(self.client.id, &position.thread);
            return ContinueOutcome::Impossible;
        }
        let mut table = self.table.lock();
        table.remove_thread(&position.thread);
        let asked = table.questions.take_thread(&position.thread);
        drop(table);
        asked.iter().for_each(|question| self.notify_resolved(&position.thread, question.id.clone()));
        // Sends the messages that were missed.
        cx.take_after_response().into_iter().for_each(|work| work());
        if !is_replay {
            self.fall_behind(position);
        }
        for request in answer.requests {
            self.ask_here(&position.thread, request, &asked);
        }
        ContinueOutcome::Continued
    }

    /// Sends an open question of this node, or answers it with what the client has answered to the earlier owner.
    fn ask_here(&self, thread: &ThreadId, request: CodicilOpenRequest, asked: &[TakenQuestion]) {
        let Some(method) = request_method(&request.method) else { return };
        let Ok(params) = to_raw_value(&request.params) else { return };
        let is_same = |earlier: &&TakenQuestion| {
            earlier.content.method == method && earlier.content.params == request.params
        };
        match asked.iter().find(is_same).and_then(|earlier| earlier.reply.clone()) {
            Some(reply) => self.shared.clients.answer(self.client.id, &request.id, reply),
            None => {
                let place = MessagePlace::new(thread.clone(), request.seq);
                self.client.ask(&Frame::relayed_request(method, &request.id, &params).at(place));
            }
        }
    }

    /// Returns whether the client can subscribe again by itself.
    pub(super) fn can_subscribe_again(&self, position: &ThreadPosition) -> bool {
        let has_cursor = self.client.session().is_some_and(|session| session.has_cursor());
        has_cursor && position.after.is_some()
    }

    /// Asks the client to subscribe again.
    pub(super) fn fall_behind(&self, position: &ThreadPosition) {
        if let Some(after) = position.after {
            self.client.outbox.fall_behind(&position.thread, after);
        }
    }

    /// Tells the client that it receives nothing more of a thread.
    fn close_thread(&self, thread_id: ThreadId) {
        let mut table = self.table.lock();
        table.remove_thread(&thread_id);
        let asked = table.questions.take_thread(&thread_id);
        drop(table);
        asked.into_iter().for_each(|question| self.notify_resolved(&thread_id, question.id));
        self.client.notify(&Frame::notification::<ThreadClosed>(&ThreadClosedNotification { thread_id }));
    }
}

/// The answer to a subscription, as far as a relay needs it.
#[derive(Deserialize)]
pub struct SubscriptionAnswer<'a> {
    mode: Option<String>,
    from: Option<MessageSeq>,
    at: Option<MessageSeq>,
    #[serde(borrow, default)]
    requests: Vec<OpenRequest<'a>>,
}

#[derive(Deserialize)]
struct OpenRequest<'a> {
    id: RequestId,
    method: String,
    #[serde(borrow)]
    params: &'a RawValue,
    seq: MessageSeq,
}

impl<'a> SubscriptionAnswer<'a> {
    pub fn read(result: &'a RawValue) -> Option<Self> {
        serde_json::from_str(result.get()).ok()
    }

    /// Returns whether the messages that were missed follow.
    pub fn is_replay(&self) -> bool {
        self.mode.as_deref() == Some("replay")
    }

    /// Returns the position from which messages follow.
    pub fn position(&self) -> Option<MessageSeq> {
        if self.is_replay() { self.from } else { self.at }
    }

    /// Returns the open server requests.
    pub fn questions(&self, thread: &ThreadId) -> Vec<(RequestId, ThreadMessage<'a>)> {
        let question = |request: &OpenRequest<'a>| {
            let message = ThreadMessage::of_request(thread, &request.method, request.params, request.seq)?;
            Some((request.id.clone(), message))
        };
        self.requests.iter().filter_map(question).collect()
    }
}
