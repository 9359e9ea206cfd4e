//! Maps the notifications of a turn to messages.
//!
//! Two formats are supported: that of the protocol, in which items have a type (`item/started` with an `mcpToolCall`),
//! and an older one, in which the method names it (`item/mcpToolCall/started`) and ids may be missing. If a server
//! sends both, each item is reported once.

use std::collections::HashMap;

use codicil_client::protocol::{ItemId, ServerNotification, Thread, ThreadItem, TurnId};

use super::{
    message::{EditState, ItemStage, StreamMessage},
    tool_items::{self, RunningTool, ToolOutcome},
};

/// Items of one turn that are kept; beyond that, completed items are removed.
const MAX_ITEMS: usize = 10_000;

/// The items of a running turn.
#[derive(Debug, Default)]
pub(super) struct MessageMapper {
    items: HashMap<ItemId, MappedItem>,
    /// The agent message whose deltas have arrived.
    streamed: Option<ItemId>,
    /// What is shown of reasoning items.
    reasoning: HashMap<ItemId, ReasoningSource>,
    /// The number of ids made up for items without one.
    unnamed: u64,
    /// Whether items are reported as [`StreamMessage::Item`].
    reports_items: bool,
    /// The number of telemetry notifications.
    pub telemetry: u64,
}

#[derive(Debug)]
struct MappedItem {
    kind: String,
    is_tool: bool,
    is_open: bool,
    /// The diff of edits that are proposed.
    proposed: Option<String>,
}

/// The part of a reasoning item that is shown: its text, or its summary if the server sends no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReasoningSource {
    Text,
    Summary,
}

/// Whether an item is a tool call, which needs a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemKind {
    Tool,
    Other,
}

impl MessageMapper {
    pub fn new(reports_items: bool) -> Self {
        Self { reports_items, ..Self::default() }
    }

    /// Appends the messages of a notification. The end of the turn is not reported here: a turn may end without one.
    pub fn map(&mut self, event: &ServerNotification, out: &mut Vec<StreamMessage>) {
        use ServerNotification as N;
        match event {
            N::AgentMessageDelta(delta) => {
                self.streamed = Some(delta.item_id.clone());
                out.push(StreamMessage::Text { text: delta.delta.clone() });
            }
            N::ReasoningTextDelta(delta) => {
                self.think(&delta.item_id, ReasoningSource::Text, &delta.delta, out);
            }
            N::ReasoningSummaryTextDelta(delta) => {
                self.think(&delta.item_id, ReasoningSource::Summary, &delta.delta, out);
            }
            N::ReasoningSummaryPartAdded(part) if part.summary_index > 0 => {
                self.think(&part.item_id, ReasoningSource::Summary, "\n\n", out);
            }
            N::ItemStarted(started) => self.started(&started.item, out),
            N::ItemCompleted(completed) => self.completed(&completed.item, out),
            N::TurnDiffUpdated(update) => {
                let state = EditState::Applied;
                out.push(StreamMessage::Diff { item_id: None, diff: update.diff.clone(), state });
            }
            N::ErrorReported(report) => out.push(StreamMessage::Error {
                message: report.error.message.clone(),
                code: "error".to_owned(),
                is_final: false,
            }),
            N::Unknown(unknown) => self.map_legacy(unknown, out),
            // The other notifications repeat information or are not meant for users.
            _ => {}
        }
    }

    /// Appends the messages of items that have completed while their notifications could not be received.
    pub fn catch_up(&mut self, thread: &Thread, turn: &TurnId, out: &mut Vec<StreamMessage>) {
        let turn = thread.turns.iter().find(|stored| stored.id == *turn);
        for item in turn.into_iter().flat_map(|turn| &turn.items) {
            let is_shown = item.id().and_then(|id| self.items.get(id)).is_some_and(|known| !known.is_open);
            if !is_shown {
                self.completed(item, out);
            }
        }
    }

