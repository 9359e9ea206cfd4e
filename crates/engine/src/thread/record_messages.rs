//! The messages that follow from stored records.
//!
//! [`RecordMessages`] is the one function from records to messages. A running thread applies it to the records that it
//! stores, and a subscription applies it to the records of the file, so both produce the same messages with the same
//! positions.

use std::borrow::Cow;

use codicil_protocol::{
    CommandExecutionSource, CommandExecutionStatus, Frame, ItemCompleted, ItemCompletedNotification, ItemId,
    ItemStarted, ItemStartedNotification, MessagePlace, MessageSeq, NotificationMethod, ProtocolGeneration,
    ThreadGoalCleared, ThreadGoalClearedNotification, ThreadGoalUpdated, ThreadGoalUpdatedNotification,
    ThreadId, ThreadItem, ThreadNameUpdated, ThreadNameUpdatedNotification, ThreadQueueChanged,
    ThreadQueueChangedNotification, ThreadReadState, ThreadReadStateChanged,
    ThreadReadStateChangedNotification, ThreadTokenUsage, ThreadTokenUsageUpdated,
    ThreadTokenUsageUpdatedNotification, Turn, TurnCompleted, TurnCompletedNotification, TurnId,
    TurnItemsView, TurnPlanUpdated, TurnStarted, TurnStartedNotification, TurnStatus,
};
use codicil_store::{FactChange, GoalChange, ItemMark, Record, StoredPlan};
use jiff::Timestamp;

/// The state that the messages of a record depend on, besides the record itself.
#[derive(Debug, Default)]
pub(crate) struct RecordMessages {
    /// The turn that began last, and when.
    turn: Option<(TurnId, Timestamp)>,
    /// The root of a subagent's turn: the turn and the root.
    root: Option<(TurnId, TurnId)>,
    /// Inputs of that turn that clients have not seen. The item is there once it is stored.
    queued: Vec<(ItemId, Option<ThreadItem>)>,
    /// Inputs of that turn that clients have seen.
    announced: Vec<ItemId>,
    /// The last message of the agent in that turn.
    last_message: Option<ThreadItem>,
    /// Whether another turn of the same goal follows the turn whose end is next.
    is_continued: bool,
}

