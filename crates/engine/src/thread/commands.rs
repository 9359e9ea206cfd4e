//! Commands of a thread: they are told apart from their turn, because they may outlive it.

use std::{collections::BTreeSet, time::Duration};

use codicil_exec::SessionId;
use codicil_protocol::{ItemId, ThreadBackgroundTerminal, ThreadItem, TurnId};

use super::{actor::ThreadActor, finish::cut_off};
use crate::step::BackgroundCommandEnd;

/// How long the commands of a thread that ends may take to be gone.
const END_TIME: Duration = Duration::from_secs(3);

impl ThreadActor {
    /// Completes the item of a background command, then releases those who wait for its end.
    pub(super) async fn on_background_command_ended(&mut self, turn: &TurnId, end: BackgroundCommandEnd) {
        self.on_completed(turn, end.item, Vec::new()).await;
        let terminal = self.kit.terminals().remove(&end.session);
        if let Some(terminal) = terminal {
            terminal.over.cancel();
        }
    }

    /// The commands that have outlived their calls.
    pub(super) fn background_terminals(&self) -> Vec<ThreadBackgroundTerminal> {
        let terminals = self.kit.terminals();
        let mut listed: Vec<_> =
            terminals.iter().map(|(session, terminal)| (*session, &terminal.item)).collect();
        listed.sort_unstable_by_key(|(session, _)| session.0);
        listed.into_iter().filter_map(|(session, item)| self.background_terminal(session, item)).collect()
    }

    fn background_terminal(&self, session: SessionId, item: &ItemId) -> Option<ThreadBackgroundTerminal> {
        let (_, ThreadItem::CommandExecution { command, cwd, .. }) = self.commands.get(item)? else {
            return None;
        };
        Some(ThreadBackgroundTerminal {
            item_id: item.clone(),
            process_id: session.to_string(),
            command: command.clone(),
            cwd: cwd.clone(),
            os_pid: None,
            cpu_percent: None,
            rss_kb: None,
        })
    }

    /// Ends a command in the background. Its end is reported like any other.
    pub(super) fn end_terminal(&self, process: &str) -> bool {
        let terminals = self.kit.terminals();
        let Some(session) = terminals.keys().find(|session| session.to_string() == process).copied() else {
            return false;
        };
        let kit = self.kit.clone();
        // Ends by itself, when the command has. Not waited for: its end is reported here.
        tokio::spawn(async move { kit.world.terminals.end(&kit.owner, session).await });
        true
    }

    /// Handles the messages that are in the channel now.
    pub(super) async fn handle_queued_messages(&mut self) {
        while let Ok(message) = self.turn_messages.try_recv() {
            self.on_turn_message(message).await;
        }
    }

    /// The turn is over: its commands are complete, but for those that run in the background.
    pub(super) async fn end_turn_commands(&mut self) {
        let alive: BTreeSet<_> =
            self.kit.terminals().values().map(|terminal| terminal.item.clone()).collect();
        self.cut_off_commands(|id| !alive.contains(id)).await;
    }

    /// Ends the commands that are still running and tells it.
    pub(super) async fn end_commands(&mut self) {
        let kit = self.kit.clone();
        let ended = async {
            kit.end_terminals().await;
            while !self.commands.is_empty()
                && let Some(message) = self.turn_messages.recv().await
            {
                self.on_turn_message(message).await;
            }
            self.handle_queued_messages().await;
        };
        if tokio::time::timeout(END_TIME, ended).await.is_err() {
            self.cut_off_commands(|_| true).await;
        }
    }

    /// Completes the items of commands of which nothing more will be heard.
    pub(super) async fn cut_off_commands(&mut self, is_lost: impl Fn(&ItemId) -> bool) {
        let lost: Vec<_> = self.commands.extract_if(.., |id, _| is_lost(id)).map(|(_, lost)| lost).collect();
        for (turn, item) in lost {
            self.on_completed(&turn, cut_off(item), Vec::new()).await;
        }
    }
}
