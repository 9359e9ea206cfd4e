//! Other processes that write the same thread: turns that they run, turns that they left without an end, and records that
//! they have written since this process loaded the thread.
//!
//! A thread has one writer at a time. While a process runs a turn, its run is alive and other processes refuse to extend
//! the conversation. Without a turn, any process may go on: it notices by the ordinals that another one has written, loads
//! the thread again and continues from there.

use codicil_metrics::labels::TurnEnd;
use codicil_protocol::ThreadStatus;
use codicil_store::{LiveRun, LoadedThread, RunId, RunState, ThreadHome, ThreadLog, UnfinishedTurn};

use super::{actor::ThreadActor, continuation::ContinuedTurn, state::RestorePoint, turn_count::count_turn};
use crate::error::ThreadError;

/// The number of times that a request loads the thread again because other processes keep writing to it.
pub(super) const MAX_RELOADS: usize = 16;

/// A turn that the records leave without an end.
#[derive(Clone, Debug)]
pub(crate) struct UnsettledTurn {
    /// The run of the process that started the turn; `None` for turns of earlier versions.
    pub run: Option<RunId>,
    /// The live process that runs the turn, once known.
    pub owner: Option<LiveRun>,
    /// What is needed to continue or to settle the turn.
    left: Box<ContinuedTurn>,
}

impl UnsettledTurn {
    pub fn turn(&self) -> &UnfinishedTurn {
        self.left.unfinished()
    }

    pub fn of(loaded: &LoadedThread) -> Option<Self> {
        let turn = loaded.thread.unfinished_turn()?;
        let left = Box::new(ContinuedTurn::of(loaded)?);
        Some(Self { run: turn.run.clone(), owner: None, left })
    }
}

impl ThreadActor {
    /// Does what a loaded thread needs before its first command.
    pub(super) async fn on_loaded(&mut self) {
        let resolved = match self.resolve_unfinished_turn().await {
            Err(error) if error.is_overtaken() => self.reload().await,
            resolved => resolved,
        };
        if let Err(error) = resolved {
            // The thread can be read all the same. The next turn tries again.
            tracing::warn!(thread = %self.state.id, "failed to settle a turn without an end: {error}");
        }
    }

    /// Decides about the turn that the loaded records leave without an end, before anything is sent for the thread. The turn
    /// of a live process stays as it is. The turn of a process that has ended continues if it waits for answers, or is settled.
    async fn resolve_unfinished_turn(&mut self) -> Result<(), ThreadError> {
        let Some(unfinished) = self.state.unfinished.clone() else { return Ok(()) };
        // Its tools could not reach their files. It continues on the machine that has them.
        if self.check_workspace().is_err() {
            return Ok(());
        }
        let run_state = match &unfinished.run {
            Some(run) => self.engine.store.run_state(run).await?,
            None => RunState::Over,
        };
        match run_state {
            RunState::Live(owner) => {
                self.state.unfinished = Some(UnsettledTurn { owner: Some(owner), ..unfinished });
                Ok(())
            }
            RunState::Own | RunState::Over => self.resolve_left_turn(unfinished.left).await,
        }
    }

    /// Prepares the continuation of a turn whose process has ended, or writes its end.
    async fn resolve_left_turn(&mut self, left: Box<ContinuedTurn>) -> Result<(), ThreadError> {
        if left.can_continue(&self.state) {
            self.show_loaded_status(left.status());
            self.state.continued = Some(left);
        } else {
            let records = self.note_unread(left.id(), left.settled());
            self.append(&records).await?;
            count_turn(TurnEnd::InterruptedByRestart, None);
            self.state.history = left.settled_history(&self.state.history);
        }
        self.state.unfinished = None;
        self.skip_messages();
        Ok(())
    }

    /// Refuses work on files that are on another machine.
    pub(super) fn check_workspace(&self) -> Result<(), ThreadError> {
        let home =
            self.state.log.as_ref().filter(|_| self.state.settings.has_environment).map(ThreadLog::home);
        match home {
            Some(ThreadHome::Node(node)) => {
                Err(ThreadError::WorkspaceUnavailable { thread: self.state.id.clone(), node: node.clone() })
            }
            Some(ThreadHome::Here) | None => Ok(()),
        }
    }

