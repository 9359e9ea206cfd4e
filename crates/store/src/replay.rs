//! Replaying a thread's records into turns and history.
//!
//! Only the records that the result needs are decoded: items stay JSON, and parts of the history that a rollback or a
//! compaction removed are skipped. Records that cannot be used are skipped and counted.

use std::{borrow::Cow, collections::HashMap};

use codicil_protocol::{GitInfo, ThreadGoal, ThreadTokenUsage, TurnId, TurnStatus};
use serde_json::value::RawValue;

use crate::{
    facts::{CONTINUES, FactChange, FactEvent, ThreadFacts, is_fact},
    record::{GOAL, OUTPUT_SCHEMA, PARKED, ROOT_TURN, StoredSettings, ThreadMeta, TurnEndCause, WITHDRAWN},
    record_line::{LineHead, RecordKind},
    record_lines::RecordLines,
    record_parts::{
        COMPLETED, ExtraRecord, GitRecord, GoalRecord, NameRecord, OfTurn, RollbackRecord, RootTurnRecord,
        SchemaRecord, TurnEnd, UsageRecord, WithdrawnRecord, decode, extra_kind, item_id, parts, run_of,
        turn_of,
    },
    summary,
    thread::{LoadProblem, LoadWarnings, StoredTurn, decode_item},
    turn_plan::{PLAN, StoredPlan},
    unfinished_turn::{CallRecords, UnfinishedTurn},
};

/// The number of preceding items of a turn among which a rewritten item is searched.
const REWRITTEN_WITHIN: usize = 64;

/// Whether the model's history is needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HistoryWanted {
    #[default]
    Turns,
    TurnsAndHistory,
}

