//! The edits of items that have started, for the approvals that refer to them.
//!
//! A request to approve edits names an item; the edits themselves arrive earlier, with the start of that item.

use std::collections::VecDeque;

use codicil_protocol::{FileUpdateChange, ItemId, ServerNotification, ThreadId, ThreadItem};

/// Items whose edits are kept; beyond that, the oldest are dropped.
const MAX_ITEMS: usize = 256;

/// The edits of items that have started and not completed.
#[derive(Debug, Default)]
pub struct OpenEdits {
    items: VecDeque<OpenEdit>,
    bytes: usize,
}

#[derive(Debug)]
struct OpenEdit {
    thread: ThreadId,
    item: ItemId,
    changes: Vec<FileUpdateChange>,
    size: usize,
}

impl OpenEdits {
    /// Records the start or the end of an item. The message took `size` bytes; all together keep at most `max_bytes`.
    pub fn record(&mut self, event: &ServerNotification, size: usize, max_bytes: usize) {
        match event {
            ServerNotification::ItemStarted(started) => {
                if let ThreadItem::FileChange { id, changes, .. } = &started.item {
                    self.remove(|edit| edit.thread == started.thread_id && edit.item == *id);
                    let changes = changes.clone();
                    let edit =
                        OpenEdit { thread: started.thread_id.clone(), item: id.clone(), changes, size };
                    self.items.push_back(edit);
                    self.bytes += size;
                }
            }
            ServerNotification::ItemCompleted(completed) => {
                self.remove(|edit| {
                    edit.thread == completed.thread_id && Some(&edit.item) == completed.item.id()
                });
            }
            _ => {}
        }
        while self.items.len() > MAX_ITEMS || self.bytes > max_bytes {
            let Some(oldest) = self.items.pop_front() else { return };
            self.bytes -= oldest.size;
        }
    }

    /// Forgets the items of a thread whose turn has ended.
    pub fn end_turn(&mut self, thread: &str) {
        self.remove(|edit| &*edit.thread == thread);
    }

    /// Returns the edits of an item; none if its start was not received.
    pub fn changes(&self, thread: &ThreadId, item: &ItemId) -> Vec<FileUpdateChange> {
        let edit = self.items.iter().find(|edit| edit.thread == *thread && edit.item == *item);
        edit.map(|edit| edit.changes.clone()).unwrap_or_default()
    }

    fn remove(&mut self, is_gone: impl Fn(&OpenEdit) -> bool) {
        let bytes = &mut self.bytes;
        self.items.retain(|edit| {
            let is_gone = is_gone(edit);
            if is_gone {
                *bytes -= edit.size;
            }
            !is_gone
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn item(method: &str, thread: &str, item: &str) -> ServerNotification {
        let change = json!({ "path": "a", "kind": { "type": "add" }, "diff": "x\n" });
        let item = json!({ "type": "fileChange", "id": item, "changes": [change], "status": "inProgress" });
        let params: Value = json!({ "threadId": thread, "turnId": "u", "item": item });
        let params = serde_json::value::to_raw_value(&params).unwrap();
        ServerNotification::decode(method, Some(&params))
    }

    #[test]
    fn edits_are_kept_until_their_item_or_turn_ends() {
        let mut edits = OpenEdits::default();
        let count =
            |edits: &OpenEdits, thread: &str, item: &str| edits.changes(&thread.into(), &item.into()).len();
        for (thread, id) in [("t", "1"), ("t", "2"), ("other", "1")] {
            edits.record(&item("item/started", thread, id), 10, 1000);
        }
        assert_eq!((count(&edits, "t", "1"), count(&edits, "other", "2")), (1, 0));
        edits.record(&item("item/completed", "t", "1"), 10, 1000);
        assert_eq!((count(&edits, "t", "1"), count(&edits, "other", "1")), (0, 1));
        edits.end_turn("other");
        assert_eq!((count(&edits, "other", "1"), count(&edits, "t", "2"), edits.bytes), (0, 1, 10));
    }

    #[test]
    fn the_oldest_edits_are_dropped_beyond_the_limits() {
        let mut edits = OpenEdits::default();
        (0..300).for_each(|number| edits.record(&item("item/started", "t", &number.to_string()), 1, 1000));
        assert_eq!((edits.items.len(), edits.bytes), (MAX_ITEMS, MAX_ITEMS));
        edits.record(&item("item/started", "t", "large"), 900, 1000);
        assert_eq!((edits.items.len(), edits.bytes), (101, 1000));
    }
}
