//! One run of a prompt, from its text to the end of its server.

use std::path::PathBuf;

use codicil_client::{
    Client, ClientError, RunningTurn,
    protocol::{
        ThreadId, ThreadResume, ThreadResumeParams, ThreadStart, ThreadStartParams, TurnId, TurnStartParams,
    },
    resume, turn,
};
use tokio::time::{Instant, timeout_at};

use super::{
    bridge::ToolBridge,
    budget::{Budget, TokenUsage},
    error::{EvaluateError, EvaluationCause, FailedEvaluation},
    evaluator::EvaluatorSetup,
    events::{ADAPTER_NAME, EvaluationEvent, PromptExecuted, PromptRendered},
    expansion::OpenSections,
    follow::TurnFollower,
    prompt::{Prompt, RenderedPrompt},
    schema::OutputSchema,
    session::Session,
    thread_state::ThreadState,
};
use crate::workspace::Fingerprint;

/// Everything that is needed to run a prompt once.
pub(super) struct EvaluationRun<'j> {
    pub setup: &'j EvaluatorSetup,
    pub prompt: &'j Prompt,
    pub session: &'j Session,
    pub cwd: PathBuf,
    pub workspace: Option<&'j Fingerprint>,
    pub deadline: Option<Instant>,
    pub budget: Option<&'j Budget>,
    pub output: Option<&'j OutputSchema>,
}

/// A turn that completed.
#[derive(Debug)]
pub(super) struct FinishedTurn {
    pub text: String,
    pub usage: Option<TokenUsage>,
    pub thread_id: ThreadId,
    pub turn_id: TurnId,
    pub stderr_tail: String,
}

impl FinishedTurn {
    pub fn event(&self, prompt: &str) -> EvaluationEvent {
        EvaluationEvent::PromptExecuted(PromptExecuted {
            adapter: ADAPTER_NAME,
            prompt: prompt.to_owned(),
            text: self.text.clone(),
            usage: self.usage,
            thread_id: self.thread_id.clone(),
            turn_id: self.turn_id.clone(),
        })
    }

    /// It completed, and is of no use.
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

/// How far a run has come, for whoever has to explain its failure.
#[derive(Debug, Default)]
pub(super) struct RunProgress {
    pub thread_id: Option<ThreadId>,
    pub turn_id: Option<TurnId>,
    pub usage: Option<TokenUsage>,
    /// What the whole thread has used.
    pub thread_usage: TokenUsage,
}

impl EvaluationRun<'_> {
    pub async fn run(&self) -> Result<FinishedTurn, EvaluateError> {
        self.check().map_err(FailedEvaluation::new)?;
        let rendered = self.prompt.render(&OpenSections::of(self.session, self.prompt));
        self.tell_rendered(&rendered);
        let RenderedPrompt { text, tools } = rendered;
        let bridge =
            ToolBridge::new(self.prompt.name(), self.session, tools, self.deadline, self.budget.cloned());
        let client = self.connect(&bridge).await?;
        let mut progress = RunProgress::default();
        let outcome = self.converse(&client, text, &bridge, &mut progress).await;
        // Whatever happened: when this returns, the server has ended.
        let stderr_tail = client.close().await.stderr_tail.clone();
        self.remember(&progress);
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

    fn tell_rendered(&self, rendered: &RenderedPrompt) {
        self.session.tell(&EvaluationEvent::PromptRendered(PromptRendered {
            adapter: ADAPTER_NAME,
            prompt: self.prompt.name().to_owned(),
            text: rendered.text.clone(),
            tools: rendered.tools.iter().map(|tool| tool.name().to_owned()).collect(),
            output_schema: self.output.map(|output| output.schema.clone()),
        }));
    }

    /// Signs in, opens a thread, runs the turn.
    async fn converse(
        &self,
        client: &Client,
        text: String,
        bridge: &ToolBridge,
        progress: &mut RunProgress,
    ) -> Result<FinishedTurn, EvaluationCause> {
        if let Some(auth) = &self.setup.client.auth_mode {
            self.in_time(client.call_raw("account/login/start", auth.login())).await?;
        }
        let thread_id = self.thread(client, bridge, progress).await?;
        progress.thread_id = Some(thread_id.clone());
        let running = self.start_turn(client, &thread_id, text).await?;
        let turn_id = running.id().clone();
        progress.turn_id = Some(turn_id.clone());
        let done = TurnFollower::new(self, bridge, progress).follow(running).await?;
        let usage = progress.usage;
        Ok(FinishedTurn { text: done.agent_message, usage, thread_id, turn_id, stderr_tail: String::new() })
    }

    async fn thread(
        &self,
        client: &Client,
        bridge: &ToolBridge,
        progress: &mut RunProgress,
    ) -> Result<ThreadId, EvaluationCause> {
        let config = &self.setup.client;
        let tools = bridge.specs();
        let wanted = ThreadState::new("".into(), self.cwd.clone(), self.workspace, &tools);
        let known = self.session.get::<ThreadState>().filter(|known| known.fits(&wanted));
        if let Some(known) = known.filter(|_| config.reuse_thread && !config.ephemeral)
            && let Some(thread) = self.resume(client, &known.thread_id).await?
        {
            progress.thread_usage = known.used;
            return Ok(thread);
        }
        let params = ThreadStartParams {
            model: Some(self.setup.model.model.clone()),
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            approval_policy: Some(config.approval_policy.on_the_wire()),
            sandbox: config.sandbox_mode.clone(),
            ephemeral: Some(config.ephemeral),
            config: config.overrides(),
            dynamic_tools: (!tools.is_empty()).then(|| tools.into_iter().map(Into::into).collect()),
            ..ThreadStartParams::default()
        };
        let thread_id = self.in_time(client.call::<ThreadStart>(params)).await?.thread.id;
        if !config.ephemeral {
            self.session.set(ThreadState { thread_id: thread_id.clone(), ..wanted });
        }
        Ok(thread_id)
    }

    /// Keeps what the session's thread has used, for the next turn on it.
    fn remember(&self, progress: &RunProgress) {
        let state = self.session.get::<ThreadState>();
        if let Some(state) = state.filter(|state| Some(&state.thread_id) == progress.thread_id.as_ref()) {
            self.session.set(ThreadState { used: progress.thread_usage, ..state });
        }
    }

    /// The thread again, under today's settings; `None` when the server does not have it any more.
    async fn resume(&self, client: &Client, thread: &ThreadId) -> Result<Option<ThreadId>, EvaluationCause> {
        let config = &self.setup.client;
        let params = ThreadResumeParams {
            model: Some(self.setup.model.model.clone()),
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            approval_policy: Some(config.approval_policy.on_the_wire()),
            sandbox: config.sandbox_mode.clone(),
            config: config.overrides(),
            ..resume(thread)
        };
        match self.in_time(client.call::<ThreadResume>(params)).await {
            Ok(resumed) => Ok(Some(resumed.thread.id)),
            Err(EvaluationCause::Client(
                error @ (ClientError::ResponseError { .. } | ClientError::ResponseInvalid { .. }),
            )) => {
                tracing::info!(%thread, %error, "a thread cannot be gone on with; a new one takes its place");
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
        self.in_time(client.turn(params)).await
    }

    fn is_late(&self) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= Instant::now())
    }

    /// Waits until the deadline and no longer.
    pub(super) async fn in_time<T>(
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
