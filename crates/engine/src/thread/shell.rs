//! `thread/shellCommand`: beside the running turn, or as a turn of its own.

use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply, TurnKind,
    active::ActiveTurn,
    actor::{ThreadActor, answer},
};
use crate::{error::ThreadError, ids::new_turn_id, tools::shell_start, turn::ShellTask};

impl ThreadActor {
    pub(super) async fn on_shell(&mut self, command: String, reply: CommandReply<AnnouncedReply<()>>) {
        if command.trim().is_empty() {
            return answer(reply, Err(ThreadError::EmptyCommand));
        }
        let shell = self.world.shell().await;
        let start = shell_start(&self.state.config, None);
        let (thread, cwd) = (self.state.id.clone(), self.state.settings.cwd.clone());
        if let Some(active) = &mut self.active {
            let Some(steps) = active.reports.upgrade() else { return answer(reply, Err(ThreadError::Busy)) };
            let (turn, cancel) = (active.id.clone(), active.cancel.clone());
            active.wants_more = true;
            let task = ShellTask { thread, turn, command, cwd, shell, start, steps, cancel };
            // Ends with the turn: it holds the turn's channel open, and the turn's token cancels it.
            tokio::spawn(task.run());
            return self.accept(reply, ()).await;
        }
        let id = new_turn_id();
        if let Err(error) = self.store(vec![Record::Turn { turn_id: id.clone() }]).await {
            return answer(reply, Err(error));
        }
        let turn = id.clone();
        let run = |steps, cancel| ShellTask { thread, turn, command, cwd, shell, start, steps, cancel }.run();
        self.active = Some(ActiveTurn::new(id.clone(), TurnKind::Shell, run));
        self.accept(reply, ()).await;
        self.announce_turn(&id);
    }
}
