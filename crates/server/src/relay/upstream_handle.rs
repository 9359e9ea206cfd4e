//! The handle of a connection to another node: posts requests and answers to its task, without waiting.

use std::sync::Arc;

use codicil_engine::ClientReply;
use codicil_protocol::rpc::RequestId;
use tokio::sync::{mpsc, oneshot};

use super::{RelayEnd, RelayError, RelayRequest, recovery::ContinueOutcome, table::ThreadPosition};

/// Sends commands to the task of a connection.
#[derive(Clone, Debug)]
pub struct UpstreamHandle {
    number: u64,
    commands: mpsc::Sender<UpstreamCommand>,
}

#[derive(Debug)]
pub enum UpstreamCommand {
    Request {
        request: Arc<RelayRequest>,
        end: oneshot::Sender<RelayEnd>,
    },
    Answer {
        asked_as: RequestId,
        reply: ClientReply,
    },
    /// Continues the subscription to a thread.
    ContinueThread {
        position: ThreadPosition,
        end: oneshot::Sender<ContinueOutcome>,
    },
}

impl UpstreamHandle {
    pub fn new(number: u64, commands: mpsc::Sender<UpstreamCommand>) -> Self {
        Self { number, commands }
    }

    pub fn is(&self, other: &Self) -> bool {
        self.number == other.number
    }

    pub fn is_over(&self) -> bool {
        self.commands.is_closed()
    }

    /// Queues a request.
    pub fn send_request(&self, request: &Arc<RelayRequest>) -> oneshot::Receiver<RelayEnd> {
        let (end, posted) = oneshot::channel();
        let command = UpstreamCommand::Request { request: request.clone(), end };
        if let Err(mpsc::error::TrySendError::Full(UpstreamCommand::Request { end, .. })) =
            self.commands.try_send(command)
        {
            // Fails if the client has disconnected.
            let _ = end.send(RelayEnd::Failed(RelayError::Busy));
        }
        posted
    }

    pub fn send_answer(&self, asked_as: RequestId, reply: ClientReply) {
        if self.commands.try_send(UpstreamCommand::Answer { asked_as, reply }).is_err() {
            tracing::debug!("an answer waits for the next owner of its thread");
        }
    }

    /// Continues the subscription to a thread at the node of the connection.
    pub async fn continue_thread(&self, position: ThreadPosition) -> ContinueOutcome {
        let (end, continued) = oneshot::channel();
        match self.commands.try_send(UpstreamCommand::ContinueThread { position, end }) {
            Ok(()) => continued.await.unwrap_or(ContinueOutcome::NotServed),
            Err(_) => ContinueOutcome::NotServed,
        }
    }
}
