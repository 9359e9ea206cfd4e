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
    expansion::{OpenSections, SectionExpansion},
    follow::TurnFollower,
    prompt::Prompt,
    schema::OutputSchema,
    session::Session,
    thread_state::{AwaitedSections, ThreadState},
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
    /// The thread that the caller continues.
    pub continued: Option<&'r ThreadId>,
    pub max_expansions: u32,
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

/// What a run sends first, and to which thread.
struct FirstMessage {
    text: String,
    target: ThreadTarget,
}

/// The thread of a run.
enum ThreadTarget {
    /// The session's thread if it may be reused, otherwise a new one.
    Any,
    /// The session's thread, which waits for sections. A new one if it is gone.
    Waiting(ThreadState),
    /// The thread that the caller continues.
    Continued(ThreadId),
}

/// The thread of a run, and what to send to it.
struct OpenedThread {
    thread: ThreadId,
    text: String,
}

/// The end of a run that did not fail.
enum RunOutcome {
    Finished(FinishedTurn),
    ExpansionRequired(SectionExpansion),
}

/// The message to a thread whose evaluation is continued.
const CONTINUE: &str = "The work on this task was interrupted. Continue from where it stopped, without repeating what is \
     already done. If the result is complete, answer with it.";

impl EvaluationRun<'_> {
    pub async fn run(&self) -> Result<FinishedTurn, EvaluateError> {
        self.check().map_err(FailedEvaluation::new)?;
        let bridge = ToolBridge::new(self, self.prompt.tools());
        let first = self.first_message(&bridge);
        self.emit_rendered(&first.text, &bridge);
        let client = self.connect(&bridge).await?;
        let mut progress = RunProgress::default();
        let outcome = self.run_turns(&client, first, &bridge, &mut progress).await;
        // The server has ended when this function returns, whatever the outcome.
        let stderr_tail = client.close().await.stderr_tail.clone();
        self.store_usage(&progress);
        let RunProgress { thread_id, turn_id, usage, .. } = progress;
        match outcome {
            Ok(RunOutcome::Finished(finished)) => Ok(FinishedTurn { stderr_tail, ..finished }),
            Ok(RunOutcome::ExpansionRequired(expansion)) => Err(EvaluateError::ExpansionRequired(expansion)),
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
        self.check_limits()
    }

    fn check_limits(&self) -> Result<(), EvaluationCause> {
        if self.is_late() {
            return Err(EvaluationCause::DeadlineExceeded);
        }
        Ok(self.budget.map_or(Ok(()), Budget::check_left)?)
    }

    /// Decides whether the prompt is sent, or only what a thread that has it already still needs.
    fn first_message(&self, bridge: &ToolBridge) -> FirstMessage {
        if let Some(thread) = self.continued {
            return FirstMessage {
                text: CONTINUE.to_owned(),
                target: ThreadTarget::Continued(thread.clone()),
            };
        }
        let open = OpenSections::of(self.session, self.prompt);
        let wanted = ThreadState::new("".into(), self.cwd.clone(), self.workspace, &bridge.specs());
        let state = self.session.get::<ThreadState>().filter(|state| state.is_compatible_with(&wanted));
        let opened = state.as_ref().map(|state| state.newly_opened(self.prompt.name(), &open));
        let opened = opened.unwrap_or_default();
        match state {
            Some(state) if !opened.is_empty() => FirstMessage {
                text: self.prompt.render_sections(&opened),
                target: ThreadTarget::Waiting(state),
            },
            _ => FirstMessage { text: self.prompt.render(&open), target: ThreadTarget::Any },
        }
    }

    fn emit_rendered(&self, text: &str, bridge: &ToolBridge) {
        self.session.emit(&EvaluationEvent::PromptRendered(PromptRendered {
            adapter: self.setup.client.adapter_name.clone(),
            prompt: self.prompt.name().to_owned(),
            text: text.to_owned(),
            tools: bridge.specs().into_iter().map(|tool| tool.name).collect(),
            output_schema: self.output.map(|output| output.schema.clone()),
        }));
    }

    /// Signs in, opens a thread and runs the turn. A turn that ends with a request for sections is followed by another
    /// one on the same thread, which shows them.
    async fn run_turns(
        &self,
        client: &Client,
        first: FirstMessage,
        bridge: &ToolBridge,
        progress: &mut RunProgress,
    ) -> Result<RunOutcome, EvaluationCause> {
        if let Some(login) = &self.setup.client.login {
            let params = serde_json::to_value(login.params()).unwrap_or_default();
            self.before_deadline(client.call_raw(AccountLoginStart::NAME, params)).await?;
        }
        let OpenedThread { thread, mut text } = self.open_thread(client, first, bridge, progress).await?;
        progress.thread_id = Some(thread.clone());
        let mut remaining = self.max_expansions;
        loop {
            let finished = self.run_turn(client, &thread, text, bridge, progress).await?;
            let Some(expansion) = bridge.take_expansion() else {
                self.set_awaited(&thread, None);
                return Ok(RunOutcome::Finished(finished));
            };
            if remaining == 0 {
                let shown = OpenSections::of(self.session, self.prompt);
                let awaited = AwaitedSections { prompt: self.prompt.name().to_owned(), shown };
                self.set_awaited(&thread, Some(awaited));
                return Ok(RunOutcome::ExpansionRequired(expansion));
            }
            remaining -= 1;
            self.check_limits()?;
            expansion.open(self.session);
            text = self.prompt.render_sections(&expansion.sections.into_iter().collect());
            self.emit_rendered(&text, bridge);
        }
    }

    async fn run_turn(
        &self,
        client: &Client,
        thread: &ThreadId,
        text: String,
        bridge: &ToolBridge,
        progress: &mut RunProgress,
    ) -> Result<FinishedTurn, EvaluationCause> {
        let running = self.start_turn(client, thread, text).await?;
        let turn_id = running.id().clone();
        progress.turn_id = Some(turn_id.clone());
        let done = TurnFollower::new(self, bridge, progress).follow(running).await?;
        Ok(FinishedTurn {
            text: done.agent_message,
            usage: progress.usage,
            thread_id: thread.clone(),
            turn_id,
            stderr_tail: String::new(),
        })
    }

    /// Resumes the thread of `first`, or starts a new one.
    async fn open_thread(
        &self,
        client: &Client,
        first: FirstMessage,
        bridge: &ToolBridge,
        progress: &mut RunProgress,
    ) -> Result<OpenedThread, EvaluationCause> {
        let config = &self.setup.client;
        let wanted = ThreadState::new("".into(), self.cwd.clone(), self.workspace, &bridge.specs());
        let FirstMessage { mut text, target } = first;
        let known = match &target {
            ThreadTarget::Continued(thread) => {
                let resumed =
                    self.before_deadline(client.call::<ThreadResume>(self.resume_params(thread))).await?;
                let state = self.session.get::<ThreadState>().filter(|state| state.thread_id == *thread);
                progress.thread_usage = state.map(|state| state.used).unwrap_or_default();
                return Ok(OpenedThread { thread: resumed.thread.id, text });
            }
            ThreadTarget::Waiting(state) => Some(state.clone()),
            ThreadTarget::Any => {
                let known =
                    self.session.get::<ThreadState>().filter(|known| known.is_compatible_with(&wanted));
                known.filter(|_| config.reuse_thread && !config.ephemeral)
            }
        };
        if let Some(known) = known
            && let Some(thread) = self.resume(client, &known.thread_id).await?
        {
            progress.thread_usage = known.used;
            return Ok(OpenedThread { thread, text });
        }
        if matches!(target, ThreadTarget::Waiting(_)) {
            text = self.prompt.render(&OpenSections::of(self.session, self.prompt));
            self.emit_rendered(&text, bridge);
        }
        let started = self.before_deadline(client.call::<ThreadStart>(self.start_params(bridge))).await?;
        let thread = started.thread.id;
        if !config.ephemeral {
            self.session.set(ThreadState { thread_id: thread.clone(), ..wanted });
        }
        Ok(OpenedThread { thread, text })
    }

    /// Stores in the session whether its thread waits for sections. An ephemeral thread is not stored.
    fn set_awaited(&self, thread: &ThreadId, awaited: Option<AwaitedSections>) {
        let state = self.session.get::<ThreadState>();
        if let Some(state) = state.filter(|state| state.thread_id == *thread) {
            self.session.set(ThreadState { awaited, ..state });
        }
    }

    /// Stores the thread's token usage in the session, for the next turn on it.
    fn store_usage(&self, progress: &RunProgress) {
        let state = self.session.get::<ThreadState>();
        if let Some(state) = state.filter(|state| Some(&state.thread_id) == progress.thread_id.as_ref()) {
            self.session.set(ThreadState { used: progress.thread_usage, ..state });
        }
    }

    /// Resumes a thread; `None` if the server no longer has it.
    async fn resume(&self, client: &Client, thread: &ThreadId) -> Result<Option<ThreadId>, EvaluationCause> {
        match self.before_deadline(client.call::<ThreadResume>(self.resume_params(thread))).await {
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

    fn start_params(&self, bridge: &ToolBridge) -> ThreadStartParams {
        let config = &self.setup.client;
        let tools = bridge.specs();
        ThreadStartParams {
            model: self.setup.model.model.clone(),
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            approval_policy: Some(config.approval_policy.clone()),
            sandbox: config.sandbox_mode.clone().map(Into::into),
            ephemeral: Some(config.ephemeral),
            config: config.overrides(),
            dynamic_tools: (!tools.is_empty()).then(|| tools.into_iter().map(Into::into).collect()),
            ..ThreadStartParams::default()
        }
    }

    /// Returns the params that resume a thread with the current settings.
    fn resume_params(&self, thread: &ThreadId) -> ThreadResumeParams {
        let config = &self.setup.client;
        ThreadResumeParams {
            model: self.setup.model.model.clone(),
            cwd: Some(self.cwd.to_string_lossy().into_owned()),
            approval_policy: Some(config.approval_policy.clone()),
            sandbox: config.sandbox_mode.clone().map(Into::into),
            config: config.overrides(),
            ..resume(thread)
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
