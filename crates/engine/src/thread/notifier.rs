//! The notifications of one thread to its clients, each with its position among the messages of the thread.
//!
//! A position is assigned and the message is queued for its clients under one lock, so clients receive positions in order,
//! whether the thread itself or a request sends the message.

use std::sync::Arc;

use codicil_protocol::{
    ErrorNotification, ErrorReported, Frame, FrameAudience, MessagePlace, MessageSeq, NotificationMethod,
    ProtocolGeneration, RawResponseItemCompleted, RawResponseItemCompletedNotification, ResponseItem,
    ServerRequestResolved, ServerRequestResolvedNotification, SnapshotReason, ThreadId, ThreadItem,
    ThreadNameUpdated, ThreadTokenUsage, ThreadTokenUsageUpdated, ThreadTokenUsageUpdatedNotification,
    TurnError, TurnId, WarningNotification, WarningReported, rpc::RequestId,
};
use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    open_questions::QuestionKind,
    recent_frames::{RecentCapacity, RecentFrames},
    record_messages,
};
use crate::thread_clients::{OpenQuestion, ThreadClients};

/// Whether a failed model request is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retry {
    Planned,
    No,
}

/// The clients that a notification of a thread is sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotifyReach {
    Subscribers,
    AllClients,
}

/// Sends the notifications of one thread.
pub(crate) struct ThreadNotifier {
    clients: Arc<dyn ThreadClients>,
    thread_id: ThreadId,
    /// Whether subscribers also get the raw items of the model's history.
    has_raw_events: bool,
    sequence: Mutex<MessageSequence>,
}

/// The positions of a thread's messages.
struct MessageSequence {
    /// The position of the last message.
    last: MessageSeq,
    recent: RecentFrames,
    /// Messages that wait for the end of a pause; `None` without a pause.
    waiting: Option<Vec<(Frame, Option<MessageSeq>, NotifyReach)>>,
    /// Messages before this position were withdrawn.
    valid_from: MessageSeq,
    /// The position of a name whose message has not been sent.
    named: Option<MessageSeq>,
    /// Whether another process has taken over the thread, so that subscribers receive nothing more.
    is_silent: bool,
}

impl ThreadNotifier {
    /// Creates the notifier of a thread whose last record has this ordinal.
    pub fn new(
        clients: Arc<dyn ThreadClients>,
        thread_id: ThreadId,
        last_ordinal: u64,
        has_raw_events: bool,
    ) -> Self {
        let sequence = MessageSequence {
            last: MessageSeq::end_of(last_ordinal),
            recent: RecentFrames::default(),
            waiting: None,
            valid_from: MessageSeq::default(),
            named: None,
            is_silent: false,
        };
        Self { clients, thread_id, has_raw_events, sequence: Mutex::new(sequence) }
    }

    pub fn notify<N: NotificationMethod>(&self, params: &N::Params) {
        self.send(Frame::notification::<N>(params));
    }

    /// Sends a message without a record to the subscribers.
    pub fn send(&self, frame: Frame) {
        self.deliver(frame, None, NotifyReach::Subscribers);
    }

    /// Sends a message of a record to the subscribers. If its position has passed, it gets the next one.
    pub fn send_at(&self, frame: Frame, seq: MessageSeq) {
        self.deliver(frame, Some(seq), NotifyReach::Subscribers);
    }

    /// Sends a message without a record, or about the name, to all clients.
    pub fn broadcast<N: NotificationMethod>(&self, params: &N::Params) {
        let named = if N::NAME == ThreadNameUpdated::NAME { self.sequence.lock().named.take() } else { None };
        self.deliver(Frame::notification::<N>(params), named, NotifyReach::AllClients);
    }

    /// Keeps the position of a stored name for the message about it.
    pub fn note_name(&self, seq: MessageSeq) {
        self.sequence.lock().named = Some(seq);
    }

    /// Sends a server request to the subscribers.
    pub fn ask(&self, encode: &dyn Fn(&RequestId) -> Frame) -> OpenQuestion {
        let mut sequence = self.sequence.lock();
        // A request without a position of its own is part of the next subscription.
        let seq = sequence.advance(None).unwrap_or(sequence.last);
        let place = MessagePlace::new(self.thread_id.clone(), seq);
        self.clients.ask(&self.thread_id, &|id| encode(id).at(place.clone()))
    }

