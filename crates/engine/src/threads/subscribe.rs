//! Subscriptions at a position, and messages that requests send about threads.

use codicil_protocol::{MessageSeq, NotificationMethod, SubagentPosition, ThreadId};

use super::{Threads, ids::canonical};
use crate::{
    error::ThreadError,
    thread::{AnnouncedReply, ThreadHandle, ThreadSubscription},
};

impl Threads {
    /// Returns what a client at a position has missed of a thread, and the thread's own form of the id. The thread is loaded
    /// if it is not: a turn that was cut off is settled then. It sends nothing, not even that it is closed, until the guard of
    /// the answer is dropped.
    pub async fn subscribe(
        &self,
        id: &ThreadId,
        after: Option<MessageSeq>,
    ) -> Result<(ThreadId, AnnouncedReply<ThreadSubscription>), ThreadError> {
        let id = canonical(id)?;
        let subscribed = match self.get(&id) {
            Ok(handle) => handle.subscribe(after).await,
            Err(error) => Err(error),
        };
        let subscription = match subscribed {
            Err(ThreadError::NotFound(_) | ThreadError::Closed) => {
                let opened = self.resume_shared(&id).await?;
                // The guard of a thread that was loaded meanwhile: it must go on to answer.
                drop(opened.announce);
                self.get_opened(&id)?.subscribe(after).await?
            }
            subscribed => subscribed?,
        };
        Ok((id, subscription))
    }

    /// Subscribes to the subagents below a thread, loaded or not. Returns each with the position from which its messages
    /// follow.
    pub async fn subscribe_to_subagents(
        &self,
        id: &ThreadId,
        subscribe: impl Fn(&ThreadId),
    ) -> Result<Vec<SubagentPosition>, ThreadError> {
        let id = canonical(id)?;
        let mut agents = self.agents_of(&id);
        for stored in self.stored_below(&id).await?.into_iter().rev() {
            if !agents.contains(&stored) {
                agents.push(stored);
            }
        }
        let mut positions = Vec::new();
        for thread_id in agents {
            let at = match self.get(&thread_id) {
                Ok(handle) => handle.notifier().position_while(|| subscribe(&thread_id)),
                Err(_) => {
                    subscribe(&thread_id);
                    let next = self.0.engine.store.read(&thread_id).await?.next_ordinal;
                    MessageSeq::end_of(next.saturating_sub(1))
                }
            };
            positions.push(SubagentPosition { thread_id, at });
        }
        Ok(positions)
    }

    /// Sends a message about a thread to all clients that follow the state of threads. A loaded thread gives it a position.
    pub fn broadcast<N: NotificationMethod>(&self, thread: &ThreadId, params: &N::Params) {
        match self.get(thread).as_ref().map(ThreadHandle::notifier) {
            Ok(notifier) => notifier.broadcast::<N>(params),
            Err(_) => self.0.engine.clients.announce::<N>(thread, params),
        }
    }

    /// Sends a message about a thread to its subscribers.
    pub fn notify<N: NotificationMethod>(&self, thread: &ThreadId, params: &N::Params) {
        match self.get(thread).as_ref().map(ThreadHandle::notifier) {
            Ok(notifier) => notifier.notify::<N>(params),
            Err(_) => self.0.engine.clients.notify::<N>(thread, params),
        }
    }
}
