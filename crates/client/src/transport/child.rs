//! A server that this client started: lines over its pipes, and what it says to standard error.

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
    shown: Option<StderrForwarder>,
}

/// Standard error that is passed on to this process's own.
struct StderrForwarder {
    to: Stderr,
    /// What has come and is not written yet.
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
        shown: launch.shows_stderr.then(|| StderrForwarder { to: tokio::io::stderr(), rest: Bytes::new() }),
    };
    let sink = MessageSink::Child { stdin, buffer: Vec::new() };
    Ok(TransportLink { source: MessageSource::Child(Box::new(child)), sink })
}

impl ServerChild {
    pub async fn fill(&mut self) -> Result<(), DisconnectCause> {
        while self.ready.is_empty() {
            self.show().await;
            match self.process.output.next().await {
                Some(chunk) if chunk.source == Stream::Stderr => {
                    tracing::debug!(target: "codicil_client::stderr", "{}", String::from_utf8_lossy(&chunk.bytes));
                    self.stderr.push(&chunk.bytes);
                    if let Some(shown) = &mut self.shown {
                        shown.rest = chunk.bytes;
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

    /// Safe to drop while waiting: what was not written stays.
    async fn show(&mut self) {
        let Some(shown) = &mut self.shown else { return };
        while shown.rest.has_remaining() {
            match shown.to.write(&shown.rest).await {
                Ok(count) if count > 0 => shown.rest.advance(count),
                // Nobody is there to see it.
                _ => shown.rest.clear(),
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