    /// Returns the position of the last message.
    pub fn position(&self) -> MessageSeq {
        self.sequence.lock().last
    }

    /// Returns the position of the last message. No message is sent while `work` runs.
    pub fn position_while(&self, work: impl FnOnce()) -> MessageSeq {
        let sequence = self.sequence.lock();
        work();
        sequence.last
    }

    /// Asks clients with a cursor to subscribe again, because records were changed otherwise than by messages.
    pub fn fall_behind(&self) {
        let sequence = self.sequence.lock();
        self.clients.fall_behind(&self.thread_id, sequence.last);
    }

    /// Moves the position behind a record, and has clients with a cursor read the records up to it.
    pub fn skip_records(&self, ordinal: u64) {
        let mut sequence = self.sequence.lock();
        self.clients.fall_behind(&self.thread_id, sequence.last);
        sequence.last = sequence.last.max(MessageSeq::end_of(ordinal));
        if sequence.recent.is_open() {
            let last = sequence.last;
            sequence.recent.skip_to(last);
        }
    }

    /// Moves the position behind a record that withdraws what clients have seen. Clients with a cursor before it need a
    /// snapshot.
    pub fn invalidate(&self, ordinal: u64) {
        let mut sequence = self.sequence.lock();
        self.clients.fall_behind(&self.thread_id, sequence.last);
        sequence.last = sequence.last.max(MessageSeq::end_of(ordinal));
        sequence.valid_from = sequence.last;
    }

    /// Returns whether so many messages have followed the last record that a new record should continue the positions.
    pub fn is_crowded(&self) -> bool {
        self.sequence.lock().last.is_crowded()
    }

    /// Returns why the messages after a position do not add up to the thread, if so.
    pub fn snapshot_reason(&self, after: MessageSeq) -> Option<SnapshotReason> {
        let sequence = self.sequence.lock();
        if sequence.last.next_volatile().is_none() {
            Some(SnapshotReason::TooFar)
        } else {
            (after < sequence.valid_from).then_some(SnapshotReason::RolledBack)
        }
    }

    /// Gives a message about the present state the next position, for one client that may have missed the last change. `None`
    /// if there is no position left.
    pub fn place_state(&self, frame: Frame) -> Option<Frame> {
        let seq = self.sequence.lock().advance(None)?;
        Some(frame.at(MessagePlace::new(self.thread_id.clone(), seq)))
    }

    /// Moves the position behind a record without messages.
    pub fn advance(&self, ordinal: u64) {
        let mut sequence = self.sequence.lock();
        sequence.last = sequence.last.max(MessageSeq::end_of(ordinal));
    }

    /// Moves the position forward to one that a client has seen, if it belongs to the same record.
    pub fn raise_within_record(&self, seen: MessageSeq) {
        let mut sequence = self.sequence.lock();
        if seen.ordinal() == sequence.last.ordinal() {
            sequence.last = sequence.last.max(seen);
        }
    }

    /// Keeps recent messages from now on, because a turn begins.
    pub fn keep_recent(&self) {
        let mut sequence = self.sequence.lock();
        let last = sequence.last;
        sequence.recent.open(last);
    }

    /// Forgets the recent messages, because nothing is running any more.
    pub fn forget_recent(&self) {
        self.sequence.lock().recent.close();
    }

    /// Returns a view of the recent messages.
    pub fn recent<T>(&self, view: impl FnOnce(&RecentFrames) -> T) -> T {
        view(&self.sequence.lock().recent)
    }

    /// Holds back messages of requests until [`resume`](Self::resume), while a client subscribes. The thread itself sends
    /// nothing meanwhile.
    pub fn pause(&self) {
        self.sequence.lock().waiting.get_or_insert_default();
    }

    pub fn resume(&self) {
        let waiting = self.sequence.lock().waiting.take();
        for (frame, seq, reach) in waiting.into_iter().flatten() {
            self.deliver(frame, seq, reach);
        }
    }

    /// Sends nothing more to subscribers, because another process has taken over the thread.
    pub fn silence(&self) {
        self.sequence.lock().is_silent = true;
    }

