//! One connection of a test: typed calls, and a queue of unread messages.

use std::{collections::HashMap, marker::PhantomData, ops::ControlFlow, path::Path};

use bytes::Bytes;
use codicil_protocol::{
    Frame, InspectFindings, Method, NotificationMethod, ServerNotification, ThreadLoadedList,
    rpc::{ErrorObject, Message, RequestId},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    MAX_WAIT,
    home::HomePlaces,
    inbox::{ClientInbox, IncomingMessage, ServerAnswer},
    transcript::Transcript,
    wire::TestWire,
};
use crate::mutation::usable_id;

/// A client of the server under test.
///
/// Notifications and requests of the server are queued in order until [`until`](Self::until),
/// [`take`](Self::take), [`expect_request`](Self::expect_request) or [`rest`](Self::rest) reads them. Unread
/// messages fail the test when the client is dropped. Every wait has a timeout, and panics with the last
/// messages.
pub struct TestClient {
    wire: TestWire,
    next_id: i64,
    pub(super) inbox: ClientInbox,
    transcript: Transcript,
    places: HomePlaces,
    opted_out: Vec<String>,
    checks_unread: bool,
}

/// A notification or request of the server, with its position if the connection has a cursor.
#[derive(Clone, Debug, PartialEq)]
pub struct ReceivedMessage {
    pub method: String,
    /// The id, if it is a request.
    pub id: Option<RequestId>,
    pub params: Value,
    pub seq: Option<u64>,
    pub is_replay: bool,
}

impl From<IncomingMessage> for ReceivedMessage {
    fn from(incoming: IncomingMessage) -> Self {
        let IncomingMessage { method, id, params, place } = incoming;
        Self { method, id, params, seq: place.seq, is_replay: place.replay }
    }
}

/// A request whose answer has not been read.
#[must_use = "its answer is for `answer`"]
pub struct PendingRequest<M> {
    id: RequestId,
    method: PhantomData<M>,
}

/// A request of the server, to be answered by [`TestClient::reply`] or [`TestClient::refuse`].
pub struct AskedRequest<M: Method> {
    pub id: RequestId,
    pub params: M::Params,
}

/// The answer to a request with a key.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyedAnswer {
    pub result: Value,
    /// Whether it is the answer to an earlier request with the same key.
    pub is_replayed: bool,
}

impl TestClient {
    pub(super) fn new(wire: TestWire, places: HomePlaces, opted_out: Vec<String>) -> Self {
        let transcript = Transcript::new(places.clone());
        let inbox = ClientInbox::default();
        Self { wire, next_id: 1, inbox, transcript, places, opted_out, checks_unread: true }
    }

    /// Returns the default working directory of threads.
    pub fn workspace(&self) -> &Path {
        &self.places.workspace
    }

    /// Calls a method that must succeed.
    pub async fn call<M: Method>(&mut self, params: M::Params) -> M::Response {
        match self.try_call::<M>(params).await {
            Ok(response) => response,
            Err(error) => panic!("{} failed with {}: {}", M::NAME, error.code, error.message),
        }
    }

    /// Calls a method that may fail.
    pub async fn try_call<M: Method>(&mut self, params: M::Params) -> Result<M::Response, ErrorObject> {
        let pending = self.send::<M>(params).await;
        self.answer(pending).await
    }

    /// Sends a request without waiting for its answer.
    pub async fn send<M: Method>(&mut self, params: M::Params) -> PendingRequest<M> {
        let id = RequestId::Integer(self.next_id);
        self.next_id += 1;
        let is_later = InspectFindings::of(&params).is_later();
        self.inbox.schema.note_request(id.clone(), M::NAME, is_later);
        self.transmit(Frame::request::<M>(&id, &params).bytes().clone()).await;
        PendingRequest { id, method: PhantomData }
    }

    /// Waits for the answer to a request.
    pub async fn answer<M: Method>(
        &mut self,
        pending: PendingRequest<M>,
    ) -> Result<M::Response, ErrorObject> {
        let answer = self.answer_to(&pending.id, M::NAME).await;
        answer.map(|result| decode(M::NAME, result))
    }

