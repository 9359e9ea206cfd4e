//! The task of a connection: reads, writes and closes it.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::DisconnectCause,
    receiver::MessageReceiver,
    shared::ClientShared,
    transport::{MessageSink, MessageSource, TransportLink},
};

/// Messages written in one batch, and messages read before the task yields.
const BATCH: usize = 64;

/// Runs a connection until it ends. If the future is dropped, the connection ends at once, and a spawned server with
/// it.
pub async fn run(
    link: TransportLink,
    outgoing: mpsc::Receiver<Bytes>,
    receiver: MessageReceiver,
    grace: Duration,
) {
    let TransportLink { mut source, sink } = link;
    let shared = receiver.shared().clone();
    let _guard = EndOnDrop(shared.clone());
    let writing = write(sink, outgoing, shared.closing.clone());
    let cause = read_and_write(&mut source, writing, receiver, grace).await;
    let stderr_tail = source.stderr_tail();
    // Kills a spawned server that has not exited, before the callers learn of the end.
    drop(source);
    let cause = if shared.closing.is_cancelled() { DisconnectCause::ClosedByClient } else { cause };
    shared.end(cause, stderr_tail);
}

/// Reads until the source ends. Once writing has finished, the server has `grace` to close its side.
async fn read_and_write(
    source: &mut MessageSource,
    writing: impl Future<Output = Result<(), String>>,
    mut receiver: MessageReceiver,
    grace: Duration,
) -> DisconnectCause {
    tokio::pin!(writing);
    let closing = receiver.shared().closing.clone();
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
            // A server that does not read must not delay closing.
            () = closing.cancelled(), if deadline.is_none() => deadline = Some(Instant::now() + grace),
            () = sleep_until(limit), if deadline.is_some() => return cause,
        }
    }
}

/// Writes queued messages until this client closes. Messages queued before that are still written.
async fn write(
    mut sink: MessageSink,
    mut outgoing: mpsc::Receiver<Bytes>,
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
