//! One run of a prompt, from rendering to the end of its server.

use std::path::PathBuf;

use codicil_client::{
    Client, ClientError, RunningTurn,
    protocol::{
        AccountLoginStart, Method, ThreadId, ThreadResume, ThreadResumeParams, ThreadStart,
        ThreadStartParams, TurnId, TurnStartParams,
    },
    resume, turn,
};
use tokio::time::{Instant, timeout_at};

use super::{
    bridge::ToolBridge,
    budget::{Budget, TokenUsage},
    error::{EvaluateError, EvaluationCause, FailedEvaluation},
    evaluator::EvaluatorSetup,
    events::{EvaluationEvent, PromptExecuted, PromptRendered},
    expansion::OpenSections,
    follow::TurnFollower,
    prompt::{Prompt, RenderedPrompt},
    schema::OutputSchema,
    session::Session,
    thread_state::ThreadState,
};
use crate::workspace::Fingerprint;

/// The inputs of one run.
pub(super) struct EvaluationRun<'r> {
    pub setup: &'r EvaluatorSetup,
    pub prompt: &'r Prompt,
    pub session: &'r Session,
    pub cwd: PathBuf,
    pub workspace: Option<&'r Fingerprint>,
    pub deadline: Option<Instant>,
    pub budget: Option<&'r Budget>,
    pub output: Option<&'r OutputSchema>,
}

/// A completed turn.
#[derive(Debug)]
pub(super) struct FinishedTurn {
    pub text: String,
    pub usage: Option<TokenUsage>,
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub stderr_tail: String,
}

impl FinishedTurn {
    pub fn event(&self, adapter: &str, prompt: &str) -> EvaluationEvent {
        EvaluationEvent::PromptExecuted(PromptExecuted {
            adapter: adapter.to_owned(),
            prompt: prompt.to_owned(),
            text: self.text.clone(),
            usage: self.usage,
            thread_id: self.thread_id.clone(),
            turn_id: self.turn_id.clone(),
        })
    }

    /// Returns the error of a completed turn whose answer cannot be used.
    pub fn failed(self, cause: impl Into<EvaluationCause>) -> FailedEvaluation {
        FailedEvaluation {
            stderr_tail: self.stderr_tail,
            thread_id: Some(self.thread_id),
            turn_id: Some(self.turn_id),
            usage: self.usage,
            ..FailedEvaluation::new(cause)
        }
    }
}

/// The progress of a run, for the error if it fails.
#[derive(Debug, Default)]
pub(super) struct RunProgress {
    pub thread_id: Option<ThreadId>,
    pub turn_id: Option<TurnId>,
    pub usage: Option<TokenUsage>,
    /// The thread's token usage.
    pub thread_usage: TokenUsage,
}

