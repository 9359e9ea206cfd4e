//! What a thread says of its turns and items.

use codicil_protocol::{
    ItemCompleted, ItemCompletedNotification, ItemStarted, ItemStartedNotification, ThreadItem, ThreadStatus,
    Turn, TurnId, TurnStarted, TurnStartedNotification, TurnStatus,
};
use tokio::sync::oneshot;

use super::{
    AnnouncedReply, CommandReply,
    actor::{ThreadActor, answer},
};
use crate::clock::unix_now_ms;

impl ThreadActor {
    /// Answers, and waits until the answer is on its way: what follows must come after it.
    pub(super) async fn accept<T>(&mut self, reply: CommandReply<AnnouncedReply<T>>, value: T) {
        let (announced, said) = AnnouncedReply::new(value);
        answer(reply, Ok(announced));
        let _: Result<(), oneshot::error::RecvError> = said.await;
    }

    pub(super) fn announce_turn(&mut self, id: &TurnId) {
        self.mark_turn();
        self.set_status(ThreadStatus::Active { active_flags: Vec::new() });
        let params =
            TurnStartedNotification { thread_id: self.state.id.clone(), turn: in_progress(id.clone()) };
        self.notify::<TurnStarted>(&params);
    }

    /// An item that is complete when it begins.
    pub(super) fn say_item(&mut self, turn: &TurnId, item: &ThreadItem) {
        self.say_started(turn, item);
        self.say_completed(turn, item);
    }

    pub(super) fn say_started(&self, turn: &TurnId, item: &ThreadItem) {
        self.notify::<ItemStarted>(&ItemStartedNotification {
            item: item.clone(),
            thread_id: self.state.id.clone(),
            turn_id: turn.clone(),
            started_at_ms: Some(unix_now_ms()),
        });
    }

    pub(super) fn say_completed(&mut self, turn: &TurnId, item: &ThreadItem) {
        if let (Some(active), Some(id)) = (&mut self.active, item.id()) {
            active.open.remove(id);
        }
        self.notify::<ItemCompleted>(&ItemCompletedNotification {
            item: item.clone(),
            thread_id: self.state.id.clone(),
            turn_id: turn.clone(),
            completed_at_ms: Some(unix_now_ms()),
        });
        self.world.realtime.heard(&self.state.id, turn, item);
    }
}

pub(super) fn in_progress(id: TurnId) -> Turn {
    Turn { id, items: Vec::new(), status: TurnStatus::InProgress, error: None }
}
