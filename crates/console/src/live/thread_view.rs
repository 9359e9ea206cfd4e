//! What is known of a thread, and how the server's messages change it.
//!
//! The view holds the end of the thread: the last turns, and of a long turn the last items. Everything before is read
//! from the server when a person asks for it.

use std::{collections::VecDeque, sync::Arc};

use codicil_client::protocol::{
    AskForApproval, ItemId, ModeKind, ReasoningEffort, SandboxPolicy, ServerNotification, Thread, ThreadItem,
    ThreadResumeResponse, ThreadSettings, ThreadStatus, ThreadTokenUsage, Turn, TurnError, TurnId,
    TurnPlanUpdatedNotification, TurnStatus,
};

use super::item_text::{AppendedText, ItemPart, append_text, text_bytes};

/// Items that a view holds. When there are more, the oldest are forgotten.
const MAX_ITEMS: usize = 240;

/// Items that stay when the oldest are forgotten.
const KEPT_ITEMS: usize = 120;

/// Bytes of text in the items of a view. When there are more, the oldest items are forgotten.
const MAX_BYTES: usize = 8 << 20;

/// The end of a thread, as pages show it.
#[derive(Clone, Debug)]
pub struct ThreadView {
    /// The thread without its turns.
    pub thread: Thread,
    pub settings: TurnSettings,
    pub turns: VecDeque<TurnView>,
    pub older: OlderItems,
    pub usage: Option<ThreadTokenUsage>,
}

/// The items of a thread before the first one of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OlderItems {
    None,
    /// The server returns them from this cursor on.
    At(String),
    /// Their cursor is not known.
    BeforeFirst,
}

/// The settings of a thread's next turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TurnSettings {
    pub cwd: String,
    pub model: String,
    pub effort: Option<ReasoningEffort>,
    pub approval_policy: Option<AskForApproval>,
    pub sandbox: Option<SandboxPolicy>,
    pub mode: Option<ModeKind>,
}

impl From<ThreadSettings> for TurnSettings {
    fn from(settings: ThreadSettings) -> Self {
        Self {
            cwd: settings.cwd,
            model: settings.model,
            effort: settings.effort,
            approval_policy: Some(settings.approval_policy),
            sandbox: Some(settings.sandbox_policy),
            mode: Some(settings.collaboration_mode.mode),
        }
    }
}

impl From<&ThreadResumeResponse> for TurnSettings {
    fn from(opened: &ThreadResumeResponse) -> Self {
        Self {
            cwd: opened.cwd.clone(),
            model: opened.model.clone(),
            effort: opened.reasoning_effort.clone(),
            approval_policy: Some(opened.approval_policy.clone()),
            sandbox: Some(opened.sandbox.clone()),
            mode: opened.collaboration_mode.as_ref().map(|mode| mode.mode.clone()),
        }
    }
}

/// A turn and the end of its items.
#[derive(Clone, Debug)]
pub struct TurnView {
    pub id: TurnId,
    pub status: TurnStatus,
    pub error: Option<TurnError>,
    pub started_at: Option<i64>,
    pub duration_ms: Option<i64>,
    /// Shared with the copies that pages are rendered from.
    pub items: VecDeque<Arc<ThreadItem>>,
    /// The items that have started and not completed.
    pub open_items: Vec<ItemId>,
    pub plan: Option<TurnPlanUpdatedNotification>,
    /// The combined diff of the turn, while it is known.
    pub diff: String,
    /// Retries and warnings of the running turn.
    pub notice: Option<String>,
}

/// The change that a message has made to a view.
#[derive(Clone, Debug, PartialEq)]
pub enum ViewChange {
    /// The page shows nothing of it.
    Nothing,
    /// A turn began or was added.
    TurnAdded(TurnId),
    /// The state of a turn changed, not its items.
    TurnChanged(TurnId),
    /// A turn ended. Items that had not completed are not part of it.
    TurnEnded { turn: TurnId, dropped: Vec<ItemId> },
    /// An item began.
    ItemAdded(TurnId, ItemId),
    /// An item changed as a whole or ended.
    ItemChanged(TurnId, ItemId),
    /// Text was appended to a part of an item.
    Text { turn: TurnId, item: ItemId, part: ItemPart, text: String },
    /// Name, status or usage changed.
    Head,
    /// The settings of the next turn changed.
    Settings,
    /// The messages that wait for the end of the turn changed.
    Queue,
}

/// Whether an item may still change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ItemProgress {
    Open,
    Completed,
}

