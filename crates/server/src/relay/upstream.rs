//! The connection of one client to one other node, and the task that owns it.
//!
//! The task reads from the owner only while the client reads, so that a slow client slows down this connection and no other. It
//! never waits for the owner to read: otherwise two nodes could wait for each other.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use codicil_client::{SocketStream, WebSocket, open_socket};
use codicil_engine::ClientReply;
use codicil_metrics::{METRICS, labels::RelayDirection};
use codicil_protocol::{
    CODICIL_VERSION, CodicilCapabilities, CodicilSubscribe, CodicilSubscribeParams, Frame, Initialize,
    InitializeParams, Method, NotificationMethod, RelayedClient, ServerRequestResolved,
    ServerRequestResolvedNotification, ThreadArchived, ThreadClosed, ThreadDeleted, ThreadId, TurnCompleted,
    rpc::{ErrorObject, RequestId},
};
use codicil_store::OwnerNode;
use futures_util::{
    SinkExt, StreamExt,
    stream::{FuturesUnordered, SplitSink},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval, timeout},
};
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

use super::{
    ClientRelay, RelayEnd, RelayError, RelayRequest,
    owner_message::{OwnerMessage, OwnerResponse, ThreadMessage, is_owned_elsewhere},
    questions::QuestionContent,
    recovery::{ContinueOutcome, SubscriptionAnswer},
    request::{encode_own, encode_subscription},
    table::{LostThreads, ThreadPosition},
    upstream_handle::{UpstreamCommand, UpstreamHandle},
};
use crate::limits::{MAX_MESSAGE_BYTES, MAX_RELAYED_COMMANDS, STREAM_BYTES};

/// How long it may take to connect to another node.
const CONNECT_TIME: Duration = Duration::from_secs(5);

/// The time between two signs of life that are asked of the owner.
const PING_EVERY: Duration = Duration::from_secs(2);

/// The time without a sign of life after which the owner counts as lost. As long as the lease of a node.
const MAX_SILENCE: Duration = Duration::from_secs(6);

/// Room in the queue of outgoing messages that is kept for answers and pings.
const RESERVED_MESSAGES: usize = 64;

/// Notifications that this node needs, whatever the client has opted out of.
const NEEDED_NOTIFICATIONS: &[&str] = &[
    ServerRequestResolved::NAME,
    TurnCompleted::NAME,
    ThreadClosed::NAME,
    ThreadArchived::NAME,
    ThreadDeleted::NAME,
];

/// A request that the owner has not answered.
enum OpenCall {
    Initialize,
    Client { request: Arc<RelayRequest>, end: oneshot::Sender<RelayEnd> },
    Continuation { position: ThreadPosition, end: oneshot::Sender<ContinueOutcome> },
}

/// The connection is lost.
struct Lost;

/// The task that owns the connection.
pub struct UpstreamTask {
    relay: Arc<ClientRelay>,
    owner: OwnerNode,
    handle: UpstreamHandle,
    inbox: mpsc::Receiver<UpstreamCommand>,
    outgoing: mpsc::Sender<Message>,
    calls: HashMap<i64, OpenCall>,
    next_call: i64,
}

impl UpstreamTask {
    pub fn new(
        relay: Arc<ClientRelay>,
        owner: OwnerNode,
        handle: UpstreamHandle,
        inbox: mpsc::Receiver<UpstreamCommand>,
    ) -> Self {
        // Replaced when there is a connection.
        let (outgoing, _) = mpsc::channel(1);
        Self { relay, owner, handle, inbox, outgoing, calls: HashMap::new(), next_call: 0 }
    }

    /// Serves the connection until it is lost, then continues its threads elsewhere.
    pub async fn run(mut self) {
        match self.connect().await {
            Ok(socket) => {
                let _lost = self.serve(socket).await;
                tracing::info!(node = self.owner.name, "the connection to another node is lost");
            }
            Err(reason) => tracing::warn!(node = self.owner.name, "cannot reach another node: {reason}"),
        }
        self.settle_calls();
        let LostThreads { subscribed, questions } = self.relay.table.lock().lose_upstream(&self.handle);
        for question in questions {
            self.relay.notify_resolved(&question.content.thread, question.id);
        }
        self.recover_threads(subscribed).await;
        self.inbox.close();
    }

