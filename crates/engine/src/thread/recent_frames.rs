//! The recent messages of a running turn, for clients that subscribe again.
//!
//! The last messages are kept as they were sent. Of earlier ones, only what has no record remains: the items that are
//! still open, each with its text so far, and the last state messages. An idle thread keeps nothing.

use std::collections::VecDeque;

use codicil_protocol::{
    Frame, ItemCompleted, ItemStarted, MessagePlace, MessageSeq, NotificationMethod, ServerNotification,
    ThreadGoalUpdated, ThreadItem, ThreadQueueChanged, ThreadReadStateChanged, ThreadSettingsUpdated,
    ThreadStatusChanged, ThreadTokenUsageUpdated, TurnDiffUpdated, TurnPlanUpdated, rpc::Message,
};
use serde::Deserialize;

/// The messages that are kept as they were sent.
pub const MAX_RECENT_MESSAGES: usize = 512;
const MAX_RECENT_BYTES: usize = 256 << 10;

/// The longest text that is kept of one open item, and the most messages that cannot be joined. The first ones are
/// dropped.
const MAX_OPEN_TEXT: usize = 1 << 20;
const MAX_OPEN_PARTS: usize = 2048;

/// The messages of which only the last one counts.
const STATES: &[&str] = &[
    ThreadStatusChanged::NAME,
    ThreadSettingsUpdated::NAME,
    ThreadTokenUsageUpdated::NAME,
    ThreadGoalUpdated::NAME,
    ThreadQueueChanged::NAME,
    ThreadReadStateChanged::NAME,
    TurnDiffUpdated::NAME,
    TurnPlanUpdated::NAME,
];

/// Returns whether only the last message of this method counts.
pub(super) fn is_state(method: &str) -> bool {
    STATES.contains(&method)
}

/// How much of the recent messages is kept as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecentCapacity {
    /// Nothing: no client can ask for it.
    None,
    Full,
}

/// The recent messages of a thread.
#[derive(Debug, Default)]
pub(crate) struct RecentFrames {
    /// Whether a turn or a background command is running.
    is_open: bool,
    frames: VecDeque<Frame>,
    bytes: usize,
    /// All messages after this one are in `frames`.
    floor: MessageSeq,
    /// The open items of earlier messages.
    items: Vec<OpenItem>,
    /// The last state messages among the earlier ones.
    states: Vec<Frame>,
}

/// An item that has started and not completed.
#[derive(Debug)]
struct OpenItem {
    id: String,
    started: Frame,
    parts: VecDeque<ItemPart>,
    /// The position up to which messages of the item were dropped.
    dropped: Option<MessageSeq>,
}

#[derive(Debug)]
enum ItemPart {
    Text(JoinedText),
    Other(Frame),
}

/// Consecutive deltas of one text.
#[derive(Debug)]
struct JoinedText {
    /// The last delta. The others have the same bytes before the text.
    last: Frame,
    text: Vec<u8>,
    /// The position of each delta and the end of its text.
    ends: Vec<(MessageSeq, usize)>,
    /// The position up to which the text was dropped.
    dropped: Option<MessageSeq>,
}

impl RecentFrames {
    /// Starts keeping messages after this position.
    pub fn open(&mut self, after: MessageSeq) {
        if !self.is_open {
            *self = Self { is_open: true, floor: after, ..Self::default() };
        }
    }

    /// Goes on after a position that no message has. What has no record is kept.
    pub fn skip_to(&mut self, after: MessageSeq) {
        self.fold_until(0, 0, RecentCapacity::Full);
        self.floor = after;
    }

    /// Forgets all messages.
    pub fn close(&mut self) {
        *self = Self::default();
    }

    pub fn is_open(&self) -> bool {
        self.is_open
    }

    pub fn push(&mut self, frame: &Frame, capacity: RecentCapacity) {
        if !self.is_open {
            return;
        }
        match capacity {
            RecentCapacity::None => {
                self.fold_until(0, 0, capacity);
                self.fold(frame, capacity);
            }
            RecentCapacity::Full => {
                self.bytes += frame.bytes().len();
                self.frames.push_back(frame.clone());
                self.fold_until(MAX_RECENT_MESSAGES, MAX_RECENT_BYTES, capacity);
            }
        }
    }

    /// Keeps at most so many messages as they were sent, and what is needed of earlier ones.
    fn fold_until(&mut self, messages: usize, bytes: usize, capacity: RecentCapacity) {
        while (self.frames.len() > messages || self.bytes > bytes)
            && let Some(oldest) = self.frames.pop_front()
        {
            self.bytes -= oldest.bytes().len();
            self.fold(&oldest, capacity);
        }
    }