/// The result of replaying the records of a file.
#[derive(Default)]
pub struct Replay<'a> {
    want: HistoryWanted,
    pub meta: Option<ThreadMeta>,
    pub settings: Option<StoredSettings>,
    /// The settings of the last turn that was not rolled back.
    pub known_settings: Option<StoredSettings>,
    pub usage: Option<(TurnId, ThreadTokenUsage)>,
    pub name: Option<String>,
    pub git: Option<GitInfo>,
    pub goal: Option<ThreadGoal>,
    pub facts: ThreadFacts,
    /// The first user message, even if its turn was rolled back.
    pub preview: Option<String>,
    pub turns: Vec<StoredTurn>,
    /// The last turn, if it has no end.
    pub unfinished: Option<UnfinishedTurn>,
    pub steps: Vec<HistoryStep<'a>>,
    pub next_ordinal: u64,
    /// The time of the last record that counts as activity.
    pub active_at: Option<&'a str>,
    pub warnings: LoadWarnings,
    places: TurnPlaces<'a>,
    /// The records about the tool calls of the last turn.
    calls: CallRecords<'a>,
    /// The root of the turn whose record follows.
    next_root: Option<RootTurnRecord>,
    /// The ids of each turn's items, `None` where an item has none.
    item_ids: Vec<Vec<Option<Cow<'a, str>>>>,
    /// The usage records of turns that were not rolled back, each with its turn. The last one is decoded at the end.
    usages: Vec<(Option<usize>, u64, LineHead<'a>)>,
    /// The settings records, decoded backwards until one can be read.
    all_settings: Vec<(u64, LineHead<'a>)>,
    /// The settings records of turns that were not rolled back, each with the number of preceding turns.
    settings_of_turns: Vec<(usize, LineHead<'a>)>,
}

/// A change of the model's history.
pub struct HistoryStep<'a> {
    pub turn: Option<usize>,
    pub change: HistoryChange<'a>,
    pub line: u64,
}

pub enum HistoryChange<'a> {
    /// Appends an item, given as JSON.
    Add(Cow<'a, str>),
    /// Replaces the history by an array of items, given as JSON.
    Replace(Cow<'a, str>),
}

impl<'a> Replay<'a> {
    pub fn run(lines: &'a RecordLines<'_>, want: HistoryWanted) -> Self {
        let mut replay = Self { want, warnings: lines.warnings.clone(), ..Self::default() };
        replay.places.reserve(lines.len() / 8);
        for (number, head) in lines.heads() {
            replay.check_order(number, head.ordinal);
            if head.kind.is_activity() {
                replay.active_at = Some(head.timestamp);
            }
            if replay.record(number, head).is_none() {
                replay.warnings.add(number, LoadProblem::Unreadable);
            }
        }
        replay.finish();
        replay
    }

    /// Checks the ordinal of a record. Merged files can contain ordinals twice; the order of lines is authoritative.
    fn check_order(&mut self, number: u64, ordinal: u64) {
        if ordinal < self.next_ordinal {
            self.warnings.add(number, LoadProblem::OutOfOrder);
        }
        self.next_ordinal = self.next_ordinal.max(ordinal.saturating_add(1));
    }

    /// Applies a record; `None` if it cannot be used.
    fn record(&mut self, number: u64, head: LineHead<'a>) -> Option<()> {
        match head.kind {
            RecordKind::Meta => {
                let meta = decode(head)?;
                self.meta.get_or_insert(meta);
            }
            RecordKind::Settings => {
                self.all_settings.push((number, head));
                self.settings_of_turns.push((self.turns.len(), head));
            }
            RecordKind::Turn => {
                let id = turn_of(head)?;
                let known = self.turns.len();
                let at = self.turn(id, head.timestamp);
                if at.is_some_and(|at| at < known) {
                    self.calls.continued();
                }
                let root = self.next_root.take();
                if let Some(turn) = at.and_then(|at| self.turns.get_mut(at)) {
                    turn.run = run_of(head);
                    let own = root.filter(|root| root.turn_id == turn.id).map(|root| root.root_turn_id);
                    turn.root = own.or(turn.root.take());
                }
            }
            RecordKind::Item => self.item(head)?,
            RecordKind::Context | RecordKind::Compaction if self.want == HistoryWanted::Turns => {}
            RecordKind::Context => self.step(number, head, "item", HistoryChange::Add)?,
            RecordKind::Compaction => self.step(number, head, "replacement", HistoryChange::Replace)?,
            RecordKind::Usage => {
                let turn = turn_of(head).and_then(|id| self.places.find(&id));
                self.usages.push((turn, number, head));
            }
            RecordKind::TurnEnd => self.turn_end(head)?,
            RecordKind::Begun | RecordKind::Asked | RecordKind::Answered => {
                if self.is_of_last_turn(turn_of(head)?.as_ref()) {
                    self.calls.add(number, head);
                }
            }
            RecordKind::Rollback => self.roll_back(decode::<RollbackRecord>(head)?.turns),
            RecordKind::Name => self.name = Some(decode::<NameRecord>(head)?.name),
            RecordKind::Git => self.git = decode::<GitRecord>(head)?.git,
            RecordKind::Extra => self.extra(head),
            RecordKind::Unknown => self.warnings.add(number, LoadProblem::UnknownKind),
        }
        Some(())
    }

    /// Returns the index of a turn, which is started at `at` if the id is new; `None` if it was rolled back.
    fn turn(&mut self, id: Cow<'a, str>, at: &str) -> Option<usize> {
        let place = self.places.of(id.clone())?;
        if place == self.turns.len() {
            self.turns.push(StoredTurn::begun(TurnId::from(&*id), at));
            self.item_ids.push(Vec::new());
            self.calls = CallRecords::default();
        }
        Some(place)
    }

    /// Returns whether this is the last turn and has no end.
    fn is_of_last_turn(&self, id: &str) -> bool {
        self.turns.last().is_some_and(|turn| !turn.ended && *turn.id == *id)
    }

    fn item(&mut self, head: LineHead<'a>) -> Option<()> {
        let (turn, json) = parts(head, "item")?;
        let item = match &json {
            Cow::Borrowed(json) => serde_json::from_str::<&RawValue>(json).ok()?.to_owned(),
            Cow::Owned(json) => RawValue::from_string(json.clone()).ok()?,
        };
        if self.preview.is_none() && json.contains("\"userMessage\"") {
            self.preview = serde_json::from_str(&json).ok().and_then(|item| summary::preview(&item));
        }
        let Some(at) = turn.and_then(|turn| self.turn(turn, head.timestamp)) else { return Some(()) };
        let turn_count = self.turns.len();
        let time = head.timestamp.parse().ok();
        let StoredTurn { items, item_times, .. } = self.turns.get_mut(at)?;
        let ids = self.item_ids.get_mut(at)?;
        let is_input = json.starts_with("{\"type\":\"userMessage\"");
        let id = item_id(json);
        if is_input && at + 1 == turn_count {
            self.calls.input(id.as_deref());
        }
        let from = ids.len().saturating_sub(REWRITTEN_WITHIN);
        let again = ids.iter().skip(from).position(|known| id.is_some() && *known == id);
        match again.map(|again| from + again) {
            // A rewritten item has changed; it keeps its position.
            Some(again) if !is_input => {
                *items.get_mut(again)? = item;
                *item_times.get_mut(again)? = time;
            }
            again => {
                // Input is written when it is accepted, and again when the model receives it, which is its position.
                if let Some(again) = again {
                    ids.remove(again);
                    items.remove(again);
                    item_times.remove(again);
                }
                ids.push(id);
                items.push(item);
                item_times.push(time);
            }
        }
        Some(())
    }

    /// Applies an extra record. Those of later versions are ignored.
    fn extra(&mut self, head: LineHead<'a>) {
        match extra_kind(head).as_deref() {
            Some(WITHDRAWN) => self.withdraw(head),
            Some(GOAL) => {
                self.goal = decode::<ExtraRecord<GoalRecord>>(head).and_then(|extra| extra.data.goal);
                let objective = || self.goal.as_ref().map(|goal| goal.objective.clone());
                self.preview = self.preview.take().or_else(objective);
            }
            Some(PARKED) if self.extra_of_last_turn(head) => self.calls.parked(),
            Some(OUTPUT_SCHEMA) if self.extra_of_last_turn(head) => {
                if let Some(extra) = decode::<ExtraRecord<SchemaRecord>>(head) {
                    self.calls.set_output_schema(extra.data.schema);
                }
            }
            Some(ROOT_TURN) => {
                self.next_root = decode::<ExtraRecord<RootTurnRecord>>(head).map(|extra| extra.data);
            }
            Some(PLAN) => {
                let plan = decode::<ExtraRecord<StoredPlan>>(head).map(|extra| extra.data);
                let at = plan.as_ref().and_then(|plan| self.places.find(&plan.turn_id));
                if let Some(turn) = at.and_then(|at| self.turns.get_mut(at)) {
                    turn.plan = plan;
                }
            }
            Some(CONTINUES) => self.facts.apply_event(head.ordinal, FactEvent::Continues),
            Some(kind) if is_fact(kind) => {
                if let Some(change) = decode::<FactChange>(head) {
                    self.facts.apply(head.ordinal, change);
                }
            }
            _ => {}
        }
    }

    fn extra_of_last_turn(&self, head: LineHead<'a>) -> bool {
        decode::<ExtraRecord<OfTurn>>(head)
            .and_then(|extra| extra.data.turn_id)
            .is_some_and(|turn| self.is_of_last_turn(&turn))
    }

    fn withdraw(&mut self, head: LineHead<'a>) {
        let Some(ExtraRecord { data: WithdrawnRecord { turn_id, item_id } }) = decode(head) else { return };
        let Some(at) = self.places.find(&turn_id) else { return };
        let (Some(turn), Some(ids)) = (self.turns.get_mut(at), self.item_ids.get_mut(at)) else { return };
        if let Some(place) = ids.iter().rposition(|id| id.as_deref() == Some(item_id.as_str())) {
            ids.remove(place);
            turn.items.remove(place);
            turn.item_times.remove(place);
        }
    }

    fn step(
        &mut self,
        line: u64,
        head: LineHead<'a>,
        member: &str,
        change: fn(Cow<'a, str>) -> HistoryChange<'a>,
    ) -> Option<()> {
        let (turn, json) = parts(head, member)?;
        let turn = match turn {
            None => None,
            Some(id) => match self.turn(id, head.timestamp) {
                None => return Some(()),
                at => at,
            },
        };
        self.steps.push(HistoryStep { turn, change: change(json), line });
        Some(())
    }

    fn turn_end(&mut self, head: LineHead<'a>) -> Option<()> {
        let id = turn_of(head)?;
        let end = if head.record.ends_with(COMPLETED) {
            TurnEnd { status: TurnStatus::Completed, error: None, cause: None }
        } else {
            decode(head)?
        };
        if let Some(turn) = self.turn(id, head.timestamp).and_then(|at| self.turns.get_mut(at)) {
            // A turn that runs on elsewhere has no end of its own.
            let at = if end.cause == Some(TurnEndCause::Forked) { "" } else { head.timestamp };
            turn.end(end.status, end.error, at);
        }
        self.facts.apply_event(head.ordinal, FactEvent::TurnEnd);
        Some(())
    }

    fn roll_back(&mut self, count: u32) {
        let kept = self.turns.len().saturating_sub(count as usize);
        self.turns.truncate(kept);
        self.calls = CallRecords::default();
        self.places.roll_back(kept);
        self.item_ids.truncate(kept);
        self.settings_of_turns.retain(|(turns, _)| *turns <= kept);
        self.usages.retain(|(turn, ..)| turn.is_none_or(|turn| turn < kept));
        self.steps.retain(|step| step.turn.is_none_or(|turn| turn < kept));
    }

    fn read_settings(&mut self, number: u64, head: LineHead<'a>) -> Option<StoredSettings> {
        let Some(fields) = decode(head) else {
            self.warnings.add(number, LoadProblem::Unreadable);
            return None;
        };
        let (settings, unreadable) = StoredSettings::from_fields(fields);
        for field in unreadable {
            tracing::warn!(line = number, field, "cannot read a field of a settings record");
            self.warnings.add(number, LoadProblem::UnreadableSetting);
        }
        if settings.model.is_none() && settings.snapshot.is_null() {
            self.warnings.add(number, LoadProblem::Unreadable);
            return None;
        }
        Some(settings)
    }

    fn finish(&mut self) {
        if let Some(turn) = self.turns.last().filter(|turn| !turn.ended) {
            let items = turn.items.iter().map(|json| decode_item(json));
            let calls = std::mem::take(&mut self.calls);
            self.unfinished = Some(calls.into_turn(turn.id.clone(), items));
        }
        // An earlier record still describes the permissions of the thread better than the configuration.
        while let Some((number, head)) = self.all_settings.pop().filter(|_| self.settings.is_none()) {
            self.settings = self.read_settings(number, head);
        }
        self.known_settings = self.settings_of_turns.pop().and_then(|(_, head)| decode(head));
        if let Some((_, number, head)) = self.usages.pop() {
            self.usage = decode::<UsageRecord>(head).map(|it| (it.turn_id, it.usage));
            if self.usage.is_none() {
                self.warnings.add(number, LoadProblem::Unreadable);
            }
        }
    }
}

/// The indices of turns by id, including rolled-back turns.
#[derive(Default)]
pub struct TurnPlaces<'a> {
    places: HashMap<Cow<'a, str>, Option<usize>>,
    next: usize,
    /// The turn of the last lookup. Most records belong to the turn of the record before.
    recent: Option<(Cow<'a, str>, usize)>,
}

impl<'a> TurnPlaces<'a> {
    /// Returns the index of a turn. A new id gets the next index; an id that was rolled back has none.
    pub fn of(&mut self, id: Cow<'a, str>) -> Option<usize> {
        if let Some((recent, at)) = &self.recent
            && *recent == id
        {
            return Some(*at);
        }
        let at = *self.places.entry(id.clone()).or_insert_with(|| {
            self.next += 1;
            Some(self.next - 1)
        });
        self.recent = at.map(|at| (id, at));
        at
    }

    fn reserve(&mut self, turns: usize) {
        self.places.reserve(turns);
    }

    pub fn roll_back(&mut self, kept: usize) {
        self.places.values_mut().filter(|at| at.is_some_and(|at| at >= kept)).for_each(|at| *at = None);
        self.next = self.next.min(kept);
        self.recent = None;
    }

    /// Returns the index of a known turn that was not rolled back.
    pub fn find(&self, id: &str) -> Option<usize> {
        self.places.get(id).copied().flatten()
    }

    pub fn len(&self) -> usize {
        self.next
    }
}