    /// Continues threads elsewhere. The requests about each of them wait meanwhile, and are sent where it is then.
    async fn recover_threads(&mut self, lost: Vec<ThreadPosition>) {
        let mut waiting: HashMap<ThreadId, Vec<UpstreamCommand>> =
            lost.iter().map(|position| (position.thread.clone(), Vec::new())).collect();
        let relay = self.relay.clone();
        let recover = |position: ThreadPosition| {
            let relay = relay.clone();
            async move {
                let thread = position.thread.clone();
                relay.recover(position).await;
                thread
            }
        };
        let mut recoveries: FuturesUnordered<_> = lost.into_iter().map(recover).collect();
        while !recoveries.is_empty() {
            tokio::select! {
                // Dropping a request says that it was not served.
                Some(thread) = recoveries.next() => drop(waiting.remove(&thread)),
                Some(command) = self.inbox.recv() => {
                    let UpstreamCommand::Request { request, .. } = &command else { continue };
                    if let Some(requests) = waiting.get_mut(&request.thread) {
                        keep_waiting(requests, command);
                    }
                }
            }
        }
    }

    async fn connect(&self) -> Result<SocketStream, String> {
        let mut address = WebSocket::new(self.owner.url.as_str());
        let auth = self.relay.shared.cluster_auth.get();
        if let Some(token) = auth.and_then(|auth| auth.own_token()) {
            address = address.bearer(token);
        }
        let connecting = open_socket(&address, MAX_MESSAGE_BYTES);
        timeout(CONNECT_TIME, connecting).await.map_err(|_| "it took too long".to_owned())?
    }

    async fn serve(&mut self, socket: SocketStream) -> Result<(), Lost> {
        let (sink, mut source) = socket.split();
        let (outgoing, queued) = mpsc::channel(MAX_RELAYED_COMMANDS);
        self.outgoing = outgoing;
        let writing = write(sink, queued);
        tokio::pin!(writing);
        let client = self.relay.client.clone();
        let mut beat = interval(PING_EVERY);
        beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        self.initialize()?;
        loop {
            let next = async {
                client.outbox.wait_for_stream_room().await;
                source.next().await
            };
            tokio::select! {
                () = &mut writing => return Err(Lost),
                command = self.inbox.recv(), if self.outgoing.capacity() > RESERVED_MESSAGES => {
                    self.on_command(command.ok_or(Lost)?)?;
                }
                message = next => {
                    heard = Instant::now();
                    match message {
                        Some(Ok(Message::Text(text))) => self.on_message(&text)?,
                        Some(Ok(Message::Close(_)) | Err(_)) | None => return Err(Lost),
                        Some(Ok(_)) => {}
                    }
                }
                _ = beat.tick() => {
                    // While the client does not read, nothing is read from the owner.
                    if client.outbox.unread_bytes() > STREAM_BYTES {
                        heard = Instant::now();
                    }
                    if heard.elapsed() > MAX_SILENCE {
                        return Err(Lost);
                    }
                    self.send(Message::Ping(Bytes::new()))?;
                }
            }
        }
    }

    fn initialize(&mut self) -> Result<(), Lost> {
        let session = self.relay.client.session().ok_or(Lost)?;
        let mut params: InitializeParams = session.initialized_with.clone();
        let capabilities = params.capabilities.get_or_insert_default();
        capabilities.codicil = Some(CodicilCapabilities {
            version: CODICIL_VERSION,
            cursor: session.has_cursor(),
            redirect: false,
            relay: Some(RelayedClient {
                extension: session.codicil.is_some(),
                generation: session.generation().version().to_owned(),
            }),
        });
        if let Some(opted_out) = &mut capabilities.opt_out_notification_methods {
            opted_out.retain(|method| !NEEDED_NOTIFICATIONS.contains(&method.as_str()));
        }
        let id = self.open_call(OpenCall::Initialize);
        self.send_text(encode_own::<Initialize>(id, &params))
    }

    fn on_command(&mut self, command: UpstreamCommand) -> Result<(), Lost> {
        match command {
            UpstreamCommand::Request { request, end } => {
                let id = self.open_call(OpenCall::Client { request: request.clone(), end });
                self.send_text(request.encode(id))
            }
            UpstreamCommand::Answer { asked_as, reply } => self.send_reply(&asked_as, &reply),
            UpstreamCommand::ContinueThread { position, end } => {
                let params = CodicilSubscribeParams {
                    after: position.after,
                    scope: position.scope.clone(),
                    ..CodicilSubscribeParams::new(position.thread.clone())
                };
                let id = self.open_call(OpenCall::Continuation { position, end });
                self.send_text(encode_subscription(id, &params))
            }
        }
    }

