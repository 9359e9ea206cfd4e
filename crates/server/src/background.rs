//! Work that outlives the request that began it, and ends with the server.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Owns such work.
#[derive(Debug, Default)]
pub struct BackgroundTasks {
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl BackgroundTasks {
    /// Begins the work; it is dropped where it waits when the server ends.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let stopping = self.stopping.clone();
        self.tasks.spawn(async move { stopping.run_until_cancelled(work).await });
    }

    pub async fn stop(&self) {
        self.stopping.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
