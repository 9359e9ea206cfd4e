//! The turn that is running: everything that lives only while it does.

use std::{
    collections::{BTreeMap, BTreeSet},
    panic::AssertUnwindSafe,
    sync::Arc,
};

use codicil_model::ToolList;
use codicil_protocol::{
    CodexErrorInfo, CollabAgentState, CollabAgentStatus, ItemId, NonSteerableTurnKind, ResponseItem,
    ServiceTier, ThreadItem, TurnError, TurnId, TurnStatus,
};
use codicil_store::RequestAnswer;
use codicil_telemetry::spans::{SpanOutcome, note_outcome};
use futures_util::FutureExt;
use serde_json::Value;
use tokio::{sync::watch, task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, Span};

use super::{
    AnnouncedReply, CommandReply, TurnOrigin,
    input::{FirstInput, SteeredInput},
    open_questions::OpenQuestions,
    review::ActiveReview,
    turn_count::InterruptCause,
};
use crate::{
    error::TurnInputError,
    subagent,
    turn_channel::{TurnOutcome, TurnReporter},
};

/// Notices that may wait for one request. The oldest are dropped first.
const MAX_NOTICES: usize = 64;

/// The kinds of turns. Only a regular turn takes more input while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    Regular,
    Review,
    Compact,
    /// A user's shell command.
    Shell,
}

impl TurnKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular",
            Self::Review => "review",
            Self::Compact => "compact",
            Self::Shell => "shell",
        }
    }
}

/// The running turn of a thread.
pub(super) struct ActiveTurn {
    pub id: TurnId,
    pub kind: TurnKind,
    /// The span of the turn in a trace and in the log.
    pub span: Span,
    pub origin: TurnOrigin,
    /// Whether the turn was started by the goal of the thread.
    pub is_goal_turn: bool,
    pub output_schema: Option<Arc<Value>>,
    /// The turn's input, until the first request contains it.
    pub first: Option<FirstInput>,
    /// Messages that arrived while the turn was running, for the next request. They are stored, but clients have not
    /// seen them as items yet.
    pub steered: Vec<SteeredInput>,
    /// Further additions to the history for the next request.
    notices: Vec<ResponseItem>,
    /// The texts of the user's messages.
    pub input_texts: Vec<String>,
    /// Items that a client has added to the history for the next request. They are stored.
    injected: Vec<ResponseItem>,
    /// Whether records of the turn could not be stored. The turn then fails.
    pub is_store_failing: bool,
    /// The service tier of this turn, if it is not that of the thread.
    pub service_tier: Option<ServiceTier>,
    /// Counts the requests to end the response that is being received.
    pub end_response: watch::Sender<u64>,
    /// The text of the last agent message.
    pub last_message: Option<String>,
    /// Items that have started and not completed, commands excepted.
    pub open_items: BTreeMap<ItemId, ThreadItem>,
    pub questions: OpenQuestions,
    /// The tool calls that have no output yet.
    pub calls: OpenCalls,
    /// Items that clients have seen start before a restart, until their calls have come to them.
    pub restored_items: BTreeSet<ItemId>,
    /// Requests of this turn that have an answer.
    pub resolved: Vec<ResolvedRequest>,
    /// The tools that the model may call.
    pub offered: ToolList,
    /// Interrupt requests that wait for the turn's end.
    pub interrupts: Vec<CommandReply<AnnouncedReply<()>>>,
    /// What has interrupted the turn, for the count of turns.
    pub interrupt_cause: Option<InterruptCause>,
    pub review: Option<ActiveReview>,
    /// Whether the history was compacted since the last request.
    pub was_compacted: bool,
    /// Whether a shell command beside the turn has added to the history since the last request.
    pub needs_request: bool,
    /// The error of a turn that cannot go on although its task did not fail.
    failure: Option<TurnError>,
    /// When the turn was announced.
    pub beginning: Option<TurnBeginning>,
    pub cancel: CancellationToken,
    /// Cancelled when the turn has ended and its end has been announced.
    pub over: CancellationToken,
    /// The outcome of the turn's task, once it has ended.
    outcome: Option<TurnOutcome>,
    /// Shell commands of the user that run beside the task. The turn ends with the last of them.
    shell_commands: usize,
    task: JoinHandle<()>,
}

/// The tool calls of a turn that have no output yet, and how far they have come.
#[derive(Default)]
pub(super) struct OpenCalls {
    open: BTreeSet<String>,
    /// Calls that may have had effects.
    pub begun: BTreeSet<String>,
    /// Calls with a stored request, which has the item of the call.
    pub asked: BTreeSet<String>,
    /// Answers to requests whose calls have not come to them again since a restart.
    pub answers: Vec<EarlyAnswer>,
}

