//! Standard input and output, for the client that started this process.
//!
//! Each stream has a thread of its own. Other processes may share the streams, so they are not switched to
//! non-blocking mode, and a write to a full pipe must not block the runtime.

use std::{
    io::{Read, Write},
    sync::Arc,
    thread,
};

use bytes::Bytes;
use codicil_protocol::LineSplitter;
use futures_util::{Stream, stream};
use tokio::sync::mpsc;

use super::push_line;
use crate::{
    clients::ConnectedClient,
    connection,
    limits::{FLUSH_TIME, MAX_MESSAGE_BYTES},
    server::Server,
};

/// Serves until standard input ends or the server is stopped.
pub async fn run(server: &Server) -> std::io::Result<()> {
    let client = server.shared.clients.connect();
    let written = write_all(client.clone())?;
    let messages = Box::pin(read_all()?);
    let connection = connection::serve(server.shared.clone(), client.clone(), messages);
    tokio::select! {
        () = connection => {}
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
        let mut buffer = vec![0; 64 << 10];
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

/// Writes the client's outbox to standard output. The returned future resolves when everything is written.
fn write_all(client: Arc<ConnectedClient>) -> std::io::Result<impl Future<Output = ()>> {
    let (done, finished) = tokio::sync::oneshot::channel::<()>();
    let runtime = tokio::runtime::Handle::current();
    thread::Builder::new().name("stdout".into()).spawn(move || {
        let mut output = std::io::stdout().lock();
        let mut buffer = Vec::with_capacity(64 << 10);
        while let Some(batch) = runtime.block_on(client.outbox.take()) {
            if let Err(error) = write_batch(&mut output, &batch, &mut buffer) {
                tracing::debug!("standard output is closed: {error}");
                client.outbox.finish();
                break;
            }
        }
        drop(done);
    })?;
    Ok(async move {
        let _ = finished.await;
    })
}

/// Writes a batch of lines in few large writes.
fn write_batch(output: &mut impl Write, batch: &[Bytes], buffer: &mut Vec<u8>) -> std::io::Result<()> {
    for message in batch {
        buffer.extend_from_slice(message);
        buffer.push(b'\n');
        if buffer.len() >= 64 << 10 {
            output.write_all(buffer)?;
            buffer.clear();
        }
    }
    output.write_all(buffer)?;
    buffer.clear();
    buffer.shrink_to(1 << 20);
    output.flush()
}
