//! Commands that outlive the call that started them: `exec_command` starts one and waits for a while, `write_stdin`
//! writes to it and waits again.
//!
//! The output of a session goes into a bounded buffer, from which each [`SessionReport`] takes what is new, and, if
//! requested, as [`SessionEvent`]s to a channel of the caller. While that channel is full, the command blocks. Dropping
//! the last [`TerminalSessions`] ends every session.

mod pump;
mod table;

use std::{fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout},
};

use self::{
    pump::{SessionPump, SessionShared},
    table::{SessionSlot, SessionTable, SessionVisit},
};
use crate::{
    exit::ProcessExit, head_tail::HeadTail, output::OutputChunk, process::Process, spawner::SpawnError,
    spec::ProcessSpec,
};

/// How long a command that has closed its input may take to exit before a write to it counts as failed.
const EXIT_GRACE: Duration = Duration::from_millis(250);

/// The id of a session. Counted from 1, and unique within one [`TerminalSessions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The owner of sessions. Limits apply to each owner, and an owner has access to its own sessions only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionOwner(Arc<str>);

impl<S: Into<Arc<str>>> From<S> for SessionOwner {
    fn from(name: S) -> Self {
        SessionOwner(name.into())
    }
}

/// The limits of sessions.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Sessions of one owner, including ended ones whose exit was not reported yet.
    pub per_owner: usize,
    /// Bytes of unread output that one session keeps, head and tail.
    pub buffer: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits { per_owner: 64, buffer: 1024 * 1024 }
    }
}

/// The result of a call that waited for a session.
#[derive(Debug)]
pub struct SessionReport {
    pub id: SessionId,
    /// The output since the last report.
    pub output: HeadTail,
    /// Set once the session has ended. Its id is unknown from then on.
    pub exit: Option<ProcessExit>,
    /// How long this call has waited.
    pub waited: Duration,
}

/// An event of a session, sent whether or not a call waits for it.
#[derive(Debug)]
pub enum SessionEvent {
    Output {
        id: SessionId,
        chunk: OutputChunk,
    },
    /// The last event of a session.
    Ended {
        id: SessionId,
        exit: ProcessExit,
        ending: SessionEnding,
        ran: Duration,
    },
}

/// Why a session has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnding {
    /// The command exited.
    Exited,
    /// It was ended by [`TerminalSessions::end`] or [`TerminalSessions::end_all`].
    Requested,
    /// It was ended to make room for a new session of its owner.
    Evicted,
}

/// Why a session could not be started or used.
#[derive(Debug, Error)]
pub enum SessionError {
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    #[error("no session with id {0}")]
    Unknown(SessionId),
    #[error("stdin of session {0} is closed")]
    InputClosed(SessionId),
    #[error("session {0} does not read its input")]
    InputFull(SessionId),
    #[error("failed to write to session {0}: {1}")]
    Write(SessionId, io::Error),
    #[error("all {0} sessions are in use")]
    TooMany(usize),
}

/// The sessions of all owners. Clones share the same sessions.
#[derive(Clone, Default)]
pub struct TerminalSessions {
    table: Arc<Mutex<SessionTable>>,
}

impl TerminalSessions {
    pub fn new(limits: SessionLimits) -> TerminalSessions {
        TerminalSessions { table: Arc::new(Mutex::new(SessionTable::new(limits))) }
    }

    /// Starts a command and returns at once. Its output is also sent to `events`, if given. If the owner has too many
    /// sessions, the least recently used one is evicted: one that has ended, else one that no call waits for.
    pub async fn open(
        &self,
        owner: &SessionOwner,
        spec: ProcessSpec,
        events: Option<mpsc::Sender<SessionEvent>>,
    ) -> Result<SessionId, SessionError> {
        let id = self.reserve();
        self.open_as(id, owner, spec, events).await.map(|()| id)
    }

    /// Returns an id for a session that may be opened later.
    pub fn reserve(&self) -> SessionId {
        self.table.lock().new_id()
    }

