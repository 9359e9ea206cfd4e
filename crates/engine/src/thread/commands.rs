//! Commands of a thread: they are told apart from their turn, because they may outlive it.

use std::{collections::BTreeSet, time::Duration};

use codicil_exec::SessionId;
use codicil_protocol::{ItemId, ThreadBackgroundTerminal, ThreadItem, TurnId};

use super::{actor::ThreadActor, finish::cut_off};
use crate::{step::TurnEvent, tools::TerminalReport};

/// How long the commands of a thread that ends may take to be gone.
const END_TIME: Duration = Duration::from_secs(3);

impl ThreadActor {
    pub(super) async fn on_report(&mut self, report: TerminalReport) {
        let TerminalReport { turn, steps } = report;
        for step in steps {
            match &step {
                TurnEvent::Started(item) => {
                    if let Some(id) = item.id() {
                        self.commands.insert(id.clone(), (turn.clone(), item.clone()));
                    }
                    self.say_started(&turn, item);
                }
                TurnEvent::Completed { item, .. } => {
                    if let Some(id) = item.id() {
                        self.commands.remove(id);
                    }
                    self.on_step(&turn, step).await;
                }
                _ => self.on_step(&turn, step).await,
            }
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

    /// Takes in what commands have reported so far.
    pub(super) async fn drain_reports(&mut self) {
        while let Ok(report) = self.reports.try_recv() {
            self.on_report(report).await;
        }
    }

    /// The turn is over: its commands are complete, but for those that run in the background.
    pub(super) async fn end_turn_commands(&mut self) {
        self.drain_reports().await;
        let alive: BTreeSet<_> =
            self.kit.terminals().values().map(|terminal| terminal.item.clone()).collect();
        self.cut_off_commands(|id| !alive.contains(id)).await;
    }

    /// Ends the commands that are still running and tells it.
    pub(super) async fn end_commands(&mut self) {
        let kit = self.kit.clone();
        let ended = async {
            kit.end_terminals().await;
            self.drain_reports().await;
            while !self.commands.is_empty() {
                match self.reports.recv().await {
                    Some(report) => self.on_report(report).await,
                    None => return,
                }
            }
        };
        if tokio::time::timeout(END_TIME, ended).await.is_err() {
            self.cut_off_commands(|_| true).await;
        }
    }

    /// Completes the items of commands of which nothing more will be heard.
    pub(super) async fn cut_off_commands(&mut self, is_lost: impl Fn(&ItemId) -> bool) {
        let lost: Vec<_> = self.commands.extract_if(.., |id, _| is_lost(id)).map(|(_, lost)| lost).collect();
        for (turn, item) in lost {
            self.complete(&turn, cut_off(item)).await;
        }
    }

    async fn complete(&mut self, turn: &TurnId, item: ThreadItem) {
        self.on_step(turn, TurnEvent::Completed { item, context: Vec::new() }).await;
    }
}