/// What clients learn from a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RecordMessage<'a> {
    /// The position of the first message.
    pub seq: MessageSeq,
    pub at: Timestamp,
    pub body: RecordMessageBody<'a>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RecordMessageBody<'a> {
    TurnStarted(Turn),
    /// Two messages: `item/started` and `item/completed`.
    Item {
        turn_id: TurnId,
        item: Cow<'a, ThreadItem>,
    },
    TurnCompleted(Turn),
    Name(&'a str),
    Usage {
        turn_id: &'a TurnId,
        usage: &'a ThreadTokenUsage,
    },
    Plan(StoredPlan),
    Goal(GoalChange),
    Queue,
    /// The read state may have changed. Its last value is sent.
    ReadState,
}

impl RecordMessages {
    /// Continues with a turn whose first records are not among the next ones. `last_message` is the last message of the
    /// agent in those.
    pub fn continue_turn(&mut self, turn: &Turn, started: Timestamp, last_message: Option<ThreadItem>) {
        self.turn = Some((turn.id.clone(), started));
        self.root = turn.root_turn_id.clone().map(|root| (turn.id.clone(), root));
        self.last_message = last_message;
    }

    /// Returns a turn that is running, without its items.
    fn in_progress(&self, turn_id: &TurnId) -> Turn {
        let root = self.root.as_ref().filter(|(turn, _)| turn == turn_id).map(|(_, root)| root.clone());
        let turn = Turn::in_progress(turn_id.clone());
        Turn { root_turn_id: root.or(turn.root_turn_id), ..turn }
    }

    /// Returns the messages of the next record.
    pub fn next<'a>(&mut self, ordinal: u64, at: Timestamp, record: &'a Record) -> Vec<RecordMessage<'a>> {
        let mut index = 0;
        let place = |body: RecordMessageBody<'a>| {
            let seq = MessageSeq::durable(ordinal, index);
            index += if matches!(body, RecordMessageBody::Item { .. }) { 2 } else { 1 };
            RecordMessage { seq, at, body }
        };
        self.bodies(at, record).into_iter().map(place).collect()
    }

    fn bodies<'a>(&mut self, at: Timestamp, record: &'a Record) -> Vec<RecordMessageBody<'a>> {
        match record {
            // A process that continues the turn of an earlier one writes its record again.
            Record::Turn { turn_id, .. } if self.turn.as_ref().is_some_and(|(id, _)| id == turn_id) => {
                Vec::new()
            }
            Record::Turn { turn_id, .. } => {
                self.turn = Some((turn_id.clone(), at));
                self.queued.clear();
                self.announced.clear();
                self.last_message = None;
                let started_at = Some(at.as_second());
                vec![RecordMessageBody::TurnStarted(Turn { started_at, ..self.in_progress(turn_id) })]
            }
            Record::Item { turn_id, item } => {
                if let ThreadItem::AgentMessage { .. } = item {
                    self.last_message = Some(item.clone());
                }
                self.item(turn_id, item).into_iter().collect()
            }
            Record::TurnEnd { turn_id, status, error, .. } => {
                let queued = std::mem::take(&mut self.queued).into_iter().filter_map(|(_, item)| item);
                let unseen =
                    |item| RecordMessageBody::Item { turn_id: turn_id.clone(), item: Cow::Owned(item) };
                let mut bodies: Vec<_> = queued.map(unseen).collect();
                let started = self.turn.take().filter(|(id, _)| id == turn_id).map(|(_, started)| started);
                let last_message = self.last_message.take().filter(|_| *status == TurnStatus::Completed);
                let items_view =
                    if last_message.is_some() { TurnItemsView::Summary } else { TurnItemsView::NotLoaded };
                bodies.push(RecordMessageBody::TurnCompleted(Turn {
                    status: status.clone(),
                    error: error.clone(),
                    items: last_message.into_iter().collect(),
                    items_view,
                    started_at: started.map(Timestamp::as_second),
                    completed_at: Some(at.as_second()),
                    duration_ms: started.map(|started| milliseconds(started, at)),
                    ..self.in_progress(turn_id)
                }));
                if !std::mem::take(&mut self.is_continued) {
                    bodies.push(RecordMessageBody::ReadState);
                }
                bodies
            }
            Record::Name { name } => vec![RecordMessageBody::Name(name)],
            Record::Usage { turn_id, usage } => vec![RecordMessageBody::Usage { turn_id, usage }],
            Record::Extra { .. } => {
                self.is_continued |= record.is_continues();
                self.root = record.named_root().or(self.root.take());
                match record.marked_item() {
                    Some((ItemMark::Queued, id)) => self.queued.push((id, None)),
                    Some((ItemMark::Withdrawn, id)) => {
                        self.queued.retain(|(queued, _)| *queued != id);
                        self.last_message = self.last_message.take().filter(|item| item.id() != Some(&id));
                    }
                    None => {}
                }
                let fact = match record.fact_change() {
                    Some(FactChange::Queue(_)) => Some(RecordMessageBody::Queue),
                    Some(FactChange::ReadState { .. }) => Some(RecordMessageBody::ReadState),
                    _ => None,
                };
                let plan = record.turn_plan().map(RecordMessageBody::Plan);
                record.goal_change().map(RecordMessageBody::Goal).or(fact).or(plan).into_iter().collect()
            }
            Record::Meta(_)
            | Record::Settings(_)
            | Record::Context { .. }
            | Record::Rollback { .. }
            | Record::Compaction { .. }
            | Record::Begun { .. }
            | Record::Asked { .. }
            | Record::Answered { .. }
            | Record::Git { .. } => Vec::new(),
        }
    }

    /// Returns the message of an item, unless it is an input that clients see later or have seen before.
    fn item<'a>(&mut self, turn_id: &TurnId, item: &'a ThreadItem) -> Option<RecordMessageBody<'a>> {
        if let (ThreadItem::UserMessage { .. }, Some(id)) = (item, item.id()) {
            if let Some((_, stored)) = self.queued.iter_mut().find(|(queued, _)| queued == id) {
                if stored.is_none() {
                    *stored = Some(item.clone());
                    return None;
                }
                self.queued.retain(|(queued, _)| queued != id);
            } else if self.announced.contains(id) {
                return None;
            }
            self.announced.push(id.clone());
        }
        Some(RecordMessageBody::Item { turn_id: turn_id.clone(), item: Cow::Borrowed(item) })
    }
}

fn milliseconds(from: Timestamp, to: Timestamp) -> i64 {
    to.as_millisecond().saturating_sub(from.as_millisecond()).max(0)
}

