//! A thread as it is read from disk.

use std::{num::NonZero, path::PathBuf, thread};

use codicil_protocol::{
    GitInfo, ItemId, ResponseItem, Thread, ThreadGoal, ThreadId, ThreadItem, ThreadStatus, ThreadTokenUsage,
    Turn, TurnError, TurnId, TurnItemsView, TurnStatus, complete_tool_calls,
};
use jiff::Timestamp;
use serde::{
    Serialize, Serializer,
    ser::{Error, SerializeMap, SerializeStruct},
};
use serde_json::value::{RawValue, to_raw_value};

use crate::{
    facts::ThreadFacts,
    item_decoder,
    record::{QuestionKind, RunId, StoredSettings, ThreadMeta},
    replay::{HistoryChange, HistoryStep, Replay},
    summary::ModelChoice,
    thread_log::ReadEnd,
    turn_plan::StoredPlan,
    unfinished_turn::{UnfinishedTurn, open_calls},
};

/// The maximum number of warnings that are listed. Further ones are only counted.
const MAX_WARNINGS: usize = 50;
/// The number of items from which a second thread pays off.
const WORTH_SPLITTING: usize = 512;

/// A thread with its turns.
#[derive(Clone, Debug)]
pub struct StoredThread {
    pub meta: ThreadMeta,
    /// Empty for a thread in a database.
    pub path: PathBuf,
    pub archived: bool,
    /// Unix seconds, like `updated_at`.
    pub created_at: i64,
    pub updated_at: i64,
    /// The first user message, if there is one.
    pub preview: Option<String>,
    pub turns: Vec<StoredTurn>,
    /// The last turn, if it has no end.
    pub unfinished: Option<UnfinishedTurn>,
    pub settings: Option<StoredSettings>,
    /// The settings of the last turn that was not rolled back. Settings of a rolled-back turn stay in force, but the model's
    /// history no longer contains them.
    pub known_settings: Option<StoredSettings>,
    /// The last recorded usage and its turn.
    pub usage: Option<(TurnId, ThreadTokenUsage)>,
    pub name: Option<String>,
    pub git: Option<GitInfo>,
    pub goal: Option<ThreadGoal>,
    pub facts: ThreadFacts,
    /// The ordinal of the next record.
    pub next_ordinal: u64,
    /// The end of the file that was read.
    pub(crate) end: ReadEnd,
    pub warnings: LoadWarnings,
}

/// A thread with its turns and the model's history.
#[derive(Clone, Debug)]
pub struct LoadedThread {
    pub thread: StoredThread,
    /// The history after rollbacks and compactions. Every tool call has its output.
    pub history: Vec<ResponseItem>,
    /// What the unfinished turn has added to the history. Calls may be without output.
    pub unfinished: Vec<ResponseItem>,
    /// The number of items of the history that precede the unfinished turn.
    pub finished: usize,
}

impl LoadedThread {
    pub(crate) fn new(thread: StoredThread, decoded: DecodedHistory) -> Self {
        let DecodedHistory { finished: mut history, unfinished } = decoded;
        let finished = history.len();
        history.extend(complete_tool_calls(unfinished.clone()));
        Self { thread, history, unfinished, finished }
    }

    /// Returns the tool calls of the unfinished turn that have no output.
    pub fn open_calls(&self) -> Vec<ResponseItem> {
        open_calls(&self.unfinished)
    }
}

/// The model's history after rollbacks and compactions, as it is stored.
pub(crate) struct DecodedHistory {
    /// The history before the unfinished turn, in which every tool call has its output.
    finished: Vec<ResponseItem>,
    unfinished: Vec<ResponseItem>,
}

/// A turn with its items as JSON. Serializes exactly like a [`Turn`] with all its items.
#[derive(Clone, Debug)]
pub struct StoredTurn {
    pub id: TurnId,
    pub items: Vec<Box<RawValue>>,
    /// The time of each item's record.
    pub(crate) item_times: Vec<Option<Timestamp>>,
    pub status: TurnStatus,
    pub error: Option<TurnError>,
    /// The time of the first record.
    started: Option<Timestamp>,
    /// The time of the recorded end.
    completed: Option<Timestamp>,
    /// Whether the end of the turn was recorded. A turn without an end is shown as interrupted.
    pub ended: bool,
    /// The run of the process that runs the turn, or ran it; `None` for turns of earlier versions.
    pub run: Option<RunId>,
    /// The turn of the user that this turn of a subagent is part of.
    pub root: Option<TurnId>,
    /// The last plan of the turn.
    pub plan: Option<StoredPlan>,
}