impl ThreadView {
    /// Creates a view of a thread with its last turns. `open` are items of the running turn that have not completed.
    pub fn new(mut thread: Thread, older: OlderItems, open: Vec<ThreadItem>) -> Self {
        let turns = std::mem::take(&mut thread.turns).into_iter().map(TurnView::from).collect();
        let mut view = Self { thread, settings: TurnSettings::default(), turns, older, usage: None };
        if let Some(turn) = view.turns.back_mut() {
            for item in open {
                turn.put(item, ItemProgress::Open);
            }
        }
        view.forget_oldest();
        view
    }

    /// Returns the turn that runs.
    pub fn running_turn(&self) -> Option<&TurnView> {
        self.turns.back().filter(|turn| turn.status == TurnStatus::InProgress)
    }

    pub fn turn(&self, id: &TurnId) -> Option<&TurnView> {
        self.turns.iter().rev().find(|turn| turn.id == *id)
    }

    /// Returns the name that people see.
    pub fn title(&self) -> &str {
        thread_title(&self.thread)
    }

    /// Applies a message of the server.
    pub fn apply(&mut self, message: ServerNotification) -> ViewChange {
        use ServerNotification as N;
        match message {
            N::TurnStarted(started) => self.start_turn(started.turn),
            N::TurnCompleted(completed) => self.complete_turn(completed.turn),
            N::ItemStarted(started) => self.put_item(started.turn_id, started.item, ItemProgress::Open),
            N::ItemCompleted(completed) => {
                self.put_item(completed.turn_id, completed.item, ItemProgress::Completed)
            }
            N::AgentMessageDelta(delta) => {
                self.append(delta.turn_id, delta.item_id, ItemPart::Body, delta.delta)
            }
            N::PlanDelta(delta) => self.append(delta.turn_id, delta.item_id, ItemPart::Body, delta.delta),
            N::CommandExecutionOutputDelta(delta) => {
                self.append(delta.turn_id, delta.item_id, ItemPart::Body, delta.delta)
            }
            N::ReasoningSummaryTextDelta(delta) => {
                let part = ItemPart::Summary(section(delta.summary_index));
                self.append(delta.turn_id, delta.item_id, part, delta.delta)
            }
            N::ReasoningTextDelta(delta) => {
                let part = ItemPart::Content(section(delta.content_index));
                self.append(delta.turn_id, delta.item_id, part, delta.delta)
            }
            N::TurnPlanUpdated(plan) => {
                let turn = plan.turn_id.clone();
                self.set_plan(plan);
                self.change_turn(turn, |_| {})
            }
            N::TurnDiffUpdated(diff) => self.change_turn(diff.turn_id, |turn| turn.diff = diff.diff),
            N::ErrorReported(error) => {
                let will = if error.will_retry { " The server tries again." } else { "" };
                let notice = format!("{}{will}", error.error.message);
                self.change_turn(error.turn_id, |turn| turn.notice = Some(notice))
            }
            N::ThreadStatusChanged(changed) => self.change_head(|view| view.thread.status = changed.status),
            N::ThreadNameUpdated(updated) => self.change_head(|view| view.thread.name = updated.thread_name),
            N::ThreadTokenUsageUpdated(updated) => {
                self.change_head(|view| view.usage = Some(updated.token_usage))
            }
            N::ThreadQueueChanged(_) => ViewChange::Queue,
            N::ThreadSettingsUpdated(updated) => {
                self.settings = updated.thread_settings.into();
                ViewChange::Settings
            }
            _ => ViewChange::Nothing,
        }
    }

    /// Sets the plan of a turn, if the view has the turn.
    pub fn set_plan(&mut self, plan: TurnPlanUpdatedNotification) {
        if let Some(turn) = self.turn_mut(&plan.turn_id) {
            turn.plan = Some(plan);
        }
    }

    fn start_turn(&mut self, turn: Turn) -> ViewChange {
        let id = turn.id.clone();
        if self.turn(&id).is_none() {
            self.turns.push_back(turn.into());
            self.forget_oldest();
        }
        ViewChange::TurnAdded(id)
    }

    fn complete_turn(&mut self, turn: Turn) -> ViewChange {
        let Some(known) = self.turn_mut(&turn.id) else { return ViewChange::Nothing };
        known.status = turn.status;
        known.error = turn.error;
        known.duration_ms = turn.duration_ms.or(known.duration_ms);
        known.notice = None;
        let dropped = std::mem::take(&mut known.open_items);
        known.items.retain(|item| !item.id().is_some_and(|id| dropped.contains(id)));
        ViewChange::TurnEnded { turn: turn.id, dropped }
    }