impl RecordMessage<'_> {
    /// Returns the messages in the form in which they are replayed.
    pub fn into_frames(self, thread_id: &ThreadId, read_state: Option<&ThreadReadState>) -> Vec<Frame> {
        let Self { seq, at, body } = self;
        let thread = || thread_id.clone();
        let frames = match body {
            RecordMessageBody::TurnStarted(turn) => {
                vec![Frame::notification::<TurnStarted>(&TurnStartedNotification {
                    thread_id: thread(),
                    turn,
                })]
            }
            RecordMessageBody::Item { turn_id, item } => {
                vec![
                    item_started(thread_id, &turn_id, &item, at),
                    item_completed(thread_id, &turn_id, &item, at),
                ]
            }
            RecordMessageBody::TurnCompleted(turn) => {
                vec![turn_completed(thread_id, turn)]
            }
            RecordMessageBody::Name(name) => {
                let params =
                    ThreadNameUpdatedNotification { thread_id: thread(), thread_name: Some(name.to_owned()) };
                vec![Frame::notification::<ThreadNameUpdated>(&params)]
            }
            RecordMessageBody::Usage { turn_id, usage } => {
                let params = ThreadTokenUsageUpdatedNotification {
                    thread_id: thread(),
                    turn_id: turn_id.clone(),
                    token_usage: usage.clone(),
                };
                vec![Frame::notification::<ThreadTokenUsageUpdated>(&params)]
            }
            RecordMessageBody::Plan(plan) => {
                vec![Frame::notification::<TurnPlanUpdated>(&plan.into_notification(thread()))]
            }
            RecordMessageBody::Goal(GoalChange::Set { goal, turn_id }) => {
                let params = ThreadGoalUpdatedNotification { thread_id: thread(), turn_id, goal: *goal };
                vec![Frame::notification::<ThreadGoalUpdated>(&params)]
            }
            RecordMessageBody::Queue => {
                let params = ThreadQueueChangedNotification { thread_id: thread() };
                vec![Frame::notification::<ThreadQueueChanged>(&params)]
            }
            RecordMessageBody::ReadState => {
                let params =
                    |read_state| ThreadReadStateChangedNotification { thread_id: thread(), read_state };
                let frame = |params| Frame::notification::<ThreadReadStateChanged>(&params);
                read_state.cloned().map(params).map(frame).into_iter().collect()
            }
            RecordMessageBody::Goal(GoalChange::Removed) => {
                let params = ThreadGoalClearedNotification { thread_id: thread() };
                vec![Frame::notification::<ThreadGoalCleared>(&params)]
            }
        };
        let seqs = (0..).map(|index| seq.plus(index));
        let place = |(frame, seq): (Frame, _)| frame.at(MessagePlace::new(thread_id.clone(), seq));
        frames.into_iter().zip(seqs).map(place).collect()
    }
}

/// Returns the message about the end of a turn. Clients of the 0.118 generation expect no items in it.
pub(super) fn turn_completed(thread_id: &ThreadId, turn: Turn) -> Frame {
    let params = |turn| TurnCompletedNotification { thread_id: thread_id.clone(), turn };
    if turn.items.is_empty() && turn.error.is_none() {
        return Frame::notification::<TurnCompleted>(&params(turn));
    }
    let error_in = |generation| turn.error.clone().map(|error| error.of_failed_turn(generation));
    let earlier = Turn {
        items: Vec::new(),
        items_view: TurnItemsView::NotLoaded,
        error: error_in(ProtocolGeneration::V118),
        ..turn.clone()
    };
    let later = Turn { error: error_in(ProtocolGeneration::V166), ..turn };
    Frame::notification::<TurnCompleted>(&params(earlier)).with_later_params::<TurnCompleted>(&params(later))
}

pub(super) fn item_started(thread: &ThreadId, turn: &TurnId, item: &ThreadItem, at: Timestamp) -> Frame {
    let params = |item: &ThreadItem| ItemStartedNotification {
        thread_id: thread.clone(),
        turn_id: turn.clone(),
        item: item.clone(),
        started_at_ms: Some(at.as_millisecond()),
    };
    item_frame::<ItemStarted>(item, item, params)
}

/// Returns a message about an item that has another form in each generation. Clients of the 0.118 generation do not get items
/// of kinds that they do not know.
fn item_frame<N: NotificationMethod>(
    item: &ThreadItem,
    later: &ThreadItem,
    params: impl Fn(&ThreadItem) -> N::Params,
) -> Frame {
    match item.earlier_form() {
        None => Frame::notification::<N>(&params(later)).only_in(ProtocolGeneration::V166),
        Some(earlier) if *earlier == *later => Frame::notification::<N>(&params(later)),
        Some(earlier) => Frame::notification::<N>(&params(&earlier)).with_later_params::<N>(&params(later)),
    }
}