    fn deliver(&self, frame: Frame, seq: Option<MessageSeq>, reach: NotifyReach) {
        let mut sequence = self.sequence.lock();
        if sequence.is_silent && reach == NotifyReach::Subscribers {
            return;
        }
        if let Some(waiting) = &mut sequence.waiting {
            waiting.push((frame, seq, reach));
            return;
        }
        let frame = match frame.audience() {
            FrameAudience::WithoutCursor => frame,
            FrameAudience::Everyone | FrameAudience::WithCursor => self.place(&mut sequence, frame, seq),
        };
        match reach {
            NotifyReach::Subscribers => self.clients.notify_subscribers(&self.thread_id, &frame),
            NotifyReach::AllClients => self.clients.notify_followers(&self.thread_id, &frame),
        }
    }

    /// Gives a message its position and keeps it among the recent ones. Without a position, clients with a cursor do not
    /// receive the message and are asked to subscribe again.
    fn place(&self, sequence: &mut MessageSequence, frame: Frame, seq: Option<MessageSeq>) -> Frame {
        let position = sequence.advance(seq);
        let frame = frame.at(MessagePlace::new(self.thread_id.clone(), sequence.last));
        let capacity = if self.clients.have_cursors() { RecentCapacity::Full } else { RecentCapacity::None };
        sequence.recent.push(&frame, capacity);
        if position.is_some() {
            return frame;
        }
        sequence.valid_from = sequence.last.next_record();
        self.clients.fall_behind(&self.thread_id, sequence.last);
        frame.only_for(FrameAudience::WithoutCursor)
    }

    /// Announces an item that is not stored yet.
    pub fn item_started(&self, turn_id: &TurnId, item: &ThreadItem) {
        self.send(record_messages::item_started(&self.thread_id, turn_id, item, Timestamp::now()));
    }

    /// Announces an item that an earlier process announced, to clients with a cursor. They may have missed it.
    pub fn item_restored(&self, turn_id: &TurnId, item: &ThreadItem) {
        let started = record_messages::item_started(&self.thread_id, turn_id, item, Timestamp::now());
        self.send(started.only_for(FrameAudience::WithCursor));
    }

    pub fn raw_items(&self, turn_id: &TurnId, items: &[ResponseItem]) {
        if !self.has_raw_events {
            return;
        }
        for item in items {
            self.notify::<RawResponseItemCompleted>(&RawResponseItemCompletedNotification {
                thread_id: self.thread_id.clone(),
                turn_id: turn_id.clone(),
                item: item.clone(),
            });
        }
    }

    pub fn token_usage(&self, turn_id: &TurnId, token_usage: &ThreadTokenUsage) {
        self.send(self.usage_frame(turn_id, token_usage));
    }

    /// Sends a usage that has not changed, to clients of a generation whose servers do so.
    pub fn unchanged_usage(
        &self,
        turn_id: &TurnId,
        usage: &ThreadTokenUsage,
        generation: ProtocolGeneration,
    ) {
        if usage.total.total_tokens > 0 {
            self.send(self.usage_frame(turn_id, usage).only_in(generation));
        }
    }

    fn usage_frame(&self, turn_id: &TurnId, token_usage: &ThreadTokenUsage) -> Frame {
        Frame::notification::<ThreadTokenUsageUpdated>(&ThreadTokenUsageUpdatedNotification {
            thread_id: self.thread_id.clone(),
            turn_id: turn_id.clone(),
            token_usage: token_usage.clone(),
        })
    }

    /// Warns the user, in clients of the 0.166 generation.
    pub fn warning(&self, message: String) {
        let thread_id = Some(self.thread_id.clone());
        self.notify::<WarningReported>(&WarningNotification { message, thread_id });
    }

    /// Announces a command that has to be approved before it starts. Clients of the 0.166 generation see its session when it
    /// has ended.
    pub fn command_asked(&self, turn_id: &TurnId, item: &ThreadItem) {
        let at = Timestamp::now();
        self.send(record_messages::command_asked(&self.thread_id, turn_id, item, at));
    }

    pub fn error(&self, turn_id: &TurnId, error: TurnError, retry: Retry) {
        self.notify::<ErrorReported>(&self.error_params(turn_id, error, retry));
    }

