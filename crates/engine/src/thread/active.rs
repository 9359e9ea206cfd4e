//! The turn that is running: everything that lives only while it does.

use std::{collections::BTreeMap, sync::Arc};

use codicil_model::ToolList;
use codicil_protocol::{CodexErrorInfo, ItemId, ResponseItem, ThreadItem, TurnError, TurnId, rpc::RequestId};
use serde_json::Value;
use tokio::{sync::mpsc, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{AnnouncedReply, CommandReply, TurnOrigin, input::FirstInput, review::ActiveReview};
use crate::{
    step::{TurnEvent, TurnOutcome, TurnReporter, WeakTurnReporter},
    tools::QuestionKind,
};

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
    /// Questions that nobody has answered yet.
    pub asked: Vec<(RequestId, QuestionKind)>,
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
    pub reports: WeakTurnReporter,
    steps: mpsc::Receiver<Vec<TurnEvent>>,
    task: JoinHandle<TurnOutcome>,
}

impl ActiveTurn {
    /// Starts the turn's task, which ends with it.
    pub fn new<R>(id: TurnId, kind: TurnKind, run: impl FnOnce(TurnReporter, CancellationToken) -> R) -> Self
    where
        R: Future<Output = TurnOutcome> + Send + 'static,
    {
        let (sender, steps) = TurnReporter::channel();
        let cancel = CancellationToken::new();
        let reports = sender.downgrade();
        // Owned by the active turn, which cancels it and waits for its end.
        let task = tokio::spawn(run(sender, cancel.clone()));
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
            asked: Vec::new(),
            offered: ToolList::default(),
            interrupts: Vec::new(),
            review: None,
            compacted: false,
            wants_more: false,
            failure: None,
            cancel,
            reports,
            steps,
            task,
        }
    }

    /// The next steps, or how the turn ended. Everything it reported comes before its end.
    pub async fn next_event(&mut self) -> Result<Vec<TurnEvent>, TurnOutcome> {
        match self.steps.recv().await {
            Some(steps) => Ok(steps),
            None => Err((&mut self.task).await.unwrap_or_else(|_| TurnOutcome::Failed(internal_error()))),
        }
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