impl EvaluationRun<'_> {
    pub async fn run(&self) -> Result<FinishedTurn, EvaluateError> {
        self.check().map_err(FailedEvaluation::new)?;
        let rendered = self.prompt.render(&OpenSections::of(self.session, self.prompt));
        self.emit_rendered(&rendered);
        let RenderedPrompt { text, tools } = rendered;
        let bridge = ToolBridge::new(self, tools);
        let client = self.connect(&bridge).await?;
        let mut progress = RunProgress::default();
        let outcome = self.run_turn(&client, text, &bridge, &mut progress).await;
        // The server has ended when this function returns, whatever the outcome.
        let stderr_tail = client.close().await.stderr_tail.clone();
        self.store_usage(&progress);
        let RunProgress { thread_id, turn_id, usage, .. } = progress;
        match outcome {
            Ok(_) if let Some(expansion) = bridge.take_expansion() => {
                Err(EvaluateError::ExpansionRequired(expansion))
            }
            Ok(finished) => Ok(FinishedTurn { stderr_tail, ..finished }),
            Err(cause) => Err(FailedEvaluation {
                stderr_tail,
                thread_id,
                turn_id,
                usage,
                ..FailedEvaluation::new(cause)
            }
            .into()),
        }
    }

    fn check(&self) -> Result<(), EvaluationCause> {
        self.prompt.check(self.setup.client.mcp_servers.iter())?;
        if self.is_late() {
            return Err(EvaluationCause::DeadlineExceeded);
        }
        Ok(self.budget.map_or(Ok(()), Budget::check_left)?)
    }

    fn emit_rendered(&self, rendered: &RenderedPrompt) {
        self.session.emit(&EvaluationEvent::PromptRendered(PromptRendered {
            adapter: self.setup.client.adapter_name.clone(),
            prompt: self.prompt.name().to_owned(),
            text: rendered.text.clone(),
            tools: rendered.tools.iter().map(|tool| tool.name().to_owned()).collect(),
            output_schema: self.output.map(|output| output.schema.clone()),
        }));
    }

    /// Signs in, opens a thread and runs the turn.
    async fn run_turn(
        &self,
        client: &Client,
        text: String,
        bridge: &ToolBridge,
        progress: &mut RunProgress,
    ) -> Result<FinishedTurn, EvaluationCause> {
        if let Some(login) = &self.setup.client.login {
            let params = serde_json::to_value(login.params()).unwrap_or_default();
            self.before_deadline(client.call_raw(AccountLoginStart::NAME, params)).await?;
        }
        let thread_id = self.open_thread(client, bridge, progress).await?;
        progress.thread_id = Some(thread_id.clone());
        let running = self.start_turn(client, &thread_id, text).await?;
        let turn_id = running.id().clone();
        progress.turn_id = Some(turn_id.clone());
        let done = TurnFollower::new(self, bridge, progress).follow(running).await?;
        let usage = progress.usage;
        Ok(FinishedTurn { text: done.agent_message, usage, thread_id, turn_id, stderr_tail: String::new() })
    }

    async fn open_thread(
        &self,
        client: &Client,
        bridge: &ToolBridge,
        progress: &mut RunProgress,
    ) -> Result<ThreadId, EvaluationCause> {
        let config = &self.setup.client;
        let tools = bridge.specs();
        let wanted = ThreadState::new("".into(), self.cwd.clone(), self.workspace, &tools);
        let known = self.session.get::<ThreadState>().filter(|known| known.is_compatible_with(&wanted));
        if let Some(known) = known.filter(|_| config.reuse_thread && !config.ephemeral)
            && let Some(thread) = self.resume(client, &known.thread_id).await?
        {
            progress.thread_usage = known.used;
            return Ok(thread);
        }
        let params = ThreadStartParams {
            model: self.setup.model.model.clone(),
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            approval_policy: Some(config.approval_policy.clone()),
            sandbox: config.sandbox_mode.clone().map(Into::into),
            ephemeral: Some(config.ephemeral),
            config: config.overrides(),
            dynamic_tools: (!tools.is_empty()).then(|| tools.into_iter().map(Into::into).collect()),
            ..ThreadStartParams::default()
        };
        let thread_id = self.before_deadline(client.call::<ThreadStart>(params)).await?.thread.id;
        if !config.ephemeral {
            self.session.set(ThreadState { thread_id: thread_id.clone(), ..wanted });
        }
        Ok(thread_id)
    }

    /// Stores the thread's token usage in the session, for the next turn on it.
    fn store_usage(&self, progress: &RunProgress) {
        let state = self.session.get::<ThreadState>();
        if let Some(state) = state.filter(|state| Some(&state.thread_id) == progress.thread_id.as_ref()) {
            self.session.set(ThreadState { used: progress.thread_usage, ..state });
        }
    }

    /// Resumes a thread with the current settings; `None` if the server no longer has it.
    async fn resume(&self, client: &Client, thread: &ThreadId) -> Result<Option<ThreadId>, EvaluationCause> {
        let config = &self.setup.client;
        let params = ThreadResumeParams {
            model: self.setup.model.model.clone(),
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            approval_policy: Some(config.approval_policy.clone()),
            sandbox: config.sandbox_mode.clone().map(Into::into),
            config: config.overrides(),
            ..resume(thread)
        };
        match self.before_deadline(client.call::<ThreadResume>(params)).await {
            Ok(resumed) => Ok(Some(resumed.thread.id)),
            Err(EvaluationCause::Client(
                error @ (ClientError::ResponseError { .. } | ClientError::ResponseInvalid { .. }),
            )) => {
                tracing::info!(%thread, %error, "cannot resume the session's thread, starting a new one");
                Ok(None)
            }
            Err(cause) => Err(cause),
        }
    }

    async fn start_turn(
        &self,
        client: &Client,
        thread: &ThreadId,
        text: String,
    ) -> Result<RunningTurn, EvaluationCause> {
        let model = &self.setup.model;
        let params = TurnStartParams {
            effort: model.effort.clone(),
            summary: model.summary.clone(),
            personality: model.personality,
            output_schema: self.output.map(|output| output.schema.clone()),
            ..turn(thread, text)
        };
        self.before_deadline(client.turn(params)).await
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Awaits `work` until the deadline.
    pub(super) async fn before_deadline<T>(
        &self,
        work: impl Future<Output = Result<T, ClientError>>,
    ) -> Result<T, EvaluationCause> {
        let Some(deadline) = self.deadline else { return Ok(work.await?) };
        match timeout_at(deadline, work).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => Err(EvaluationCause::DeadlineExceeded),
        }
    }
}
