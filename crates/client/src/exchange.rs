//! Sends a request and waits for its response. Repeats it while the server is overloaded, follows its thread to another node,
//! and sends it again if that node is lost.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use codicil_protocol::{
    CodicilMovedThread, CodicilSubscribe, KEYED_REQUESTS, Method, ThreadUnsubscribe,
    rpc::{RequestId, codes},
};
use tokio::time::{Instant, sleep, timeout_at};
use uuid::Uuid;

use crate::{
    client::Client,
    connection_state::ConnectionState,
    endpoint::redact_url,
    error::ClientError,
    nodes::{moved_thread, thread_of},
    pending::{CallAnswer, CallFailure, WaitingCall},
    shared::ClientShared,
};

/// One year: longer than any connection, and small enough to be added to an `Instant`.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

impl Client {
    /// Sends a request and returns its raw result. The request is queued before this function returns.
    pub(crate) fn exchange<E>(
        &self,
        method: String,
        encode: E,
        is_keyed: bool,
        within: Duration,
    ) -> impl Future<Output = Result<Bytes, ClientError>> + Send + use<E>
    where
        E: Fn(&RequestId) -> Bytes + Send + 'static,
    {
        let client = self.clone();
        let began = Instant::now();
        let mut posted = self.post(&encode, is_keyed);
        async move {
            let deadline = began.checked_add(within).unwrap_or_else(|| began + FOREVER);
            let mut repetition =
                Repetition { client: &client, method, deadline, count: 0, moved: None, destination: None };
            loop {
                let answer = timeout_at(deadline, posted.answer(client.shared())).await;
                let failure = match answer {
                    Ok(PostedAnswer::Answered(Ok(result))) => {
                        repetition.note_result(&result, &encode, &posted);
                        return Ok(result);
                    }
                    Ok(PostedAnswer::Answered(Err(failure))) => failure,
                    Ok(PostedAnswer::CanBePosted) => {
                        posted = client.post(&encode, is_keyed);
                        continue;
                    }
                    Err(_) => return Err(ClientError::ResponseTimeout { method: repetition.method, within }),
                };
                let delay = repetition.delay(failure, &encode)?;
                sleep(delay).await;
                repetition.follow_thread()?;
                posted = client.post(&encode, is_keyed);
            }
        }
    }

    /// Returns a key for a request, if the client reconnects and the method takes one.
    pub(crate) fn new_key(&self, method: &str) -> Option<String> {
        let takes_key = self.reconnects() && KEYED_REQUESTS.contains(&method);
        takes_key.then(|| Uuid::now_v7().to_string())
    }

    fn post(&self, encode: &impl Fn(&RequestId) -> Bytes, is_keyed: bool) -> PostedRequest {
        let shared = self.shared();
        let waiting = shared.pending.open();
        let message = encode(&waiting.id());
        if let Some(thread) = shared.searched_thread(&message) {
            return PostedRequest::Held(thread);
        }
        let connection = shared.connection_for(&message);
        waiting.send_over(&connection, Some(&message).filter(|_| is_keyed));
        if connection.is_lost() {
            // The connection was lost before the call was noted, so the loss has not given it back.
            shared.pending.give_back(&waiting);
        }
        let unsent = connection.queue(message);
        PostedRequest::Sent(SentRequest {
            waiting: Some(waiting),
            unsent,
            connection,
            shared: shared.clone(),
        })
    }
}

/// Decides about the repetition of a request.
struct Repetition<'a> {
    client: &'a Client,
    method: String,
    deadline: Instant,
    count: u32,
    /// Where the thread was the last time.
    moved: Option<CodicilMovedThread>,
    /// Where the thread is followed to before the next repetition.
    destination: Option<ThreadDestination>,
}

/// A thread and its node, with the error to return if the node cannot be used.
struct ThreadDestination {
    thread: Arc<str>,
    url: String,
    failed: ClientError,
}