    /// Announces the error that ends a turn.
    pub fn turn_failed(&self, turn_id: &TurnId, error: &TurnError) {
        let params =
            |generation| self.error_params(turn_id, error.clone().of_failed_turn(generation), Retry::No);
        let earlier = Frame::notification::<ErrorReported>(&params(ProtocolGeneration::V118));
        self.send(earlier.with_later_params::<ErrorReported>(&params(ProtocolGeneration::V166)));
    }

    fn error_params(&self, turn_id: &TurnId, error: TurnError, retry: Retry) -> ErrorNotification {
        ErrorNotification {
            error,
            will_retry: retry == Retry::Planned,
            thread_id: self.thread_id.clone(),
            turn_id: turn_id.clone(),
        }
    }

    /// Announces that a server request is over, if clients are to know.
    pub fn request_resolved(&self, request_id: RequestId, kind: QuestionKind) {
        if kind.is_announced() {
            let thread_id = self.thread_id.clone();
            self.notify::<ServerRequestResolved>(&ServerRequestResolvedNotification {
                thread_id,
                request_id,
            });
        }
    }
}

impl MessageSequence {
    /// Moves on to the position of the next message: that of its record unless it has passed. Returns `None` and stays
    /// where it is if the numbers of the last record are used up.
    fn advance(&mut self, seq: Option<MessageSeq>) -> Option<MessageSeq> {
        self.last = seq.filter(|seq| *seq > self.last).or_else(|| self.last.next_volatile())?;
        Some(self.last)
    }
}

impl std::fmt::Debug for ThreadNotifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ThreadNotifier").field("thread_id", &self.thread_id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::AgentMessageDelta;

    use super::*;

    /// Records what clients receive, and how often those with a cursor are asked to subscribe again.
    #[derive(Default)]
    struct RecordedClients {
        frames: Mutex<Vec<Frame>>,
        behind: Mutex<Vec<MessageSeq>>,
    }

    impl ThreadClients for RecordedClients {
        fn notify_subscribers(&self, _: &ThreadId, frame: &Frame) {
            self.frames.lock().push(frame.clone());
        }

        fn has_subscribers(&self, _: &ThreadId) -> bool {
            true
        }

        fn have_cursors(&self) -> bool {
            true
        }

        fn fall_behind(&self, _: &ThreadId, after: MessageSeq) {
            self.behind.lock().push(after);
        }

        fn notify_all(&self, _: &Frame) {}

        fn notify_followers(&self, _: &ThreadId, _: &Frame) {}

        fn subscribe_like(&self, _: &ThreadId, _: &ThreadId) {}

        fn ask(&self, _: &ThreadId, _: &dyn Fn(&RequestId) -> Frame) -> OpenQuestion {
            unreachable!("nothing is asked")
        }
    }

    #[test]
    fn positions_that_are_used_up_are_not_repeated() {
        let clients = Arc::<RecordedClients>::default();
        let notifier = ThreadNotifier::new(clients.clone(), "t".into(), 3, false);
        let frame = Frame::written::<AgentMessageDelta>("{}");
        let last =
            std::iter::successors(Some(MessageSeq::end_of(3)), |seq| seq.next_volatile()).last().unwrap();
        notifier.sequence.lock().last = last;

        notifier.send(frame.clone());
        assert!(notifier.is_crowded());
        assert_eq!(*clients.behind.lock(), [last]);
        assert_eq!(clients.frames.lock().pop().unwrap().audience(), FrameAudience::WithoutCursor);
        assert_eq!(notifier.snapshot_reason(last), Some(SnapshotReason::TooFar));

        notifier.advance(4);
        notifier.send(frame);
        let sent = clients.frames.lock().pop().unwrap();
        assert_eq!(sent.audience(), FrameAudience::Everyone);
        assert_eq!(sent.place().unwrap().seq, MessageSeq::end_of(4).next_volatile().unwrap());
        assert_eq!(
            notifier.snapshot_reason(last),
            Some(SnapshotReason::RolledBack),
            "messages were left out"
        );
        assert_eq!(notifier.snapshot_reason(MessageSeq::end_of(4)), None);
    }
}