impl StoredTurn {
    pub(crate) fn begun(id: TurnId, at: &str) -> Self {
        Self {
            id,
            items: Vec::new(),
            item_times: Vec::new(),
            status: TurnStatus::Interrupted,
            error: None,
            started: at.parse().ok(),
            completed: None,
            ended: false,
            run: None,
            root: None,
            plan: None,
        }
    }

    pub(crate) fn end(&mut self, status: TurnStatus, error: Option<TurnError>, at: &str) {
        self.status = match status {
            TurnStatus::InProgress => TurnStatus::Interrupted,
            ended => ended,
        };
        self.error = error;
        self.completed = at.parse().ok();
        self.ended = true;
    }

    /// Returns when an item started and completed. The start is known from the item's duration, if it has one.
    pub fn item_times(&self, index: usize, item: &ThreadItem) -> ItemTimes {
        let completed = self.item_times.get(index).copied().flatten();
        let started = completed.map(|completed| {
            let duration = duration_ms(item).unwrap_or(0).max(0);
            Timestamp::from_millisecond(completed.as_millisecond().saturating_sub(duration))
                .unwrap_or(completed)
        });
        ItemTimes { started: started.or(self.started), completed }
    }

    /// Keeps the items for which a function returns true.
    pub fn retain_items(&mut self, keep: impl Fn(&RawValue) -> bool) {
        let kept: Vec<_> = self.items.iter().map(|item| keep(item)).collect();
        let mut is_kept = kept.iter().copied();
        self.items.retain(|_| is_kept.next().unwrap_or(true));
        let mut is_kept = kept.iter().copied();
        self.item_times.retain(|_| is_kept.next().unwrap_or(true));
    }

    /// Returns the time of the first record.
    pub fn started(&self) -> Option<Timestamp> {
        self.started
    }

    /// Returns the time of the recorded end.
    pub fn completed(&self) -> Option<Timestamp> {
        self.completed
    }

    /// Returns the turn without its items.
    pub fn head(&self) -> Turn {
        let duration = self.started.zip(self.completed).map(|(started, completed)| {
            completed.as_millisecond().saturating_sub(started.as_millisecond()).max(0)
        });
        Turn {
            id: self.id.clone(),
            items: Vec::new(),
            status: self.status.clone(),
            error: self.error.clone(),
            root_turn_id: Some(self.root.as_ref().unwrap_or(&self.id).clone()),
            items_view: TurnItemsView::Full,
            started_at: self.started.map(Timestamp::as_second),
            completed_at: self.completed.map(Timestamp::as_second),
            duration_ms: duration,
        }
    }

    /// Shows the turn as running, with items that have started and not completed.
    pub fn show_running(&mut self, open_items: &[ThreadItem]) {
        self.status = TurnStatus::InProgress;
        if open_items.is_empty() {
            return;
        }
        let known: Vec<_> = self.items.iter().filter_map(|json| decode_item(json).id().cloned()).collect();
        let is_new = |item: &&ThreadItem| item.id().is_none_or(|id: &ItemId| !known.contains(id));
        let open = open_items.iter().filter(is_new).filter_map(|item| to_raw_value(item).ok());
        self.items.extend(open);
    }

    /// Leaves out the first items, for readers that want the end of the turn.
    pub fn leave_out_first(&mut self, count: usize) {
        let count = count.min(self.items.len());
        self.items.drain(..count);
        self.item_times.drain(..count.min(self.item_times.len()));
    }

    /// Decodes the items. Items that this version cannot decode are kept as JSON.
    pub fn decode(&self) -> Turn {
        let items = self.items.iter().map(|json| decode_item(json)).collect();
        Turn { items, ..self.head() }
    }
}

