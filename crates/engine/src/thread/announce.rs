//! Announces stored records to clients.
//!
//! The messages of a record are known when it is stored. They wait here, in the order of the records, until their place in
//! the course of the thread. Clients without a cursor see input as it was sent, when it becomes part of a request, and do not
//! see other input. Clients with a cursor see items in the order of the records.

use std::collections::VecDeque;

use codicil_protocol::{
    Frame, FrameAudience, ItemId, MessageSeq, ThreadItem, Turn, TurnId, TurnStarted, TurnStartedNotification,
};
use codicil_store::Record;
use jiff::Timestamp;

use super::{
    actor::ThreadActor,
    record_messages::{RecordMessageBody, RecordMessages, item_completed, item_started, turn_completed},
};

/// The messages of stored records that have not been sent.
#[derive(Default)]
pub(super) struct UnsentMessages {
    records: RecordMessages,
    messages: VecDeque<UnsentMessage>,
}

struct UnsentMessage {
    seq: MessageSeq,
    at: Timestamp,
    body: UnsentBody,
    /// The clients that have not received it.
    audience: FrameAudience,
}

enum UnsentBody {
    TurnStarted(TurnId),
    Input { turn_id: TurnId, item: ThreadItem },
    Item(ItemId),
    TurnCompleted(Turn),
}

/// Whether clients have seen the start of an item that is now complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemStart {
    Sent,
    Unsent,
}

/// A complete item, on its way to clients.
struct CompleteItem<'a> {
    turn_id: &'a TurnId,
    item: &'a ThreadItem,
    at: Timestamp,
    start: ItemStart,
    seq: Option<MessageSeq>,
}

impl UnsentMessage {
    /// Returns whether clients with a cursor have not received it.
    fn is_unseen(&self) -> bool {
        self.audience != FrameAudience::WithoutCursor
    }
}

impl UnsentMessages {
    /// Adds the messages of a record.
    pub fn add(&mut self, ordinal: u64, at: Timestamp, record: &Record) {
        for message in self.records.next(ordinal, at, record) {
            let body = match message.body {
                RecordMessageBody::TurnStarted(turn) => UnsentBody::TurnStarted(turn.id),
                RecordMessageBody::Item { turn_id, item } => match (&*item, item.id()) {
                    (ThreadItem::UserMessage { .. }, _) => {
                        UnsentBody::Input { turn_id, item: item.into_owned() }
                    }
                    (_, Some(id)) => UnsentBody::Item(id.clone()),
                    (_, None) => continue,
                },
                RecordMessageBody::TurnCompleted(turn) => UnsentBody::TurnCompleted(turn),
                // These are sent where they change.
                RecordMessageBody::Name(_)
                | RecordMessageBody::Usage { .. }
                | RecordMessageBody::Plan(_)
                | RecordMessageBody::Goal(_)
                | RecordMessageBody::Queue
                | RecordMessageBody::ReadState => {
                    continue;
                }
            };
            let audience = FrameAudience::Everyone;
            self.messages.push_back(UnsentMessage { seq: message.seq, at, body, audience });
        }
    }

    fn take(&mut self, is_wanted: impl Fn(&UnsentBody) -> bool) -> Option<UnsentMessage> {
        let at = self.messages.iter().position(|message| is_wanted(&message.body))?;
        self.messages.remove(at)
    }

    /// Continues a turn that an earlier process started.
    pub fn continue_turn(
        &mut self,
        turn: &Turn,
        started: Option<Timestamp>,
        last_message: Option<&ThreadItem>,
    ) {
        let started = started.unwrap_or_else(Timestamp::now);
        self.records.continue_turn(turn, started, last_message.cloned());
    }

    /// Forgets all messages.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops the messages of earlier records. Returns whether there were any.
    fn drop_before(&mut self, seq: MessageSeq) -> bool {
        let waiting = self.messages.len();
        self.messages.retain(|message| message.seq >= seq);
        self.messages.len() < waiting
    }

    /// Returns whether clients with a cursor wait for a message of an earlier record.
    fn has_before(&self, seq: MessageSeq) -> bool {
        self.messages.iter().any(|message| message.seq < seq && message.is_unseen())
    }
}

impl ThreadActor {
    /// Announces the start of a turn. Returns when it started, in Unix seconds.
    pub(super) fn announce_turn_started(&mut self, id: &TurnId) -> i64 {
        let stored =
            self.unsent.take(|body| matches!(body, UnsentBody::TurnStarted(started) if started == id));
        let at = stored.as_ref().map_or_else(Timestamp::now, |message| message.at);
        let turn = Turn { started_at: Some(at.as_second()), ..self.turn_in_progress(id) };
        let params = TurnStartedNotification { thread_id: self.state.id.clone(), turn };
        self.announce(Frame::notification::<TurnStarted>(&params), stored.map(|message| message.seq));
        at.as_second()
    }

    /// Returns a turn that is running, without its items.
    fn turn_in_progress(&self, id: &TurnId) -> Turn {
        let active = self.active.as_ref().filter(|active| active.id == *id);
        let turn = Turn::in_progress(id.clone());
        let root_turn_id = active.and_then(|active| active.origin.root_turn.clone()).or(turn.root_turn_id);
        Turn { root_turn_id, ..turn }
    }

