//! `thread/shellCommand`: beside the running turn, or as a turn of its own.

use codicil_store::Record;

use super::{
    AnnouncedReply, CommandReply, TurnKind,
    active::ActiveTurn,
    actor::{ThreadActor, answer},
};
use crate::{error::ThreadError, ids::new_turn_id, tools::login, turn::ShellTask};

impl ThreadActor {
    pub(super) async fn on_shell(&mut self, command: String, reply: CommandReply<AnnouncedReply<()>>) {
        if command.trim().is_empty() {
            return answer(reply, Err(ThreadError::EmptyCommand));
        }
        let shell = self.world.shell().await;
        let start = login(&self.state.config, None);
        let (thread, cwd) = (self.state.id.clone(), self.state.settings.cwd.clone());
        let active_id = self.active.as_ref().map(|active| active.id.clone());
        let id = active_id.unwrap_or_else(new_turn_id);
        let reporter = self.reporter(&id);
        let turn = id.clone();
        let run =
            |reporter, cancel| ShellTask { thread, turn, command, cwd, shell, start, reporter, cancel }.run();
        if let Some(active) = &mut self.active {
            active.wants_more = true;
            active.run_beside(reporter, run);
            return self.accept(reply, ()).await;
        }
        if let Err(error) = self.store(vec![Record::Turn { turn_id: id.clone() }]).await {
            return answer(reply, Err(error));
        }
        self.active = Some(ActiveTurn::new(id.clone(), TurnKind::Shell, reporter, run));
        self.accept(reply, ()).await;
        self.announce_turn(&id);
    }
}
