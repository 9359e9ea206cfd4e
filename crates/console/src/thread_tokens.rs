//! The tokens of threads, for lists.
//!
//! The server reads them from the files of the threads, so those of threads that have not changed are remembered.

use std::collections::HashMap;

use codicil_client::{
    Client,
    protocol::{CodicilUsageRead, CodicilUsageReadParams, Thread, ThreadId, ThreadStatus},
};
use parking_lot::Mutex;

use crate::pages::unix_now;

/// Threads that are remembered. Beyond that, all are read again.
const MAX_REMEMBERED: usize = 10_000;

/// A thread that was changed within this time may have used more tokens in the same second.
const SETTLING_SECONDS: i64 = 2;

/// The tokens of the threads that lists have shown.
#[derive(Debug, Default)]
pub struct ThreadTokens(Mutex<HashMap<ThreadId, KnownTokens>>);

#[derive(Clone, Copy, Debug)]
struct KnownTokens {
    updated_at: i64,
    tokens: i64,
}

impl ThreadTokens {
    /// Returns the tokens of threads. A list is shown without them if the server cannot tell.
    pub async fn of(&self, client: &Client, threads: &[&Thread]) -> HashMap<ThreadId, i64> {
        let mut found = HashMap::new();
        let mut changed = Vec::new();
        for thread in threads {
            match self.known(thread) {
                Some(tokens) => drop(found.insert(thread.id.clone(), tokens)),
                None => changed.push(thread.id.clone()),
            }
        }
        if changed.is_empty() {
            return found;
        }
        let params = CodicilUsageReadParams { thread_ids: changed.clone(), since: None };
        let read = match client.call::<CodicilUsageRead>(params).await {
            Ok(read) => read.data,
            Err(error) => {
                tracing::debug!("cannot read the tokens of threads: {error}");
                return found;
            }
        };
        found.extend(changed.into_iter().map(|thread| (thread, 0)));
        found.extend(read.into_iter().map(|read| (read.thread_id, read.usage.total.total_tokens)));
        self.remember(threads, &found);
        found
    }

    fn known(&self, thread: &Thread) -> Option<i64> {
        let known = self.0.lock().get(&thread.id).copied();
        known
            .filter(|known| is_settled(thread) && known.updated_at == thread.updated_at)
            .map(|known| known.tokens)
    }

    fn remember(&self, threads: &[&Thread], found: &HashMap<ThreadId, i64>) {
        let mut known = self.0.lock();
        if known.len() > MAX_REMEMBERED {
            known.clear();
        }
        for thread in threads.iter().filter(|thread| is_settled(thread)) {
            if let Some(tokens) = found.get(&thread.id) {
                let entry = KnownTokens { updated_at: thread.updated_at, tokens: *tokens };
                known.insert(thread.id.clone(), entry);
            }
        }
    }
}

/// Returns whether the next change of a thread has another time.
fn is_settled(thread: &Thread) -> bool {
    let is_running = matches!(thread.status, ThreadStatus::Active { .. });
    !is_running && unix_now() - thread.updated_at > SETTLING_SECONDS
}
