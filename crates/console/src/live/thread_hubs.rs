//! The hubs that are open, one per thread.

use std::{collections::HashMap, sync::Arc};

use codicil_client::{Client, protocol::ThreadId};
use parking_lot::Mutex;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{
    page_events::PageReceiver,
    thread_hub::{HubError, ThreadHub, ThreadPage},
};

/// Finds or opens the hub of a thread. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ThreadHubs(Arc<HubTable>);

#[derive(Debug)]
struct HubTable {
    client: Client,
    hubs: Mutex<HashMap<ThreadId, ThreadHub>>,
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl ThreadHubs {
    pub fn new(client: Client, tasks: TaskTracker, stopping: CancellationToken) -> Self {
        Self(Arc::new(HubTable { client, hubs: Mutex::default(), tasks, stopping }))
    }

    pub async fn page(&self, thread: &ThreadId) -> Result<ThreadPage, HubError> {
        match self.hub(thread).page().await {
            // It may have closed in this moment.
            Err(HubError::Closed) => self.hub(thread).page().await,
            page => page,
        }
    }

    pub async fn attach(&self, thread: &ThreadId, after: Option<u64>) -> Result<PageReceiver, HubError> {
        match self.hub(thread).attach(after).await {
            Err(HubError::Closed) => self.hub(thread).attach(after).await,
            events => events,
        }
    }

    /// Returns whether a thread has a hub, and therefore a subscription.
    pub fn has(&self, thread: &ThreadId) -> bool {
        self.0.hubs.lock().get(thread).is_some_and(|hub| !hub.is_closed())
    }

    fn hub(&self, thread: &ThreadId) -> ThreadHub {
        let mut hubs = self.0.hubs.lock();
        hubs.retain(|_, hub| !hub.is_closed());
        let new_hub = || {
            let (hub, task) = ThreadHub::new(self.0.client.clone(), thread.clone());
            let stopping = self.0.stopping.clone();
            self.0.tasks.spawn(async move {
                tokio::select! {
                    () = task => {}
                    () = stopping.cancelled() => {}
                }
            });
            hub
        };
        hubs.entry(thread.clone()).or_insert_with(new_hub).clone()
    }
}
