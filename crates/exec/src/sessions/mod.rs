//! Commands that outlive the call that started them: `exec_command` starts one and waits a little,
//! `write_stdin` types into it and waits again.
//!
//! Everything a session writes goes two ways: into a bounded buffer, from which each [`SessionReport`] takes what is
//! new, and, if asked for, as [`SessionEvent`]s to a channel of the caller's. The channel's bound is the
//! session's: when it is full the command waits. Dropping the last [`TerminalSessions`] ends every session.

mod pump;
mod table;

use std::{fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
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

/// How long a command that closed its input has to prove that it was ending.
const ENDING: Duration = Duration::from_millis(250);

/// Names a session. Counted from 1 and never used again within one [`TerminalSessions`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u32);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whose sessions they are: limits count for each owner, and nobody reaches another's sessions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionOwner(Arc<str>);

impl<S: Into<Arc<str>>> From<S> for SessionOwner {
    fn from(name: S) -> Self {
        SessionOwner(name.into())
    }
}

/// The ceilings.
#[derive(Clone, Copy, Debug)]
pub struct SessionLimits {
    /// Sessions of one owner, including those that have ended and were not asked about since.
    pub per_owner: usize,
    /// Bytes of unread output that one session keeps, head and tail.
    pub buffer: usize,
}

impl Default for SessionLimits {
    fn default() -> Self {
        SessionLimits { per_owner: 64, buffer: 1024 * 1024 }
    }
}

/// What a call that waited has to tell.
#[derive(Debug)]
pub struct SessionReport {
    pub id: SessionId,
    /// The output since the last report.
    pub output: HeadTail,
    /// Set when the session is over; its id is then unknown.
    pub exit: Option<ProcessExit>,
    /// How long this call has waited.
    pub waited: Duration,
}

/// What happens in a session, whether or not somebody waits for it.
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

/// Why a session is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEnding {
    /// The command ended.
    ByItself,
    /// By [`TerminalSessions::end`] or [`TerminalSessions::end_all`].
    Asked,
    /// It was the one to go when its owner had too many.
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

/// The sessions of all owners. Clones are the same sessions.
#[derive(Clone, Default)]
pub struct TerminalSessions {
    table: Arc<Mutex<SessionTable>>,
}

impl TerminalSessions {
    pub fn new(limits: SessionLimits) -> TerminalSessions {
        TerminalSessions { table: Arc::new(Mutex::new(SessionTable::new(limits))) }
    }

    /// Starts a command and returns at once. Its output goes to `events` too, if given. When the owner has
    /// too many sessions, the least recently used one makes room: of those that have ended, else of those
    /// nobody waits for.
    pub async fn open(
        &self,
        owner: &SessionOwner,
        spec: ProcessSpec,
        events: Option<mpsc::Sender<SessionEvent>>,
    ) -> Result<SessionId, SessionError> {
        let id = self.reserve();
        self.open_as(id, owner, spec, events).await.map(|()| id)
    }

    /// An id for a session that is opened later, or never.
    pub fn reserve(&self) -> SessionId {
        lock(&self.table).new_id()
    }

    /// [`TerminalSessions::open`] under a reserved id. A session that had it before and has ended gives way.
    pub async fn open_as(
        &self,
        id: SessionId,
        owner: &SessionOwner,
        spec: ProcessSpec,
        events: Option<mpsc::Sender<SessionEvent>>,
    ) -> Result<(), SessionError> {
        // Room is made before the command runs: once it ran, it cannot be refused.
        let seat = SessionSlot::take(&self.table, owner)?;
        let process = Process::spawn(spec).await?;
        seat.fill(id, |buffer| SessionPump::new(id, process, buffer, events));
        Ok(())
    }

    /// [`TerminalSessions::open`], then [`TerminalSessions::wait`].
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

    /// Waits until the session is over or the time is, and reports what is new.
    pub async fn wait(
        &self,
        owner: &SessionOwner,
        id: SessionId,
        time: Duration,
    ) -> Result<SessionReport, SessionError> {
        self.write(owner, id, Bytes::new(), time).await
    }

    /// Types into a session, then waits as [`TerminalSessions::wait`] does. Input that the command does not take in
    /// that time is still given to it later.
    pub async fn write(
        &self,
        owner: &SessionOwner,
        id: SessionId,
        input: impl Into<Bytes>,
        time: Duration,
    ) -> Result<SessionReport, SessionError> {
        let since = Instant::now();
        let visit = SessionVisit::begin(&self.table, owner, id)?;
        let (session, input) = (visit.session(), input.into());
        if !input.is_empty()
            && let Ok(Err(error)) = timeout(time, session.write(input)).await
        {
            refused(session, error).await?;
        }
        let left = time.saturating_sub(since.elapsed());
        let _ = timeout(left, session.ended()).await;
        Ok(visit.report(since.elapsed()))
    }

    /// Ends a session. True if the owner has it and it still ran.
    pub async fn end(&self, owner: &SessionOwner, id: SessionId) -> bool {
        let removed = lock(&self.table).remove(owner, id);
        match removed {
            Some(session) => stop(&session).await,
            None => false,
        }
    }

    /// Ends all sessions of an owner and returns how many of them still ran.
    pub async fn end_all(&self, owner: &SessionOwner) -> usize {
        let sessions = lock(&self.table).remove_all(owner);
        // All at once first, then the waits.
        sessions.iter().for_each(|session| session.stop(SessionEnding::Asked));
        let mut count = 0;
        for session in &sessions {
            count += usize::from(stop(session).await);
        }
        count
    }

    /// The sessions of an owner that still run, oldest first.
    pub fn running(&self, owner: &SessionOwner) -> Vec<SessionId> {
        lock(&self.table).running(owner)
    }
}

/// A command that could not be written to because it was ending is a report, not an error.
async fn refused(session: &SessionShared, error: SessionError) -> Result<(), SessionError> {
    let patience = match error {
        // The pipe is closed a moment before the end is known.
        SessionError::Write(..) => ENDING,
        _ => Duration::ZERO,
    };
    timeout(patience, session.process.exit()).await.map(drop).map_err(|_| error)
}

/// Kills the command and waits for its end. True if it did not end by itself.
async fn stop(session: &SessionShared) -> bool {
    session.stop(SessionEnding::Asked);
    session.process.exit().await;
    session.ending() != SessionEnding::ByItself
}

fn lock(table: &Mutex<SessionTable>) -> MutexGuard<'_, SessionTable> {
    table.lock()
}
