//! The task of a connection: reads, writes and closes it, and opens it again for a client that reconnects.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    connection_state::ConnectionState,
    error::{DisconnectCause, Disconnected},
    receiver::MessageReceiver,
    reconnect::ConnectionRecovery,
    shared::ClientShared,
    transport::{MessageSink, MessageSource, TransportLink},
};

/// Messages written in one batch, and messages read before the task yields.
const BATCH: usize = 64;

/// Runs a connection until it ends, or over several connections if it is opened again. If the future is dropped, the
/// connection ends at once, and a spawned server with it.
pub async fn run(
    mut link: TransportLink,
    mut outgoing: mpsc::Receiver<Bytes>,
    mut receiver: MessageReceiver,
    grace: Duration,
    mut recovery: Option<ConnectionRecovery>,
) {
    let shared = receiver.shared().clone();
    let _guard = EndOnDrop(shared.clone());
    loop {
        let began = Instant::now();
        let reason = serve(link, &mut outgoing, &mut receiver, grace).await;
        let again = async {
            let recovery = recovery.as_mut().filter(|_| shared.resilience().is_some())?;
            tracing::warn!("{reason}; connecting again");
            recovery.note_end(began);
            *shared.first.is_recovering.write() = true;
            // What was not written belongs to the old connection.
            while outgoing.try_recv().is_ok() {}
            shared.pending.fail_unkeyed(&Arc::new(reason.clone()));
            Some(recovery.reconnect(&mut receiver, reason.clone()).await)
        };
        let again = tokio::select! {
            biased;
            () = shared.closing.cancelled() => None,
            again = again => again,
        };
        let reason = match again {
            Some(Ok(next)) => {
                link = next;
                continue;
            }
            Some(Err(reason)) => reason,
            None => reason,
        };
        let is_closed = shared.closing.is_cancelled();
        let cause = if is_closed { DisconnectCause::ClosedByClient } else { reason.cause };
        return shared.end(cause, reason.stderr_tail);
    }
}

/// Runs a connection to a node until it ends. It is not opened again: the threads of the node are searched.
pub async fn run_node(
    recovery: ConnectionRecovery,
    mut outgoing: mpsc::Receiver<Bytes>,
    mut receiver: MessageReceiver,
    grace: Duration,
) {
    let connection = receiver.connection().clone();
    let cause = DisconnectCause::Failed("its task has ended".to_owned());
    let reason = Disconnected { cause, stderr_tail: String::new() };
    let mut end = NodeEnd { shared: receiver.shared().clone(), connection, reason };
    let opened = tokio::select! {
        biased;
        () = end.connection.closing.cancelled() => return,
        opened = recovery.open_in_time(&mut receiver) => opened,
    };
    match opened {
        Ok(link) => {
            end.connection.note_open();
            end.reason = serve(link, &mut outgoing, &mut receiver, grace).await;
        }
        Err(reason) => end.reason.cause = DisconnectCause::Failed(reason),
    }
}

/// Gives a node up when its task ends.
struct NodeEnd {
    shared: Arc<ClientShared>,
    connection: Arc<ConnectionState>,
    reason: Disconnected,
}

impl Drop for NodeEnd {
    fn drop(&mut self) {
        self.shared.lose_node(&self.connection, self.reason.clone());
    }
}

/// Serves an open connection and returns how it ended.
async fn serve(
    link: TransportLink,
    outgoing: &mut mpsc::Receiver<Bytes>,
    receiver: &mut MessageReceiver,
    grace: Duration,
) -> Disconnected {
    let TransportLink { mut source, sink } = link;
    let writing = write(sink, outgoing, receiver.connection().closing.clone());
    let cause = read_and_write(&mut source, writing, receiver, grace).await;
    // A spawned server that has not exited is killed with the source, before the callers learn of the end.
    Disconnected { cause, stderr_tail: source.stderr_tail() }
}

/// Reads until the source ends. Once writing has finished, the server has `grace` to close its side.
async fn read_and_write(
    source: &mut MessageSource,
    writing: impl Future<Output = Result<(), String>>,
    receiver: &mut MessageReceiver,
    grace: Duration,
) -> DisconnectCause {
    tokio::pin!(writing);
    let shared = receiver.shared().clone();
    let connection = receiver.connection().clone();
    let closing = connection.closing.clone();
    let mut deadline: Option<Instant> = None;
    let mut is_written = false;
    let mut cause = DisconnectCause::ClosedByClient;
    let mut read_count = 0;
    loop {
        let limit = deadline.unwrap_or_else(Instant::now);
        tokio::select! {
            filled = source.fill() => {
                while let Some(message) = source.take() {
                    receiver.receive(&message);
                    read_count += 1;
                    // During a flood of messages, timers and the closing client must still be served.
                    if read_count % BATCH == 0 {
                        tokio::task::yield_now().await;
                    }
                }
                if let Err(cause) = filled {
                    return cause;
                }
            }
            written = &mut writing, if !is_written => {
                is_written = true;
                deadline.get_or_insert_with(|| Instant::now() + grace);
                if let Err(reason) = written {
                    cause = DisconnectCause::Failed(reason);
                }
            }
            () = wants_subscriptions(&shared, &connection) => receiver.subscribe_again(),
            // A server that does not read must not delay closing.
            () = closing.cancelled(), if deadline.is_none() => deadline = Some(Instant::now() + grace),
            () = sleep_until(limit), if deadline.is_some() => return cause,
        }
    }
}

/// Waits until a thread is to be subscribed again.
async fn wants_subscriptions(shared: &ClientShared, connection: &ConnectionState) {
    match shared.resilience() {
        Some(_) => connection.wanted_changed.notified().await,
        None => std::future::pending().await,
    }
}

/// Writes queued messages until this client closes. Messages queued before that are still written.
async fn write(
    mut sink: MessageSink,
    outgoing: &mut mpsc::Receiver<Bytes>,
    closing: CancellationToken,
) -> Result<(), String> {
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        tokio::select! {
            biased;
            count = outgoing.recv_many(&mut batch, BATCH) => {
                if count == 0 {
                    break;
                }
            }
            () = closing.cancelled() => break,
        }
        sink.send(&mut batch).await?;
    }
    sink.close().await;
    Ok(())
}

/// Ends the connection if its task is dropped with the runtime or panics.
struct EndOnDrop(Arc<ClientShared>);

impl Drop for EndOnDrop {
    fn drop(&mut self) {
        let cause = if self.0.closing.is_cancelled() {
            DisconnectCause::ClosedByClient
        } else {
            DisconnectCause::Failed("its runtime has ended".to_owned())
        };
        self.0.end(cause, String::new());
    }
}
