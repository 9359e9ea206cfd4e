//! The task of a connection: reads, writes, and sees to its end.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    error::DisconnectCause,
    receive::MessageReceiver,
    shared::ClientShared,
    transport::{MessageSink, MessageSource, TransportLink},
};

/// Messages that are written at a time, and that are read before others on this runtime have their turn.
const BATCH: usize = 64;

/// Runs a connection until it is over. Dropped before that, it ends at once, and a spawned server with it.
pub async fn run(
    link: TransportLink,
    outgoing: mpsc::Receiver<Bytes>,
    receiver: MessageReceiver,
    grace: Duration,
) {
    let TransportLink { mut source, sink } = link;
    let shared = receiver.shared().clone();
    let _last_resort = LastResort(shared.clone());
    let writing = write(sink, outgoing, shared.closing.clone());
    let cause = converse(&mut source, writing, receiver, grace).await;
    let stderr_tail = source.stderr_tail();
    // Before anyone is told: a spawned server that has not ended by itself ends here.
    drop(source);
    let cause = if shared.closing.is_cancelled() { DisconnectCause::Closed } else { cause };
    shared.end(cause, stderr_tail);
}

/// Reads until there is nothing more. Once there is nothing more to write, the server has a while to end.
async fn converse(
    source: &mut MessageSource,
    writing: impl Future<Output = Result<(), String>>,
    mut receiver: MessageReceiver,
    grace: Duration,
) -> DisconnectCause {
    tokio::pin!(writing);
    let closing = receiver.shared().closing.clone();
    let mut deadline: Option<Instant> = None;
    let mut is_written = false;
    let mut last_word = DisconnectCause::Closed;
    let mut read = 0;
    loop {
        let limit = deadline.unwrap_or_else(Instant::now);
        tokio::select! {
            filled = source.fill() => {
                while let Some(message) = source.take() {
                    receiver.receive(&message);
                    read += 1;
                    // A flood must not keep timers, and whoever wants it to end, from running.
                    if read % BATCH == 0 {
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
                    last_word = DisconnectCause::Failed(reason);
                }
            }
            // A server that does not read must not hold up the end.
            () = closing.cancelled(), if deadline.is_none() => deadline = Some(Instant::now() + grace),
            () = sleep_until(limit), if deadline.is_some() => return last_word,
        }
    }
}

/// Writes what is posted until this client closes. What was posted before that still goes out.
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

/// Tells those who wait when the task is dropped with its runtime, or panics.
struct LastResort(Arc<ClientShared>);

impl Drop for LastResort {
    fn drop(&mut self) {
        let reason = "its runtime has ended".to_owned();
        let cause = if self.0.closing.is_cancelled() {
            DisconnectCause::Closed
        } else {
            DisconnectCause::Failed(reason)
        };
        self.0.end(cause, String::new());
    }
}
