//! The connected clients and their subscriptions to threads.
//!
//! A message for several clients is encoded once, as a [`Frame`].

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use codicil_engine::{ClientAnswer, ClientReply, OpenQuestion, QuestionGuard, ThreadClients};
use codicil_metrics::METRICS;
use codicil_protocol::{
    CodicilCapabilities, CodicilOpenRequest, ConfigWarning, ConfigWarningNotification, Frame,
    InitializeParams, MessageSeq, NotificationMethod, ProtocolGeneration, SubscriptionScope, ThreadId,
    ThreadReadStateChanged,
    rpc::{Message, RequestId},
};
use parking_lot::{Mutex, RwLock};
use tokio::sync::{oneshot, watch};

use crate::{
    commands::CommandTable,
    error::RpcError,
    files::ClientFiles,
    generation::{AtomicGeneration, negotiate},
    limits::{MANY_CLIENTS, MAX_NOTIFICATION_BYTES, MAX_RESPONSE_BYTES},
    outbox::ClientOutbox,
    questions::{OpenQuestions, QuestionAudience},
    samples::RunningSamples,
};

/// The id of a connection, unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(u64);

/// A connected client.
#[derive(Debug)]
pub struct ConnectedClient {
    pub id: ClientId,
    pub outbox: ClientOutbox,
    pub commands: CommandTable,
    /// The processes of `process/spawn`.
    pub processes: CommandTable,
    pub files: ClientFiles,
    pub samples: RunningSamples,
    session: OnceLock<ClientSession>,
    /// Whether the client has asked for a list of threads.
    lists_threads: AtomicBool,
    /// The latest warnings that the client has received.
    warnings: Mutex<VecDeque<ConfigWarningNotification>>,
}

/// The maximum number of remembered warnings per client.
const MAX_WARNINGS: usize = 64;
/// Notifications that only clients with the experimental capability get.
const EXPERIMENTAL_NOTIFICATIONS: [&str; 1] = [ThreadReadStateChanged::NAME];

/// What the client sent with `initialize`.
#[derive(Debug)]
pub struct ClientSession {
    pub name: String,
    pub version: String,
    pub experimental: bool,
    /// The generation of the connection. It can change to a later one, see `generation.rs`.
    generation: AtomicGeneration,
    /// The generation that the client chose or is known to have; `None` if it says nothing about itself.
    pub known_generation: Option<ProtocolGeneration>,
    /// What the client asked of the extension; `None` if it does not use it.
    pub codicil: Option<CodicilCapabilities>,
    /// Whether another server relays the messages of the client to this one.
    pub is_relayed: bool,
    /// The params of `initialize`, for servers that this one relays to.
    pub initialized_with: InitializeParams,
    opted_out: HashSet<String>,
}

impl ClientSession {
    /// Returns the session of a client, whose generation is `default` unless the client chooses one.
    pub fn new(params: InitializeParams, default: ProtocolGeneration) -> Self {
        let initialized_with = params.clone();
        let known_generation = negotiate(&params);
        let generation = AtomicGeneration::new(known_generation.unwrap_or(default));
        let mut capabilities = params.capabilities.unwrap_or_default();
        let relayed = capabilities.codicil.as_mut().and_then(|codicil| codicil.relay.take());
        if relayed.as_ref().is_some_and(|relayed| !relayed.extension) {
            capabilities.codicil = None;
        }
        Self {
            generation,
            known_generation,
            is_relayed: relayed.is_some(),
            initialized_with,
            name: params.client_info.name,
            version: params.client_info.version,
            experimental: capabilities.experimental_api,
            codicil: capabilities.codicil,
            opted_out: capabilities.opt_out_notification_methods.into_iter().flatten().collect(),
        }
    }
}

impl ClientSession {
    pub fn generation(&self) -> ProtocolGeneration {
        self.generation.get()
    }

