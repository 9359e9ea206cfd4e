//! The context of a request: what a handler gets beside its params.

use std::{
    path::Path,
    sync::{Arc, OnceLock, atomic::Ordering},
};

use codicil_accounts::Accounts;
use codicil_config::ConfigStore;
use codicil_engine::{
    AnnounceGuard, AnnouncedReply, RequestKey, ThreadClients, ThreadCounts, ThreadError, ThreadHandle,
    Threads, TurnOrigin,
};
use codicil_protocol::{
    Frame, MessagePlace, MessageSeq, NotificationMethod, ProtocolGeneration, ThreadId, rpc::RequestId,
};
use codicil_telemetry::TracePosition;
use parking_lot::Mutex;

use crate::{
    background::BackgroundTasks,
    clients::{ClientRegistry, ClientSession, ConnectedClient},
    ephemeral::EphemeralThreads,
    feedback::Feedback,
    files::FileServices,
    generation::{HistoryForm, ProtocolDefaults},
    server::ServerShared,
    user_agent::user_agent,
};

/// The connection of a request and the state of the server. Cheap to clone.
#[derive(Clone)]
pub struct Cx {
    pub client: Arc<ConnectedClient>,
    shared: Arc<ServerShared>,
    response: Arc<ResponseParts>,
    key: Option<RequestKey>,
    request_id: Option<RequestId>,
    trace: TracePosition,
}

/// A request that is being served.
pub struct CountedRequest(Arc<ServerShared>);