/// Returns the start of a command that has to be approved. In the 0.166 generation it has no session yet.
pub(super) fn command_asked(thread: &ThreadId, turn: &TurnId, item: &ThreadItem, at: Timestamp) -> Frame {
    let params = |item: &ThreadItem| ItemStartedNotification {
        thread_id: thread.clone(),
        turn_id: turn.clone(),
        item: item.clone(),
        started_at_ms: Some(at.as_millisecond()),
    };
    item_frame::<ItemStarted>(item, &without_session(item), params)
}

pub(super) fn item_completed(thread: &ThreadId, turn: &TurnId, item: &ThreadItem, at: Timestamp) -> Frame {
    let params = |item: &ThreadItem| ItemCompletedNotification {
        thread_id: thread.clone(),
        turn_id: turn.clone(),
        item: item.clone(),
        completed_at_ms: Some(at.as_millisecond()),
    };
    let later = later_form(item);
    item_frame::<ItemCompleted>(item, later.as_ref().unwrap_or(item), params)
}

/// Returns an item as clients of the 0.166 generation see it, where that differs: a command that did not run has no
/// session.
pub fn later_form(item: &ThreadItem) -> Option<ThreadItem> {
    let ThreadItem::CommandExecution { status, exit_code: None, duration_ms: None, .. } = item else {
        return None;
    };
    let is_over = matches!(status, CommandExecutionStatus::Declined | CommandExecutionStatus::Failed);
    is_over.then(|| without_session(item))
}

fn without_session(item: &ThreadItem) -> ThreadItem {
    let mut item = item.clone();
    if let ThreadItem::CommandExecution { process_id, source, .. } = &mut item
        && *source == CommandExecutionSource::UnifiedExecStartup
    {
        *process_id = None;
        *source = CommandExecutionSource::Agent;
    }
    item
}

#[cfg(test)]
mod tests {
    use codicil_protocol::SessionSource;
    use codicil_store::{PlacedRecord, QueueChange, Store, ThreadMeta, new_thread_id};
    use proptest::prelude::*;

    use super::*;