    /// Returns whether the messages of threads are sent with their positions.
    pub fn has_cursor(&self) -> bool {
        self.codicil.as_ref().is_some_and(|codicil| codicil.cursor)
    }

    /// Returns whether requests for threads of other servers are answered with the addresses of those servers.
    pub fn wants_redirect(&self) -> bool {
        self.codicil.as_ref().is_some_and(|codicil| codicil.redirect)
    }
}

impl ConnectedClient {
    pub fn session(&self) -> Option<&ClientSession> {
        self.session.get()
    }

    /// Sets the session. Returns false if there already is one.
    pub fn initialize(&self, session: ClientSession) -> bool {
        let has_cursor = session.has_cursor();
        let is_relayed = session.is_relayed;
        let generation = session.generation();
        let is_first = self.session.set(session).is_ok();
        if is_first {
            self.outbox.use_generation(generation);
        }
        if is_first && has_cursor {
            self.outbox.use_cursor();
        }
        if is_first && is_relayed {
            self.outbox.show_places();
        }
        is_first
    }

    /// Returns the generation of the connection; that of 0.118 before `initialize`.
    pub fn generation(&self) -> ProtocolGeneration {
        self.session().map_or(ProtocolGeneration::V118, ClientSession::generation)
    }

    /// Treats the connection as one of the 0.166 generation from now on, because the client uses what 0.118 does not have.
    pub fn note_later_use(&self) {
        let Some(session) = self.session() else { return };
        if session.generation() != ProtocolGeneration::V166 {
            session.generation.set(ProtocolGeneration::V166);
            self.outbox.use_generation(ProtocolGeneration::V166);
        }
    }

    /// Sends the state of all threads to this client from now on, however many clients there are.
    pub fn note_listing(&self) {
        self.lists_threads.store(true, Ordering::Relaxed);
    }

    /// Sends a notification unless the client has opted out of its method or is not initialized. A frame that is too
    /// long is left out, and the client gets a warning instead.
    pub fn notify(&self, frame: &Frame) {
        let Some(method) = frame.method().filter(|method| self.wants(method)) else { return };
        let bytes = frame.max_len();
        if bytes <= MAX_NOTIFICATION_BYTES {
            self.outbox.push(frame);
            return;
        }
        tracing::warn!(bytes, method, "left out a notification that is too long");
        // The protocol has no general warning; this one is shown to the user.
        if self.wants(ConfigWarning::NAME) {
            let summary = format!("a `{method}` notification was left out");
            let details = format!("It is too long to send: {bytes} bytes, at most {MAX_NOTIFICATION_BYTES}.");
            let warning =
                ConfigWarningNotification { summary, details: Some(details), path: None, range: None };
            self.outbox.push(&Frame::notification::<ConfigWarning>(&warning));
        }
    }

    /// Sends a warning about the configuration unless the client has received the same one before.
    pub fn warn(&self, warning: ConfigWarningNotification) {
        let mut sent = self.warnings.lock();
        if sent.contains(&warning) {
            return;
        }
        self.notify(&Frame::notification::<ConfigWarning>(&warning));
        sent.truncate(MAX_WARNINGS - 1);
        sent.push_front(warning);
    }

    /// Returns whether the client receives notifications of this method.
    pub fn wants(&self, method: &str) -> bool {
        self.session().is_some_and(|session| {
            !session.opted_out.contains(method)
                && (session.experimental || !EXPERIMENTAL_NOTIFICATIONS.contains(&method))
        })
    }

    /// Sends a server request. Clients cannot opt out of those: a turn waits for the answer.
    pub fn ask(&self, frame: &Frame) {
        if self.session().is_some() {
            self.outbox.push(frame);
        }
    }
}

/// The registry of clients. Clones share one registry.
#[derive(Clone, Debug, Default)]
pub struct ClientRegistry(Arc<RegistryState>);

#[derive(Debug, Default)]
struct RegistryState {
    next_id: AtomicU64,
    /// Whether a client with a cursor has ever connected.
    has_cursors: AtomicBool,
    count: watch::Sender<usize>,
    subscriptions: RwLock<ThreadSubscriptions>,
    questions: OpenQuestions,
}