    /// Does the same as [`TerminalSessions::open`] with a reserved id, and replaces an ended session that had it.
    pub async fn open_as(
        &self,
        id: SessionId,
        owner: &SessionOwner,
        spec: ProcessSpec,
        events: Option<mpsc::Sender<SessionEvent>>,
    ) -> Result<(), SessionError> {
        // Room is made before the command runs, because a command that ran cannot be refused any more.
        let slot = SessionSlot::take(&self.table, owner)?;
        let process = Process::spawn(spec).await?;
        slot.fill(id, |buffer| SessionPump::new(id, process, buffer, events));
        Ok(())
    }

    /// Calls [`TerminalSessions::open`], then [`TerminalSessions::wait`].
    pub async fn start(
        &self,
        owner: &SessionOwner,
        spec: ProcessSpec,
        events: Option<mpsc::Sender<SessionEvent>>,
        time: Duration,
    ) -> Result<SessionReport, SessionError> {
        let id = self.open(owner, spec, events).await?;
        self.wait(owner, id, time).await
    }

    /// Waits until the session has ended or `time` has passed, and reports what is new.
    pub async fn wait(
        &self,
        owner: &SessionOwner,
        id: SessionId,
        time: Duration,
    ) -> Result<SessionReport, SessionError> {
        self.write(owner, id, Bytes::new(), time).await
    }

    /// Writes to a session, then waits as [`TerminalSessions::wait`] does. Input that the command does not read within
    /// `time` stays queued.
    pub async fn write(
        &self,
        owner: &SessionOwner,
        id: SessionId,
        input: impl Into<Bytes>,
        time: Duration,
    ) -> Result<SessionReport, SessionError> {
        let started = Instant::now();
        let visit = SessionVisit::begin(&self.table, owner, id)?;
        let session = visit.session();
        let input = input.into();
        if !input.is_empty()
            && let Ok(Err(error)) = timeout(time, session.write(input)).await
        {
            ignore_if_exiting(session, error).await?;
        }
        let remaining = time.saturating_sub(started.elapsed());
        let _ = timeout(remaining, session.ended()).await;
        Ok(visit.report(started.elapsed()))
    }

    /// Ends a session. Returns whether the owner has it and it was still running.
    pub async fn end(&self, owner: &SessionOwner, id: SessionId) -> bool {
        let removed = self.table.lock().remove(owner, id);
        match removed {
            Some(session) => stop(&session).await,
            None => false,
        }
    }

    /// Ends all sessions of an owner and returns how many of them were still running.
    pub async fn end_all(&self, owner: &SessionOwner) -> usize {
        let sessions = self.table.lock().remove_all(owner);
        // All are stopped before the first one is awaited.
        sessions.iter().for_each(|session| session.stop(SessionEnding::Requested));
        let mut count = 0;
        for session in &sessions {
            count += usize::from(stop(session).await);
        }
        count
    }

    /// Kills the commands of all sessions of an owner, and returns before they have ended.
    pub fn stop_all(&self, owner: &SessionOwner) {
        let sessions = self.table.lock().remove_all(owner);
        sessions.iter().for_each(|session| session.stop(SessionEnding::Requested));
    }

    /// Returns the running sessions of an owner, oldest first.
    pub fn running(&self, owner: &SessionOwner) -> Vec<SessionId> {
        self.table.lock().running(owner)
    }
}

/// Returns the error of a write, unless the command is exiting: the caller then gets a report with the exit.
async fn ignore_if_exiting(session: &SessionShared, error: SessionError) -> Result<(), SessionError> {
    let grace = match error {
        // The pipe is closed a moment before the exit is known.
        SessionError::Write(..) => EXIT_GRACE,
        _ => Duration::ZERO,
    };
    timeout(grace, session.process.exit()).await.map(drop).map_err(|_| error)
}

/// Kills the command and waits for its exit. Returns whether it did not end by itself.
async fn stop(session: &SessionShared) -> bool {
    session.stop(SessionEnding::Requested);
    session.process.exit().await;
    session.ending() != SessionEnding::Exited
}