impl Serialize for StoredTurn {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Turn {
            id, status, error, root_turn_id, items_view, started_at, completed_at, duration_ms, ..
        } = self.head();
        let mut members = to.serialize_struct("Turn", 9)?;
        members.serialize_field("id", &id)?;
        members.serialize_field("items", &self.items)?;
        members.serialize_field("status", &status)?;
        members.serialize_field("error", &error)?;
        members.serialize_field("rootTurnId", &root_turn_id)?;
        members.serialize_field("itemsView", &items_view)?;
        members.serialize_field("startedAt", &started_at)?;
        members.serialize_field("completedAt", &completed_at)?;
        members.serialize_field("durationMs", &duration_ms)?;
        members.end()
    }
}

/// When an item started and completed. An item that runs has no end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemTimes {
    pub started: Option<Timestamp>,
    pub completed: Option<Timestamp>,
}

fn duration_ms(item: &ThreadItem) -> Option<i64> {
    match item {
        ThreadItem::CommandExecution { duration_ms, .. }
        | ThreadItem::McpToolCall { duration_ms, .. }
        | ThreadItem::DynamicToolCall { duration_ms, .. } => *duration_ms,
        _ => None,
    }
}

pub(crate) fn decode_item(json: &RawValue) -> ThreadItem {
    serde_json::from_str(json.get())
        .unwrap_or_else(|_| ThreadItem::Unrecognized(serde_json::from_str(json.get()).unwrap_or_default()))
}

impl StoredThread {
    /// Returns the id of the thread.
    pub fn id(&self) -> &ThreadId {
        &self.meta.id
    }

    /// Returns the thread as not loaded and without its turns.
    pub fn summary(&self) -> Thread {
        let model = self.settings.as_ref().map(ModelChoice::from).unwrap_or_default();
        let open = self.unfinished.iter().flat_map(UnfinishedTurn::open_requests);
        let open: Vec<_> = open.map(|request| request.asked.kind).collect();
        Thread {
            id: self.meta.id.clone(),
            session_id: Some(self.meta.id.clone()),
            forked_from_id: self.meta.forked_from.clone(),
            parent_thread_id: self.meta.parent_thread_id.clone(),
            project_id: None,
            section: None,
            section_entered_at: None,
            environments: None,
            history_mode: self.meta.history_mode.clone(),
            preview: self.preview.clone().unwrap_or_default(),
            ephemeral: false,
            model_provider: self.meta.model_provider.clone(),
            model: model.model,
            reasoning_effort: model.effort,
            created_at: self.created_at,
            updated_at: self.updated_at,
            recency_at: Some(self.updated_at),
            status: unloaded_status(&open),
            path: Some(&self.path)
                .filter(|path| !path.as_os_str().is_empty())
                .map(|path| path.to_string_lossy().into_owned()),
            cwd: self.meta.cwd.clone(),
            cli_version: self.meta.cli_version.clone(),
            source: self.meta.source.clone(),
            originator: self.meta.originator.clone(),
            thread_source: self.meta.thread_source.clone(),
            can_accept_direct_input: None,
            daybreak_enabled: None,
            extra: None,
            agent_nickname: self.meta.agent_nickname.clone(),
            name: self.name.clone(),
            agent_role: self.meta.agent_role.clone(),
            git_info: self.git.clone(),
            turns: Vec::new(),
        }
    }

    /// Returns the last turn, if its end was not recorded.
    pub fn unfinished_turn(&self) -> Option<&StoredTurn> {
        self.turns.last().filter(|turn| !turn.ended)
    }

    /// Decodes all turns. This takes some microseconds per item; [`ThreadJson`] avoids it.
    pub fn turns(&self) -> Vec<Turn> {
        self.turns.iter().map(StoredTurn::decode).collect()
    }
}

/// Returns the status of a thread that is not loaded: with open requests, it is still active.
pub(crate) fn unloaded_status(open: &[QuestionKind]) -> ThreadStatus {
    if open.is_empty() {
        return ThreadStatus::NotLoaded;
    }
    ThreadStatus::Active { active_flags: QuestionKind::flags(open.iter().copied()) }
}

/// Serializes as a `Thread` with its turns, for `thread/read` and `thread/resume`, without decoding and encoding the items.
pub struct ThreadJson<'a> {
    thread: &'a Thread,
    turns: &'a [StoredTurn],
}

impl<'a> ThreadJson<'a> {
    /// Combines a thread and turns. The thread's own turns are ignored.
    pub fn new(thread: &'a Thread, turns: &'a [StoredTurn]) -> Self {
        Self { thread, turns }
    }
}

