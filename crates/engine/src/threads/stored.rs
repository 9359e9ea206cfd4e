//! Requests about stored threads, loaded or not: reading, listing, archiving, deleting, their names, metadata and
//! goals.

use std::{collections::BTreeMap, sync::Arc};

use codicil_metrics::{METRICS, labels::TurnEnd};
use codicil_protocol::{
    GitInfo, Patch, ProtocolGeneration, Thread, ThreadGoal, ThreadGoalSetParams, ThreadGoalUpdated,
    ThreadGoalUpdatedNotification, ThreadId, ThreadListParams, ThreadListResponse,
    ThreadMetadataGitInfoUpdateParams, ThreadMetadataUpdateParams, ThreadReadState, ThreadSortKey,
    ThreadStatus,
};
use codicil_store::{
    ListQuery, ListSection, Organization, OwnerNode, RealtimeEntry, Record, RunState, StoreError,
    StoredThread, ThreadPage,
};
use serde::{Serialize, de::DeserializeOwned};

use super::{IncludeTurns, ThreadRead, Threads, ids::canonical, not_stored, stored_turns};
use crate::{
    clock::unix_now,
    error::{GoalError, MetadataError, ThreadError, ThreadListError},
    goals,
    request_key::{RequestKey, find_key},
    thread::{AnnouncedReply, ContinuedTurn, ThreadHandle, TurnOrigin},
};

/// The number of pages in a row that one list skips because nothing of them is listed.
const MAX_EMPTY_PAGES: usize = 8;
/// The number of threads that one request deletes at most: stored files could name each other as parents.
const MAX_DELETED: usize = 10_000;
/// The number of attempts to change a thread that other processes change at the same time.
const MAX_OVERTAKEN: usize = 8;

/// Which forks are part of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListedForks {
    All,
    /// Not those that this process has made and that have no turn of their own: 0.166 lists them later.
    WithOwnTurns,
}

impl Threads {
    /// Reads a thread. The turns of an archived one are only in lists: see [`read_history`](Self::read_history).
    pub async fn read(&self, id: &ThreadId, turns: IncludeTurns) -> Result<ThreadRead, ThreadError> {
        let id = &canonical(id)?;
        if turns == IncludeTurns::Included && self.get(id).is_err() && self.is_archived(id).await {
            return Err(ThreadError::CannotLocate(id.clone()));
        }
        self.read_any(id, turns).await
    }

    /// Reads a thread with its turns, archived or not.
    pub async fn read_history(&self, id: &ThreadId) -> Result<ThreadRead, ThreadError> {
        self.read_any(&canonical(id)?, IncludeTurns::Included).await
    }

    async fn read_any(&self, id: &ThreadId, turns: IncludeTurns) -> Result<ThreadRead, ThreadError> {
        let live = match self.get(id) {
            Ok(handle) => Some(handle.snapshot().await?),
            Err(_) => None,
        };
        if live.as_ref().is_some_and(|live| live.thread.ephemeral) && turns == IncludeTurns::Included {
            return Err(ThreadError::EphemeralTurns("includeTurns"));
        }
        let (thread, read_state) = match &live {
            Some(live) => (live.thread.clone(), live.read_state.clone()),
            None => self.stored_thread(id).await?,
        };
        let turns = match turns {
            IncludeTurns::LeftOut => Vec::new(),
            IncludeTurns::Included => stored_turns(&self.0.engine, id, live.as_ref()).await?,
        };
        Ok(ThreadRead { thread, turns, read_state })
    }

