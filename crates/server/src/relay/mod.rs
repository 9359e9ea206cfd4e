//! Requests about threads that another node of the cluster owns, and the messages of those threads.
//!
//! A request is served here first. If the thread belongs to another node, the request is relayed to that node over a
//! websocket of its own for this client ([`upstream`]), and from then on every request about the thread is, until the client
//! unsubscribes. The owner treats the websocket as the client itself: same name, capabilities and generation. Its messages go
//! to the client's outbox as they are, without what only this node needs of them ([`owner_message`]); its server requests get ids
//! of this node ([`questions`]).
//!
//! When the connection to the owner is lost, [`recovery`] looks for the next owner, which may be this node, and continues at
//! the position of the last message.
//!
//! A client that follows threads by itself is told where the thread is instead ([`decision`]).
//!
//! A request that was relayed is never relayed again: its node answers with `ownedByNode`, and the first node looks up the owner
//! anew.

mod decision;
mod owner_message;
mod questions;
mod recovery;
mod request;
mod table;
mod upstream;
mod upstream_handle;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use codicil_engine::{ClientReply, ThreadError};
use codicil_protocol::{
    Frame, ServerRequestResolved, ServerRequestResolvedNotification, ThreadId, rpc::RequestId,
};
use codicil_store::{OwnerNode, StoreError};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

pub use self::request::{RelayRequest, RequestParts};

use self::{
    decision::{OwnerAction, decide},
    table::RelayTable,
    upstream::UpstreamTask,
    upstream_handle::{UpstreamCommand, UpstreamHandle},
};
use crate::{
    clients::ConnectedClient,
    cx::Cx,
    error::{ErrorPlace, RpcError},
    generation::is_later_request,
    limits::{MAX_RELAYED_COMMANDS, OWNER_SEARCH_TIME},
    request_keys::request_key,
    route::{PendingResponse, QueuedResponse},
    server::ServerShared,
};

/// The time between two looks for the owner of a thread.
const SEARCH_PAUSE: Duration = Duration::from_millis(200);

/// What this node relays for one client.
pub struct ClientRelay {
    shared: Arc<ServerShared>,
    client: Arc<ConnectedClient>,
    table: Mutex<RelayTable>,
    next_upstream: AtomicU64,
    /// Ends the tasks of the relay with the client.
    ending: CancellationToken,
}

/// What became of a request that was sent to the owner of its thread.
#[derive(Debug)]
pub enum RelayEnd {
    /// The response is in the client's outbox.
    Answered,
    Failed(RelayError),
    /// The owner has not carried it out: it could not be reached, or does not own the thread.
    NotServed,
}

/// Why a request that was relayed has no response of the owner.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    #[error(
        "the connection to node {node} was lost before it answered: whether the request was carried out is unknown"
    )]
    OutcomeUnknown { node: String },
    #[error("too many requests wait for the node that owns the thread")]
    Busy,
}

type Posted = oneshot::Receiver<RelayEnd>;

/// What follows from a look for the owner of a thread.
enum NextStep {
    /// The request was sent to the owner.
    Wait(Posted),
    Respond(QueuedResponse),
    /// Another node has taken the thread meanwhile.
    LookAgain(QueuedResponse),
}

impl ClientRelay {
    /// Returns the relay of a client; `None` for a server that shares its threads with no other.
    pub fn new(shared: &Arc<ServerShared>, client: &Arc<ConnectedClient>) -> Option<Arc<Self>> {
        shared.setup.store.backend()?;
        Some(Arc::new(Self {
            shared: shared.clone(),
            client: client.clone(),
            table: Mutex::default(),
            next_upstream: AtomicU64::new(0),
            ending: CancellationToken::new(),
        }))
    }

    /// Returns a request if it can be relayed.
    pub fn read(&self, parts: &RequestParts<'_>, has_key: bool) -> Option<Arc<RelayRequest>> {
        RelayRequest::read(self.client.session()?, parts, has_key).map(Arc::new)
    }

    /// Sends a request to the owner of its thread if the client has the thread relayed. Sent before this returns, so that requests
    /// keep their order.
    pub fn post(&self, request: &Arc<RelayRequest>) -> Option<Posted> {
        let upstream = self.table.lock().upstream_of(&request.thread)?;
        if is_later_request(&request.method) {
            self.client.note_later_use();
        }
        Some(upstream.send_request(request))
    }

    /// Returns the response of this server to a request, or that of the node that owns the thread.
    pub async fn serve(
        self: Arc<Self>,
        request: Arc<RelayRequest>,
        pending: PendingResponse,
    ) -> QueuedResponse {
        let response = pending.ready().await;
        match response.place {
            ErrorPlace::Here => response,
            ErrorPlace::NotLoaded | ErrorPlace::Elsewhere => self.follow(request, None, Some(response)).await,
        }
    }

    /// Waits for the response to a request that was posted, and sends it again where the thread is now if it was not served.
    /// `refusal` is the response of this server.
    pub async fn follow(
        self: Arc<Self>,
        request: Arc<RelayRequest>,
        mut posted: Option<Posted>,
        mut refusal: Option<QueuedResponse>,
    ) -> QueuedResponse {
        let deadline = Instant::now() + OWNER_SEARCH_TIME;
        let mut is_first_look = true;
        loop {
            if let Some(posted) = posted.take() {
                match posted.await.unwrap_or(RelayEnd::NotServed) {
                    RelayEnd::Answered => return QueuedResponse::queued(),
                    RelayEnd::Failed(error) => return QueuedResponse::error(&request.id, &error.into()),
                    RelayEnd::NotServed => {}
                }
            }
            if !is_first_look {
                sleep(SEARCH_PAUSE).await;
            }
            is_first_look = false;
            match self.look(&request, refusal.take(), deadline).await {
                NextStep::Wait(answer) => posted = Some(answer),
                NextStep::Respond(response) => return response,
                NextStep::LookAgain(response) => refusal = Some(response),
            }
        }
    }