impl Serialize for ThreadJson<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let head = Thread { turns: Vec::new(), ..self.thread.clone() };
        let head = serde_json::to_value(head).map_err(S::Error::custom)?;
        let head = head.as_object().ok_or_else(|| S::Error::custom("a thread is an object"))?;
        let mut members = to.serialize_map(Some(head.len()))?;
        for (name, value) in head.iter().filter(|(name, _)| *name != "turns") {
            members.serialize_entry(name, value)?;
        }
        members.serialize_entry("turns", self.turns)?;
        members.end()
    }
}

/// Problems with a file that did not prevent loading the thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadWarnings {
    /// The number of warnings, including those that are not listed.
    pub total: usize,
    /// The first warnings.
    pub list: Vec<LoadWarning>,
}

/// A problem and its line, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadWarning {
    pub line: u64,
    pub problem: LoadProblem,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadProblem {
    /// The line is not a record, or is damaged. It is skipped.
    Unreadable,
    /// A field of a settings record has an unknown form. It counts as missing; the others are kept.
    UnreadableSetting,
    /// The record is of a newer version. It is skipped and stays in the file.
    UnknownKind,
    /// The ordinal is not greater than the one before. The record is used nevertheless.
    OutOfOrder,
    /// A blob of the record is missing.
    MissingBlob,
}

impl LoadWarnings {
    pub(crate) fn add(&mut self, line: u64, problem: LoadProblem) {
        self.total += 1;
        if self.list.len() < MAX_WARNINGS {
            self.list.push(LoadWarning { line, problem });
        }
    }
}

/// Decodes the model's history: the replacement of the last compaction and the items after it. Forgets the call records of
/// calls that have an output.
pub(crate) fn decode_history(replay: &mut Replay<'_>) -> DecodedHistory {
    let steps = &replay.steps;
    let compacted = steps.iter().rposition(|step| matches!(step.change, HistoryChange::Replace(_)));
    let from = compacted.unwrap_or(0);
    let last_turn = replay.unfinished.as_ref().map(|_| replay.turns.len().saturating_sub(1));
    let is_unfinished = |step: &HistoryStep<'_>| step.turn.is_some() && step.turn == last_turn;
    let boundary = steps.iter().position(is_unfinished).unwrap_or(steps.len()).max(from);
    let finished = decode_parallel(steps.get(from..boundary).unwrap_or_default(), &mut replay.warnings);
    let unfinished = decode_parallel(steps.get(boundary..).unwrap_or_default(), &mut replay.warnings);
    if let Some(turn) = &mut replay.unfinished {
        turn.drop_completed(&unfinished);
    }
    DecodedHistory {
        finished: complete_tool_calls(finished.into_iter().map(|(_, item)| item).collect()),
        unfinished: unfinished.into_iter().map(|(_, item)| item).collect(),
    }
}

/// Decodes steps on two threads if that pays off. Returns each item with its line.
fn decode_parallel(steps: &[HistoryStep<'_>], warnings: &mut LoadWarnings) -> Vec<(u64, ResponseItem)> {
    let (first, second) = steps.split_at(if steps.len() < WORTH_SPLITTING { 0 } else { steps.len() / 2 });
    let splits =
        !first.is_empty() && thread::available_parallelism().is_ok_and(|cores| cores > NonZero::<usize>::MIN);
    let decoded = if splits {
        thread::scope(|scope| {
            let second = scope.spawn(|| decode_steps(second));
            let mut all = decode_steps(first);
            all.extend(second.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            all
        })
    } else {
        decode_steps(steps)
    };
    let mut items = Vec::with_capacity(decoded.len());
    for (line, result) in decoded {
        match result {
            Some(decoded) => items.extend(decoded.into_iter().map(|item| (line, item))),
            None => warnings.add(line, LoadProblem::Unreadable),
        }
    }
    items
}

/// Returns the line and items of each step; `None` for a step that cannot be decoded.
fn decode_steps(steps: &[HistoryStep<'_>]) -> Vec<(u64, Option<Vec<ResponseItem>>)> {
    let decode = |step: &HistoryStep<'_>| match &step.change {
        HistoryChange::Add(json) => item_decoder::decode_item(json).ok().map(|item| vec![item]),
        HistoryChange::Replace(json) => serde_json::from_str(json).ok(),
    };
    steps.iter().map(|step| (step.line, decode(step))).collect()
}
