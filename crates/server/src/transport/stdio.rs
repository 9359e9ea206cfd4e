//! Standard input and output, for the client that started this process.
//!
//! Standard input has a thread of its own: other processes may share the stream, so it is not switched to non-blocking mode.

use std::{io::Read, sync::Arc, thread};

use bytes::Bytes;
use codicil_protocol::LineSplitter;
use futures_util::{Stream, stream};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{push_line, standard_output::StandardOutput};
use crate::{
    clients::ConnectedClient,
    connection,
    limits::{FLUSH_TIME, MAX_MESSAGE_BYTES},
    server::Server,
};

/// The bytes after which a batch is written.
const BUFFER_BYTES: usize = 64 << 10;

/// The size of the smallest message that is written from where it is. Others are copied into few writes.
const LARGE_MESSAGE_BYTES: usize = 1 << 20;

/// Serves until standard input ends or the server is stopped.
pub async fn run(server: &Server) -> std::io::Result<()> {
    let client = server.shared.clients.connect();
    let written = AbortOnDropHandle::new(tokio::spawn(write_all(client.clone())));
    let messages = Box::pin(read_all()?);
    // A task of its own: beside the work that it starts, not on the thread that waits for the end of the server.
    let connection = tokio::spawn(connection::serve(server.shared.clone(), client.clone(), messages));
    tokio::select! {
        // The error is a panic, which has been logged.
        _ = AbortOnDropHandle::new(connection) => {}
        () = server.stopping.cancelled() => client.outbox.finish(),
    }
    // Sends the last messages. A client that does not read them must not keep the process alive.
    let _ = tokio::time::timeout(FLUSH_TIME, written).await;
    Ok(())
}

/// Returns the lines of standard input. The thread ends with the input or with the process.
fn read_all() -> std::io::Result<impl Stream<Item = Bytes>> {
    // Few batches, because each may hold a message of the maximum size.
    let (sender, receiver) = mpsc::channel::<Vec<Bytes>>(2);
    thread::Builder::new().name("stdin".into()).spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut lines = LineSplitter::new(MAX_MESSAGE_BYTES);
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            let read = match input.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::warn!("cannot read standard input: {error}");
                    break;
                }
            };
            let mut batch = Vec::new();
            lines.feed(buffer.get(..read).unwrap_or_default(), |line| push_line(line, &mut batch));
            if !batch.is_empty() && sender.blocking_send(batch).is_err() {
                return;
            }
        }
        if let Some(last) = lines.finish() {
            // Fails if the server is stopping.
            let _ = sender.blocking_send(vec![last]);
        }
    })?;
    Ok(flatten(receiver))
}

fn flatten(receiver: mpsc::Receiver<Vec<Bytes>>) -> impl Stream<Item = Bytes> {
    stream::unfold((receiver, Vec::new().into_iter()), |(mut receiver, mut batch)| async move {
        loop {
            if let Some(line) = batch.next() {
                return Some((line, (receiver, batch)));
            }
            batch = receiver.recv().await?.into_iter();
        }
    })
}

/// Writes the client's outbox to standard output, until it is closed and empty.
async fn write_all(client: Arc<ConnectedClient>) {
    let mut output = StandardOutput::new();
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    while let Some(batch) = client.outbox.take().await {
        if let Err(error) = write_batch(&mut output, &batch, &mut buffer).await {
            tracing::debug!("standard output is closed: {error}");
            return client.outbox.finish();
        }
    }
}

/// Writes a batch of lines in few large writes.
async fn write_batch(
    output: &mut StandardOutput,
    batch: &[Bytes],
    buffer: &mut Vec<u8>,
) -> std::io::Result<()> {
    for message in batch {
        if message.len() < LARGE_MESSAGE_BYTES {
            buffer.extend_from_slice(message);
        } else {
            output.write(buffer).await?;
            output.write_shared(message).await?;
        }
        buffer.push(b'\n');
        if buffer.len() >= BUFFER_BYTES {
            output.write(buffer).await?;
        }
    }
    output.write(buffer).await
}
