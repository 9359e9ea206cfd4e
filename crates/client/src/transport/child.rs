//! A spawned server: lines over its pipes, and the tail of its standard error.

use std::{collections::VecDeque, io};

use bytes::{Buf, Bytes};
use codicil_exec::{HeadTail, InputSource, OutputSource as Stream, Process, ProcessSpec, SpawnError};
use codicil_protocol::{LineSplitter, SplitLine};
use tokio::io::{AsyncWriteExt, Stderr};

use super::{MessageSink, MessageSource, TransportLink, push_line};
use crate::{endpoint::ServerLaunch, error::DisconnectCause, options::ClientLimits};

/// The process and its output. Dropping it kills the whole session.
pub struct ServerChild {
    process: Process,
    lines: LineSplitter,
    ready: VecDeque<Bytes>,
    stderr: HeadTail,
    forwarder: Option<StderrForwarder>,
}

/// Copies the server's standard error to that of this process.
struct StderrForwarder {
    to: Stderr,
    /// Bytes that are not written yet.
    rest: Bytes,
}

pub async fn spawn(launch: &ServerLaunch, limits: &ClientLimits) -> Result<TransportLink, SpawnError> {
    let directory = launch.directory()?;
    let mut spec = ProcessSpec::new(&launch.argv, directory, launch.environment());
    spec.stdin = InputSource::Piped;
    let mut process = Process::spawn(spec).await?;
    let stdin = process.stdin.take().ok_or_else(|| io::Error::other("the child has no standard input"))?;
    let child = ServerChild {
        process,
        lines: LineSplitter::new(limits.message_bytes),
        ready: VecDeque::new(),
        stderr: HeadTail::split(0, limits.stderr_tail),
        forwarder: launch
            .forwards_stderr
            .then(|| StderrForwarder { to: tokio::io::stderr(), rest: Bytes::new() }),
    };
    let sink = MessageSink::Child { stdin, buffer: Vec::new() };
    Ok(TransportLink { source: MessageSource::Child(Box::new(child)), sink })
}

impl ServerChild {
    pub async fn fill(&mut self) -> Result<(), DisconnectCause> {
        while self.ready.is_empty() {
            self.forward_stderr().await;
            match self.process.output.next().await {
                Some(chunk) if chunk.source == Stream::Stderr => {
                    tracing::debug!(target: "codicil_client::stderr", "{}", String::from_utf8_lossy(&chunk.bytes));
                    self.stderr.push(&chunk.bytes);
                    if let Some(forwarder) = &mut self.forwarder {
                        forwarder.rest = chunk.bytes;
                    }
                }
                Some(chunk) => self.lines.feed_shared(&chunk.bytes, |line| push_line(line, &mut self.ready)),
                None => {
                    if let Some(last) = self.lines.finish() {
                        push_line(SplitLine::Whole(last), &mut self.ready);
                    }
                    if self.ready.is_empty() {
                        return Err(DisconnectCause::Exited(self.process.exit().await));
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the pending bytes of standard error. Cancel safe: bytes that were not written stay.
    async fn forward_stderr(&mut self) {
        let Some(forwarder) = &mut self.forwarder else { return };
        while forwarder.rest.has_remaining() {
            match forwarder.to.write(&forwarder.rest).await {
                Ok(count) if count > 0 => forwarder.rest.advance(count),
                // Standard error is closed; there is nothing to write to.
                _ => forwarder.rest.clear(),
            }
        }
    }

    pub fn take(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }

    pub fn stderr_tail(&self) -> String {
        self.stderr.to_text(|_| String::new())
    }
}