    /// Sends a message that has an id and returns the whole answer, untyped.
    pub async fn exchange(&mut self, message: Value) -> Value {
        let id = message.get("id").cloned().unwrap_or_default();
        self.exchange_raw(serde_json::from_value(id).expect("the message has an id"), message.to_string())
            .await
    }

    /// Sends a message as text, whose id is `id`, and returns the whole answer, untyped.
    pub async fn exchange_raw(&mut self, id: RequestId, message: impl Into<Bytes>) -> Value {
        self.send_raw(message).await;
        match self.answer_to(&id, "the message").await {
            Ok(result) if self.inbox.replayed.remove(&id) => {
                json!({ "id": id, "result": result, "codicil": { "replayed": true } })
            }
            Ok(result) => json!({ "id": id, "result": result }),
            Err(error) => json!({ "error": error, "id": id }),
        }
    }

    /// Sends a request with a key.
    pub async fn send_keyed(&mut self, method: &str, params: &Value, key: &str) -> RequestId {
        let id = RequestId::Integer(self.next_id);
        self.next_id += 1;
        let request = json!({ "id": id, "method": method, "params": params, "codicil": { "key": key } });
        self.send_raw(request.to_string()).await;
        id
    }

    /// Calls a method with a key.
    pub async fn try_keyed(
        &mut self,
        method: &str,
        params: &Value,
        key: &str,
    ) -> Result<KeyedAnswer, ErrorObject> {
        let id = self.send_keyed(method, params, key).await;
        self.keyed_answer(&id, method).await
    }

    /// Waits for the answer to a request with a key.
    pub async fn keyed_answer(&mut self, id: &RequestId, method: &str) -> Result<KeyedAnswer, ErrorObject> {
        let result = self.answer_to(id, method).await?;
        Ok(KeyedAnswer { result, is_replayed: self.inbox.replayed.remove(id) })
    }

    /// Calls a method with a key; it must succeed.
    pub async fn keyed(&mut self, method: &str, params: &Value, key: &str) -> KeyedAnswer {
        match self.try_keyed(method, params, key).await {
            Ok(answer) => answer,
            Err(error) => panic!("{method} failed with {}: {}", error.code, error.message),
        }
    }

    /// Sends a notification.
    pub async fn notify<N: NotificationMethod>(&mut self, params: N::Params) {
        self.send_raw(Frame::notification::<N>(&params).bytes().clone()).await;
    }

    /// Sends any message.
    pub async fn send_raw(&mut self, message: impl Into<Bytes>) {
        let message = message.into();
        if let Ok(Message::Request { id, method, .. }) = Message::parse(&String::from_utf8_lossy(&message)) {
            self.inbox.schema.note_raw_request(id, &method);
        }
        self.transmit(message).await;
    }

    async fn transmit(&mut self, message: Bytes) {
        self.inbox.log_line("→", &String::from_utf8_lossy(message.get(..1000).unwrap_or(&message)));
        assert!(self.wire.send(message).await, "the connection is over:\n{}", self.inbox.log());
    }

    /// Returns how many messages of the server have been checked against the schema.
    pub fn checked_messages(&self) -> usize {
        self.inbox.schema.checked()
    }

    /// Sends messages one after the other, and passes everything that arrives to `take`, until that returns
    /// `Break`.
    pub async fn flood(
        &mut self,
        messages: impl IntoIterator<Item = Bytes>,
        mut take: impl FnMut(Value) -> ControlFlow<()>,
    ) {
        let mut messages = messages.into_iter();
        let mut next = messages.next();
        loop {
            let (to_server, from_server) = self.wire.ends();
            // Reading comes first: a server whose answers are not read may stop reading.
            let arrived = tokio::select! {
                biased;
                arrived = timeout(MAX_WAIT, from_server.recv()) => arrived,
                room = to_server.reserve(), if next.is_some() => {
                    room.expect("the connection goes on").send(next.take().unwrap_or_default());
                    next = messages.next();
                    continue;
                }
            };
            let message = arrived.expect("the server goes on answering").expect("the connection goes on");
            let message = serde_json::from_slice(&message).expect("the server writes JSON");
            if take(message).is_break() {
                return;
            }
        }
    }