#[derive(Debug, Default)]
struct ThreadSubscriptions {
    clients: HashMap<ClientId, Arc<ConnectedClient>>,
    by_thread: HashMap<ThreadId, Vec<Arc<ConnectedClient>>>,
    /// The subscriptions that do not extend to new subagents of the thread.
    without_subagents: HashSet<(ClientId, ThreadId)>,
}

impl ClientRegistry {
    pub fn connect(&self) -> Arc<ConnectedClient> {
        let id = ClientId(self.0.next_id.fetch_add(1, Ordering::Relaxed));
        let client = Arc::new(ConnectedClient {
            id,
            outbox: ClientOutbox::default(),
            commands: CommandTable::default(),
            processes: CommandTable::default(),
            files: ClientFiles::default(),
            samples: RunningSamples::default(),
            session: OnceLock::new(),
            lists_threads: AtomicBool::new(false),
            warnings: Mutex::default(),
        });
        METRICS.connections_opened.inc();
        let mut subscriptions = self.0.subscriptions.write();
        subscriptions.clients.insert(id, client.clone());
        self.0.count.send_replace(subscriptions.clients.len());
        drop(subscriptions);
        client
    }

    /// Sets the session of a client. Returns false if there already is one.
    pub fn initialize(&self, client: &ConnectedClient, session: ClientSession) -> bool {
        if session.has_cursor() || session.is_relayed {
            self.0.has_cursors.store(true, Ordering::Relaxed);
        }
        client.initialize(session)
    }

    /// Returns how many bytes wait in the queues of all clients.
    pub fn queue_bytes(&self) -> usize {
        self.0.subscriptions.read().clients.values().map(|client| client.outbox.unread_bytes()).sum()
    }

    /// Removes a client and its subscriptions.
    pub fn disconnect(&self, id: ClientId) {
        let mut subscriptions = self.0.subscriptions.write();
        subscriptions.clients.remove(&id);
        self.0.count.send_replace(subscriptions.clients.len());
        subscriptions.without_subagents.retain(|(client, _)| *client != id);
        subscriptions.by_thread.retain(|_, subscribers| {
            subscribers.retain(|client| client.id != id);
            !subscribers.is_empty()
        });
    }

    /// Subscribes a client to a thread and sends it the thread's open questions. Idempotent.
    pub fn subscribe(&self, client: &Arc<ConnectedClient>, thread: &ThreadId) {
        let mut subscriptions = self.0.subscriptions.write();
        subscriptions.without_subagents.remove(&(client.id, thread.clone()));
        self.add_subscriber(&mut subscriptions, client, thread);
    }

    /// Subscribes a client that knows the thread's open questions.
    pub fn subscribe_at(&self, client: &Arc<ConnectedClient>, thread: &ThreadId, scope: &SubscriptionScope) {
        let mut subscriptions = self.0.subscriptions.write();
        let subscription = (client.id, thread.clone());
        if *scope == SubscriptionScope::Thread {
            subscriptions.without_subagents.insert(subscription);
        } else {
            subscriptions.without_subagents.remove(&subscription);
        }
        let subscribers = subscriptions.by_thread.entry(thread.clone()).or_default();
        if subscribers.iter().all(|other| other.id != client.id) {
            subscribers.push(client.clone());
        }
    }

    /// Returns the open questions of a thread in the form of the extension.
    pub fn open_requests(&self, thread: &ThreadId) -> Vec<CodicilOpenRequest> {
        self.0.questions.of_thread(thread).iter().filter_map(open_request).collect()
    }

