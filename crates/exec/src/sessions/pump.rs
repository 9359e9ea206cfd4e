//! The pump of one session: the task that moves its input and output, and the state it shares with the table.

use std::{
    future::pending,
    io,
    sync::{Arc, OnceLock},
};

use bytes::{Buf, Bytes};
use parking_lot::Mutex;
use tokio::{
    sync::{
        mpsc::{self, error::TrySendError},
        oneshot, watch,
    },
    time::Instant,
};

use super::{SessionEnding, SessionError, SessionEvent, SessionId};
use crate::{
    exit::ProcessExit,
    head_tail::HeadTail,
    input::ProcessInput,
    output::OutputChunk,
    process::{Process, ProcessHandle},
};

/// How many writes may be queued for a command that does not read.
const MAX_WRITES: usize = 16;

/// The state that the table and the pump of a session share.
pub(super) struct SessionShared {
    pub(super) id: SessionId,
    pub(super) process: ProcessHandle,
    unread: Mutex<HeadTail>,
    /// Set once the last output is in `unread`.
    exit: watch::Sender<Option<ProcessExit>>,
    ending: OnceLock<SessionEnding>,
    writes: mpsc::Sender<PendingWrite>,
}

struct PendingWrite {
    bytes: Bytes,
    done: oneshot::Sender<Result<(), SessionError>>,
}

impl SessionShared {
    /// Queues input at once, then waits until all of it has been written to the command.
    pub(super) async fn write(&self, bytes: Bytes) -> Result<(), SessionError> {
        let (done, written) = oneshot::channel();
        self.writes.try_send(PendingWrite { bytes, done }).map_err(|error| match error {
            TrySendError::Full(_) => SessionError::InputFull(self.id),
            // The pump is gone once the session has ended.
            TrySendError::Closed(_) => SessionError::InputClosed(self.id),
        })?;
        written.await.unwrap_or(Err(SessionError::InputClosed(self.id)))
    }

    pub(super) async fn ended(&self) {
        let _ = self.exit.subscribe().wait_for(Option::is_some).await;
    }

    pub(super) fn exit(&self) -> Option<ProcessExit> {
        *self.exit.borrow()
    }

    pub(super) fn take_unread(&self) -> HeadTail {
        self.unread.lock().take()
    }

    /// Kills the command unless it has ended. The reason of the first call is the one reported.
    pub(super) fn stop(&self, reason: SessionEnding) {
        if self.process.try_exit().is_none() {
            let _ = self.ending.set(reason);
        }
        self.process.terminate();
    }

    pub(super) fn ending(&self) -> SessionEnding {
        self.ending.get().copied().unwrap_or(SessionEnding::Exited)
    }
}

/// The task of a session, before it runs.
pub(super) struct SessionPump {
    pub(super) session: Arc<SessionShared>,
    process: Process,
    writes: mpsc::Receiver<PendingWrite>,
    writing: Option<PendingWrite>,
    events: Option<mpsc::Sender<SessionEvent>>,
    started: Instant,
}

enum PumpEvent {
    Output(OutputChunk),
    OutputEnded,
    Write(PendingWrite),
    Written(io::Result<usize>),
}

impl SessionPump {
    pub(super) fn new(
        id: SessionId,
        process: Process,
        buffer: usize,
        events: Option<mpsc::Sender<SessionEvent>>,
    ) -> SessionPump {
        let (sender, writes) = mpsc::channel(MAX_WRITES);
        let session = Arc::new(SessionShared {
            id,
            process: process.handle(),
            unread: Mutex::new(HeadTail::new(buffer)),
            exit: watch::Sender::new(None),
            ending: OnceLock::new(),
            writes: sender,
        });
        SessionPump { session, process, writes, writing: None, events, started: Instant::now() }
    }

    /// Runs until the command has ended and all its output has been passed on.
    pub(super) async fn run(mut self) {
        loop {
            match self.next_event().await {
                PumpEvent::Output(chunk) => self.on_output(chunk).await,
                PumpEvent::Write(write) => self.on_write(write),
                PumpEvent::Written(result) => self.on_written(result),
                PumpEvent::OutputEnded => break,
            }
        }
        self.finish().await;
    }

    async fn next_event(&mut self) -> PumpEvent {
        let Process { stdin, output, .. } = &mut self.process;
        let is_idle = self.writing.is_none();
        tokio::select! {
            chunk = output.next() => chunk.map_or(PumpEvent::OutputEnded, PumpEvent::Output),
            result = write_some(stdin, &self.writing) => PumpEvent::Written(result),
            Some(write) = self.writes.recv(), if is_idle => PumpEvent::Write(write),
        }
    }

    async fn on_output(&mut self, chunk: OutputChunk) {
        self.session.unread.lock().push(&chunk.bytes);
        self.send_event(SessionEvent::Output { id: self.session.id, chunk }).await;
    }

    fn on_write(&mut self, write: PendingWrite) {
        if self.process.stdin.is_some() {
            self.writing = Some(write);
        } else {
            let _ = write.done.send(Err(SessionError::InputClosed(self.session.id)));
        }
    }

    fn on_written(&mut self, result: io::Result<usize>) {
        let Some(mut write) = self.writing.take() else { return };
        match result {
            Ok(count) if count < write.bytes.len() => {
                write.bytes.advance(count);
                self.writing = Some(write);
            }
            // The writer may have stopped waiting.
            Ok(_) => _ = write.done.send(Ok(())),
            Err(error) => {
                self.process.stdin = None;
                let _ = write.done.send(Err(SessionError::Write(self.session.id, error)));
            }
        }
    }

    async fn finish(mut self) {
        let exit = self.process.exit().await;
        let session = self.session.clone();
        let ended = SessionEvent::Ended {
            id: session.id,
            exit,
            ending: session.ending(),
            ran: self.started.elapsed(),
        };
        let events = self.events.take();
        // The process is dropped before the end is announced: an ended session has nothing left running.
        drop(self);
        session.exit.send_replace(Some(exit));
        if let Some(events) = events {
            let _ = events.send(ended).await;
        }
    }

    async fn send_event(&mut self, event: SessionEvent) {
        if let Some(events) = &self.events
            && events.send(event).await.is_err()
        {
            // The receiver is gone; the session continues without it.
            self.events = None;
        }
    }
}

async fn write_some(stdin: &mut Option<ProcessInput>, writing: &Option<PendingWrite>) -> io::Result<usize> {
    match (stdin, writing) {
        (Some(stdin), Some(write)) => stdin.write_some(&write.bytes).await,
        _ => pending().await,
    }
}