    /// Ends the tool calls and edits that were still open when the turn ended.
    pub fn finish(&mut self, out: &mut Vec<StreamMessage>) {
        let open = |(id, item): (&ItemId, &MappedItem)| (item.is_open && item.is_tool).then(|| id.clone());
        let mut unfinished: Vec<_> = self.items.iter().filter_map(open).collect();
        unfinished.sort();
        for id in unfinished {
            let output = "the turn ended before it did".to_owned();
            self.close_tool(&id, ToolOutcome { output, is_error: true }, out);
        }
        let proposed =
            self.items.iter_mut().filter_map(|(id, item)| Some((id.clone(), item.proposed.take()?)));
        let mut proposed: Vec<_> = proposed.collect();
        proposed.sort();
        for (id, diff) in proposed {
            out.push(StreamMessage::Diff { item_id: Some(id), diff, state: EditState::Failed });
        }
    }

    /// Reports a piece of reasoning. What arrives first of an item, its text or its summary, is shown; the other repeats
    /// it.
    fn think(&mut self, id: &ItemId, source: ReasoningSource, text: &str, out: &mut Vec<StreamMessage>) {
        if self.reasoning.len() >= MAX_ITEMS {
            self.reasoning.clear();
        }
        if *self.reasoning.entry(id.clone()).or_insert(source) == source {
            out.push(StreamMessage::Thinking { text: text.to_owned() });
        }
    }

    fn started(&mut self, item: &ThreadItem, out: &mut Vec<StreamMessage>) {
        let Some(id) = item.id() else { return };
        match tool_items::tool_of(item) {
            Some(tool) => self.open_tool(id, tool, out),
            None => self.open(id, type_name(item).to_owned(), ItemKind::Other, out),
        }
        if let ThreadItem::FileChange { changes, .. } = item {
            let diff = tool_items::diff(changes);
            if let Some(item) = self.items.get_mut(id).filter(|_| !diff.is_empty()) {
                item.proposed = Some(diff.clone());
                out.push(StreamMessage::Diff { item_id: Some(id.clone()), diff, state: EditState::Proposed });
            }
        }
    }

    fn completed(&mut self, item: &ThreadItem, out: &mut Vec<StreamMessage>) {
        let Some(id) = item.id() else { return };
        match item {
            ThreadItem::AgentMessage { text, .. } => {
                self.whole_message(Some(id), text, out);
                self.close(id, type_name(item), out);
            }
            ThreadItem::FileChange { changes, status, .. } => {
                self.close(id, type_name(item), out);
                if let Some(item) = self.items.get_mut(id) {
                    item.proposed = None;
                }
                let diff = tool_items::diff(changes);
                if !diff.is_empty() {
                    out.push(StreamMessage::Diff { item_id: Some(id.clone()), diff, state: status.into() });
                }
            }
            _ => match (tool_items::tool_of(item), tool_items::outcome(item)) {
                (Some(tool), Some(outcome)) => {
                    self.open_tool(id, tool, out);
                    self.close_tool(id, outcome, out);
                }
                _ => self.close(id, type_name(item), out),
            },
        }
    }

