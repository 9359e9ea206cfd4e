//! A server that shares its threads with others: it gives its threads up when it has lost its lease, and takes over those of
//! servers that are gone.

use std::{collections::HashMap, time::Duration};

use codicil_engine::ThreadError;
use codicil_protocol::ThreadId;
use codicil_store::{Backend, StoreError};
use futures_util::{StreamExt, stream};
use tokio::time::{Instant, sleep};

use crate::server::{Server, ServerShared};

/// The time between two looks for threads whose server is gone.
const SWEEP_EVERY: Duration = Duration::from_secs(1);

/// The threads that are taken over at the same time.
const MAX_TAKEOVERS: usize = 8;

/// The time after which it is tried again to take over a thread that could not be loaded.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// The threads that a server over a database looks after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterDuty {
    /// Its own, and those of servers that are gone.
    AllThreads,
    /// Its own. For programs that end soon.
    OwnThreads,
}

/// Starts what a server over a database does besides serving clients. Does nothing for a store of files.
pub fn start(server: &Server, duty: ClusterDuty) {
    if server.shared.setup.store.backend().is_none() {
        return;
    }
    give_up_when_fenced(server);
    if duty == ClusterDuty::AllThreads {
        take_over_abandoned(server);
    }
}

fn give_up_when_fenced(server: &Server) {
    let fenced = server.shared.clone();
    server.shared.background.spawn(async move {
        let Some(backend) = fenced.setup.store.backend() else { return };
        while let Ok(lost) = backend.fenced().await {
            if let Some(threads) = fenced.started_threads() {
                threads.give_up().await;
            }
            // The server may register again: nothing that it has started for the lost threads runs any more.
            drop(lost);
        }
    });
}

fn take_over_abandoned(server: &Server) {
    let sweeping = server.shared.clone();
    server.shared.background.spawn(async move {
        let Some(backend) = sweeping.setup.store.backend() else { return };
        let mut failed: HashMap<ThreadId, Instant> = HashMap::new();
        loop {
            sleep(SWEEP_EVERY).await;
            hand_over_misplaced(&sweeping, backend.as_ref()).await;
            let abandoned = match backend.abandoned().await {
                Ok(abandoned) => abandoned,
                Err(error) => {
                    tracing::warn!("cannot look for threads of servers that are gone: {error}");
                    continue;
                }
            };
            failed.retain(|_, at| at.elapsed() < RETRY_AFTER);
            let abandoned = abandoned.into_iter().filter(|thread| !failed.contains_key(thread));
            let abandoned: Vec<_> = abandoned.collect();
            let taking = abandoned.into_iter().map(async |thread| {
                let taken = sweeping.threads().take_over(&thread).await;
                (thread, taken)
            });
            let mut taking = stream::iter(taking).buffer_unordered(MAX_TAKEOVERS);
            while let Some((thread, taken)) = taking.next().await {
                match taken {
                    Ok(()) => tracing::info!(%thread, "took over a thread whose server is gone"),
                    Err(
                        ThreadError::Store(StoreError::OwnedElsewhere { .. } | StoreError::Unavailable(_))
                        | ThreadError::GivenUp(_)
                        | ThreadError::Closed,
                    ) => {}
                    Err(error) => {
                        tracing::warn!(%thread, "failed to take over a thread: {error}");
                        failed.insert(thread, Instant::now());
                    }
                }
            }
        }
    });
}

/// Gives up idle threads whose workspace is on another server that is alive: they were taken while it was gone.
async fn hand_over_misplaced(shared: &ServerShared, backend: &dyn Backend) {
    let Some(threads) = shared.started_threads() else { return };
    match backend.misplaced().await {
        Ok(misplaced) => {
            for thread in misplaced {
                tracing::info!(%thread, "gives up a thread: the server with its workspace is back");
                threads.hand_over(&thread).await;
            }
        }
        Err(error) => tracing::warn!("cannot look for servers with the workspaces of threads: {error}"),
    }
}

/// Gives up the lease of a server that has used no thread.
pub async fn leave(server: &Server) {
    let Some(backend) = server.shared.setup.store.backend() else { return };
    if let Err(error) = backend.close().await {
        tracing::warn!("failed to release the lease of this server: {error}");
    }
}