    fn on_message(&mut self, text: &str) -> Result<(), Lost> {
        METRICS.relay_bytes.add(RelayDirection::ToClient, text.len() as u64);
        match OwnerMessage::read(text) {
            Some(OwnerMessage::Notification(message)) => self.on_notification(&message),
            Some(OwnerMessage::Request { id, message }) => self.on_question(id, &message)?,
            Some(OwnerMessage::Response { id, response }) => self.on_response(&id, &response)?,
            Some(OwnerMessage::Error { id, error }) => self.on_error(&id, &error)?,
            None => {}
        }
        Ok(())
    }

    fn on_notification(&self, message: &ThreadMessage<'_>) {
        let relay = &self.relay;
        let mut table = relay.table.lock();
        if !table.accepts(&self.handle, message) {
            return;
        }
        if message.method == ServerRequestResolved::NAME {
            let params: Result<ServerRequestResolvedNotification, _> =
                serde_json::from_str(message.params.get());
            let asked_as = params.map(|params| params.request_id).ok();
            let known = asked_as.and_then(|id| table.questions.resolve(&self.handle, &id));
            drop(table);
            if let Some(id) = known {
                relay.notify_resolved(&message.thread, id);
            }
            return;
        }
        let mut unanswered = match &message.turn {
            Some(turn) if message.method == TurnCompleted::NAME && table.questions.has_any() => {
                table.questions.end_turn(&message.thread, turn)
            }
            _ => Vec::new(),
        };
        if [ThreadClosed::NAME, ThreadArchived::NAME, ThreadDeleted::NAME].contains(&message.method) {
            table.remove_thread(&message.thread);
            let asked = table.questions.take_thread(&message.thread);
            unanswered.extend(asked.into_iter().map(|question| question.id));
        }
        drop(table);
        unanswered.into_iter().for_each(|id| relay.notify_resolved(&message.thread, id));
        relay.client.notify(&message.to_notification());
    }

    /// Passes a server request on, or answers it with what the client has answered to the earlier owner of the thread.
    fn on_question(&self, asked_as: RequestId, message: &ThreadMessage<'_>) -> Result<(), Lost> {
        let content = QuestionContent {
            thread: message.thread.clone(),
            turn: message.turn.clone(),
            method: message.method,
            params: serde_json::from_str(message.params.get()).unwrap_or_default(),
        };
        let clients = &self.relay.shared.clients;
        let mut table = self.relay.table.lock();
        if !table.accepts(&self.handle, message) {
            return Ok(());
        }
        let asked =
            table.questions.ask(&self.handle, asked_as.clone(), content, || clients.new_question_id());
        drop(table);
        match asked.reply {
            Some(reply) => self.send_reply(&asked_as, &reply),
            None => {
                self.relay.client.ask(&message.to_request(&asked.id));
                Ok(())
            }
        }
    }

    fn on_response(&mut self, id: &RequestId, response: &OwnerResponse<'_>) -> Result<(), Lost> {
        match self.take_call(id) {
            Some(OpenCall::Client { request, end }) => {
                self.note_response(&request, response);
                let client = &self.relay.client;
                let has_extension = client.session().is_some_and(|session| session.codicil.is_some());
                client.outbox.push(&if response.is_replayed && has_extension {
                    Frame::replayed_response(&request.id, &response.result)
                } else {
                    Frame::response(&request.id, &response.result)
                });
                if request.method == CodicilSubscribe::NAME {
                    client.outbox.catch_up(&request.thread);
                }
                // Fails if the client has disconnected.
                let _ = end.send(RelayEnd::Answered);
            }
            Some(OpenCall::Continuation { position, end }) => {
                let outcome = self.on_continued(position, response)?;
                // Fails if the search for an owner was given up.
                let _ = end.send(outcome);
            }
            Some(OpenCall::Initialize) | None => {}
        }
        Ok(())
    }

    /// Keeps the table of threads up to date with what the client has asked for.
    fn note_response(&self, request: &RelayRequest, response: &OwnerResponse<'_>) {
        let mut table = self.relay.table.lock();
        if let Some(scope) = request.subscribes_to() {
            let after = response.seq.or_else(|| SubscriptionAnswer::read(response.result)?.position());
            let position = ThreadPosition { thread: request.thread.clone(), after, scope };
            table.add_thread(&self.handle, position);
        } else if request.leaves_thread() {
            table.leave_thread(&request.thread);
        }
    }