    /// Reports a message as a whole, unless its deltas were reported.
    pub(super) fn whole_message(&mut self, id: Option<&ItemId>, text: &str, out: &mut Vec<StreamMessage>) {
        let streamed = self.streamed.take();
        let is_streamed = match (&streamed, id) {
            (Some(streamed), Some(id)) => streamed == id,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if !is_streamed && !text.is_empty() {
            out.push(StreamMessage::Text { text: text.to_owned() });
        }
    }

    pub(super) fn open_tool(&mut self, id: &ItemId, tool: RunningTool, out: &mut Vec<StreamMessage>) {
        if self.items.get(id).is_some_and(|item| item.is_tool) {
            return;
        }
        self.open(id, tool.kind.clone(), ItemKind::Tool, out);
        out.push(StreamMessage::ToolUse {
            id: id.clone(),
            name: tool.name,
            server: tool.server,
            input: tool.input,
        });
    }

    pub(super) fn close_tool(&mut self, id: &ItemId, outcome: ToolOutcome, out: &mut Vec<StreamMessage>) {
        let Some(item) = self.items.get(id).filter(|item| item.is_open) else { return };
        let kind = item.kind.clone();
        let ToolOutcome { output, is_error } = outcome;
        out.push(StreamMessage::ToolResult { id: id.clone(), output, is_error });
        self.close(id, &kind, out);
    }

    pub(super) fn open(
        &mut self,
        id: &ItemId,
        kind: String,
        item_kind: ItemKind,
        out: &mut Vec<StreamMessage>,
    ) {
        let is_tool = item_kind == ItemKind::Tool;
        if self.items.len() >= MAX_ITEMS {
            self.items.retain(|_, item| item.is_open);
        }
        if self.items.len() >= MAX_ITEMS {
            return;
        }
        let is_new = match self.items.get_mut(id) {
            // The older format reports the type first, and the tool call later.
            Some(item) => {
                item.is_tool |= is_tool;
                false
            }
            None => {
                self.items.insert(
                    id.clone(),
                    MappedItem { kind: kind.clone(), is_tool, is_open: true, proposed: None },
                );
                true
            }
        };
        if is_new && self.reports_items {
            out.push(StreamMessage::Item { id: id.clone(), kind, stage: ItemStage::Started });
        }
    }

    pub(super) fn close(&mut self, id: &ItemId, kind: &str, out: &mut Vec<StreamMessage>) {
        let was_open = match self.items.get_mut(id) {
            Some(item) => std::mem::replace(&mut item.is_open, false),
            None => {
                self.open(id, kind.to_owned(), ItemKind::Other, out);
                self.items.get_mut(id).is_some_and(|item| std::mem::replace(&mut item.is_open, false))
            }
        };
        if was_open && self.reports_items {
            let kind = self.items.get(id).map_or(kind, |item| &item.kind).to_owned();
            out.push(StreamMessage::Item { id: id.clone(), kind, stage: ItemStage::Completed });
        }
    }

    /// Returns the open tool call of this kind that started last, for servers that do not name items.
    pub(super) fn last_open(&self, kind: &str) -> Option<ItemId> {
        let is_open = |item: &MappedItem| item.is_open && item.is_tool && item.kind == kind;
        let open = self.items.iter().filter(|(_, item)| is_open(item));
        open.map(|(id, _)| id).max().cloned()
    }

    pub(super) fn next_id(&mut self) -> ItemId {
        self.unnamed += 1;
        // Padded, so that ids sort in order of creation.
        format!("unnamed-{:06}", self.unnamed).into()
    }
}

/// Returns the item's type in the protocol.
fn type_name(item: &ThreadItem) -> &'static str {
    match item {
        ThreadItem::UserMessage { .. } => "userMessage",
        ThreadItem::FunctionCallOutput { .. } => "functionCallOutput",
        ThreadItem::HookPrompt { .. } => "hookPrompt",
        ThreadItem::AgentMessage { .. } => "agentMessage",
        ThreadItem::Plan { .. } => "plan",
        ThreadItem::Reasoning { .. } => "reasoning",
        ThreadItem::CommandExecution { .. } => "commandExecution",
        ThreadItem::FileChange { .. } => "fileChange",
        ThreadItem::McpToolCall { .. } => "mcpToolCall",
        ThreadItem::DynamicToolCall { .. } => "dynamicToolCall",
        ThreadItem::CollabAgentToolCall { .. } => "collabAgentToolCall",
        ThreadItem::SubAgentActivity { .. } => "subAgentActivity",
        ThreadItem::Sleep { .. } => "sleep",
        ThreadItem::WebSearch { .. } => "webSearch",
        ThreadItem::ImageView { .. } => "imageView",
        ThreadItem::ImageGeneration { .. } => "imageGeneration",
        ThreadItem::EnteredReviewMode { .. } => "enteredReviewMode",
        ThreadItem::ExitedReviewMode { .. } => "exitedReviewMode",
        ThreadItem::ContextCompaction { .. } => "contextCompaction",
        ThreadItem::Unrecognized(_) => "",
    }
}