    fn put_item(&mut self, turn: TurnId, item: ThreadItem, progress: ItemProgress) -> ViewChange {
        let Some(item_id) = item.id().cloned() else { return ViewChange::Nothing };
        // Output of a command that outlives its turn is reported with the turn's id.
        let Some(known) = self.turn_mut(&turn) else { return ViewChange::Nothing };
        let is_added = known.put(item, progress);
        self.forget_oldest();
        if is_added { ViewChange::ItemAdded(turn, item_id) } else { ViewChange::ItemChanged(turn, item_id) }
    }

    fn append(&mut self, turn: TurnId, item: ItemId, part: ItemPart, text: String) -> ViewChange {
        let known = self.turn_mut(&turn).and_then(|turn| turn.item_mut(&item));
        match known.map(|known| append_text(known, part, &text)) {
            Some(AppendedText::ToExistingPart) => ViewChange::Text { turn, item, part, text },
            Some(AppendedText::ToNewPart) => ViewChange::ItemChanged(turn, item),
            Some(AppendedText::Nowhere) | None => ViewChange::Nothing,
        }
    }

    fn change_turn(&mut self, turn: TurnId, change: impl FnOnce(&mut TurnView)) -> ViewChange {
        match self.turn_mut(&turn) {
            Some(known) => {
                change(known);
                ViewChange::TurnChanged(turn)
            }
            None => ViewChange::Nothing,
        }
    }

    fn change_head(&mut self, change: impl FnOnce(&mut Self)) -> ViewChange {
        change(self);
        ViewChange::Head
    }

    fn turn_mut(&mut self, id: &TurnId) -> Option<&mut TurnView> {
        self.turns.iter_mut().rev().find(|turn| turn.id == *id)
    }

    /// Forgets the oldest items once there are too many or they are too large. Turns whose items are all forgotten are
    /// forgotten too, except the last.
    fn forget_oldest(&mut self) {
        let all = || self.turns.iter().flat_map(|turn| &turn.items);
        let mut items = all().count();
        let mut bytes: usize = all().map(|item| text_bytes(item)).sum();
        if items <= MAX_ITEMS && bytes <= MAX_BYTES {
            return;
        }
        let kept_items = if items > MAX_ITEMS { KEPT_ITEMS } else { items };
        while items > 1 && (items > kept_items || bytes > MAX_BYTES) {
            let is_last = self.turns.len() == 1;
            let Some(oldest) = self.turns.front_mut() else { return };
            match oldest.items.pop_front() {
                Some(item) => {
                    items -= 1;
                    bytes -= text_bytes(&item);
                    self.older = OlderItems::BeforeFirst;
                }
                None if is_last => return,
                None => drop(self.turns.pop_front()),
            }
        }
        while self.turns.len() > 1 && self.turns.front().is_some_and(|turn| turn.items.is_empty()) {
            self.turns.pop_front();
        }
    }

    /// Returns whether the thread waits for an answer.
    pub fn is_waiting(&self) -> bool {
        matches!(&self.thread.status, ThreadStatus::Active { active_flags } if !active_flags.is_empty())
    }
}

impl From<Turn> for TurnView {
    fn from(turn: Turn) -> Self {
        Self {
            id: turn.id,
            status: turn.status,
            error: turn.error,
            started_at: turn.started_at,
            duration_ms: turn.duration_ms,
            items: turn.items.into_iter().map(Arc::new).collect(),
            open_items: Vec::new(),
            plan: None,
            diff: String::new(),
            notice: None,
        }
    }
}

impl TurnView {
    pub fn item(&self, id: &ItemId) -> Option<&ThreadItem> {
        self.items.iter().rev().find(|item| item.id() == Some(id)).map(Arc::as_ref)
    }

    fn item_mut(&mut self, id: &ItemId) -> Option<&mut ThreadItem> {
        self.items.iter_mut().rev().find(|item| item.id() == Some(id)).map(Arc::make_mut)
    }

    pub fn is_open(&self, id: &ItemId) -> bool {
        self.open_items.contains(id)
    }

    /// Adds an item, or replaces what is known of it. Returns whether it was added.
    fn put(&mut self, item: ThreadItem, progress: ItemProgress) -> bool {
        self.open_items.retain(|open| item.id() != Some(open));
        if progress == ItemProgress::Open {
            self.open_items.extend(item.id().cloned());
        }
        match self.items.iter_mut().rev().find(|known| known.id().is_some() && known.id() == item.id()) {
            Some(known) => {
                *known = Arc::new(item);
                false
            }
            None => {
                self.items.push_back(Arc::new(item));
                true
            }
        }
    }
}

