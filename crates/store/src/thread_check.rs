//! Checking the lines of one thread, wherever they are stored.

use std::collections::HashSet;

use crate::{
    blobs,
    check::{CheckReport, FindingKind},
    file_end,
    record::RunId,
    record_lines::RecordLines,
    replay::{HistoryWanted, Replay},
    run_lock::RunState,
    thread::{LoadProblem, StoredTurn, decode_history},
};

/// What the lines of a thread say, for checks beyond them.
pub(crate) struct CheckedLines {
    /// The references to blobs, each with its line.
    pub references: Vec<(u64, String)>,
    /// The turns without an end.
    pub unfinished: Vec<StoredTurn>,
}

/// Checks the lines of a thread. Returns `None` if they are none.
pub(crate) fn check_lines(report: &mut CheckReport, path: &str, bytes: &[u8]) -> Option<CheckedLines> {
    let lines = RecordLines::of(bytes);
    let mut replay = Replay::run(&lines, HistoryWanted::TurnsAndHistory);
    // For its warnings.
    decode_history(&mut replay);
    if replay.meta.is_none() {
        let first = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let reason = file_end::first_line_reason(first);
        report.add(FindingKind::NotAThread, path, None, format!("not a thread: {reason}"));
        return None;
    }
    report.threads += 1;
    report.records += lines.len() as u64;
    let unreadable = report_warnings(report, path, bytes, &replay);
    check_ordinals(report, path, &lines, &unreadable);
    let references = lines.heads().filter(|(_, head)| head.blobs).flat_map(|(line, head)| {
        blobs::references(head.record).map(move |hash| (line, hash.to_owned())).collect::<Vec<_>>()
    });
    Some(CheckedLines {
        references: references.collect(),
        unfinished: replay.turns.into_iter().filter(|turn| !turn.ended).collect(),
    })
}

/// Reports what the replay has skipped. Returns the lines that are no records.
fn report_warnings(report: &mut CheckReport, path: &str, bytes: &[u8], replay: &Replay<'_>) -> HashSet<u64> {
    let torn_line = is_torn(bytes).then(|| bytes.split(|byte| *byte == b'\n').count() as u64);
    let mut unreadable = HashSet::new();
    for warning in &replay.warnings.list {
        let line = Some(warning.line);
        let mut add = |kind, message: &str| report.add(kind, path, line, message);
        match warning.problem {
            LoadProblem::Unreadable if line == torn_line => {
                add(FindingKind::TornTail, "the last line is incomplete; the next append removes it");
            }
            LoadProblem::Unreadable => {
                unreadable.insert(warning.line);
                add(FindingKind::UnreadableLine, "the line is not a record; it is skipped");
            }
            LoadProblem::UnreadableSetting => {
                add(FindingKind::UnreadableSetting, "a setting has an unknown form; it is ignored");
            }
            LoadProblem::UnknownKind => {
                add(FindingKind::UnknownRecord, "a record of a later version; it is skipped");
            }
            // Ordinals are compared below, and blobs are looked up by the caller.
            LoadProblem::OutOfOrder | LoadProblem::MissingBlob => {}
        }
    }
    let unlisted = replay.warnings.total - replay.warnings.list.len();
    if unlisted > 0 {
        let message = format!("{unlisted} more lines have problems");
        report.add(FindingKind::UnreadableLine, path, None, message);
    }
    unreadable
}

fn check_ordinals(report: &mut CheckReport, path: &str, lines: &RecordLines<'_>, unreadable: &HashSet<u64>) {
    let mut before: Option<(u64, u64)> = None;
    for (line, head) in lines.heads() {
        let ordinal = head.ordinal;
        let expected = before.map_or(0, |(_, highest)| highest + 1);
        let lost = unreadable
            .iter()
            .filter(|lost| **lost < line && before.is_none_or(|(line_before, _)| **lost > line_before));
        if Some(ordinal) == before.map(|(_, highest)| highest) {
            let message = format!("the ordinal {ordinal} is used twice");
            report.add(FindingKind::DoubledOrdinal, path, Some(line), message);
        } else if ordinal < expected {
            let message = format!("the ordinal {ordinal} comes after {}", expected - 1);
            report.add(FindingKind::OutOfOrder, path, Some(line), message);
        } else if ordinal - expected > lost.count() as u64 {
            let message = format!("records {expected} to {} are missing", ordinal - 1);
            report.add(FindingKind::MissingRecords, path, Some(line), message);
        }
        before = Some((line, ordinal.max(before.map_or(0, |(_, highest)| highest))));
    }
}

/// Returns whether the last line is not a whole record.
pub(crate) fn is_torn(bytes: &[u8]) -> bool {
    RecordLines::of(bytes).end < bytes.len() as u64
}

/// Says what becomes of a turn without an end.
pub(crate) fn unfinished_message(turn: &StoredTurn, state: impl FnOnce(&RunId) -> RunState) -> String {
    let id = &turn.id;
    let Some(run) = &turn.run else {
        return format!("the turn {id} has no end; it counts as interrupted");
    };
    match state(run) {
        RunState::Live(owner) => format!("the turn {id} has no end: {owner}, runs it"),
        RunState::Own | RunState::Over => {
            format!(
                "the turn {id} has no end: its run {run} is over; it is settled when the thread is loaded"
            )
        }
    }
}