    /// Continues a thread at this owner. Messages that were missed follow.
    fn on_continued(
        &self,
        position: ThreadPosition,
        response: &OwnerResponse<'_>,
    ) -> Result<ContinueOutcome, Lost> {
        let can_continue =
            |answer: &SubscriptionAnswer<'_>| answer.is_replay() || self.relay.can_subscribe_again(&position);
        let Some(answer) = SubscriptionAnswer::read(response.result).filter(can_continue) else {
            self.relay.table.lock().ignore_thread(&self.handle, position.thread);
            return Ok(ContinueOutcome::Impossible);
        };
        self.relay.table.lock().add_thread(&self.handle, position.clone());
        if !answer.is_replay() {
            self.relay.fall_behind(&position);
        }
        for (id, message) in answer.questions(&position.thread) {
            self.on_question(id, &message)?;
        }
        Ok(ContinueOutcome::Continued)
    }

    fn on_error(&mut self, id: &RequestId, error: &ErrorObject) -> Result<(), Lost> {
        match self.take_call(id) {
            Some(OpenCall::Client { request, .. }) if is_owned_elsewhere(error) => {
                // Dropping its end says that the request was not served.
                self.relay.table.lock().remove_thread(&request.thread);
            }
            Some(OpenCall::Client { request, end }) => {
                self.relay.client.outbox.push(&Frame::error(&request.id, error));
                let _ = end.send(RelayEnd::Answered);
            }
            Some(OpenCall::Initialize) => {
                tracing::warn!(node = self.owner.name, "another node refuses to serve: {}", error.message);
                return Err(Lost);
            }
            // Dropping its end says that the thread is not continued here.
            Some(OpenCall::Continuation { .. }) | None => {}
        }
        Ok(())
    }

    /// Ends the requests that the owner has not answered. Those that may be repeated are sent to the next owner.
    fn settle_calls(&mut self) {
        for (_, call) in self.calls.drain() {
            if let OpenCall::Client { request, end } = call {
                let ended = if self.relay.is_repeatable(&request) {
                    RelayEnd::NotServed
                } else {
                    RelayEnd::Failed(RelayError::OutcomeUnknown { node: self.owner.name.clone() })
                };
                let _ = end.send(ended);
            }
        }
    }

    fn open_call(&mut self, call: OpenCall) -> i64 {
        let id = self.next_call;
        self.next_call += 1;
        self.calls.insert(id, call);
        id
    }

    fn take_call(&mut self, id: &RequestId) -> Option<OpenCall> {
        match id {
            RequestId::Integer(id) => self.calls.remove(id),
            RequestId::String(_) => None,
        }
    }

    fn send_reply(&self, asked_as: &RequestId, reply: &ClientReply) -> Result<(), Lost> {
        let frame = match reply {
            Ok(result) => Frame::response(asked_as, result),
            Err(error) => Frame::error(asked_as, error),
        };
        self.send_text(frame.bytes().clone())
    }

    fn send_text(&self, message: Bytes) -> Result<(), Lost> {
        METRICS.relay_bytes.add(RelayDirection::ToOwner, message.len() as u64);
        self.send(Message::Text(Utf8Bytes::try_from(message).map_err(|_| Lost)?))
    }

    fn send(&self, message: Message) -> Result<(), Lost> {
        self.outgoing.try_send(message).map_err(|_| Lost)
    }
}

/// Adds a request to those that wait for a thread, or refuses it if there are too many.
fn keep_waiting(requests: &mut Vec<UpstreamCommand>, command: UpstreamCommand) {
    if requests.len() < MAX_RELAYED_COMMANDS {
        requests.push(command);
    } else if let UpstreamCommand::Request { end, .. } = command {
        // Fails if the client has disconnected.
        let _ = end.send(RelayEnd::Failed(RelayError::Busy));
    }
}

/// Writes the queued messages until the connection is lost.
async fn write(mut sink: SplitSink<SocketStream, Message>, mut queued: mpsc::Receiver<Message>) {
    let mut batch = Vec::new();
    while queued.recv_many(&mut batch, MAX_RELAYED_COMMANDS).await > 0 {
        for message in batch.drain(..) {
            let Ok(()) = sink.feed(message).await else { return };
        }
        let Ok(()) = sink.flush().await else { return };
    }
}
