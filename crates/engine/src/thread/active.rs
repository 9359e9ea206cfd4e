//! The turn that is running: everything that lives only while it does.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc};

use codicil_model::ToolList;
use codicil_protocol::{CodexErrorInfo, ItemId, ResponseItem, ThreadItem, TurnError, TurnId};
use futures_util::FutureExt;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::{
    AnnouncedReply, CommandReply, TurnOrigin, input::FirstInput, questions::OpenQuestions,
    review::ActiveReview,
};
use crate::step::{TurnOutcome, TurnReporter};

/// What a turn does. Only a regular one takes more input while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnKind {
    Regular,
    Review,
    Compact,
    /// A command that a person ran themselves.
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

/// Everything that lives only while a turn does.
pub(super) struct ActiveTurn {
    pub id: TurnId,
    pub kind: TurnKind,
    pub origin: TurnOrigin,
    pub output_schema: Option<Arc<Value>>,
    /// What the turn was started with, until the model is asked about it.
    pub first: Option<FirstInput>,
    /// Messages that arrived meanwhile, for the next request. They are stored, and not said yet.
    pub steered: Vec<ThreadItem>,
    /// What else the model is to know with the next request.
    pub notices: Vec<ResponseItem>,
    /// The last thing the model said.
    pub last_words: Option<String>,
    /// Items that have begun and are not complete.
    pub open: BTreeMap<ItemId, ThreadItem>,
    pub questions: OpenQuestions,
    /// What the model may call.
    pub offered: ToolList,
    /// Those who wait for the turn to be stopped.
    pub interrupts: Vec<CommandReply<AnnouncedReply<()>>>,
    /// What only a review has.
    pub review: Option<ActiveReview>,
    /// Whether the history has been summed up since the model was asked last.
    pub compacted: bool,
    /// Whether something happened beside the turn that the model has not seen.
    pub wants_more: bool,
    /// Why the turn fails although the model did not.
    pub failure: Option<TurnError>,
    pub cancel: CancellationToken,
    /// Cancelled when the turn has ended and its end has been announced.
    pub over: CancellationToken,
    /// The outcome of the turn's task, once it has ended.
    outcome: Option<TurnOutcome>,
    /// Shell commands of the user that run beside the task. The turn ends with the last of them.
    shell_commands: usize,
    task: JoinHandle<()>,
}

impl ActiveTurn {
    /// Starts the turn's task. It reports its outcome as its last message, also if it panics.
    pub fn new<R>(
        id: TurnId,
        kind: TurnKind,
        reporter: TurnReporter,
        run: impl FnOnce(TurnReporter, CancellationToken) -> R,
    ) -> Self
    where
        R: Future<Output = TurnOutcome> + Send + 'static,
    {
        let cancel = CancellationToken::new();
        let run = run(reporter.clone(), cancel.clone());
        // Owned by the active turn, which cancels it and waits for its end.
        let task = tokio::spawn(async move {
            let outcome = AssertUnwindSafe(run).catch_unwind().await;
            reporter.ended(outcome.unwrap_or_else(|_| TurnOutcome::Failed(internal_error()))).await;
        });
        Self {
            id,
            kind,
            origin: TurnOrigin::default(),
            output_schema: None,
            first: None,
            steered: Vec::new(),
            notices: Vec::new(),
            last_words: None,
            open: BTreeMap::new(),
            questions: OpenQuestions::default(),
            offered: ToolList::default(),
            interrupts: Vec::new(),
            review: None,
            compacted: false,
            wants_more: false,
            failure: None,
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
        self.shell_commands += 1;
        let run = run(reporter.clone(), self.cancel.clone());
        // Ends with the turn, whose token cancels it.
        tokio::spawn(async move {
            // A panic has been logged; the turn ends all the same.
            let _ = AssertUnwindSafe(run).catch_unwind().await;
            reporter.shell_command_ended().await;
        });
    }

    pub fn task_ended(&mut self, outcome: TurnOutcome) {
        self.outcome = Some(outcome);
    }

    pub fn shell_command_ended(&mut self) {
        self.shell_commands = self.shell_commands.saturating_sub(1);
    }

    /// Returns the turn's outcome once its task and all shell commands beside it have ended.
    pub fn take_outcome(&mut self) -> Option<TurnOutcome> {
        if self.shell_commands > 0 { None } else { self.outcome.take() }
    }

    pub fn abort(&self) {
        self.task.abort();
    }
}

/// Why a turn that broke inside says it failed; the log has the rest.
fn internal_error() -> TurnError {
    TurnError {
        message: "internal error; the server's log has the details".to_owned(),
        codex_error_info: Some(CodexErrorInfo::Other),
        additional_details: None,
    }
}
