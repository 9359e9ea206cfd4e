//! How the agent reaches people, without knowing who is connected or how.

use codicil_protocol::{
    Frame, NotificationMethod, ThreadId,
    rpc::{ErrorObject, RequestId},
};
use serde_json::value::RawValue;
use tokio::sync::oneshot;

/// The clients of a server, as a thread sees them.
pub trait ThreadClients: Send + Sync + 'static {
    /// Tells those who are subscribed to a thread.
    fn tell(&self, thread: &ThreadId, frame: &Frame);

    /// Whether anybody is subscribed to a thread.
    fn is_heard(&self, thread: &ThreadId) -> bool;

    /// Tells everyone.
    fn tell_all(&self, frame: &Frame);

    /// Has those who are subscribed to one thread hear of another one too.
    fn follow(&self, thread: &ThreadId, like: &ThreadId);

    /// Asks those who are subscribed to a thread, and those who will be while the question is open;
    /// `encode` makes the message once the id is known.
    fn ask(&self, thread: &ThreadId, encode: &dyn Fn(&RequestId) -> Frame) -> OpenQuestion;
}

/// What a client said: a result that is not decoded yet, or that it failed.
pub type ClientReply = Result<Box<RawValue>, ErrorObject>;

/// A question on its way. Dropped before it is answered, it is withdrawn.
#[derive(Debug)]
pub struct OpenQuestion {
    pub id: RequestId,
    pub answer: oneshot::Receiver<ClientReply>,
    /// Dropped with the question; whoever made it learns that it is over.
    pub withdraw: QuestionGuard,
}

/// Something that lives as long as a question.
pub struct QuestionGuard(pub Box<dyn Send + Sync>);

impl std::fmt::Debug for QuestionGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Withdraw")
    }
}

impl dyn ThreadClients {
    pub fn notify<N: NotificationMethod>(&self, thread: &ThreadId, params: &N::Params) {
        self.tell(thread, &Frame::notification::<N>(params));
    }

    pub fn broadcast<N: NotificationMethod>(&self, params: &N::Params) {
        self.tell_all(&Frame::notification::<N>(params));
    }
}