    fn add_subscriber(
        &self,
        subscriptions: &mut ThreadSubscriptions,
        client: &Arc<ConnectedClient>,
        thread: &ThreadId,
    ) {
        let subscribers = subscriptions.by_thread.entry(thread.clone()).or_default();
        if subscribers.iter().any(|other| other.id == client.id) {
            return;
        }
        subscribers.push(client.clone());
        // Under the lock, so that a question that is asked meanwhile reaches the client only once.
        self.0.questions.of_thread(thread).iter().for_each(|frame| client.ask(frame));
    }

    /// Ends a subscription. Returns false if there was none.
    pub fn unsubscribe(&self, id: ClientId, thread: &ThreadId) -> bool {
        let mut subscriptions = self.0.subscriptions.write();
        let Some(subscribers) = subscriptions.by_thread.get_mut(thread) else { return false };
        let place = subscribers.iter().position(|client| client.id == id);
        if let Some(place) = place {
            subscribers.remove(place).outbox.catch_up(thread);
        }
        if subscribers.is_empty() {
            subscriptions.by_thread.remove(thread);
        }
        subscriptions.without_subagents.remove(&(id, thread.clone()));
        place.is_some()
    }

    /// Returns whether this client is the only subscriber of a thread.
    pub fn is_last_subscriber(&self, id: ClientId, thread: &ThreadId) -> bool {
        let subscriptions = self.0.subscriptions.read();
        subscriptions.by_thread.get(thread).is_some_and(|all| all.iter().all(|client| client.id == id))
    }

    /// Returns an id for a server request that this server passes on.
    pub fn new_question_id(&self) -> RequestId {
        self.0.questions.new_id()
    }

    /// Passes the answer of a client on to the asker, if this client was asked.
    pub fn answer(&self, from: ClientId, id: &RequestId, answer: ClientReply) {
        let subscriptions = self.0.subscriptions.read();
        let may_answer = |audience: &QuestionAudience| match audience {
            QuestionAudience::Subscribers(thread) => {
                let subscribers = subscriptions.by_thread.get(thread);
                subscribers.is_some_and(|all| all.iter().any(|client| client.id == from))
            }
            QuestionAudience::Clients(clients) => clients.contains(&from),
        };
        let client = subscriptions.clients.get(&from);
        let name = client.and_then(|client| client.session()).map_or("", |session| session.name.as_str());
        self.0.questions.answer(id, may_answer, answer, name);
    }

    /// Asks one client, or every initialized client if that one has disconnected. Returns `None` if there is no
    /// client to ask.
    pub fn ask_client(
        &self,
        preferred: ClientId,
        encode: &dyn Fn(&RequestId) -> Frame,
    ) -> Option<OpenQuestion> {
        let subscriptions = self.0.subscriptions.read();
        let is_initialized = |client: &&Arc<ConnectedClient>| client.session().is_some();
        let clients: Vec<_> = match subscriptions.clients.get(&preferred) {
            Some(client) => vec![client],
            None => subscriptions.clients.values().filter(is_initialized).collect(),
        };
        if clients.is_empty() {
            return None;
        }
        let audience = QuestionAudience::Clients(clients.iter().map(|client| client.id).collect());
        let (id, frame, answer) = self.0.questions.ask(audience, encode);
        if !self.fail_if_too_long(&id, &frame) {
            clients.iter().for_each(|client| client.ask(&frame));
        }
        Some(self.question(id, answer))
    }

    /// Answers a question with an error if it is too long to be sent, and returns whether it is.
    fn fail_if_too_long(&self, id: &RequestId, frame: &Frame) -> bool {
        let bytes = frame.bytes().len();
        if bytes <= MAX_RESPONSE_BYTES {
            return false;
        }
        tracing::warn!(bytes, method = frame.method(), "did not send a request that is too long");
        let error = RpcError::too_long("request", bytes, MAX_RESPONSE_BYTES);
        self.0.questions.answer(id, |_| true, Err(error.object().clone()), "server");
        true
    }

    fn question(&self, id: RequestId, answer: oneshot::Receiver<ClientAnswer>) -> OpenQuestion {
        let withdraw = QuestionWithdrawal { id: id.clone(), clients: self.clone() };
        OpenQuestion { id, answer, withdraw: QuestionGuard(Box::new(withdraw)) }
    }