    /// Returns the position after which all messages are still there as they were sent.
    pub fn floor(&self) -> MessageSeq {
        self.floor
    }

    /// Returns the messages after a position that have no record, and all after the floor, in order. `None` if text that
    /// belongs to them was dropped.
    pub fn after(&self, after: MessageSeq) -> Option<Vec<Frame>> {
        let mut found = Vec::new();
        for item in self.items.iter().filter(|_| after < self.floor) {
            if item.is_dropped(after) {
                return None;
            }
            found.extend(Some(&item.started).filter(|started| is_after(started, after)).cloned());
            for part in &item.parts {
                match part {
                    ItemPart::Other(frame) if is_after(frame, after) => found.push(frame.clone()),
                    ItemPart::Other(_) => {}
                    ItemPart::Text(text) => found.extend(text.after(after)),
                }
            }
        }
        found.extend(self.states.iter().chain(&self.frames).filter(|frame| is_after(frame, after)).cloned());
        found.sort_by_key(seq_of);
        Some(found)
    }

    /// Returns an open item with the text that clients have received so far.
    pub fn progress(&self, mut item: ThreadItem) -> ThreadItem {
        let Some(id) = item.id().map(|id| id.to_string()) else { return item };
        let earlier = self.items.iter().filter(|open| open.id == id).flat_map(|open| &open.parts);
        let whole = earlier.filter_map(|part| match part {
            ItemPart::Text(text) => text.last.with_delta_text(&text.text),
            ItemPart::Other(frame) => Some(frame.clone()),
        });
        let recent = self.frames.iter().filter(|frame| item_id(frame) == Some(&id)).cloned();
        for frame in whole.chain(recent).collect::<Vec<_>>() {
            apply(&mut item, &frame);
        }
        item
    }

    /// Keeps what is needed of a message that is no longer recent.
    fn fold(&mut self, frame: &Frame, capacity: RecentCapacity) {
        self.floor = seq_of(frame);
        // Most messages are deltas of the newest item.
        if let Some(text) = self.items.last_mut().and_then(|item| item.continued_text(frame)) {
            return text.add(frame, capacity);
        }
        match frame.method() {
            Some(ItemStarted::NAME) => {
                if let Some(id) = id_of_item(frame) {
                    let started = frame.clone();
                    self.items.push(OpenItem { id, started, parts: VecDeque::new(), dropped: None });
                }
            }
            Some(ItemCompleted::NAME) => {
                let id = id_of_item(frame);
                self.items.retain(|item| Some(&item.id) != id.as_ref());
            }
            Some(method) if is_state(method) => {
                self.states.retain(|state| state.method() != Some(method));
                self.states.push(frame.clone());
            }
            _ => {
                let id = item_id(frame);
                if let Some(item) = self.items.iter_mut().find(|item| Some(item.id.as_str()) == id) {
                    item.add(frame, capacity);
                }
            }
        }
    }
}

impl OpenItem {
    /// Returns whether messages after this position were dropped.
    fn is_dropped(&self, after: MessageSeq) -> bool {
        let texts = self.parts.iter().filter_map(|part| match part {
            ItemPart::Text(text) => text.dropped,
            ItemPart::Other(_) => None,
        });
        texts.chain(self.dropped).any(|dropped| after < dropped)
    }

    /// Returns the last text, if the message continues it.
    fn continued_text(&mut self, frame: &Frame) -> Option<&mut JoinedText> {
        match self.parts.back_mut()? {
            ItemPart::Text(text) => frame.continuation(text.last.bytes()).map(|_| text),
            ItemPart::Other(_) => None,
        }
    }

    fn add(&mut self, frame: &Frame, capacity: RecentCapacity) {
        if let Some(text) = self.continued_text(frame) {
            return text.add(frame, capacity);
        }
        if self.parts.len() >= MAX_OPEN_PARTS {
            self.dropped = self.parts.pop_front().map(|part| seq_of(part.last()));
        }
        let part = if frame.delta_parts().is_some() {
            let mut text =
                JoinedText { last: frame.clone(), text: Vec::new(), ends: Vec::new(), dropped: None };
            text.add(frame, capacity);
            ItemPart::Text(text)
        } else {
            ItemPart::Other(frame.clone())
        };
        self.parts.push_back(part);
    }
}