impl Repetition<'_> {
    /// Returns the delay before the request is sent again, or the error if it is not.
    fn delay(
        &mut self,
        failure: CallFailure,
        encode: &impl Fn(&RequestId) -> Bytes,
    ) -> Result<Duration, ClientError> {
        let error = match failure {
            CallFailure::Disconnected(reason) => return Err(ClientError::Disconnected(reason)),
            CallFailure::NodeLost(reason) => {
                let delay = self.next_delay();
                return delay.ok_or_else(|| self.unreachable(ClientError::Disconnected(reason)));
            }
            CallFailure::Error(error) => error,
        };
        let moved = moved_thread(&error).filter(|_| self.client.reconnects());
        let failed =
            |method: &str| ClientError::ResponseError { method: method.to_owned(), error: error.clone() };
        let Some(moved) = moved else {
            let delay = self.next_delay().filter(|_| error.code == codes::OVERLOADED);
            return delay.ok_or_else(|| failed(&self.method));
        };
        let thread = thread_of(&encode(&RequestId::Integer(0))).ok_or_else(|| failed(&self.method))?;
        let is_first = self.moved.is_none();
        let url = moved.url.clone();
        self.moved = Some(moved);
        let delay = if is_first { Some(Duration::ZERO) } else { self.next_delay() };
        let delay = delay.ok_or_else(|| self.unreachable(failed(&self.method)))?;
        self.destination = Some(ThreadDestination { thread, url, failed: failed(&self.method) });
        Ok(delay)
    }

    /// Moves the thread of a request to its node. Not before the delay: until then its events come from the earlier node.
    fn follow_thread(&mut self) -> Result<(), ClientError> {
        let Some(ThreadDestination { thread, url, failed }) = self.destination.take() else { return Ok(()) };
        let placed = self.client.shared().move_thread(&thread, &url);
        placed.map_err(|_| self.unreachable(failed))
    }

    /// Notes whether the thread of a request that succeeded is followed now.
    fn note_result(&self, result: &Bytes, encode: &impl Fn(&RequestId) -> Bytes, posted: &PostedRequest) {
        let is_about_following = [CodicilSubscribe::NAME, ThreadUnsubscribe::NAME].contains(&&*self.method);
        let thread = is_about_following.then(|| thread_of(&encode(&RequestId::Integer(0)))).flatten();
        let (Some(thread), PostedRequest::Sent(sent)) = (thread, posted) else { return };
        if self.method == CodicilSubscribe::NAME {
            sent.shared.note_subscribed(&thread, result, &sent.connection);
        } else {
            sent.shared.forget_thread(&thread);
        }
    }

    /// Returns the delay before the next repetition, if there is one in time.
    fn next_delay(&mut self) -> Option<Duration> {
        let delay = self.client.options().retry.delay(self.count)?;
        self.count += 1;
        (Instant::now() + delay < self.deadline).then_some(delay)
    }

    /// Returns the error of a thread that was not reached.
    fn unreachable(&self, otherwise: ClientError) -> ClientError {
        match &self.moved {
            Some(moved) => ClientError::ThreadUnreachable {
                method: self.method.clone(),
                node: moved.node.clone(),
                url: redact_url(&moved.url),
            },
            None => otherwise,
        }
    }
}

/// A request whose response is pending.
enum PostedRequest {
    Sent(SentRequest),
    /// Not sent, because this thread is being searched.
    Held(Arc<str>),
}

struct SentRequest {
    /// Set until this is dropped.
    waiting: Option<WaitingCall>,
    /// The message, if the outgoing queue was full.
    unsent: Option<Bytes>,
    connection: Arc<ConnectionState>,
    shared: Arc<ClientShared>,
}

enum PostedAnswer {
    Answered(CallAnswer),
    /// The thread of a request that was held is not searched any more.
    CanBePosted,
}

impl PostedRequest {
    async fn answer(&mut self, shared: &ClientShared) -> PostedAnswer {
        match self {
            Self::Sent(sent) => PostedAnswer::Answered(sent.answer().await),
            Self::Held(thread) => {
                tokio::select! {
                    () = shared.searched(thread) => PostedAnswer::CanBePosted,
                    reason = shared.disconnected.wait() => {
                        PostedAnswer::Answered(Err(CallFailure::Disconnected(reason.clone())))
                    }
                }
            }
        }
    }
}

impl SentRequest {
    async fn answer(&mut self) -> CallAnswer {
        if let Some(message) = self.unsent.take() {
            // Fails when the connection is ending; the pending call then fails with the reason.
            let _ = self.connection.outgoing.send(message).await;
        }
        match &mut self.waiting {
            Some(waiting) => waiting.answer().await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        self.waiting = None;
        self.shared.close_if_unused(&self.connection);
    }
}