/// An answer for a call that runs again after a restart.
pub(super) struct EarlyAnswer {
    pub call_id: String,
    pub method: String,
    pub answer: RequestAnswer,
}

/// A request that has an answer.
#[derive(Clone, Debug)]
pub(super) struct ResolvedRequest {
    pub request: String,
    pub by: String,
    /// Unix seconds.
    pub at: i64,
}

impl OpenCalls {
    /// Notes what the items add to the history: calls, and outputs of calls.
    pub fn note(&mut self, items: &[ResponseItem]) {
        for item in items {
            match item {
                ResponseItem::FunctionCall { call_id, .. } | ResponseItem::CustomToolCall { call_id, .. } => {
                    self.open.insert(call_id.clone());
                }
                ResponseItem::FunctionCallOutput { call_id: Some(call_id), .. }
                | ResponseItem::CustomToolCallOutput { call_id, .. } => {
                    self.open.remove(call_id);
                    self.begun.remove(call_id);
                    self.asked.remove(call_id);
                }
                _ => {}
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns whether there are open calls and none of them may have had effects.
    pub fn are_all_before_effects(&self) -> bool {
        !self.open.is_empty() && self.begun.is_empty()
    }

    pub fn take_answer(&mut self, call_id: &str, method: &str) -> Option<RequestAnswer> {
        let at = self.answers.iter().position(|early| early.call_id == call_id && early.method == method)?;
        Some(self.answers.remove(at).answer)
    }
}

/// When a turn began.
pub(super) struct TurnBeginning {
    pub started: Instant,
    /// Unix seconds.
    pub started_at: i64,
}

impl ActiveTurn {
    /// Starts the turn's task, which `cancel` stops. It reports its outcome as its last message, also if it panics.
    pub fn new<R>(
        id: TurnId,
        kind: TurnKind,
        span: Span,
        reporter: TurnReporter,
        cancel: CancellationToken,
        run: impl FnOnce(TurnReporter, CancellationToken) -> R,
    ) -> Self
    where
        R: Future<Output = TurnOutcome> + Send + 'static,
    {
        let run = run(reporter.clone(), cancel.clone());
        // Owned by the active turn, which cancels it and waits for its end.
        let running = async move {
            let outcome = AssertUnwindSafe(run).catch_unwind().await;
            reporter.ended(outcome.unwrap_or_else(|_| TurnOutcome::Failed(internal_error()))).await;
        };
        let task = tokio::spawn(running.instrument(span.clone()));
        Self {
            id,
            kind,
            span,
            origin: TurnOrigin::default(),
            is_goal_turn: false,
            output_schema: None,
            first: None,
            steered: Vec::new(),
            notices: Vec::new(),
            input_texts: Vec::new(),
            injected: Vec::new(),
            is_store_failing: false,
            service_tier: None,
            end_response: watch::Sender::new(0),
            last_message: None,
            open_items: BTreeMap::new(),
            questions: OpenQuestions::default(),
            calls: OpenCalls::default(),
            restored_items: BTreeSet::new(),
            resolved: Vec::new(),
            offered: ToolList::default(),
            interrupts: Vec::new(),
            interrupt_cause: None,
            review: None,
            was_compacted: false,
            needs_request: false,
            failure: None,
            beginning: None,
            cancel,
            over: CancellationToken::new(),
            outcome: None,
            shell_commands: 0,
            task,
        }
    }

    /// Runs a user's shell command beside the turn's task. Its outcome does not count for the turn.
    pub fn run_beside<R>(
        &mut self,
        reporter: TurnReporter,
        run: impl FnOnce(TurnReporter, CancellationToken) -> R,
    ) where
        R: Future<Output = TurnOutcome> + Send + 'static,
    {
        self.needs_request = true;
        self.shell_commands += 1;
        let run = run(reporter.clone(), self.cancel.clone());
        let running = async move {
            // A panic has been logged; the turn ends all the same.
            let _ = AssertUnwindSafe(run).catch_unwind().await;
            reporter.shell_command_ended().await;
        };
        // Ends with the turn, whose token cancels it.
        tokio::spawn(running.instrument(self.span.clone()));
    }

    pub fn task_ended(&mut self, outcome: TurnOutcome) {
        self.outcome = Some(outcome);
    }

    pub fn shell_command_ended(&mut self) {
        self.shell_commands = self.shell_commands.saturating_sub(1);
    }

    /// Returns whether the turn can end with this process and continue in another one: it runs tools, none of which may have
    /// had effects, and every answer that it waits for is one that outlives the process.
    pub fn can_park(&self) -> bool {
        self.kind == TurnKind::Regular
            && self.review.is_none()
            && self.shell_commands == 0
            && self.outcome.is_none()
            && self.failure.is_none()
            && !self.cancel.is_cancelled()
            && self.calls.are_all_before_effects()
            && self.questions.are_durable()
    }

    /// Returns the turn's outcome once its task and all shell commands beside it have ended.
    pub fn take_outcome(&mut self) -> Option<TurnOutcome> {
        if self.shell_commands > 0 { None } else { self.outcome.take() }
    }

    pub fn abort(&self) {
        self.task.abort();
    }

    /// Stops the turn with an error. The first error counts.
    pub fn fail(&mut self, error: TurnError) {
        self.failure.get_or_insert(error);
        self.cancel.cancel();
    }

    /// Returns the final status of the turn and its error.
    pub fn status(&mut self, outcome: TurnOutcome) -> (TurnStatus, Option<TurnError>) {
        let (noted, status, error) = match (self.failure.take(), outcome) {
            (Some(error), _) | (None, TurnOutcome::Failed(error)) => {
                (SpanOutcome::Failed, TurnStatus::Failed, Some(error))
            }
            (None, TurnOutcome::Interrupted) => (SpanOutcome::Cancelled, TurnStatus::Interrupted, None),
            (None, TurnOutcome::Completed) => (SpanOutcome::Completed, TurnStatus::Completed, None),
        };
        note_outcome(&self.span, noted);
        (status, error)
    }

    pub fn add_notice(&mut self, item: ResponseItem) {
        if self.notices.len() >= MAX_NOTICES {
            self.notices.remove(0);
        }
        self.notices.push(item);
    }

    pub fn add_notices(&mut self, items: Vec<ResponseItem>) {
        self.notices.extend(items);
    }

    pub fn take_notices(&mut self) -> Vec<ResponseItem> {
        std::mem::take(&mut self.notices)
    }

    pub fn add_injected(&mut self, items: Vec<ResponseItem>) {
        self.injected.extend(items);
    }

    pub fn take_injected(&mut self) -> Vec<ResponseItem> {
        std::mem::take(&mut self.injected)
    }

    /// Returns whether a turn that is otherwise done has to send another request.
    pub fn has_unseen_input(&self) -> bool {
        let has_additions = !self.notices.is_empty() || !self.injected.is_empty();
        let has_notices = self.kind == TurnKind::Regular && has_additions;
        !self.steered.is_empty() || self.needs_request || has_notices
    }

    pub fn check_steerable(&self) -> Result<(), TurnInputError> {
        let turn_kind = match self.kind {
            TurnKind::Regular => return Ok(()),
            TurnKind::Review => NonSteerableTurnKind::Review,
            TurnKind::Compact => NonSteerableTurnKind::Compact,
            TurnKind::Shell => return Err(TurnInputError::TurnRunning),
        };
        let error = TurnError {
            message: format!("cannot steer a {} turn", self.kind.name()),
            codex_error_info: Some(CodexErrorInfo::ActiveTurnNotSteerable { turn_kind }),
            additional_details: None,
            misalignment: None,
        };
        Err(TurnInputError::NotSteerable { kind: self.kind, error: Box::new(error) })
    }

    /// Returns the state of a subagent after this turn; `None` for turns that are not part of its task.
    pub fn subagent_state(&self, status: &TurnStatus, error: Option<&TurnError>) -> Option<CollabAgentState> {
        if self.kind != TurnKind::Regular {
            return None;
        }
        Some(match (status, error, &self.last_message) {
            (TurnStatus::Interrupted, _, _) => subagent::state(CollabAgentStatus::Interrupted),
            (_, Some(error), _) => subagent::state_with(CollabAgentStatus::Errored, &error.message),
            (_, None, Some(message)) => subagent::state_with(CollabAgentStatus::Completed, message),
            (_, None, None) => subagent::state(CollabAgentStatus::Completed),
        })
    }
}

/// The error of a turn whose task panicked. The log has the details.
fn internal_error() -> TurnError {
    TurnError {
        message: "internal error; the server's log has the details".to_owned(),
        codex_error_info: Some(CodexErrorInfo::Other),
        additional_details: None,
        misalignment: None,
    }
}