    pub fn count(&self) -> usize {
        self.0.subscriptions.read().clients.len()
    }

    /// Returns the number of connections, to be watched.
    pub fn watch_count(&self) -> watch::Receiver<usize> {
        self.0.count.subscribe()
    }

    /// Ends every connection once its outbox has been sent.
    pub fn finish_all(&self) {
        self.0.subscriptions.read().clients.values().for_each(|client| client.outbox.finish());
    }
}

impl ThreadClients for ClientRegistry {
    fn notify_subscribers(&self, thread: &ThreadId, frame: &Frame) {
        if let Some(subscribers) = self.0.subscriptions.read().by_thread.get(thread) {
            subscribers.iter().for_each(|client| client.notify(frame));
        }
    }

    fn has_subscribers(&self, thread: &ThreadId) -> bool {
        self.0.subscriptions.read().by_thread.contains_key(thread)
    }

    fn have_cursors(&self) -> bool {
        self.0.has_cursors.load(Ordering::Relaxed)
    }

    fn fall_behind(&self, thread: &ThreadId, after: MessageSeq) {
        if let Some(subscribers) = self.0.subscriptions.read().by_thread.get(thread) {
            subscribers.iter().for_each(|client| client.outbox.fall_behind(thread, after));
        }
    }

    fn notify_all(&self, frame: &Frame) {
        self.0.subscriptions.read().clients.values().for_each(|client| client.notify(frame));
    }

    fn notify_followers(&self, thread: &ThreadId, frame: &Frame) {
        let subscriptions = self.0.subscriptions.read();
        let subscribers = subscriptions.by_thread.get(thread).map_or(&[][..], Vec::as_slice);
        subscribers.iter().for_each(|client| client.notify(frame));
        let is_small = subscriptions.clients.len() <= MANY_CLIENTS;
        let wants = |client: &&Arc<ConnectedClient>| is_small || client.lists_threads.load(Ordering::Relaxed);
        let is_subscriber =
            |client: &Arc<ConnectedClient>| subscribers.iter().any(|other| other.id == client.id);
        // A client that is about to subscribe would take the position for that of the last message that it has seen.
        let frame = frame.clone().without_place();
        let others = subscriptions.clients.values().filter(wants).filter(|client| !is_subscriber(client));
        others.for_each(|client| client.notify(&frame));
    }

    fn subscribe_like(&self, thread: &ThreadId, like: &ThreadId) {
        let mut subscriptions = self.0.subscriptions.write();
        let mut subscribers = subscriptions.by_thread.get(like).cloned().unwrap_or_default();
        let alone = &subscriptions.without_subagents;
        subscribers.retain(|client| !alone.contains(&(client.id, like.clone())));
        subscribers.iter().for_each(|client| self.add_subscriber(&mut subscriptions, client, thread));
    }

    fn ask(&self, thread: &ThreadId, encode: &dyn Fn(&RequestId) -> Frame) -> OpenQuestion {
        let subscriptions = self.0.subscriptions.read();
        let (id, frame, answer) = self.0.questions.ask(QuestionAudience::Subscribers(thread.clone()), encode);
        if !self.fail_if_too_long(&id, &frame) {
            subscriptions.by_thread.get(thread).into_iter().flatten().for_each(|client| client.ask(&frame));
        }
        self.question(id, answer)
    }
}

fn open_request(frame: &Frame) -> Option<CodicilOpenRequest> {
    let text = std::str::from_utf8(frame.bytes()).ok()?;
    let Ok(Message::Request { id, method, params, .. }) = Message::parse(text) else { return None };
    let params = serde_json::from_str(params?.get()).ok()?;
    Some(CodicilOpenRequest { id, method, params, seq: frame.place()?.seq })
}

/// Withdraws a question when its asker drops it.
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
