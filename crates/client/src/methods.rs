//! The methods that most programs need, by name. All others go through [`Client::call`].

use std::{env, time::Duration};

use codicil_protocol::{
    CommandExec, CommandExecParams, CommandExecResponse, ModelList, ModelListParams, ModelListResponse,
    ReviewStart, ReviewStartParams, ReviewStartResponse, Thread, ThreadArchive, ThreadArchiveParams,
    ThreadCompactStart, ThreadCompactStartParams, ThreadFork, ThreadId, ThreadList, ThreadListParams,
    ThreadListResponse, ThreadRead, ThreadReadParams, ThreadResume, ThreadStart, ThreadStartParams, Turn,
    TurnId, TurnInterrupt, TurnInterruptParams, TurnStart, TurnStartParams, TurnSteer, TurnSteerParams,
};

use crate::{
    client::Client,
    error::ClientError,
    params::{self, IntoInput},
};

/// How long a server lets `command/exec` run that names no time.
const EXEC_DEFAULT: Duration = Duration::from_secs(10);

/// Whether a thread is read with all that happened in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeTurns {
    /// With every turn and its items.
    Included,
    /// Only what lists show of it.
    LeftOut,
}

/// Threads.
impl Client {
    /// Opens a thread. What the params leave out comes from
    /// [`ThreadDefaults`](crate::ThreadDefaults), and the builder's tools are offered to it.
    pub async fn start_thread(&self, mut params: ThreadStartParams) -> Result<Thread, ClientError> {
        self.fill_in(&mut params);
        Ok(self.call::<ThreadStart>(params).await?.thread)
    }

    pub(crate) fn fill_in(&self, params: &mut ThreadStartParams) {
        let options = self.options();
        let defaults = &options.thread_defaults;
        params.model = params.model.take().or_else(|| defaults.model.clone());
        let own = || options.is_local.then(current_dir).flatten();
        params.cwd = params.cwd.take().or_else(|| defaults.cwd.clone()).or_else(own);
        params.approval_policy = params.approval_policy.take().or_else(|| defaults.approval_policy.clone());
        params.sandbox = params.sandbox.take().or_else(|| defaults.sandbox.clone());
        if params.dynamic_tools.is_none()
            && !options.tools.is_empty()
            && options.capabilities.experimental_api
        {
            params.dynamic_tools = Some(options.tools.specs().into_iter().map(Into::into).collect());
        }
    }

    /// Loads a stored thread with its turns. For changed settings, [`call`](Self::call) with
    /// [`resume`](crate::resume).
    pub async fn resume_thread(&self, thread: &ThreadId) -> Result<Thread, ClientError> {
        Ok(self.call::<ThreadResume>(params::resume(thread)).await?.thread)
    }

    /// Copies a thread into a new one.
    pub async fn fork_thread(&self, thread: &ThreadId) -> Result<Thread, ClientError> {
        Ok(self.call::<ThreadFork>(params::fork(thread)).await?.thread)
    }

    /// Looks at a thread without loading it.
    pub async fn read_thread(&self, thread: &ThreadId, turns: IncludeTurns) -> Result<Thread, ClientError> {
        let include_turns = turns == IncludeTurns::Included;
        let params = ThreadReadParams { thread_id: thread.clone(), include_turns };
        Ok(self.call::<ThreadRead>(params).await?.thread)
    }

    /// A page of the stored threads.
    pub async fn list_threads(&self, params: ThreadListParams) -> Result<ThreadListResponse, ClientError> {
        self.call::<ThreadList>(params).await
    }

    /// Puts a thread away.
    pub async fn archive_thread(&self, thread: &ThreadId) -> Result<(), ClientError> {
        let params = ThreadArchiveParams { thread_id: thread.clone() };
        self.call::<ThreadArchive>(params).await.map(|_| ())
    }

    /// Has the history shortened that the model sees; the work itself is a turn of its own.
    pub async fn compact_thread(&self, thread: &ThreadId) -> Result<(), ClientError> {
        let params = ThreadCompactStartParams { thread_id: thread.clone() };
        self.call::<ThreadCompactStart>(params).await.map(|_| ())
    }
}

/// Turns, reviews, models, commands.
impl Client {
    /// Starts a turn and returns when the server has taken it. What follows arrives as
    /// [`events`](Self::events); [`run_turn`](Self::run_turn) collects it.
    pub async fn start_turn(&self, params: TurnStartParams) -> Result<Turn, ClientError> {
        Ok(self.call::<TurnStart>(params).await?.turn)
    }

    /// Adds input to the turn that is running, and returns its id. Refused when `turn` is not that one.
    pub async fn steer_turn(
        &self,
        thread: &ThreadId,
        turn: &TurnId,
        input: impl IntoInput,
    ) -> Result<TurnId, ClientError> {
        let params = TurnSteerParams {
            thread_id: thread.clone(),
            input: input.into_input(),
            expected_turn_id: turn.clone(),
        };
        Ok(self.call::<TurnSteer>(params).await?.turn_id)
    }

    /// Stops a turn.
    pub async fn interrupt_turn(&self, thread: &ThreadId, turn: &TurnId) -> Result<(), ClientError> {
        let params = TurnInterruptParams { thread_id: thread.clone(), turn_id: turn.clone() };
        self.call::<TurnInterrupt>(params).await.map(|_| ())
    }

    /// Starts a review and returns when the server has taken it; [`run_review`](Self::run_review) collects it.
    pub async fn start_review(&self, params: ReviewStartParams) -> Result<ReviewStartResponse, ClientError> {
        self.call::<ReviewStart>(params).await
    }

    /// A page of the models on offer.
    pub async fn list_models(&self, params: ModelListParams) -> Result<ModelListResponse, ClientError> {
        self.call::<ModelList>(params).await
    }

    /// Runs a command in the server's sandbox, without a thread. Waits as long as the command may take,
    /// and for a request's time beyond that.
    pub async fn exec_command(&self, params: CommandExecParams) -> Result<CommandExecResponse, ClientError> {
        let own = params.timeout_ms.and_then(|millis| u64::try_from(millis).ok()).map(Duration::from_millis);
        let within = match params.disable_timeout {
            Some(true) => Duration::MAX,
            _ => own.unwrap_or(EXEC_DEFAULT).saturating_add(self.options().timeouts.request),
        };
        self.call_within::<CommandExec>(params, within).await
    }
}

fn current_dir() -> Option<String> {
    env::current_dir().ok().map(|path| path.to_string_lossy().into_owned())
}