impl Drop for CountedRequest {
    fn drop(&mut self) {
        self.0.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a handler adds to its response.
#[derive(Default)]
struct ResponseParts {
    after: Mutex<Vec<AfterReply>>,
    position: OnceLock<MessagePlace>,
}

/// Work that runs once the response is queued.
pub type AfterReply = Box<dyn FnOnce() + Send>;

impl Cx {
    pub fn new(client: Arc<ConnectedClient>, shared: Arc<ServerShared>) -> Self {
        Self {
            client,
            shared,
            response: Arc::default(),
            key: None,
            request_id: None,
            trace: TracePosition::default(),
        }
    }

    /// Sets where the client's request is in a trace.
    pub fn set_trace(&mut self, trace: TracePosition) {
        self.trace = trace;
    }

    pub fn trace(&self) -> &TracePosition {
        &self.trace
    }

    pub fn set_key(&mut self, key: Option<RequestKey>) {
        self.key = key;
    }

    pub fn set_request_id(&mut self, id: RequestId) {
        self.request_id = Some(id);
    }

    /// Returns the id of the request, for requests that another one cancels.
    pub fn request_id(&self) -> Option<&RequestId> {
        self.request_id.as_ref()
    }

    /// Returns the key of the request.
    pub fn key(&self) -> Option<RequestKey> {
        self.key.clone()
    }

    /// Returns whether the response is that of an earlier request with the same key.
    pub fn is_replayed(&self) -> bool {
        self.key.as_ref().is_some_and(RequestKey::is_replayed)
    }

    /// Returns whether the response says that it is replayed. Clients without the extension do not see it.
    pub fn shows_replayed(&self) -> bool {
        self.is_replayed() && self.client.session().is_some_and(|session| session.codicil.is_some())
    }

    /// Returns a loaded thread, for a change that has the key of this request.
    pub fn thread(&self, id: &ThreadId) -> Result<ThreadHandle, ThreadError> {
        Ok(self.threads().get(id)?.with_key(self.key()))
    }

    /// Returns the directory with configuration, credentials and threads.
    pub fn home(&self) -> &Path {
        self.shared.home()
    }

    /// Returns the working directory of threads that name none.
    pub fn cwd(&self) -> &Path {
        &self.shared.setup.cwd
    }

    /// Returns how connections are served that do not choose a generation.
    pub fn protocol(&self) -> &ProtocolDefaults {
        &self.shared.setup.protocol
    }

    pub fn config(&self) -> &ConfigStore {
        &self.shared.setup.config
    }

    pub fn clients(&self) -> &ClientRegistry {
        &self.shared.clients
    }

    pub fn background(&self) -> &BackgroundTasks {
        &self.shared.background
    }

    pub fn accounts(&self) -> &Accounts {
        &self.shared.accounts
    }

    pub fn files(&self) -> &FileServices {
        &self.shared.files
    }

    pub fn feedback(&self) -> &Feedback {
        &self.shared.feedback
    }

    /// Returns the numbers of loaded threads; `None` before anything has used threads.
    pub fn thread_counts(&self) -> Option<ThreadCounts> {
        self.shared.started_threads().map(Threads::counts)
    }

    /// Returns how many requests of all connections are being served, this one included.
    pub fn requests_in_flight(&self) -> usize {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// Counts a request until the returned value is dropped.
    pub fn count_request(&self) -> CountedRequest {
        self.shared.requests.fetch_add(1, Ordering::Relaxed);
        CountedRequest(self.shared.clone())
    }

    pub fn threads(&self) -> &Threads {
        self.shared.threads()
    }

    pub fn ephemeral_threads(&self) -> &Arc<EphemeralThreads> {
        &self.shared.ephemeral_threads
    }

    /// Returns the client on whose behalf a turn runs.
    pub fn origin(&self) -> TurnOrigin {
        match self.client.session() {
            Some(session) => TurnOrigin {
                name: session.name.clone(),
                user_agent: user_agent(session, self.protocol().announced_version(session.known_generation)),
                generation: session.generation(),
                root_turn: None,
            },
            None => TurnOrigin::default(),
        }
    }

    /// Returns whether the messages of threads are sent to the client with their positions.
    pub fn has_cursor(&self) -> bool {
        self.client.session().is_some_and(ClientSession::has_cursor)
    }

    /// Returns whether the client uses the extension `codicil`.
    pub fn uses_extension(&self) -> bool {
        self.client.session().is_some_and(|session| session.codicil.is_some())
    }

    /// Returns whether lists are to be those of the reference server of the 0.166 generation.
    pub fn is_plain_later(&self) -> bool {
        self.generation() == ProtocolGeneration::V166 && !self.uses_extension()
    }

    /// Returns the form in which the client expects stored turns.
    pub fn history_form(&self) -> HistoryForm {
        HistoryForm { generation: self.generation(), has_declined_items: self.uses_extension() }
    }

    /// Returns whether another server relays this request.
    pub fn is_relayed(&self) -> bool {
        self.client.session().is_some_and(|session| session.is_relayed)
    }

    /// Tells a server that relays this request from which position the messages of the thread follow.
    pub fn note_position(&self, thread_id: &ThreadId, position: MessageSeq) {
        if self.is_relayed() {
            // The first position counts; a handler opens one thread.
            let _ = self.response.position.set(MessagePlace::new(thread_id.clone(), position));
        }
    }

    /// Returns the position that is sent with the response.
    pub fn response_position(&self) -> Option<MessagePlace> {
        self.response.position.get().cloned()
    }

    pub fn generation(&self) -> ProtocolGeneration {
        self.client.generation()
    }

    /// Runs `work` once the response is queued. If the client disconnects first, `work` is dropped.
    pub fn after_response(&self, work: impl FnOnce() + Send + 'static) {
        self.response.after.lock().push(Box::new(work));
    }

    /// Notifies this client after the response.
    pub fn notify_after_response<N: NotificationMethod>(&self, params: N::Params) {
        let client = self.client.clone();
        self.after_response(move || client.notify(&Frame::notification::<N>(&params)));
    }

    /// Notifies every client after the response.
    pub fn broadcast_after_response<N: NotificationMethod>(&self, params: N::Params) {
        let clients = self.clients().clone();
        self.after_response(move || clients.notify_all(&Frame::notification::<N>(&params)));
    }

    /// Returns the reply of a thread and lets the thread send its notifications after the response.
    pub fn announce<T>(&self, announced: AnnouncedReply<T>) -> T {
        let AnnouncedReply { answer, announce } = announced;
        self.after_response(move || drop(announce));
        answer
    }

    /// Holds the notifications of a thread back until the response is queued.
    pub fn hold(&self, announce: Option<AnnounceGuard>) {
        self.after_response(move || drop(announce));
    }

    /// Returns the work that follows the response. What a replayed response is about was announced by the first one.
    pub fn take_after_response(&self) -> Vec<AfterReply> {
        let work = std::mem::take(&mut *self.response.after.lock());
        if self.is_replayed() {
            work.into_iter().map(|held| -> AfterReply { Box::new(move || drop(held)) }).collect()
        } else {
            work
        }
    }
}