    /// Returns the entries of a thread's voice sessions, oldest first.
    pub async fn realtime_entries(&self, id: &ThreadId) -> Result<Vec<RealtimeEntry>, ThreadError> {
        match self.0.engine.store.read(&canonical(id)?).await {
            Ok(stored) => Ok(stored.facts.realtime),
            // A thread is not stored before its first record.
            Err(StoreError::NotFound(_)) => Ok(Vec::new()),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns an error unless the thread is loaded or stored.
    pub async fn check_exists(&self, id: &ThreadId) -> Result<(), ThreadError> {
        let id = &canonical(id)?;
        if self.get(id).is_ok() {
            return Ok(());
        }
        self.0.engine.store.find(id).await.map(drop).map_err(not_stored)
    }

    /// Returns the summary of a stored thread.
    async fn stored_thread(&self, id: &ThreadId) -> Result<(Thread, Option<ThreadReadState>), ThreadError> {
        self.0.engine.store.find(id).await.map_err(|error| match error {
            StoreError::NotFound(id) => ThreadError::NotLoaded(id),
            other => other.into(),
        })?;
        let summary = self.0.engine.store.read_listed(id).await?;
        Ok((summary.thread, summary.read_state))
    }

    /// Lists stored threads. The status of a loaded one is read from its watch: a thread that is busy, or waits for a
    /// locked file, does not delay the list.
    pub async fn list(
        &self,
        params: ThreadListParams,
        forks: ListedForks,
    ) -> Result<ThreadListResponse, ThreadError> {
        let names_labels = !params.section_id.is_missing() || params.project_id.is_some();
        let organization =
            if names_labels { self.0.engine.store.organization().await? } else { Arc::default() };
        let Some(query) = list_query(params, &organization)? else {
            return Ok(ThreadListResponse {
                data: Vec::new(),
                next_cursor: None,
                backwards_cursor: None,
                read_states: Some(BTreeMap::new()),
            });
        };
        let mut page = self.store_page(query.clone(), forks).await?;
        // A page without its forks may be empty although others follow.
        for _ in 0..MAX_EMPTY_PAGES {
            let Some(cursor) = page.next_cursor.take_if(|_| page.threads.is_empty()) else { break };
            let next = ListQuery { cursor: Some(cursor), ..query.clone() };
            page = self.store_page(next, forks).await?;
        }
        let ThreadPage { threads, read_states, next_cursor, backwards_cursor } = page;
        let read_states = Some(read_states);
        Ok(ThreadListResponse { data: threads, next_cursor, backwards_cursor, read_states })
    }

    async fn store_page(&self, query: ListQuery, forks: ListedForks) -> Result<ThreadPage, ThreadError> {
        let mut page = self.0.engine.store.list(query).await?;
        self.show_loaded(&mut page.threads);
        if forks == ListedForks::WithOwnTurns {
            let ThreadPage { threads, read_states, .. } = &mut page;
            let loaded = self.lock();
            let shown = |thread: &Thread| loaded.get(&thread.id).and_then(ThreadHandle::shown);
            threads.retain(|thread| !shown(thread).is_some_and(|shown| shown.is_untouched_fork));
            read_states.retain(|id, _| threads.iter().any(|thread| *thread.id == **id));
        }
        Ok(page)
    }

    /// Adds what stored threads have while they are loaded: their status and environments.
    pub(super) fn show_loaded<'a>(&self, threads: impl IntoIterator<Item = &'a mut Thread>) {
        let loaded = self.lock();
        for thread in threads {
            if let Some(shown) = loaded.get(&thread.id).and_then(ThreadHandle::shown) {
                thread.status = shown.status;
                thread.environments = Some(shown.environments);
            }
        }
    }

    /// Archives a thread. A loaded thread is unloaded first.
    pub async fn archive(&self, id: &ThreadId, generation: ProtocolGeneration) -> Result<(), ThreadError> {
        let id = &canonical(id)?;
        let location = self.0.engine.store.find(id).await.map_err(not_stored)?;
        if location.archived {
            return Err(ThreadError::NotStored(id.clone()));
        }
        self.check_owner(id).await?;
        self.check_writer(id, generation).await?;
        self.check_not_in_use(id).await?;
        self.unload(id).await;
        self.settle_waiting(id).await?;
        self.0.engine.store.archive(id).await.map_err(not_stored)?;
        Ok(())
    }

    /// Refuses a thread that another server owns: it may have loaded the thread.
    async fn check_owner(&self, id: &ThreadId) -> Result<(), ThreadError> {
        let Some(backend) = self.0.engine.store.backend() else { return Ok(()) };
        match backend.other_owner(id).await? {
            Some(OwnerNode { name: node, url }) => {
                Err(StoreError::OwnedElsewhere { thread: id.clone(), node, url }.into())
            }
            None => Ok(()),
        }
    }

    /// Ends the turn of a stored thread that waits for answers: its thread is about to be archived.
    async fn settle_waiting(&self, id: &ThreadId) -> Result<(), ThreadError> {
        let store = &self.0.engine.store;
        if store.read_summary(id).await?.status == ThreadStatus::NotLoaded {
            return Ok(());
        }
        let loaded = store.load(id).await?;
        if let Some(left) = ContinuedTurn::of(&loaded) {
            store.open_log_after(&loaded.thread).await?.append(&left.settled()).await?;
            METRICS.turns.inc(TurnEnd::InterruptedByThread);
        }
        Ok(())
    }

    /// Returns whether a thread is in the archive.
    pub async fn is_archived(&self, id: &ThreadId) -> bool {
        self.0.engine.store.find(id).await.is_ok_and(|location| location.archived)
    }

    pub async fn unarchive(&self, id: &ThreadId) -> Result<Thread, ThreadError> {
        let id = &canonical(id)?;
        if !self.is_archived(id).await {
            return Err(ThreadError::NotArchived(id.clone()));
        }
        self.0.engine.store.unarchive(id).await?;
        Ok(self.0.engine.store.read_summary(id).await?)
    }

    pub async fn set_name(
        &self,
        id: &ThreadId,
        name: &str,
        key: Option<RequestKey>,
    ) -> Result<String, ThreadError> {
        let id = &canonical(id)?;
        let name = name.trim();
        if name.is_empty() {
            return Err(MetadataError::EmptyName.into());
        }
        match self.get(id) {
            Ok(handle) => handle.with_key(key).set_name(name.to_owned()).await?,
            Err(_) => {
                if self.0.engine.store.find(id).await.map_err(not_found)?.archived {
                    return Err(ThreadError::NotFound(id.clone()));
                }
                let rename = |_| Ok((Some(Record::Name { name: name.to_owned() }), ()));
                self.change_stored(id, key.as_ref(), rename).await?;
            }
        }
        Ok(name.to_owned())
    }

    /// Changes the project or the repository state of a thread. At least one of them is required.
    pub async fn update_metadata(&self, params: ThreadMetadataUpdateParams) -> Result<Thread, ThreadError> {
        let project = match params.project_id {
            Patch::Missing => None,
            Patch::Null => Some(None),
            Patch::Value(id) => Some(Some(id)),
        };
        let Some(project) = project else { return self.update_git(&params.thread_id, params.git_info).await };
        let id = canonical(&params.thread_id)?;
        self.move_to_project(&id, project).await?;
        match params.git_info {
            Some(git) => self.update_git(&id, Some(git)).await,
            None => Ok(self.read(&id, IncludeTurns::LeftOut).await?.thread),
        }
    }

    async fn update_git(
        &self,
        id: &ThreadId,
        update: Option<ThreadMetadataGitInfoUpdateParams>,
    ) -> Result<Thread, ThreadError> {
        let id = &canonical(id)?;
        let update = update.ok_or(MetadataError::EmptyGitInfo)?;
        let fields = [("sha", &update.sha), ("branch", &update.branch), ("originUrl", &update.origin_url)];
        if fields.iter().all(|(_, field)| field.is_missing()) {
            return Err(MetadataError::EmptyGitInfo.into());
        }
        let is_blank = |field: &Patch<String>| matches!(field, Patch::Value(text) if text.trim().is_empty());
        if let Some((name, _)) = fields.iter().find(|(_, field)| is_blank(field)) {
            return Err(MetadataError::EmptyGitField(name).into());
        }
        let handle = self.get(id).ok();
        let before = match &handle {
            Some(handle) => match handle.snapshot().await?.thread {
                thread if thread.ephemeral => return Err(MetadataError::Ephemeral(thread.id).into()),
                thread => thread,
            },
            None => self.0.engine.store.read_summary(id).await.map_err(not_found)?,
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
            None => drop(self.0.engine.store.set_git(id, git.clone()).await.map_err(not_found)?),
        }
        Ok(Thread { git_info: git, ..before })
    }

    /// Unloads and deletes a thread and its subagents. Returns what was deleted, subagents first.
    pub async fn delete(&self, id: &ThreadId) -> Result<Vec<ThreadId>, ThreadError> {
        let id = canonical(id)?;
        if let Ok(handle) = self.get(&id)
            && handle.snapshot().await?.thread.ephemeral
        {
            return Err(ThreadError::EphemeralDelete(id));
        }
        self.0.engine.store.find(&id).await.map_err(not_stored)?;
        self.check_not_in_use(&id).await?;
        self.unload_for_deletion(&id).await;
        let mut deleted = Vec::new();
        for agent in self.stored_below(&id).await? {
            self.unload(&agent).await;
            // Another request may have deleted it already.
            if self.0.engine.store.delete(&agent).await.is_ok() {
                deleted.push(agent);
            }
        }
        self.0.engine.store.delete(&id).await.map_err(not_stored)?;
        deleted.push(id);
        Ok(deleted)
    }

    /// Refuses to move or delete the file of a thread while another process runs a turn of it.
    async fn check_not_in_use(&self, id: &ThreadId) -> Result<(), ThreadError> {
        let stored = self.0.engine.store.read(id).await.map_err(not_stored)?;
        let Some(run) = stored.unfinished_turn().and_then(|turn| turn.run.as_ref()) else { return Ok(()) };
        match self.0.engine.store.run_state(run).await? {
            RunState::Live(owner) => Err(ThreadError::InUse { thread: id.clone(), owner }),
            RunState::Own | RunState::Over => Ok(()),
        }
    }

    /// Returns the stored subagents below a thread, the deepest first.
    pub(super) async fn stored_below(&self, id: &ThreadId) -> Result<Vec<ThreadId>, ThreadError> {
        let mut found = vec![id.clone()];
        let mut next = 0;
        while let Some(parent) = found.get(next).cloned().filter(|_| next < MAX_DELETED) {
            for child in self.0.engine.store.children(&parent).await? {
                if !found.contains(&child) {
                    found.push(child);
                }
            }
            next += 1;
        }
        found.remove(0);
        found.reverse();
        Ok(found)
    }

    pub async fn goal(&self, id: &ThreadId) -> Result<Option<ThreadGoal>, ThreadError> {
        let id = &canonical(id)?;
        match self.loaded_for_goal(id).await? {
            Some(handle) => handle.goal().await,
            None => self.stored_goal(id).await,
        }
    }

    /// Sets the goal of a thread, or changes it. All clients are notified.
    pub async fn set_goal(
        &self,
        change: ThreadGoalSetParams,
        origin: TurnOrigin,
        key: Option<RequestKey>,
    ) -> Result<AnnouncedReply<ThreadGoal>, ThreadError> {
        let id = &canonical(&change.thread_id)?;
        if let Some(handle) = self.loaded_for_goal(id).await? {
            return handle.with_key(key).set_goal(change, origin).await;
        }
        let set = |stored: StoredThread| {
            let goal = goals::changed(id, stored.goal, change.clone(), unix_now())?;
            Ok((Some(Record::goal(Some(&goal), None)), goal))
        };
        let goal = self.change_stored(id, key.as_ref(), set).await?;
        if key.is_none_or(|key| !key.is_replayed()) {
            let updated =
                ThreadGoalUpdatedNotification { thread_id: id.clone(), turn_id: None, goal: goal.clone() };
            self.0.engine.clients.broadcast::<ThreadGoalUpdated>(&updated);
        }
        Ok(AnnouncedReply::new(goal).0)
    }

    /// Clears the goal of a thread. Returns false if there is none.
    pub async fn clear_goal(&self, id: &ThreadId, key: Option<RequestKey>) -> Result<bool, ThreadError> {
        let id = &canonical(id)?;
        if let Some(handle) = self.loaded_for_goal(id).await? {
            return handle.with_key(key).clear_goal().await;
        }
        let clear = |stored: StoredThread| {
            let goal = stored.goal;
            Ok((goal.as_ref().map(|_| Record::goal(None, None)), goal.is_some()))
        };
        self.change_stored(id, key.as_ref(), clear).await
    }

    /// Changes a thread that is not loaded, unless the key of the request is known. `change` takes the thread and
    /// returns the record of the change, if there is one, and the result.
    pub(super) async fn change_stored<T: Serialize + DeserializeOwned>(
        &self,
        id: &ThreadId,
        key: Option<&RequestKey>,
        change: impl Fn(StoredThread) -> Result<(Option<Record>, T), ThreadError>,
    ) -> Result<T, ThreadError> {
        let store = &self.0.engine.store;
        let mut attempts = 0;
        loop {
            attempts += 1;
            // Opened before anything is read: an append after another writer's fails.
            let mut log = store.open_log(id).await.map_err(not_found)?;
            if let Some(key) = key
                && let Some(known) = find_key(&store.keys(id).await.map_err(not_found)?, key)
            {
                return key.replay(known);
            }
            let (effect, result) = change(store.read(id).await.map_err(not_found)?)?;
            let keys = key.map_or(Ok(Vec::new()), |key| key.records(&result))?;
            let records: Vec<_> = effect.into_iter().chain(keys).collect();
            match log.append(&records).await {
                Ok(_) => return Ok(result),
                Err(StoreError::Overtaken { .. } | StoreError::Conflict { .. })
                    if attempts < MAX_OVERTAKEN => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Returns the thread if it is loaded. Ephemeral and archived threads cannot have a goal.
    async fn loaded_for_goal(&self, id: &ThreadId) -> Result<Option<ThreadHandle>, ThreadError> {
        let Ok(handle) = self.get(id) else {
            let place = self.0.engine.store.find(id).await.map_err(not_found)?;
            return if place.archived { Err(ThreadError::NotFound(id.clone())) } else { Ok(None) };
        };
        if handle.snapshot().await?.thread.ephemeral {
            return Err(GoalError::Ephemeral(id.clone()).into());
        }
        Ok(Some(handle))
    }

    async fn stored_goal(&self, id: &ThreadId) -> Result<Option<ThreadGoal>, ThreadError> {
        Ok(self.0.engine.store.read(id).await.map_err(not_found)?.goal)
    }
}

/// Checks the filters of a list. Returns `None` if nothing can match.
fn list_query(
    mut params: ThreadListParams,
    organization: &Organization,
) -> Result<Option<ListQuery>, ThreadListError> {
    if params.originators.as_ref().is_some_and(|originators| !originators.is_empty()) {
        return Err(ThreadListError::Originators);
    }
    if params.sort_key == Some(ThreadSortKey::SectionPosition)
        && !matches!(params.section_id, Patch::Value(_))
    {
        return Err(ThreadListError::SectionSort);
    }
    if params.parent_thread_id.is_some() && params.ancestor_thread_id.is_some() {
        return Err(ThreadListError::ParentAndAncestor);
    }
    if let Some(parent) = &mut params.parent_thread_id {
        *parent = canonical(parent).map_err(|error| ThreadListError::Parent(reason(error)))?;
    }
    if let Some(ancestor) = &mut params.ancestor_thread_id {
        *ancestor = canonical(ancestor).map_err(|error| ThreadListError::Ancestor(reason(error)))?;
    }
    for excluded in params.excluded_thread_ids.iter_mut().flatten() {
        *excluded = canonical(excluded).map_err(|error| ThreadListError::Excluded(reason(error)))?;
    }
    if let Some(project) = params.project_id.as_ref().filter(|id| organization.project(id).is_none()) {
        return Err(ThreadListError::NoProject(project.clone()));
    }
    // No thread is in a section that does not exist.
    let is_unknown = match &params.section_id {
        Patch::Value(id) => organization.section(id).is_none(),
        Patch::Missing | Patch::Null => false,
    };
    // No thread is attached to another one.
    if is_unknown || params.attached_to_thread_id.is_some() {
        return Ok(None);
    }
    let mut query = ListQuery::from(params);
    if let Some(ListSection::OutsideOf(sections)) = &mut query.section {
        *sections = organization.all_sections().into_iter().map(|section| section.id).collect();
    }
    Ok(Some(query))
}

/// Returns why an id is malformed.
fn reason(error: ThreadError) -> String {
    match error {
        ThreadError::MalformedId(reason) => reason,
        other => other.to_string(),
    }
}

fn trimmed(text: Patch<String>) -> Patch<String> {
    match text {
        Patch::Value(text) => Patch::Value(text.trim().to_owned()),
        other => other,
    }
}

pub(super) fn not_found(error: StoreError) -> ThreadError {
    match error {
        StoreError::NotFound(id) => ThreadError::NotFound(id),
        other => other.into(),
    }
}