    /// Announces a complete item. If it is stored, its record decides about its position.
    pub(super) fn announce_item(&mut self, turn_id: &TurnId, item: &ThreadItem, start: ItemStart) {
        let stored = self.unsent.take(|body| match body {
            UnsentBody::Item(id) => item.id() == Some(id),
            UnsentBody::Input { item: stored, .. } => item.id() == stored.id(),
            UnsentBody::TurnStarted(_) | UnsentBody::TurnCompleted(_) => false,
        });
        let at = stored.as_ref().map_or_else(Timestamp::now, |message| message.at);
        let seq = stored.as_ref().map(|message| message.seq);
        if let Some(seq) = seq {
            self.announce_input_before(seq);
        }
        let complete = CompleteItem { turn_id, item, at, start, seq };
        if stored.as_ref().is_some_and(|message| !message.is_unseen()) {
            return self.send_item(&complete, FrameAudience::WithoutCursor);
        }
        match stored.map(|message| message.body) {
            // Texts of input are joined when they are stored.
            Some(UnsentBody::Input { item: kept, .. }) if kept != *item => {
                self.send_item(&CompleteItem { seq: None, ..complete }, FrameAudience::WithoutCursor);
                self.send_item(&CompleteItem { item: &kept, ..complete }, FrameAudience::WithCursor);
            }
            _ => self.send_item(&complete, FrameAudience::Everyone),
        }
    }

    /// Completes an item that is not stored. Clients with a cursor forget it at the end of the turn.
    pub(super) fn announce_discarded(&mut self, turn_id: &TurnId, item: &ThreadItem) {
        let complete =
            CompleteItem { turn_id, item, at: Timestamp::now(), start: ItemStart::Sent, seq: None };
        self.send_item(&complete, FrameAudience::WithoutCursor);
    }

    /// Announces input that was stored before an item and waits for the next request, to clients with a cursor. They see items
    /// in the order of the records.
    fn announce_input_before(&mut self, seq: MessageSeq) {
        let mut messages = std::mem::take(&mut self.unsent.messages);
        let is_earlier = |message: &&mut UnsentMessage| {
            message.seq < seq && matches!(message.body, UnsentBody::Input { .. })
        };
        for message in messages.iter_mut().take_while(is_earlier) {
            self.send_input(message);
            message.audience = FrameAudience::WithoutCursor;
        }
        self.unsent.messages = messages;
    }

    /// Announces stored input that was never part of a request, to clients with a cursor.
    pub(super) fn announce_unseen_input(&mut self) {
        while let Some(message) = self.unsent.take(|body| matches!(body, UnsentBody::Input { .. })) {
            self.send_input(&message);
        }
    }

    /// Sends input to clients with a cursor that have not received it.
    fn send_input(&self, message: &UnsentMessage) {
        if let UnsentBody::Input { turn_id, item } = &message.body
            && message.is_unseen()
        {
            let start = ItemStart::Unsent;
            let complete = CompleteItem { turn_id, item, at: message.at, start, seq: Some(message.seq) };
            self.send_item(&complete, FrameAudience::WithCursor);
        }
    }

    /// Announces the end of a turn. A stored end has the times of the records.
    pub(super) fn announce_turn_completed(&mut self, turn: Turn) {
        let is_it =
            |body: &UnsentBody| matches!(body, UnsentBody::TurnCompleted(ended) if ended.id == turn.id);
        // An end that could not be made durable is followed by another one.
        let stored = std::iter::from_fn(|| self.unsent.take(is_it)).last();
        let seq = stored.as_ref().map(|message| message.seq);
        let turn = match stored.map(|message| message.body) {
            Some(UnsentBody::TurnCompleted(stored)) => stored,
            _ => turn,
        };
        self.announce(turn_completed(&self.state.id, turn), seq);
    }

    /// Drops the messages of records before a position that were stored late. Clients with a cursor have not received them, and
    /// read them from the records.
    pub(super) fn skip_late_messages(&mut self, before: MessageSeq) {
        if self.unsent.drop_before(before) {
            self.notifier.skip_records(before.ordinal().saturating_sub(1));
        }
    }

    fn send_item(&self, complete: &CompleteItem<'_>, audience: FrameAudience) {
        let CompleteItem { turn_id, item, at, start, seq } = complete;
        if *start == ItemStart::Unsent {
            self.announce(item_started(&self.state.id, turn_id, item, *at).only_for(audience), *seq);
        }
        let completed = item_completed(&self.state.id, turn_id, item, *at).only_for(audience);
        self.announce(completed, seq.map(|seq| seq.plus(1)));
    }

    /// Sends a message, at the position of its record unless a message of an earlier record waits. Clients with a cursor get
    /// the message of a record that could not be stored when it has been.
    fn announce(&self, frame: Frame, seq: Option<MessageSeq>) {
        match seq {
            Some(seq) if !self.unsent.has_before(seq) => self.notifier.send_at(frame, seq),
            None if !self.late_records.is_empty() => {
                self.notifier.send(frame.only_for(FrameAudience::WithoutCursor));
            }
            _ => self.notifier.send(frame),
        }
    }
}
