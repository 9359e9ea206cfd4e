//! Named calls for the common methods. All other methods go through [`Client::call`].

use std::{env, time::Duration};

use codicil_protocol::{
    CommandExec, CommandExecParams, CommandExecResponse, ModelList, ModelListParams, ModelListResponse,
    ReviewStart, ReviewStartParams, ReviewStartResponse, Thread, ThreadArchive, ThreadArchiveParams,
    ThreadCompactStart, ThreadCompactStartParams, ThreadFork, ThreadForkParams, ThreadId, ThreadList,
    ThreadListParams, ThreadListResponse, ThreadRead, ThreadReadParams, ThreadResume, ThreadResumeParams,
    ThreadStart, ThreadStartParams, Turn, TurnId, TurnInterrupt, TurnInterruptParams, TurnStart,
    TurnStartParams, TurnSteer, TurnSteerParams,
};

use crate::{client::Client, error::ClientError, params::IntoInput};

/// The server's timeout for a `command/exec` without one of its own.
const DEFAULT_EXEC_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether [`Client::read_thread`] returns the thread's turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeTurns {
    /// Every turn with its items.
    Yes,
    /// Only the metadata that `thread/list` returns.
    No,
}

/// Threads.
impl Client {
    /// Starts a thread. Params that are left out come from [`ThreadDefaults`](crate::ThreadDefaults), and the
    /// builder's tools are offered to the thread.
    pub async fn start_thread(&self, mut params: ThreadStartParams) -> Result<Thread, ClientError> {
        self.apply_thread_defaults(&mut params);
        Ok(self.call::<ThreadStart>(params).await?.thread)
    }

    pub(crate) fn apply_thread_defaults(&self, params: &mut ThreadStartParams) {
        let options = self.options();
        let defaults = &options.thread_defaults;
        params.model = params.model.take().or_else(|| defaults.model.clone());
        let process_cwd = || options.is_local.then(current_dir).flatten();
        params.cwd = params.cwd.take().or_else(|| defaults.cwd.clone()).or_else(process_cwd);
        params.approval_policy = params.approval_policy.take().or_else(|| defaults.approval_policy.clone());
        params.sandbox = params.sandbox.take().or_else(|| defaults.sandbox.clone().map(Into::into));
        if params.dynamic_tools.is_none()
            && !options.tools.is_empty()
            && options.capabilities.experimental_api
        {
            params.dynamic_tools = Some(options.tools.specs().into_iter().map(Into::into).collect());
        }
    }

    /// Loads a stored thread with its turns. [`resume`](crate::resume) returns params that keep its settings.
    ///
    /// ```no_run
    /// use codicil_client::{Client, ClientError, protocol::*, resume};
    ///
    /// # async fn example(client: Client, id: ThreadId) -> Result<(), ClientError> {
    /// let thread = client.resume_thread(resume(&id)).await?;
    /// let params = ThreadResumeParams { personality: Some(Personality::Friendly), ..resume(&id) };
    /// let friendlier = client.resume_thread(params).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn resume_thread(&self, params: ThreadResumeParams) -> Result<Thread, ClientError> {
        Ok(self.call::<ThreadResume>(params).await?.thread)
    }

    /// Copies a thread into a new one. [`fork`](crate::fork) returns params for a copy of the whole thread.
    pub async fn fork_thread(&self, params: ThreadForkParams) -> Result<Thread, ClientError> {
        Ok(self.call::<ThreadFork>(params).await?.thread)
    }

    /// Reads a stored thread without loading it.
    pub async fn read_thread(&self, thread: &ThreadId, turns: IncludeTurns) -> Result<Thread, ClientError> {
        let include_turns = turns == IncludeTurns::Yes;
        let params = ThreadReadParams { thread_id: thread.clone(), include_turns };
        Ok(self.call::<ThreadRead>(params).await?.thread)
    }

    /// Returns a page of stored threads.
    pub async fn list_threads(&self, params: ThreadListParams) -> Result<ThreadListResponse, ClientError> {
        self.call::<ThreadList>(params).await
    }

    /// Moves a thread to the archive, which `thread/list` leaves out by default.
    pub async fn archive_thread(&self, thread: &ThreadId) -> Result<(), ClientError> {
        let params = ThreadArchiveParams { thread_id: thread.clone() };
        self.call::<ThreadArchive>(params).await.map(|_| ())
    }

    /// Starts compaction of the history that the model sees. The compaction runs as a turn.
    pub async fn compact_thread(&self, thread: &ThreadId) -> Result<(), ClientError> {
        let params = ThreadCompactStartParams { thread_id: thread.clone() };
        self.call::<ThreadCompactStart>(params).await.map(|_| ())
    }
}

/// Turns, reviews, models, commands.
impl Client {
    /// Starts a turn and returns once the server has accepted it. Its progress arrives as [`events`](Self::events);
    /// [`run_turn`](Self::run_turn) collects them.
    pub async fn start_turn(&self, params: TurnStartParams) -> Result<Turn, ClientError> {
        Ok(self.call::<TurnStart>(params).await?.turn)
    }

    /// Adds input to the running turn and returns its id. The server refuses this if `turn` is not the running turn.
    pub async fn steer_turn(
        &self,
        thread: &ThreadId,
        turn: &TurnId,
        input: impl IntoInput,
    ) -> Result<TurnId, ClientError> {
        let params = TurnSteerParams::new(thread.clone(), input.into_input(), turn.clone());
        Ok(self.call::<TurnSteer>(params).await?.turn_id)
    }

    /// Interrupts a turn.
    pub async fn interrupt_turn(&self, thread: &ThreadId, turn: &TurnId) -> Result<(), ClientError> {
        let params = TurnInterruptParams { thread_id: thread.clone(), turn_id: turn.clone() };
        self.call::<TurnInterrupt>(params).await.map(|_| ())
    }

    /// Starts a review and returns once the server has accepted it; [`run_review`](Self::run_review) collects its
    /// events.
    pub async fn start_review(&self, params: ReviewStartParams) -> Result<ReviewStartResponse, ClientError> {
        self.call::<ReviewStart>(params).await
    }

    /// Returns a page of the available models.
    pub async fn list_models(&self, params: ModelListParams) -> Result<ModelListResponse, ClientError> {
        self.call::<ModelList>(params).await
    }

    /// Runs a command in the server's sandbox, without a thread. The call times out after the command's own timeout
    /// plus [`ClientTimeouts::request`](crate::ClientTimeouts::request).
    pub async fn exec_command(&self, params: CommandExecParams) -> Result<CommandExecResponse, ClientError> {
        let requested = params.timeout_ms.and_then(|millis| u64::try_from(millis).ok());
        let command_timeout = requested.map_or(DEFAULT_EXEC_TIMEOUT, Duration::from_millis);
        let within = if params.disable_timeout == Some(true) {
            Duration::MAX
        } else {
            command_timeout.saturating_add(self.options().timeouts.request)
        };
        self.call_within::<CommandExec>(params, within).await
    }
}

fn current_dir() -> Option<String> {
    env::current_dir().ok().map(|path| path.to_string_lossy().into_owned())
}
