//! Threads as they are kept: read, listed, put away, named.

use codicil_protocol::{
    GitInfo, Patch, Thread, ThreadId, ThreadListParams, ThreadListResponse, ThreadMetadataUpdateParams,
};
use codicil_store::StoreError;

use super::{IncludeTurns, ThreadRead, Threads, names::canonical, not_stored, own_session, stored_turns};
use crate::{error::ThreadError, thread::ThreadHandle};

impl Threads {
    pub async fn read(&self, id: &ThreadId, turns: IncludeTurns) -> Result<ThreadRead, ThreadError> {
        let id = &canonical(id)?;
        let live = match self.get(id) {
            Ok(handle) => Some(handle.snapshot().await?),
            Err(_) => None,
        };
        if live.as_ref().is_some_and(|live| live.thread.ephemeral) && turns == IncludeTurns::Included {
            return Err(ThreadError::EphemeralTurns);
        }
        let thread = match &live {
            Some(live) => live.thread.clone(),
            None => self.stored_thread(id, turns).await?,
        };
        let turns = match turns {
            IncludeTurns::LeftOut => Vec::new(),
            IncludeTurns::Included => {
                let active = live.as_ref().and_then(|live| live.active_turn.as_deref());
                stored_turns(&self.0.world, id, active).await?
            }
        };
        Ok(ThreadRead { thread, turns })
    }

    /// Of an archived thread there is no more than its summary.
    async fn stored_thread(&self, id: &ThreadId, turns: IncludeTurns) -> Result<Thread, ThreadError> {
        let location = self.0.world.store.find(id).await.map_err(|error| match error {
            StoreError::NotFound(id) => ThreadError::NotLoaded(id),
            other => other.into(),
        })?;
        if location.archived && turns == IncludeTurns::Included {
            return Err(ThreadError::CannotLocate(id.clone()));
        }
        Ok(own_session(self.0.world.store.read_summary(id).await?))
    }

    /// Lists stored threads. The status of a loaded one is read from its watch: a thread that is busy, or waits for a
    /// locked file, does not delay the list.
    pub async fn list(&self, params: ThreadListParams) -> Result<ThreadListResponse, ThreadError> {
        let page = self.0.world.store.list(params.into()).await?;
        let mut data: Vec<_> = page.threads.into_iter().map(own_session).collect();
        let loaded = self.lock();
        for thread in &mut data {
            if let Some(status) = loaded.get(&thread.id).and_then(ThreadHandle::status) {
                thread.status = status;
            }
        }
        drop(loaded);
        Ok(ThreadListResponse { data, next_cursor: page.next_cursor })
    }

    /// Puts a thread away; a loaded one ends first.
    pub async fn archive(&self, id: &ThreadId) -> Result<(), ThreadError> {
        let id = &canonical(id)?;
        let location = self.0.world.store.find(id).await.map_err(not_stored)?;
        if location.archived {
            return Err(ThreadError::NotStored(id.clone()));
        }
        self.unload(id).await;
        self.0.world.store.archive(id).await.map_err(not_stored)?;
        Ok(())
    }

    pub async fn unarchive(&self, id: &ThreadId) -> Result<Thread, ThreadError> {
        let id = &canonical(id)?;
        let archived = self.0.world.store.find(id).await.is_ok_and(|location| location.archived);
        if !archived {
            return Err(ThreadError::NotArchived(id.clone()));
        }
        self.0.world.store.unarchive(id).await?;
        Ok(own_session(self.0.world.store.read_summary(id).await?))
    }

    pub async fn set_name(&self, id: &ThreadId, name: &str) -> Result<String, ThreadError> {
        let id = &canonical(id)?;
        let name = name.trim();
        if name.is_empty() {
            return Err(ThreadError::EmptyName);
        }
        match self.get(id) {
            Ok(handle) => handle.set_name(name.to_owned()).await?,
            Err(_) => {
                if self.0.world.store.find(id).await.map_err(not_found)?.archived {
                    return Err(ThreadError::NotFound(id.clone()));
                }
                self.0.world.store.set_name(id, name).await.map_err(not_found)?;
            }
        }
        Ok(name.to_owned())
    }

    pub async fn update_metadata(&self, params: ThreadMetadataUpdateParams) -> Result<Thread, ThreadError> {
        let id = &canonical(&params.thread_id)?;
        let update = params.git_info.ok_or(ThreadError::EmptyGitInfo)?;
        let fields = [("sha", &update.sha), ("branch", &update.branch), ("originUrl", &update.origin_url)];
        if fields.iter().all(|(_, field)| field.is_missing()) {
            return Err(ThreadError::EmptyGitInfo);
        }
        let is_blank = |field: &Patch<String>| matches!(field, Patch::Value(text) if text.trim().is_empty());
        if let Some((name, _)) = fields.iter().find(|(_, field)| is_blank(field)) {
            return Err(ThreadError::EmptyGitField(name));
        }
        let handle = self.get(id).ok();
        let before = match &handle {
            Some(handle) => match handle.snapshot().await?.thread {
                thread if thread.ephemeral => return Err(ThreadError::EphemeralMetadata(thread.id)),
                thread => thread,
            },
            None => self.0.world.store.read_summary(id).await.map_err(not_found)?,
        };
        let git = before.git_info.clone().unwrap_or_default();
        let git = GitInfo {
            sha: trimmed(update.sha).apply(git.sha),
            branch: trimmed(update.branch).apply(git.branch),
            origin_url: trimmed(update.origin_url).apply(git.origin_url),
        };
        let git = (git != GitInfo::default()).then_some(git);
        match &handle {
            Some(handle) => handle.set_git(git.clone()).await?,
            None => self.0.world.store.set_git(id, git.clone()).await.map_err(not_found)?,
        }
        Ok(own_session(Thread { git_info: git, ..before }))
    }
}

fn trimmed(text: Patch<String>) -> Patch<String> {
    match text {
        Patch::Value(text) => Patch::Value(text.trim().to_owned()),
        other => other,
    }
}

fn not_found(error: StoreError) -> ThreadError {
    match error {
        StoreError::NotFound(id) => ThreadError::NotFound(id),
        other => other.into(),
    }
}
