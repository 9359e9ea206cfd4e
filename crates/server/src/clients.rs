//! Who is connected, and who hears of which thread.
//!
//! Everything that goes to more than one client passes here, as a [`Frame`] that was encoded once.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use codicil_engine::{ClientReply, OpenQuestion, QuestionGuard, ThreadClients};
use codicil_protocol::{
    ConfigWarning, ConfigWarningNotification, Frame, InitializeParams, NotificationMethod, ThreadId,
    rpc::RequestId,
};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::oneshot;

use crate::{
    commands::CommandTable,
    error::RpcError,
    files::ClientFiles,
    limits::{MAX_ANSWER_BYTES, MAX_NOTIFICATION_BYTES},
    outbox::ClientOutbox,
    questions::{OpenQuestions, QuestionAudience},
};

/// A connection, for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// One connected client.
#[derive(Debug)]
pub struct ConnectedClient {
    pub id: ClientId,
    pub outbox: ClientOutbox,
    pub commands: CommandTable,
    /// Ended with the connection.
    pub files: ClientFiles,
    session: OnceLock<ClientSession>,
}

/// What `initialize` settled, once per connection.
#[derive(Debug)]
pub struct ClientSession {
    pub name: String,
    pub version: String,
    pub experimental: bool,
    opted_out: HashSet<String>,
}

impl ClientSession {
    pub fn new(params: InitializeParams) -> Self {
        let capabilities = params.capabilities.unwrap_or_default();
        Self {
            name: params.client_info.name,
            version: params.client_info.version,
            experimental: capabilities.experimental_api,
            opted_out: capabilities.opt_out_notification_methods.into_iter().flatten().collect(),
        }
    }
}

impl ConnectedClient {
    pub fn session(&self) -> Option<&ClientSession> {
        self.session.get()
    }

    /// False when there is one already.
    pub fn initialize(&self, session: ClientSession) -> bool {
        self.session.set(session).is_ok()
    }

    /// Sends a frame unless the client has opted out of its method. Before `initialize` it hears nothing
    /// but answers. A frame that is too long is left out, and the client is warned.
    pub fn notify(&self, frame: &Frame) {
        let Some(method) = frame.method().filter(|method| self.wants(method)) else { return };
        let bytes = frame.bytes().len();
        if bytes <= MAX_NOTIFICATION_BYTES {
            self.outbox.push(frame);
            return;
        }
        tracing::warn!(bytes, method, "left out a notification that is too long");
        // The protocol has no warning for all purposes; this one is shown to people.
        if self.wants(ConfigWarning::NAME) {
            let summary = format!("a `{method}` notification was left out");
            let details = format!("It is too long to send: {bytes} bytes, at most {MAX_NOTIFICATION_BYTES}.");
            let warning =
                ConfigWarningNotification { summary, details: Some(details), path: None, range: None };
            self.outbox.push(&Frame::notification::<ConfigWarning>(&warning));
        }
    }

    /// Whether a notification of this method reaches the client at all.
    pub fn wants(&self, method: &str) -> bool {
        self.session().is_some_and(|session| !session.opted_out.contains(method))
    }

    /// Sends a question. Nobody can opt out of those: somebody waits for the answer.
    fn ask(&self, frame: &Frame) {
        if self.session().is_some() {
            self.outbox.push(frame);
        }
    }
}

/// The registry of clients. Cheap to clone; every clone is the same registry.
#[derive(Clone, Debug, Default)]
pub struct ClientRegistry(Arc<RegistryState>);

#[derive(Debug, Default)]
struct RegistryState {
    next_id: AtomicU64,
    rooms: RwLock<ThreadSubscriptions>,
    questions: OpenQuestions,
}

#[derive(Debug, Default)]
struct ThreadSubscriptions {
    clients: HashMap<ClientId, Arc<ConnectedClient>>,
    subscribers: HashMap<ThreadId, Vec<Arc<ConnectedClient>>>,
}

impl ClientRegistry {
    pub fn connect(&self) -> Arc<ConnectedClient> {
        let id = ClientId(self.0.next_id.fetch_add(1, Ordering::Relaxed));
        let client = Arc::new(ConnectedClient {
            id,
            outbox: ClientOutbox::default(),
            commands: CommandTable::default(),
            files: ClientFiles::default(),
            session: OnceLock::new(),
        });
        self.write().clients.insert(id, client.clone());
        client
    }

    /// Forgets a client and its subscriptions. Returns the threads it was subscribed to.
    pub fn disconnect(&self, id: ClientId) -> Vec<ThreadId> {
        let mut rooms = self.write();
        rooms.clients.remove(&id);
        let mut left = Vec::new();
        rooms.subscribers.retain(|thread, subscribers| {
            let before = subscribers.len();
            subscribers.retain(|client| client.id != id);
            if subscribers.len() < before {
                left.push(thread.clone());
            }
            !subscribers.is_empty()
        });
        left
    }

    /// Subscribes a client to a thread and shows it the thread's open questions. Idempotent.
    pub fn subscribe(&self, client: &Arc<ConnectedClient>, thread: &ThreadId) {
        self.join(&mut self.write(), client, thread);
    }

    fn join(&self, rooms: &mut ThreadSubscriptions, client: &Arc<ConnectedClient>, thread: &ThreadId) {
        let subscribers = rooms.subscribers.entry(thread.clone()).or_default();
        if subscribers.iter().any(|other| other.id == client.id) {
            return;
        }
        subscribers.push(client.clone());
        // Still under the lock: a question asked meanwhile must reach the client once, not twice.
        self.0.questions.of_thread(thread).iter().for_each(|frame| client.ask(frame));
    }

