//! Converts a plan to the protocol's types.

use std::path::Path;

use codicil_protocol::{FileUpdateChange, PatchChangeKind};

use crate::{
    hunks::unified,
    plan::{ChangeSide, PatchPlan, PlannedChange},
};

/// The number of unchanged lines around each hunk of an item's diff, as in the reference server.
const CONTEXT: usize = 1;

impl PatchPlan {
    /// Returns the changes for a `fileChange` item. Bytes that are not UTF-8 become replacement characters.
    pub fn file_changes(&self) -> Vec<FileUpdateChange> {
        self.changes.iter().filter_map(file_change).collect()
    }
}

fn file_change(change: &PlannedChange) -> Option<FileUpdateChange> {
    let (side, kind, diff) = match (&change.from, &change.to) {
        (None, Some(to)) => (to, PatchChangeKind::Add, text(to)),
        (Some(from), None) => (from, PatchChangeKind::Delete, text(from)),
        (Some(from), Some(to)) => {
            let move_path = change.moved().map(|(_, to)| display(&to.path));
            let hunks = unified(&from.entry.content, &to.entry.content, CONTEXT);
            let diff = match &move_path {
                Some(path) => format!("{hunks}\n\nMoved to: {path}"),
                None => hunks,
            };
            (from, PatchChangeKind::Update { move_path }, diff)
        }
        (None, None) => return None,
    };
    Some(FileUpdateChange { path: display(&side.path), kind, diff })
}

fn text(side: &ChangeSide) -> String {
    String::from_utf8_lossy(&side.entry.content).into_owned()
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
