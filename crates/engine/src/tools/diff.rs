//! What a turn has made of the files, told whenever it has changed.

use std::{path::PathBuf, sync::Arc};

use codicil_patch::{DiskFiles, PatchPlan, TurnDiff, git_root};
use codicil_protocol::{Frame, TurnDiffUpdated, TurnDiffUpdatedNotification};
use parking_lot::Mutex;

use super::TurnTools;
use crate::turn_channel::TurnEvent;

/// The diff of one turn. Nothing is looked at until the first patch.
pub(super) struct DiffTracker {
    cwd: PathBuf,
    state: Arc<Mutex<DiffState>>,
}

#[derive(Default)]
struct DiffState {
    files: Option<TurnDiff>,
    /// What was told last.
    told: Option<String>,
}

impl DiffTracker {
    pub fn new(cwd: PathBuf) -> Self {
        Self { cwd, state: Arc::default() }
    }

    /// Takes note of a patch that has been applied.
    pub fn record(&self, plan: &PatchPlan) {
        let mut state = self.state.lock();
        let root = || git_root(&self.cwd).unwrap_or_else(|| self.cwd.clone());
        state.files.get_or_insert_with(|| TurnDiff::new(&root())).record(plan);
    }

    fn has_files(&self) -> bool {
        self.state.lock().files.is_some()
    }

    /// The diff, if it is another than the one that was told. Reads files.
    fn news(state: &Mutex<DiffState>) -> Option<String> {
        let mut state = state.lock();
        let diff = match state.files.as_ref()?.diff(&DiskFiles) {
            Ok(diff) => diff.unwrap_or_default(),
            Err(error) => {
                tracing::warn!("the diff of a turn cannot be made: {error}");
                return None;
            }
        };
        if state.told.as_deref().unwrap_or_default() == diff {
            return None;
        }
        state.told = Some(diff.clone());
        Some(diff)
    }
}

impl TurnTools {
    /// Tells the diff of the turn if it has changed: patches do that, and so may any command.
    pub(super) async fn refresh_diff(&self) {
        if !self.diff.has_files() {
            return;
        }
        let state = self.diff.state.clone();
        let Ok(Some(diff)) = tokio::task::spawn_blocking(move || DiffTracker::news(&state)).await else {
            return;
        };
        let params = TurnDiffUpdatedNotification {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            diff,
        };
        self.reporter
            .report_one(TurnEvent::Notification(Frame::notification::<TurnDiffUpdated>(&params)))
            .await;
    }
}
