//! How threads go: with their agents, and all of them when the server stops.

use codicil_protocol::{ThreadClosed, ThreadClosedNotification, ThreadId, ThreadStatus};
use futures_util::future::join_all;

use super::{Threads, agents::below};
use crate::thread::ThreadHandle;

impl Threads {
    /// Ends a thread and its agents, and says so. Returns those that were loaded, the thread first.
    pub async fn unload(&self, id: &ThreadId) -> Vec<ThreadId> {
        let mut family = self.take_family(id).into_iter();
        let Some(first) = family.next() else { return Vec::new() };
        // Before its agents: a turn that waits for them must not go on without them.
        self.end(&first).await;
        let agents: Vec<_> = family.collect();
        join_all(agents.iter().map(|agent| self.end(agent))).await;
        [first].iter().chain(&agents).map(|handle| handle.id().clone()).collect()
    }

    async fn end(&self, handle: &ThreadHandle) {
        self.0.world.realtime.end(handle.id());
        // A thread that ended by itself has nothing more to end.
        let _ = handle.unload().await;
        self.lock().forget(handle.id());
        self.say_status(handle.id(), ThreadStatus::NotLoaded);
    }

    /// Ends a thread that nobody listens to any more.
    pub async fn close(&self, id: &ThreadId) {
        for thread_id in self.unload(id).await {
            self.0.world.audience.broadcast::<ThreadClosed>(&ThreadClosedNotification { thread_id });
        }
    }

    /// Ends every thread, with its turn, and writes what is left to write.
    pub async fn stop(&self) {
        let handles = self.lock().take();
        join_all(handles.iter().map(ThreadHandle::unload)).await;
        self.0.world.realtime.end_all().await;
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.world.mcp.shutdown().await;
        if let Err(error) = self.0.world.store.close().await {
            tracing::error!("the store could not be closed: {error}");
        }
    }

    /// Takes a thread and all agents below it out of the registry.
    fn take_family(&self, id: &ThreadId) -> Vec<ThreadHandle> {
        let mut loaded = self.lock();
        let Some(first) = loaded.let_go(id) else { return Vec::new() };
        let agents = below(&loaded, id);
        for agent in &agents {
            loaded.let_go(agent.id());
        }
        [first].into_iter().chain(agents).collect()
    }
}