    /// False when the client was not subscribed.
    pub fn unsubscribe(&self, id: ClientId, thread: &ThreadId) -> bool {
        let mut rooms = self.write();
        let Some(subscribers) = rooms.subscribers.get_mut(thread) else { return false };
        let before = subscribers.len();
        subscribers.retain(|client| client.id != id);
        let removed = subscribers.len() < before;
        if subscribers.is_empty() {
            rooms.subscribers.remove(thread);
        }
        removed
    }

    /// Whether nobody else is subscribed.
    pub fn is_last_subscriber(&self, id: ClientId, thread: &ThreadId) -> bool {
        let rooms = self.read();
        rooms.subscribers.get(thread).is_some_and(|all| all.iter().all(|client| client.id == id))
    }

    /// An answer that arrived from a client.
    pub fn answer(&self, from: ClientId, id: &RequestId, answer: ClientReply) {
        let rooms = self.read();
        let is_subscribed = |thread: &ThreadId| {
            rooms.subscribers.get(thread).is_some_and(|all| all.iter().any(|client| client.id == from))
        };
        let may_answer = |asked: &QuestionAudience| match asked {
            QuestionAudience::Subscribers(thread) => is_subscribed(thread),
            QuestionAudience::Clients(clients) => clients.contains(&from),
        };
        self.0.questions.answer(id, may_answer, answer);
    }

    /// Asks one client, or everyone when that one is gone. `None` when nobody is left.
    pub fn ask_client(&self, first: ClientId, encode: &dyn Fn(&RequestId) -> Frame) -> Option<OpenQuestion> {
        let rooms = self.read();
        let greeted = |client: &&Arc<ConnectedClient>| client.session().is_some();
        let clients: Vec<_> = match rooms.clients.get(&first) {
            Some(client) => vec![client],
            None => rooms.clients.values().filter(greeted).collect(),
        };
        if clients.is_empty() {
            return None;
        }
        let asked = QuestionAudience::Clients(clients.iter().map(|client| client.id).collect());
        let (id, frame, answer) = self.0.questions.ask(asked, encode);
        if !self.fail_too_long(&id, &frame) {
            clients.iter().for_each(|client| client.ask(&frame));
        }
        Some(self.question(id, answer))
    }

    /// Answers a question with an error if it is too long to be sent, as a client does that cannot read it.
    fn fail_too_long(&self, id: &RequestId, frame: &Frame) -> bool {
        let bytes = frame.bytes().len();
        if bytes <= MAX_ANSWER_BYTES {
            return false;
        }
        tracing::warn!(bytes, method = frame.method(), "did not send a request that is too long");
        let error = RpcError::too_long("request", bytes, MAX_ANSWER_BYTES);
        self.0.questions.answer(id, |_| true, Err(error.object().clone()));
        true
    }

    fn question(&self, id: RequestId, answer: oneshot::Receiver<ClientReply>) -> OpenQuestion {
        let withdraw = QuestionWithdrawal { id: id.clone(), clients: self.clone() };
        OpenQuestion { id, answer, withdraw: QuestionGuard(Box::new(withdraw)) }
    }

    pub fn count(&self) -> usize {
        self.read().clients.len()
    }

    /// Ends every connection once what waits for it has been read.
    pub fn finish_all(&self) {
        self.read().clients.values().for_each(|client| client.outbox.finish());
    }

    // The maps are changed in single steps, so a panic elsewhere cannot leave them half done.
    fn read(&self) -> RwLockReadGuard<'_, ThreadSubscriptions> {
        self.0.rooms.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, ThreadSubscriptions> {
        self.0.rooms.write()
    }
}

impl ThreadClients for ClientRegistry {
    fn notify_subscribers(&self, thread: &ThreadId, frame: &Frame) {
        if let Some(subscribers) = self.read().subscribers.get(thread) {
            subscribers.iter().for_each(|client| client.notify(frame));
        }
    }

    fn has_subscribers(&self, thread: &ThreadId) -> bool {
        self.read().subscribers.contains_key(thread)
    }

    fn notify_all(&self, frame: &Frame) {
        self.read().clients.values().for_each(|client| client.notify(frame));
    }

    fn subscribe_like(&self, thread: &ThreadId, like: &ThreadId) {
        let mut rooms = self.write();
        let listeners = rooms.subscribers.get(like).cloned().unwrap_or_default();
        listeners.iter().for_each(|client| self.join(&mut rooms, client, thread));
    }

    fn ask(&self, thread: &ThreadId, encode: &dyn Fn(&RequestId) -> Frame) -> OpenQuestion {
        let rooms = self.read();
        let (id, frame, answer) = self.0.questions.ask(QuestionAudience::Subscribers(thread.clone()), encode);
        if !self.fail_too_long(&id, &frame) {
            rooms.subscribers.get(thread).into_iter().flatten().for_each(|client| client.ask(&frame));
        }
        self.question(id, answer)
    }
}

/// Takes a question back when whoever asked lets go of it.
struct QuestionWithdrawal {
    id: RequestId,
    clients: ClientRegistry,
}

impl Drop for QuestionWithdrawal {
    fn drop(&mut self) {
        self.clients.0.questions.withdraw(&self.id);
    }
}

#[cfg(test)]
mod tests;