    /// Checks that this process may extend the conversation: no other live process runs a turn of it.
    pub(super) async fn claim_conversation(&mut self) -> Result<(), ThreadError> {
        match self.state.unfinished {
            Some(_) => self.catch_up().await,
            None => self.check_conversation(),
        }
    }

    /// Loads the records of other processes, and refuses to go on while one of them runs a turn.
    pub(super) async fn catch_up(&mut self) -> Result<(), ThreadError> {
        self.take_newer_records().await?;
        self.check_conversation()
    }

    /// Loads the records of other processes, also while one of them runs a turn.
    pub(super) async fn take_newer_records(&mut self) -> Result<(), ThreadError> {
        self.reload().await?;
        self.check_key_again().await
    }

    /// Refuses to extend the conversation while its last turn belongs to another process, or waits to be continued.
    fn check_conversation(&self) -> Result<(), ThreadError> {
        match self.state.unfinished.as_ref().and_then(|unfinished| unfinished.owner.clone()) {
            Some(owner) => Err(ThreadError::InUse { thread: self.state.id.clone(), owner }),
            // The next command continues the turn that another process has left.
            None if self.state.continued.is_some() => Err(ThreadError::Busy),
            None => Ok(()),
        }
    }

    /// Restores the state of a change that was not stored. Returns the error, unless another process has written to the
    /// thread: then its records are loaded, and the change can be tried again.
    pub(super) async fn restore_or_catch_up(
        &mut self,
        before: RestorePoint,
        error: ThreadError,
    ) -> Result<(), ThreadError> {
        self.state.restore(before);
        if !error.is_overtaken() && !error.is_conflict() {
            return Err(error);
        }
        self.catch_up().await
    }

    /// Loads the thread again if another process has written to it. Does nothing during a turn.
    pub(super) async fn refresh_records(&mut self) {
        let Some(log) = self.state.log.as_ref().filter(|_| self.is_idle()) else { return };
        if log.is_current().await {
            return;
        }
        if let Err(error) = self.reload().await {
            tracing::warn!(thread = %self.state.id, "failed to load records of another process: {error}");
        }
    }

    /// Replaces the state of an idle thread by what is stored now.
    pub(super) async fn reload(&mut self) -> Result<(), ThreadError> {
        for _ in 0..MAX_RELOADS {
            self.sync_later();
            let loaded = self.engine.store.load(&self.state.id).await?;
            self.take_records(loaded).await?;
            match self.resolve_unfinished_turn().await {
                Err(error) if error.is_overtaken() => {}
                resolved => return resolved,
            }
        }
        Err(ThreadError::Busy)
    }

    async fn take_records(&mut self, loaded: LoadedThread) -> Result<(), ThreadError> {
        self.state.log = Some(self.engine.store.open_log_after(&loaded.thread).await?);
        // What another process has written since then takes precedence.
        self.late_records.clear();
        self.state.keys = None;
        self.state.recall_again(loaded);
        self.skip_messages();
        Ok(())
    }

    /// Has clients with a cursor read the records that were added without messages.
    fn skip_messages(&mut self) {
        self.unsent.clear();
        self.notifier.fall_behind();
        self.note_position();
    }

    /// Gives up the running turn because another process has extended the conversation: stops the turn and its commands,
    /// sends nothing more for it, and unloads the thread. Clients see that the thread is closed.
    pub(super) fn abandon_turn(&mut self) {
        if std::mem::replace(&mut self.is_overtaken, true) {
            return;
        }
        tracing::error!(thread = %self.state.id, "stopping the turn: another process has written to its thread");
        self.notifier.silence();
        if let Some(active) = &mut self.active {
            active.is_store_failing = true;
            active.cancel.cancel();
        }
        if let Some(threads) = self.threads.upgrade() {
            let id = self.state.id.clone();
            // Ends when this thread has ended.
            tokio::spawn(async move { threads.give_up_tree(&id).await });
        }
    }

    /// Returns whether the status may be sent: not for a thread that another process has taken over.
    pub(super) fn may_send(&self, status: &ThreadStatus) -> bool {
        let is_ours = !self.is_overtaken && !self.fence.is_cancelled();
        is_ours || *status == ThreadStatus::NotLoaded
    }
}