    /// Looks where the thread of a request is, and sends the request there.
    async fn look(
        self: &Arc<Self>,
        request: &Arc<RelayRequest>,
        refusal: Option<QueuedResponse>,
        deadline: Instant,
    ) -> NextStep {
        if let Some(posted) = self.post(request) {
            return NextStep::Wait(posted);
        }
        let is_late = Instant::now() >= deadline;
        let owner = match self.owner(&request.thread).await {
            Ok(Some(owner)) => owner,
            Ok(None) => return self.serve_unowned(request, refusal, is_late).await,
            Err(error) => return NextStep::Respond(refused(request, error)),
        };
        let action = self.client.session().map_or(OwnerAction::Refuse, |session| decide(session, &owner));
        match action {
            OwnerAction::Redirect => {
                let moved = RpcError::moved(&request.thread, owner);
                return NextStep::Respond(QueuedResponse::error(&request.id, &moved));
            }
            OwnerAction::Relay if !is_late => {
                return NextStep::Wait(self.upstream(&owner).send_request(request));
            }
            OwnerAction::Relay | OwnerAction::Refuse => {}
        }
        tracing::warn!(node = owner.name, "did not relay a request to the node that owns the thread");
        let OwnerNode { name: node, url } = owner;
        let error = StoreError::OwnedElsewhere { thread: request.thread.clone(), node, url };
        NextStep::Respond(refused(request, error))
    }

    /// Serves a request for a thread that no other node owns.
    async fn serve_unowned(
        &self,
        request: &RelayRequest,
        refusal: Option<QueuedResponse>,
        is_late: bool,
    ) -> NextStep {
        match refusal {
            // Neither this node nor another one has loaded the thread.
            Some(refusal) if refusal.place == ErrorPlace::NotLoaded => NextStep::Respond(refusal),
            _ => {
                let response = self.serve_here(request).await;
                if response.place == ErrorPlace::Elsewhere && !is_late {
                    return NextStep::LookAgain(response);
                }
                NextStep::Respond(response)
            }
        }
    }

    /// Passes the answer to a server request on to the node that has asked. Returns the answer if it is none of those.
    pub fn answer(&self, id: &RequestId, reply: ClientReply) -> Result<(), ClientReply> {
        let mut table = self.table.lock();
        let Some((upstream, question)) = table.questions.answer(id, &reply) else { return Err(reply) };
        drop(table);
        // If the connection is lost, the answer is sent when the next owner asks again.
        upstream.send_answer(question, reply);
        Ok(())
    }

    /// Ends the connections to other nodes.
    pub fn end(&self) {
        self.ending.cancel();
    }

    /// Serves a request on this node.
    async fn serve_here(&self, request: &RelayRequest) -> QueuedResponse {
        let mut cx = Cx::new(self.client.clone(), self.shared.clone());
        match request_key(&cx, &request.method, Some(&request.params), request.extension.as_deref()) {
            Ok(key) => cx.set_key(key.or_else(|| request.own_key())),
            Err(error) => return QueuedResponse::error(&request.id, &error.into()),
        }
        cx.set_trace(request.trace_position());
        let router = &self.shared.router;
        router.call(cx, request.id.clone(), &request.method, Some(&request.params)).ready().await
    }

    /// Returns whether sending a request twice has no other effect than sending it once.
    fn is_repeatable(&self, request: &RelayRequest) -> bool {
        let cx = Cx::new(self.client.clone(), self.shared.clone());
        let key = request_key(&cx, &request.method, Some(&request.params), request.extension.as_deref());
        request.only_reads() || request.own_key().is_some() || key.is_ok_and(|key| key.is_some())
    }

    /// Returns the other node that owns a thread and is alive.
    async fn owner(&self, thread: &ThreadId) -> Result<Option<OwnerNode>, StoreError> {
        match self.shared.setup.store.backend() {
            Some(backend) => backend.other_owner(thread).await,
            None => Ok(None),
        }
    }

    /// Returns the connection to a node. It is opened if there is none.
    fn upstream(self: &Arc<Self>, owner: &OwnerNode) -> UpstreamHandle {
        let mut table = self.table.lock();
        if let Some(upstream) = table.open_upstream(owner) {
            return upstream;
        }
        let (commands, inbox) = mpsc::channel::<UpstreamCommand>(MAX_RELAYED_COMMANDS);
        let handle = UpstreamHandle::new(self.next_upstream.fetch_add(1, Ordering::Relaxed), commands);
        table.add_upstream(owner.clone(), handle.clone());
        drop(table);
        let task = UpstreamTask::new(self.clone(), owner.clone(), handle.clone(), inbox);
        let ending = self.ending.clone();
        self.shared.background.spawn(async move {
            ending.run_until_cancelled(task.run()).await;
        });
        handle
    }

    /// Tells the client that a server request needs no answer any more.
    fn notify_resolved(&self, thread_id: &ThreadId, request_id: RequestId) {
        let resolved = ServerRequestResolvedNotification { thread_id: thread_id.clone(), request_id };
        self.client.notify(&Frame::notification::<ServerRequestResolved>(&resolved));
    }
}

fn refused(request: &RelayRequest, error: StoreError) -> QueuedResponse {
    QueuedResponse::error(&request.id, &RpcError::from(ThreadError::from(error)))
}
