//! The clients of the server, as threads see them. The engine does not know connections.

use codicil_protocol::{
    Frame, MessageSeq, NotificationMethod, ThreadId,
    rpc::{ErrorObject, RequestId},
};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

/// The clients of a server, as a thread sees them.
pub trait ThreadClients: Send + Sync + 'static {
    /// Sends a notification to the subscribers of a thread.
    fn notify_subscribers(&self, thread: &ThreadId, frame: &Frame);

    /// Returns whether a thread has subscribers.
    fn has_subscribers(&self, thread: &ThreadId) -> bool;

    /// Returns whether a client with a cursor has ever connected. Only such clients ask for messages again.
    fn have_cursors(&self) -> bool;

    /// Asks subscribers with a cursor to subscribe again: what they know of the thread is no longer valid.
    fn fall_behind(&self, thread: &ThreadId, after: MessageSeq);

    /// Sends a notification to all clients.
    fn notify_all(&self, frame: &Frame);

    /// Sends a notification about a thread to all clients that follow the state of threads.
    fn notify_followers(&self, thread: &ThreadId, frame: &Frame);

    /// Subscribes the subscribers of the thread `like` to `thread`.
    fn subscribe_like(&self, thread: &ThreadId, like: &ThreadId);

    /// Sends a request to the subscribers of a thread, and to clients that subscribe while it is open. `encode` encodes
    /// it once the id is known.
    fn ask(&self, thread: &ThreadId, encode: &dyn Fn(&RequestId) -> Frame) -> OpenQuestion;
}

/// The reply of a client: an encoded result, or an error.
pub type ClientReply = Result<Box<RawValue>, ErrorObject>;

/// The reply of a client, and the client's name.
#[derive(Debug)]
pub struct ClientAnswer {
    pub reply: ClientReply,
    pub by: String,
}

/// A server request that waits for a reply. Dropping it withdraws the request.
#[derive(Debug)]
pub struct OpenQuestion {
    pub id: RequestId,
    pub answer: oneshot::Receiver<ClientAnswer>,
    /// Withdraws the request when it is dropped.
    pub withdraw: QuestionGuard,
}

/// A value whose drop withdraws a server request.
pub struct QuestionGuard(pub Box<dyn Send + Sync>);

impl std::fmt::Debug for QuestionGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QuestionGuard")
    }
}

impl dyn ThreadClients {
    pub fn notify<N: NotificationMethod>(&self, thread: &ThreadId, params: &N::Params) {
        self.notify_subscribers(thread, &Frame::notification::<N>(params));
    }

    /// Sends a notification about a thread to all clients that follow the state of threads.
    pub fn announce<N: NotificationMethod>(&self, thread: &ThreadId, params: &N::Params) {
        self.notify_followers(thread, &Frame::notification::<N>(params));
    }

    pub fn broadcast<N: NotificationMethod>(&self, params: &N::Params) {
        self.notify_all(&Frame::notification::<N>(params));
    }
}
