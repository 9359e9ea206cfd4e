//! Patches that the model is still writing, as clients see them: all changes so far, with the paths of the patch.
//!
//! Only complete lines count. Whether the patch is valid and fits the files is decided when it is applied.

use std::time::{Duration, Instant};

use codicil_protocol::{
    FileChangePatchUpdated, FileChangePatchUpdatedNotification, FileUpdateChange, Frame, ItemId,
    PatchChangeKind,
};

use super::response::ItemPlace;
use crate::turn_channel::TurnEvent;

/// The shortest time between two notifications, each of which repeats the patch.
const UPDATE_PAUSE: Duration = Duration::from_millis(100);

/// A patch that grows.
pub(super) struct PatchProgress {
    /// The item that the patch becomes.
    item_id: ItemId,
    /// The beginning of a line that is not complete.
    rest: String,
    changes: Vec<FileUpdateChange>,
    has_news: bool,
    last_update: Option<Instant>,
}

impl PatchProgress {
    pub fn new(item_id: ItemId) -> Self {
        Self { item_id, rest: String::new(), changes: Vec::new(), has_news: false, last_update: None }
    }

    /// Adds text. Returns a notification if there is something new and the last one was long enough ago.
    pub fn grow(&mut self, place: &ItemPlace, delta: &str) -> Option<TurnEvent> {
        self.rest.push_str(delta);
        while let Some((line, rest)) = self.rest.split_once('\n') {
            let (line, rest) = (line.to_owned(), rest.to_owned());
            self.rest = rest;
            self.read_line(line.trim_end_matches('\r'));
        }
        let is_due = self.last_update.is_none_or(|last| last.elapsed() >= UPDATE_PAUSE);
        if is_due { self.update(place) } else { None }
    }

    /// Ends the patch. Returns the last notification, if it says more than the one before.
    pub fn finish(mut self, place: &ItemPlace) -> Option<TurnEvent> {
        let rest = std::mem::take(&mut self.rest);
        if !rest.is_empty() {
            self.read_line(&rest);
        }
        self.update(place)
    }

    fn read_line(&mut self, line: &str) {
        if let Some(path) = line.strip_prefix("*** Add File: ") {
            self.begin(path, PatchChangeKind::Add);
        } else if let Some(path) = line.strip_prefix("*** Delete File: ") {
            self.begin(path, PatchChangeKind::Delete);
        } else if let Some(path) = line.strip_prefix("*** Update File: ") {
            self.begin(path, PatchChangeKind::Update { move_path: None });
        } else if let Some(path) = line.strip_prefix("*** Move to: ") {
            if let Some(PatchChangeKind::Update { move_path }) =
                self.changes.last_mut().map(|change| &mut change.kind)
            {
                *move_path = Some(path.trim().to_owned());
                self.has_news = true;
            }
        } else if !line.starts_with("*** ") {
            self.add_content(line);
        }
    }

    fn begin(&mut self, path: &str, kind: PatchChangeKind) {
        self.changes.push(FileUpdateChange { path: path.trim().to_owned(), kind, diff: String::new() });
        self.has_news = true;
    }

    /// Adds a line to the last change. The diff of a new file is its content.
    fn add_content(&mut self, line: &str) {
        let Some(change) = self.changes.last_mut() else { return };
        let line = match change.kind {
            PatchChangeKind::Add => line.strip_prefix('+').unwrap_or(line),
            _ => line,
        };
        change.diff.push_str(line);
        change.diff.push('\n');
        self.has_news = true;
    }

    fn update(&mut self, place: &ItemPlace) -> Option<TurnEvent> {
        if !std::mem::take(&mut self.has_news) {
            return None;
        }
        self.last_update = Some(Instant::now());
        let params = FileChangePatchUpdatedNotification {
            thread_id: place.thread.clone(),
            turn_id: place.turn.clone(),
            item_id: self.item_id.clone(),
            changes: self.changes.clone(),
        };
        Some(TurnEvent::Notification(Frame::notification::<FileChangePatchUpdated>(&params)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_shows_its_complete_lines() {
        let place = ItemPlace { thread: "t".into(), turn: "u".into() };
        let mut patch = PatchProgress::new("call".into());
        let text = "*** Begin Patch\n*** Add File: a.txt\n+one\n+two\n*** Update File: b.txt\n*** Move to: c.txt\n@@\n-x\n+y\n*** Delete File: d.txt\n*** End Patch";
        for part in text.split_inclusive(' ') {
            patch.grow(&place, part);
        }
        let shown: Vec<_> = patch.changes.iter().map(|change| (&*change.path, &*change.diff)).collect();
        assert_eq!(shown, [("a.txt", "one\ntwo\n"), ("b.txt", "@@\n-x\n+y\n"), ("d.txt", "")]);
        let moved = PatchChangeKind::Update { move_path: Some("c.txt".to_owned()) };
        assert_eq!(patch.changes.get(1).map(|change| &change.kind), Some(&moved));
    }

    #[test]
    fn the_end_of_a_patch_is_reported_once() {
        let place = ItemPlace { thread: "t".into(), turn: "u".into() };
        let mut patch = PatchProgress::new("call".into());
        assert!(patch.grow(&place, "*** Begin Patch\n").is_none());
        assert!(patch.grow(&place, "*** Add File: a.txt\n").is_some());
        // Within the pause.
        assert!(patch.grow(&place, "+one\n").is_none());
        assert!(patch.finish(&place).is_some());
        let mut patch = PatchProgress::new("call".into());
        patch.grow(&place, "*** Add File: a.txt\n");
        assert!(patch.finish(&place).is_none());
    }
}
