//! The index of the messages of threads in a backend: which threads cannot contain a text?
//!
//! It has the groups of three characters (trigrams) of messages as numbers, which need little room and which any database can
//! look up. A thread that is not indexed, or only in part, is read by every search, so results are complete before the index
//! is. Messages are indexed by a task that a search starts; appending to threads does nothing for it.

use std::sync::Arc;

use codicil_protocol::ThreadId;
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::SharedThreads;
use crate::{
    backend::Backend,
    error::{Result, StoreError},
    record_lines::RecordLines,
    search_index::messages,
    search_text::{MAX_TRIGRAMS, SearchTerm},
    thread_lines::{LineBlobs, without_history},
};

/// The task that indexes messages. It ends with the last clone of the store.
#[derive(Default)]
pub(crate) struct MessageIndexing(Mutex<Option<JoinHandle<()>>>);

impl Drop for MessageIndexing {
    fn drop(&mut self) {
        if let Some(task) = self.0.lock().take() {
            task.abort();
        }
    }
}

impl SharedThreads {
    /// Indexes messages in the background, unless that is under way.
    pub(super) fn start_indexing(&self) {
        let mut task = self.indexing.0.lock();
        if task.as_ref().is_some_and(|task| !task.is_finished()) {
            return;
        }
        let backend = self.backend.clone();
        *task = Some(tokio::spawn(async move {
            if let Err(error) = index_all(&backend).await {
                tracing::warn!(%error, "failed to index the messages of threads");
            }
        }));
    }

    /// Indexes the messages of all threads.
    pub async fn index_messages(&self) -> Result<()> {
        index_all(&self.backend).await
    }
}

async fn index_all(backend: &Arc<dyn Backend>) -> Result<()> {
    loop {
        let threads = backend.unindexed().await?;
        if threads.is_empty() {
            return Ok(());
        }
        for (thread, from) in threads {
            match index_thread(backend, &thread, from).await {
                // Deleted meanwhile.
                Err(StoreError::NotFound(_)) => {}
                indexed => indexed?,
            }
        }
    }
}

/// Indexes what was added to a thread.
async fn index_thread(backend: &Arc<dyn Backend>, thread: &ThreadId, from: u64) -> Result<()> {
    let bytes = backend.read_lines(thread, from).await?;
    let next = from + memchr::memchr_iter(b'\n', &bytes).count() as u64;
    let hashes = RecordLines::of(&bytes).blob_hashes(without_history);
    let blobs = if hashes.is_empty() { Default::default() } else { backend.read_blobs(hashes).await? };
    let read = move || text_trigrams(messages(&LineBlobs::Read(blobs), &bytes));
    let trigrams = tokio::task::spawn_blocking(read).await.map_err(|_| StoreError::Closed)?;
    backend.index_messages(thread, from..next, trigrams).await
}

/// Returns the trigrams of texts as numbers, each once.
fn text_trigrams(texts: impl Iterator<Item = String>) -> Vec<i32> {
    let mut found = Vec::new();
    for text in texts {
        let folded: Vec<char> = text.chars().flat_map(char::to_lowercase).collect();
        found.extend(folded.windows(3).map(trigram_number));
        // Long texts repeat most of their trigrams.
        found.sort_unstable();
        found.dedup();
    }
    found
}

/// Returns the trigrams of a text that is searched for; `None` if it is too short to have one.
pub(super) fn term_trigrams(term: &SearchTerm) -> Option<Vec<i32>> {
    let trigrams = term.trigrams();
    let numbers = trigrams.iter().take(MAX_TRIGRAMS);
    let numbers = numbers.map(|trigram| trigram_number(&trigram.chars().collect::<Vec<_>>()));
    (!trigrams.is_empty()).then(|| numbers.collect())
}

/// Returns the number of a trigram: the FNV-1a hash of its characters. It is stored, so it never changes. Two trigrams may
/// have the same number; the messages themselves decide.
fn trigram_number(trigram: &[char]) -> i32 {
    let hash = trigram
        .iter()
        .flat_map(|letter| u32::from(*letter).to_le_bytes())
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_trigrams_of_what_it_contains() {
        let text = text_trigrams(["One Needle in É".to_owned(), "ab".to_owned()].into_iter());
        let has = |term: &str| {
            term_trigrams(&SearchTerm::new(term))
                .map(|wanted| wanted.iter().all(|number| text.contains(number)))
        };
        assert_eq!((has("NEEDLE"), has(" in é"), has("needles")), (Some(true), Some(true), Some(false)));
        // Texts do not run into each other, and short ones cannot be looked up.
        assert_eq!((has("éab"), has("ab"), has("")), (Some(false), None, None));
        // Stored numbers must stay as they are.
        assert_eq!(trigram_number(&['a', 'b', 'c']), -224_585_515);
    }
}
