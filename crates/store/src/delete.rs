//! Threads that are taken away for good.
//!
//! Large strings stay: they are stored by content, and other threads may hold the same.

use std::{fs, path::Path};

use codicil_protocol::ThreadId;

use crate::{
    error::{Result, StoreError},
    layout,
    pool::WorkLane,
    store::{Store, StoreInner},
};

impl Store {
    /// Takes a thread away, archived or not. Whoever appends to it afterwards is told that it is gone.
    pub async fn delete(&self, id: &ThreadId) -> Result<()> {
        let id = id.clone();
        self.run(WorkLane::Load, move |inner| inner.at_its_place(&id, |place| inner.delete(&id, &place.path)))
            .await
    }

    /// The threads that were started by the agent of this one, as far as they are known to lists.
    pub async fn children(&self, id: &ThreadId) -> Result<Vec<ThreadId>> {
        let id = id.clone();
        self.run(WorkLane::List, move |inner| inner.index.children(&id)).await
    }
}

impl StoreInner {
    fn delete(&self, id: &ThreadId, path: &Path) -> Result<()> {
        let dir = path.parent().unwrap_or(self.layout.home());
        self.enter(dir);
        fs::remove_file(path).map_err(StoreError::io("delete", path))?;
        layout::sync_dir(dir)?;
        // A list looks whether the file is there, so it does not show the thread even if this fails.
        if let Err(error) = self.index.forget(id) {
            tracing::warn!(%error, "a thread that was deleted is still in the index");
        }
        Ok(())
    }
}
