//! Forking: a new thread that starts with the records of another one.
//!
//! Lines are copied with new ordinals and without decoding them; blobs are shared. Rolled-back turns, the name, the goal,
//! the facts beside the conversation except for the project, the request keys and the first line of the source are not copied.

use std::sync::Arc;

use codicil_protocol::{TurnId, TurnStatus};
use jiff::Timestamp;

use crate::{
    clock,
    error::{Result, StoreError},
    facts::{CONTINUES, PROJECT, is_fact},
    layout::{self, ThreadLocation},
    record::{GOAL, KEY, POSITION, Record, ThreadMeta, TurnEndCause},
    record_line::{self, LineHead, RecordKind},
    record_lines::RecordLines,
    record_parts::{RollbackRecord, decode, extra_kind, turn_of},
    replay::TurnPlaces,
    store::StoreInner,
    thread_log::LogFile,
};

/// The part of the source that is copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ForkPoint {
    /// All turns.
    #[default]
    End,
    /// The turns up to and including this one.
    After(TurnId),
    /// The turns before this one.
    Before(TurnId),
}

/// Writes the new thread. A turn that has not ended in the source is interrupted in the copy.
pub(crate) fn fork(
    inner: &Arc<StoreInner>,
    source: &ThreadLocation,
    point: &ForkPoint,
    meta: &ThreadMeta,
) -> Result<LogFile> {
    let bytes = layout::read_regular(&source.path).map_err(StoreError::io("read", &source.path))?;
    let lines = RecordLines::of(&bytes);
    let copy = ForkCopy::of(&lines, point)?;
    let log = LogFile::write_new(inner, &meta.id, Timestamp::now(), |batch| copy.write(batch, meta))?;
    inner.index_copy(&log.path())?;
    Ok(log)
}

/// The lines to copy and the turns to end.
pub(crate) struct ForkCopy<'a> {
    lines: Vec<LineHead<'a>>,
    unfinished: Vec<TurnId>,
}

impl<'a> ForkCopy<'a> {
    pub fn of(lines: &'a RecordLines<'_>, point: &ForkPoint) -> Result<Self> {
        let (mut kept, places) = survivors(lines);
        let place = |id: &TurnId| places.find(id).ok_or_else(|| StoreError::TurnNotFound(id.clone()));
        let end = match point {
            ForkPoint::End => usize::MAX,
            ForkPoint::After(id) => place(id)? + 1,
            ForkPoint::Before(id) => place(id)?,
        };
        // Records outside turns are copied if they precede the cut.
        let cut = kept.iter().position(|(turn, _)| turn.is_some_and(|turn| turn >= end));
        let mut at = 0;
        kept.retain(|(turn, _)| {
            at += 1;
            turn.map_or(cut.is_none_or(|cut| at <= cut), |turn| turn < end)
        });
        let lines: Vec<_> = kept.into_iter().map(|(_, head)| head).collect();
        Ok(Self { unfinished: unfinished(&lines), lines })
    }

    pub fn write(&self, batch: &mut Vec<u8>, meta: &ThreadMeta) -> Result<u64> {
        let now = clock::stamp(Timestamp::now());
        let mut ordinal = 0;
        let mut add = |stamp: &str, blobs, record: &str| {
            record_line::write(batch, ordinal, stamp, blobs, record);
            ordinal += 1;
        };
        add(&now, false, &serde_json::to_string(&Record::Meta(meta.clone()))?);
        self.lines.iter().for_each(|head| add(head.timestamp, head.blobs, head.record));
        for turn_id in self.unfinished.iter().cloned() {
            let cause = Some(TurnEndCause::Forked);
            let end = Record::TurnEnd { turn_id, status: TurnStatus::Interrupted, error: None, cause };
            add(&now, false, &serde_json::to_string(&end)?);
        }
        Ok(ordinal)
    }
}

type SurvivingTurn<'a> = (Option<usize>, LineHead<'a>);

/// Returns the lines that remain after all rollbacks, each with its turn.
fn survivors<'a>(lines: &'a RecordLines<'_>) -> (Vec<SurvivingTurn<'a>>, TurnPlaces<'a>) {
    let mut kept: Vec<SurvivingTurn<'a>> = Vec::new();
    let mut places = TurnPlaces::default();
    for (_, head) in lines.heads() {
        match head.kind {
            RecordKind::Meta | RecordKind::Name => {}
            RecordKind::Extra if extra_kind(head).is_some_and(|kind| is_own(&kind)) => {}
            RecordKind::Rollback => {
                let Some(RollbackRecord { turns }) = decode(head) else { continue };
                let remaining = places.len().saturating_sub(turns as usize);
                places.roll_back(remaining);
                kept.retain(|(turn, _)| turn.is_none_or(|turn| turn < remaining));
            }
            RecordKind::Settings | RecordKind::Git | RecordKind::Extra => kept.push((None, head)),
            _ => match turn_of(head) {
                None => kept.push((None, head)),
                Some(id) => kept.extend(places.of(id).map(|at| (Some(at), head))),
            },
        }
    }
    (kept, places)
}

/// Returns whether an extra record of this kind concerns only its own thread. The project is that of the copy, too.
fn is_own(kind: &str) -> bool {
    matches!(kind, GOAL | KEY | CONTINUES | POSITION) || (is_fact(kind) && kind != PROJECT)
}

fn unfinished(lines: &[LineHead<'_>]) -> Vec<TurnId> {
    let mut open: Vec<TurnId> = Vec::new();
    for head in lines {
        match (head.kind, turn_of(*head)) {
            (RecordKind::Turn, Some(id)) => open.push(TurnId::from(&*id)),
            (RecordKind::TurnEnd, Some(id)) => open.retain(|open| **open != *id),
            _ => {}
        }
    }
    open
}