/// Returns the name of a thread that people see.
pub fn thread_title(thread: &Thread) -> &str {
    let preview = thread.preview.lines().find(|line| !line.trim().is_empty());
    let name = thread.name.as_deref().filter(|name| !name.is_empty());
    name.or(thread.agent_nickname.as_deref()).or(preview).unwrap_or("New thread").trim()
}

fn section(index: i64) -> usize {
    usize::try_from(index).unwrap_or(0).min(999)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json, value::to_raw_value};

    use super::*;

    fn thread() -> Thread {
        let empty = json!({
            "id": "t", "preview": "", "ephemeral": false, "modelProvider": "p", "createdAt": 0, "updatedAt": 0,
            "status": { "type": "idle" }, "path": null, "cwd": "/", "cliVersion": "0", "source": "appServer",
            "agentNickname": null, "agentRole": null, "gitInfo": null, "name": null, "turns": []
        });
        serde_json::from_value(empty).unwrap()
    }

    fn message(method: &str, params: Value) -> ServerNotification {
        ServerNotification::decode(method, Some(&to_raw_value(&params).unwrap()))
    }

    fn turn(number: usize) -> ServerNotification {
        let turn = json!({ "id": format!("u{number}"), "items": [], "status": "inProgress", "error": null });
        message("turn/started", json!({ "threadId": "t", "turn": turn }))
    }

    fn item(turn: usize, id: &str, text: &str) -> ServerNotification {
        let item =
            json!({ "type": "agentMessage", "id": id, "text": text, "phase": null, "memoryCitation": null });
        message("item/started", json!({ "threadId": "t", "turnId": format!("u{turn}"), "item": item }))
    }

    fn delta(turn: usize, id: &str, text: &str) -> ServerNotification {
        let params = json!({ "threadId": "t", "turnId": format!("u{turn}"), "itemId": id, "delta": text });
        message("item/agentMessage/delta", params)
    }

    fn texts(view: &ThreadView) -> Vec<&str> {
        let items = view.turns.iter().flat_map(|turn| &turn.items);
        let messages = items.filter_map(|item| match &**item {
            ThreadItem::AgentMessage { text, .. } => Some(text.as_str()),
            _ => None,
        });
        messages.collect()
    }

    #[test]
    fn deltas_extend_items_and_a_repeated_start_replaces_them() {
        let mut view = ThreadView::new(thread(), OlderItems::None, Vec::new());
        for message in [turn(1), item(1, "m", ""), delta(1, "m", "Hel"), delta(1, "m", "lo")] {
            assert_ne!(view.apply(message), ViewChange::Nothing);
        }
        assert_eq!(texts(&view), ["Hello"]);
        view.apply(item(1, "m", ""));
        assert_eq!(texts(&view), [""]);
        assert_eq!(view.apply(delta(1, "other", "x")), ViewChange::Nothing);
        assert_eq!(view.apply(delta(2, "m", "x")), ViewChange::Nothing);
    }

    #[test]
    fn the_oldest_items_and_turns_are_forgotten() {
        let mut view = ThreadView::new(thread(), OlderItems::None, Vec::new());
        for number in 0..3 {
            view.apply(turn(number));
            (0..100).for_each(|index| drop(view.apply(item(number, &format!("{number}-{index}"), "x"))));
        }
        let items: usize = view.turns.iter().map(|turn| turn.items.len()).sum();
        assert!(items <= MAX_ITEMS, "{items}");
        assert_eq!(view.older, OlderItems::BeforeFirst);
        let mut long = ThreadView::new(thread(), OlderItems::None, Vec::new());
        long.apply(turn(0));
        (0..1000).for_each(|index| drop(long.apply(item(0, &index.to_string(), "x"))));
        let only = long.turns.front().unwrap();
        assert_eq!(
            only.items.back().and_then(|item| item.id()).map(|id| id.to_string()).as_deref(),
            Some("999")
        );
        assert!(only.items.len() <= MAX_ITEMS && long.older == OlderItems::BeforeFirst);
    }

    #[test]
    fn large_items_are_forgotten_before_there_are_many() {
        let mut view = ThreadView::new(thread(), OlderItems::None, Vec::new());
        view.apply(turn(1));
        let large = "x".repeat(1 << 20);
        (0..20).for_each(|index| drop(view.apply(item(1, &index.to_string(), &large))));
        let bytes: usize = texts(&view).iter().map(|text| text.len()).sum();
        assert!(bytes <= MAX_BYTES && view.older == OlderItems::BeforeFirst, "{bytes}");
        let last = view.turns.back().and_then(|turn| turn.items.back()).and_then(|item| item.id());
        assert_eq!(last.map(|id| &**id), Some("19"));
    }
}
