//! The commands of a thread that have started and not completed. A background command outlives its turn.

use std::collections::BTreeMap;

use codicil_exec::SessionId;
use codicil_protocol::{ItemId, ThreadBackgroundTerminal, ThreadItem, TurnId};

use crate::tools::BackgroundTerminal;

/// The items of running commands, with the turns that they belong to.
#[derive(Default)]
pub(super) struct OpenCommands(BTreeMap<ItemId, (TurnId, ThreadItem)>);

impl OpenCommands {
    pub fn insert(&mut self, id: ItemId, turn: TurnId, item: ThreadItem) {
        self.0.insert(id, (turn, item));
    }

    pub fn remove(&mut self, id: &ItemId) {
        self.0.remove(id);
    }

    pub fn items(&self) -> impl Iterator<Item = &ThreadItem> {
        self.0.values().map(|(_, item)| item)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the commands that match, and returns their turns and items.
    pub fn take_if(&mut self, matches: impl Fn(&ItemId) -> bool) -> Vec<(TurnId, ThreadItem)> {
        self.0.extract_if(.., |id, _| matches(id)).map(|(_, command)| command).collect()
    }

    /// Returns the view that clients have of a background command.
    pub fn background_terminal(
        &self,
        session: SessionId,
        terminal: &BackgroundTerminal,
    ) -> Option<ThreadBackgroundTerminal> {
        let (_, ThreadItem::CommandExecution { cwd, .. }) = self.0.get(&terminal.item)? else {
            return None;
        };
        Some(ThreadBackgroundTerminal {
            item_id: terminal.item.clone(),
            process_id: session.to_string(),
            command: terminal.line.clone(),
            cwd: cwd.clone(),
            os_pid: None,
            cpu_percent: None,
            rss_kb: None,
        })
    }
}
