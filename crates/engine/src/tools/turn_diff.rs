//! The diff of all files that a turn has patched, sent to clients whenever it changes.

use std::{path::PathBuf, sync::Arc};

use codicil_patch::{DiskFiles, PatchPlan, TurnDiff, git_root};
use codicil_protocol::{TurnDiffUpdated, TurnDiffUpdatedNotification};
use parking_lot::Mutex;

use super::TurnTools;

/// Tracks the diff of one turn. Reads no files before the first patch.
pub(super) struct DiffTracker {
    cwd: PathBuf,
    state: Arc<Mutex<DiffState>>,
}

#[derive(Default)]
struct DiffState {
    files: Option<TurnDiff>,
    last_sent: Option<String>,
}

impl DiffTracker {
    pub fn new(cwd: PathBuf) -> Self {
        Self { cwd, state: Arc::default() }
    }

    /// Adds the files of a patch that has been applied.
    pub fn record(&self, plan: &PatchPlan) {
        let mut state = self.state.lock();
        let root = || git_root(&self.cwd).unwrap_or_else(|| self.cwd.clone());
        state.files.get_or_insert_with(|| TurnDiff::new(&root())).record(plan);
    }

    fn has_files(&self) -> bool {
        self.state.lock().files.is_some()
    }
}

impl DiffState {
    /// Returns the diff if it differs from the one sent last. Blocks on the disk.
    fn take_changed(&mut self) -> Option<String> {
        let diff = match self.files.as_ref()?.diff(&DiskFiles) {
            Ok(diff) => diff.unwrap_or_default(),
            Err(error) => {
                tracing::warn!("cannot compute the diff of the turn: {error}");
                return None;
            }
        };
        if self.last_sent.as_deref().unwrap_or_default() == diff {
            return None;
        }
        self.last_sent = Some(diff.clone());
        Some(diff)
    }
}

/// Sends the diff of the turn if it has changed. Called after patches and after commands, which may change any file.
pub(super) async fn send_if_changed(turn: &TurnTools) {
    if !turn.diff.has_files() {
        return;
    }
    let state = turn.diff.state.clone();
    let Ok(Some(diff)) = tokio::task::spawn_blocking(move || state.lock().take_changed()).await else {
        return;
    };
    let params =
        TurnDiffUpdatedNotification { thread_id: turn.thread_id(), turn_id: turn.turn_id.clone(), diff };
    turn.notify::<TurnDiffUpdated>(&params).await;
}
