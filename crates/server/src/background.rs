//! Work outside a connection's task: blocking calls, and tasks that outlive the request that started them.

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::error::RpcError;

/// Runs work that reads or writes files where blocking is allowed.
pub async fn blocking<T, E>(work: impl FnOnce() -> Result<T, E> + Send + 'static) -> Result<T, RpcError>
where
    T: Send + 'static,
    E: Into<RpcError> + Send + 'static,
{
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(Into::into),
        Err(_) => Err(RpcError::panicked()),
    }
}

/// Tasks that end by themselves or with the server.
#[derive(Debug, Default)]
pub struct BackgroundTasks {
    tasks: TaskTracker,
    stopping: CancellationToken,
}

impl BackgroundTasks {
    /// Starts a task. It is dropped at its next `.await` when the server stops.
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
