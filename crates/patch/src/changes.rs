//! Converts a plan, or a patch that cannot be planned, to the protocol's types.

use std::path::Path;

use codicil_protocol::{FileUpdateChange, PatchChangeKind};

use crate::{
    hunks::unified,
    operation::{Patch, PatchLine, PatchOperation, PatchSection},
    paths::absolute,
    plan::{ChangeSide, PatchPlan, PlannedChange},
};

/// The number of unchanged lines around each hunk of an item's diff, as in the reference server.
const CONTEXT: usize = 1;

impl Patch {
    /// Returns the changes that a patch asks for, for the item of a patch that does not fit the files, sorted by path. The diff of an
    /// update has the lines of the patch; a deletion has none.
    pub fn requested_changes(&self, cwd: &Path) -> Vec<FileUpdateChange> {
        let mut changes: Vec<_> =
            self.operations.iter().map(|operation| requested_change(operation, cwd)).collect();
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes
    }
}

fn requested_change(operation: &PatchOperation, cwd: &Path) -> FileUpdateChange {
    let full_path = |given: &str| display(&absolute(cwd, given));
    match operation {
        PatchOperation::Add { path, content } => {
            FileUpdateChange { path: full_path(path), kind: PatchChangeKind::Add, diff: content.clone() }
        }
        PatchOperation::Delete { path } => {
            FileUpdateChange { path: full_path(path), kind: PatchChangeKind::Delete, diff: String::new() }
        }
        PatchOperation::Update { path, move_to, sections } => {
            let move_path = move_to.as_deref().map(full_path);
            let diff = with_move(sections.iter().map(section_text).collect(), move_path.as_deref());
            FileUpdateChange { path: full_path(path), kind: PatchChangeKind::Update { move_path }, diff }
        }
    }
}

/// Returns a section of a patch as it was written.
fn section_text(section: &PatchSection) -> String {
    let marks = section.anchors.iter().map(|anchor| format!("@@ {anchor}\n"));
    let mark = section.anchors.is_empty().then(|| "@@\n".to_owned());
    let lines = section.lines.iter().map(|line| match line {
        PatchLine::Keep(text) => format!(" {text}\n"),
        PatchLine::Remove(text) => format!("-{text}\n"),
        PatchLine::Add(text) => format!("+{text}\n"),
    });
    mark.into_iter().chain(marks).chain(lines).collect()
}

fn with_move(hunks: String, move_path: Option<&str>) -> String {
    match move_path {
        Some(path) => format!("{hunks}\n\nMoved to: {path}"),
        None => hunks,
    }
}

impl PatchPlan {
    /// Returns the changes for a `fileChange` item, sorted by path. Bytes that are not UTF-8 become replacement characters.
    pub fn file_changes(&self) -> Vec<FileUpdateChange> {
        let mut changes: Vec<_> = self.changes.iter().filter_map(file_change).collect();
        changes.sort_by(|one, other| one.path.cmp(&other.path));
        changes
    }
}

fn file_change(change: &PlannedChange) -> Option<FileUpdateChange> {
    let (side, kind, diff) = match (&change.from, &change.to) {
        (None, Some(to)) => (to, PatchChangeKind::Add, text(to)),
        (Some(from), None) => (from, PatchChangeKind::Delete, text(from)),
        (Some(from), Some(to)) => {
            let move_path = change.moved().map(|(_, to)| display(&to.path));
            let hunks = unified(&from.entry.content, &to.entry.content, CONTEXT);
            let diff = with_move(hunks, move_path.as_deref());
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