    /// A step in the life of a thread, as far as its records matter to clients.
    #[derive(Clone, Debug)]
    enum Step {
        Turn,
        Continued,
        Message,
        ProposedPlan,
        Input,
        QueuedInput,
        TakenInput,
        WithdrawnInput,
        Usage,
        Plan,
        Goal,
        Name,
        Queue,
        ReadState,
        Rollback,
        End,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Turn),
            1 => Just(Step::Continued),
            4 => Just(Step::Message),
            1 => Just(Step::ProposedPlan),
            2 => Just(Step::Input),
            2 => Just(Step::QueuedInput),
            2 => Just(Step::TakenInput),
            1 => Just(Step::WithdrawnInput),
            1 => Just(Step::Usage),
            1 => Just(Step::Plan),
            1 => Just(Step::Goal),
            1 => Just(Step::Name),
            1 => Just(Step::Queue),
            1 => Just(Step::ReadState),
            1 => Just(Step::Rollback),
            3 => Just(Step::End),
        ]
    }

    fn text_item(kind: &str, number: usize) -> ThreadItem {
        let text = format!("text {number}");
        let json = serde_json::json!({ "type": kind, "id": format!("item-{number}"), "text": text });
        serde_json::from_value(json).unwrap()
    }

    fn read_state() -> ThreadReadState {
        ThreadReadState { first_unread: None, revision: "t.1".to_owned() }
    }

    /// Returns the records of a life. Steps that are not possible at their place are left out.
    fn records(steps: &[Step]) -> Vec<Record> {
        let mut records = Vec::new();
        let mut turn: Option<TurnId> = None;
        let mut queued: Vec<ThreadItem> = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            let input = || ThreadItem::UserMessage {
                id: format!("input-{number}").as_str().into(),
                content: Vec::new(),
                client_id: None,
            };
            match (step, turn.clone()) {
                (Step::Turn, None) => {
                    let turn_id = TurnId::from(format!("turn-{number}").as_str());
                    turn = Some(turn_id.clone());
                    queued.clear();
                    records.push(Record::Turn { turn_id, run: None });
                }
                (Step::Continued, Some(turn_id)) => records.push(Record::Turn { turn_id, run: None }),
                (Step::Message, Some(turn_id)) => {
                    records.push(Record::Item { turn_id, item: text_item("agentMessage", number) });
                }
                (Step::ProposedPlan, Some(turn_id)) => {
                    records.push(Record::Item { turn_id, item: text_item("plan", number) });
                }
                (Step::Input, Some(turn_id)) => records.push(Record::Item { turn_id, item: input() }),
                // The end of a turn has room for seven inputs.
                (Step::QueuedInput, Some(turn_id)) if queued.len() < 7 => {
                    let item = input();
                    records.push(Record::queued(&turn_id, item.id().unwrap()));
                    records.push(Record::Item { turn_id, item: item.clone() });
                    queued.push(item);
                }
                (Step::TakenInput, Some(turn_id)) if !queued.is_empty() => {
                    records.push(Record::Item { turn_id, item: queued.remove(0) });
                }
                (Step::WithdrawnInput, Some(turn_id)) if !queued.is_empty() => {
                    records.push(Record::withdrawn(&turn_id, queued.remove(0).id().unwrap()));
                }
                (Step::Usage, Some(turn_id)) => {
                    records.push(Record::Usage { turn_id, usage: ThreadTokenUsage::default() });
                }
                (Step::Plan, Some(turn_id)) => {
                    let plan = StoredPlan { turn_id, explanation: None, plan: Vec::new() };
                    records.push(Record::plan(&plan));
                }
                (Step::Goal, _) => records.push(Record::goal(None, None)),
                (Step::Queue, _) => {
                    let change = QueueChange::Remove(format!("submission-{number}"));
                    records.push(Record::fact(&FactChange::Queue(change)));
                }
                (Step::ReadState, _) => {
                    records.push(Record::fact(&FactChange::ReadState { first_unread: None }));
                }
                (Step::Rollback, None) => records.push(Record::Rollback { turns: 1 }),
                (Step::Name, _) => records.push(Record::Name { name: format!("name {number}") }),
                (Step::End, Some(turn_id)) => {
                    let status = TurnStatus::Completed;
                    records.push(Record::TurnEnd { turn_id, status, error: None, cause: None });
                    turn = None;
                }
                _ => {}
            }
        }
        records
    }

    fn messages(records: &[PlacedRecord]) -> Vec<(MessageSeq, String)> {
        let mut fold = RecordMessages::default();
        let all = records.iter().flat_map(|placed| {
            let messages = fold.next(placed.ordinal, placed.at, &placed.record);
            messages
                .into_iter()
                .flat_map(|message| message.into_frames(&"t".into(), Some(&read_state())))
                .collect::<Vec<_>>()
        });
        all.map(|frame| {
            // In this generation, the end of a turn has the last message.
            let text = String::from_utf8(frame.bytes_for(ProtocolGeneration::V166).to_vec()).unwrap();
            (frame.place().unwrap().seq, text)
        })
        .collect()
    }

    /// Compares, for every position, the live messages after it with those of the records that the store reads from there.
    async fn compare(steps: &[Step]) {
        let home = tempfile::tempdir().unwrap();
        let store = Store::open(home.path()).unwrap();
        let id = new_thread_id();
        let meta = ThreadMeta::new(id.clone(), "/work", SessionSource::Cli, "p");
        let mut log = store.create(meta).await.unwrap();
        let mut live = Vec::new();
        let mut rollbacks = Vec::new();
        let mut at = Timestamp::from_second(1_794_772_800).unwrap();
        for record in records(steps) {
            at = Timestamp::from_millisecond(at.as_millisecond() + 700).unwrap();
            let ordinal = log.append_dated(&[(at, record.clone())]).await.unwrap().ordinals.start;
            rollbacks.extend(matches!(record, Record::Rollback { .. }).then_some(ordinal));
            live.push(PlacedRecord { ordinal, at, record });
        }
        let live = messages(&live);
        assert!(live.is_sorted_by(|a, b| a.0 < b.0), "{live:?}");
        // Also behind messages that have no record.
        let positions = live.iter().flat_map(|(seq, _)| [Some(*seq), seq.next_volatile()]).flatten();
        for after in positions.chain([MessageSeq::default()]).collect::<Vec<_>>() {
            let tail = store.record_tail(&id, after.ordinal(), usize::MAX).await.unwrap();
            if tail.was_rolled_back {
                continue;
            }
            assert!(rollbacks.iter().all(|rollback| *rollback <= after.ordinal()), "after {after}");
            let replayed: Vec<_> =
                messages(&tail.records).into_iter().filter(|(seq, _)| *seq > after).collect();
            let expected: Vec<_> = live.iter().filter(|(seq, _)| *seq > after).cloned().collect();
            assert_eq!(replayed, expected, "after {after}");
        }
        store.close().await.unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn replayed_messages_are_the_live_ones_at_every_position(steps in prop::collection::vec(step(), 0..40)) {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(compare(&steps));
        }
    }
}