impl ItemPart {
    fn last(&self) -> &Frame {
        match self {
            Self::Text(text) => &text.last,
            Self::Other(frame) => frame,
        }
    }
}

impl JoinedText {
    fn add(&mut self, frame: &Frame, capacity: RecentCapacity) {
        let known = self.text.len();
        if let Some((_, text)) = frame.delta_parts() {
            self.text.extend_from_slice(text);
        }
        if capacity == RecentCapacity::None {
            self.ends.clear();
        }
        // Empty deltas would grow the list without end.
        if self.text.len() > known || self.ends.is_empty() {
            self.ends.push((seq_of(frame), self.text.len()));
        }
        self.last = frame.clone();
        if self.text.len() > MAX_OPEN_TEXT {
            self.drop_half();
        }
    }

    fn drop_half(&mut self) {
        let kept_from = self.ends.partition_point(|(_, end)| *end < self.text.len() / 2);
        let Some((seq, end)) = self.ends.get(kept_from).copied() else { return };
        self.text.drain(..end);
        self.ends.drain(..=kept_from);
        self.ends.iter_mut().for_each(|(_, later)| *later -= end);
        self.dropped = Some(seq);
    }

    /// Returns the text after a position as one delta, if there is any.
    fn after(&self, after: MessageSeq) -> Option<Frame> {
        let known = self.ends.partition_point(|(seq, _)| *seq <= after);
        if known == self.ends.len() {
            return None;
        }
        let start = known.checked_sub(1).and_then(|last| self.ends.get(last)).map_or(0, |(_, end)| *end);
        self.last.with_delta_text(self.text.get(start..).unwrap_or_default())
    }
}

fn seq_of(frame: &Frame) -> MessageSeq {
    frame.place().map(|place: &MessagePlace| place.seq).unwrap_or_default()
}

fn is_after(frame: &Frame, after: MessageSeq) -> bool {
    seq_of(frame) > after
}

/// Returns the item that a notification about an item refers to. The id is one of its first members.
fn item_id(frame: &Frame) -> Option<&str> {
    const MEMBER: &[u8] = br#""itemId":""#;
    let start = memchr::memmem::find(frame.bytes(), MEMBER)? + MEMBER.len();
    let rest = frame.bytes().get(start..)?;
    let end = memchr::memchr(b'"', rest)?;
    std::str::from_utf8(rest.get(..end)?).ok()
}

#[derive(Deserialize)]
struct ItemMessage {
    params: ItemParams,
}

#[derive(Deserialize)]
struct ItemParams {
    item: IdentifiedItem,
}

#[derive(Deserialize)]
struct IdentifiedItem {
    id: String,
}

/// Returns the id of the item in `item/started` and `item/completed`.
fn id_of_item(frame: &Frame) -> Option<String> {
    serde_json::from_slice::<ItemMessage>(frame.bytes()).ok().map(|message| message.params.item.id)
}

/// Adds a delta to its item.
fn apply(item: &mut ThreadItem, frame: &Frame) {
    let Ok(Ok(Message::Notification { method, params })) =
        std::str::from_utf8(frame.bytes()).map(Message::parse)
    else {
        return;
    };
    match (item, ServerNotification::decode(&method, params)) {
        (ThreadItem::AgentMessage { text, .. }, ServerNotification::AgentMessageDelta(delta)) => {
            text.push_str(&delta.delta);
        }
        (ThreadItem::Plan { text, .. }, ServerNotification::PlanDelta(delta)) => text.push_str(&delta.delta),
        (
            ThreadItem::CommandExecution { aggregated_output, .. },
            ServerNotification::CommandExecutionOutputDelta(delta),
        ) => aggregated_output.get_or_insert_default().push_str(&delta.delta),
        (ThreadItem::Reasoning { summary, .. }, ServerNotification::ReasoningSummaryTextDelta(delta)) => {
            push_at(summary, delta.summary_index, &delta.delta);
        }
        (ThreadItem::Reasoning { content, .. }, ServerNotification::ReasoningTextDelta(delta)) => {
            push_at(content, delta.content_index, &delta.delta);
        }
        _ => {}
    }
}

/// Appends to a section, which is created if it is the next one.
fn push_at(sections: &mut Vec<String>, index: i64, text: &str) {
    let Ok(index) = usize::try_from(index) else { return };
    if index == sections.len() {
        sections.push(String::new());
    }
    if let Some(section) = sections.get_mut(index) {
        section.push_str(text);
    }
}