    /// Floods the server with messages and waits until all valid requests have been answered. Returns how
    /// many ids those had.
    pub async fn flood_answered(&mut self, messages: Vec<Bytes>) -> usize {
        let mut unanswered: HashMap<RequestId, usize> = HashMap::new();
        for id in messages.iter().filter_map(|message| usable_id(message)) {
            *unanswered.entry(id).or_default() += 1;
        }
        let ids = unanswered.len();
        self.flood(messages, |message: Value| {
            let id = message.get("id").filter(|_| message.get("method").is_none()).cloned();
            if let Some(id) = id.and_then(|id| serde_json::from_value(id).ok())
                && let Some(count) = unanswered.get_mut(&id)
            {
                *count -= 1;
                if *count == 0 {
                    unanswered.remove(&id);
                }
            }
            if unanswered.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .await;
        ids
    }

    /// Waits for a notification and reads everything up to it.
    pub async fn until<N: NotificationMethod>(&mut self) -> N::Params {
        self.until_where::<N>(|_| true).await
    }

    /// Waits for a notification that fits and reads everything up to it.
    pub async fn until_where<N: NotificationMethod>(
        &mut self,
        fits: impl Fn(&N::Params) -> bool,
    ) -> N::Params {
        loop {
            let incoming = self.next_unread(N::NAME).await;
            if incoming.method == N::NAME && incoming.id.is_none() {
                let params = decode(N::NAME, incoming.params);
                if fits(&params) {
                    return params;
                }
            }
        }
    }

    /// Waits for a notification and leaves everything else unread.
    pub async fn take<N: NotificationMethod>(&mut self) -> N::Params {
        loop {
            if let Some(at) = self.inbox.unread.iter().position(|incoming| incoming.method == N::NAME)
                && let Some(found) = self.inbox.unread.remove(at)
            {
                return decode(N::NAME, found.params);
            }
            self.receive(N::NAME).await;
        }
    }

    /// Returns the next notification; `None` if the connection is closed.
    pub async fn next_notification(&mut self) -> Option<ServerNotification> {
        loop {
            match self.inbox.unread.pop_front() {
                Some(incoming) if incoming.id.is_none() => {
                    let params = serde_json::value::to_raw_value(&incoming.params).expect("it came as JSON");
                    return Some(ServerNotification::decode(&incoming.method, Some(&params)));
                }
                Some(_) => {}
                None => {
                    let message = timeout(MAX_WAIT, self.wire.receive()).await.expect("something happens")?;
                    self.inbox.receive(&message);
                }
            }
        }
    }

    /// Returns the next notification or request of the server; `None` if the connection is closed.
    pub async fn next_received(&mut self) -> Option<ReceivedMessage> {
        loop {
            if let Some(message) = self.unread_message() {
                return Some(message);
            }
            let message = timeout(MAX_WAIT, self.wire.receive()).await.expect("something happens")?;
            self.inbox.receive(&message);
        }
    }

    /// Returns the next message that has arrived already.
    pub fn unread_message(&mut self) -> Option<ReceivedMessage> {
        self.inbox.unread.pop_front().map(ReceivedMessage::from)
    }

    /// Waits for the next notification or request of the server, and returns it untyped.
    pub async fn next_message(&mut self) -> Value {
        let IncomingMessage { method, id, params, .. } = self.next_unread("a message").await;
        match id {
            Some(id) => json!({ "id": id, "method": method, "params": params }),
            None => json!({ "method": method, "params": params }),
        }
    }

    /// Waits for the server's next request, which must have this method, and reads everything up to it.
    pub async fn expect_request<M: Method>(&mut self) -> AskedRequest<M> {
        loop {
            let incoming = self.next_unread(M::NAME).await;
            if let Some(id) = incoming.id {
                assert_eq!(incoming.method, M::NAME, "the server asks something else");
                return AskedRequest { id, params: decode(M::NAME, incoming.params) };
            }
        }
    }

    /// Answers a request of the server.
    pub async fn reply<M: Method>(&mut self, asked: &AskedRequest<M>, response: M::Response) {
        self.inbox.asked.remove(&asked.id);
        self.send_raw(Frame::response(&asked.id, &response).bytes().clone()).await;
    }

    /// Answers a request of the server with an error.
    pub async fn refuse<M: Method>(&mut self, asked: &AskedRequest<M>, code: i64, message: &str) {
        self.inbox.asked.remove(&asked.id);
        let error = ErrorObject { code, message: message.to_owned(), data: None };
        self.send_raw(Frame::error(&asked.id, &error).bytes().clone()).await;
    }

    /// Reads everything that is left, as lines with ids and times replaced.
    ///
    /// This waits until each turn that this client knows of has ended, or needs an answer of this client, and
    /// then until the server has answered one more request.
    pub async fn rest(&mut self) -> String {
        while self.tracks_turns() && !self.inbox.running.is_empty() && self.inbox.asked.is_empty() {
            self.receive("the end of the turn").await;
        }
        let last = self.send::<ThreadLoadedList>(Default::default()).await;
        let _ = self.answer(last).await;
        self.transcript.lines(self.inbox.unread.drain(..))
    }

    /// Waits until the server has closed the connection. Earlier messages stay in the queue.
    pub async fn ended(&mut self) {
        let end = async {
            while let Some(message) = self.wire.receive().await {
                self.inbox.receive(&message);
            }
        };
        if timeout(MAX_WAIT, end).await.is_err() {
            panic!("the connection goes on:\n{}", self.inbox.log());
        }
    }

    /// Closes the connection; the server sees the end of its input.
    pub fn disconnect(&mut self) {
        self.wire.disconnect();
        self.ignore_rest();
    }

    /// Allows unread messages when the client is dropped.
    pub fn ignore_rest(&mut self) {
        self.checks_unread = false;
    }

    pub(super) fn has_opted_out_of<N: NotificationMethod>(&self) -> bool {
        self.opted_out.iter().any(|method| method == N::NAME)
    }

    fn tracks_turns(&self) -> bool {
        !self.has_opted_out_of::<codicil_protocol::TurnCompleted>()
    }

    async fn answer_to(&mut self, id: &RequestId, method: &str) -> ServerAnswer {
        loop {
            if let Some(answer) = self.inbox.answers.remove(id) {
                return answer;
            }
            self.receive(&format!("an answer to {method} (id {id})")).await;
        }
    }

    async fn next_unread(&mut self, awaited: &str) -> IncomingMessage {
        loop {
            if let Some(incoming) = self.inbox.unread.pop_front() {
                return incoming;
            }
            self.receive(awaited).await;
        }
    }

    async fn receive(&mut self, awaited: &str) {
        match timeout(MAX_WAIT, self.wire.receive()).await {
            Ok(Some(message)) => self.inbox.receive(&message),
            Ok(None) => panic!("the connection ended before {awaited}:\n{}", self.inbox.log()),
            Err(_) => panic!("waited {MAX_WAIT:?} for {awaited}:\n{}", self.inbox.log()),
        }
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        if !self.checks_unread || std::thread::panicking() {
            return;
        }
        while let Some(message) = self.wire.try_receive() {
            self.inbox.receive(&message);
        }
        let unread = self.transcript.lines(self.inbox.unread.drain(..));
        assert!(unread.is_empty(), "messages were left unread:\n{unread}");
        let ids: Vec<_> = self.inbox.answers.keys().map(ToString::to_string).collect();
        assert!(ids.is_empty(), "answers were left unread: {}", ids.join(", "));
    }
}

fn decode<T: DeserializeOwned>(method: &str, value: Value) -> T {
    let text = value.to_string();
    serde_json::from_value(value).unwrap_or_else(|error| panic!("{method} cannot be read: {error}\n{text}"))
}
