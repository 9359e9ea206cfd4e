//! The registry of loaded threads: finding, running and unloading them.
//!
//! | requests about | are in |
//! |---|---|
//! | opening threads (`thread/start`, `thread/resume`, `thread/fork`) | `open.rs` |
//! | stored threads (`thread/read`, `thread/list`, `thread/archive`, …) | `stored.rs` |
//! | queues (`thread/queue/*`) | `queue.rs` |
//! | what the user has read (`thread/readState/update`) | `read_states.rs` |
//! | searches | `search.rs` |
//! | sections, projects, attachments | `sections.rs`, `projects.rs`, `attachments.rs` |
//! | server requests that wait for an answer (`codicil/request/*`) | `requests.rs` |
//! | the threads of subagents | `subagents.rs` |
//! | subscriptions at a position (`codicil/subscribe`), and messages of requests about threads | `subscribe.rs` |

mod attachments;
mod ids;
mod loaded;
mod open;
mod pages;
mod projects;
mod queue;
mod read_states;
mod requests;
mod search;
mod sections;
mod stored;
mod subagents;
mod subscribe;
mod token_usage;

use std::{fs::File, path::PathBuf, sync::Arc};

use codicil_config::EffectiveConfig;
use codicil_exec::SessionOwner;
use codicil_mcp::{APP_SERVER, ThreadServers};
use codicil_protocol::{
    ConfigWarningNotification, DeprecationNoticeNotification, McpServerStartupStatusUpdated, MessageSeq,
    Thread, ThreadClosed, ThreadClosedNotification, ThreadGoal, ThreadId, ThreadReadState, ThreadStatus,
    ThreadStatusChanged, ThreadStatusChangedNotification, ThreadTokenUsage, TurnId,
};
use codicil_store::{RunState, StoreError, StoredThread, StoredTurn};
use codicil_telemetry::spans::thread_span;
use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    engine_context::EngineContext,
    error::{SettingsError, ThreadError},
    model_context::doc_search,
    model_support::StartNotice,
    settings::{SettingsOverrides, TurnSettings},
    subagent::{SubagentOrigin, SubagentSlots},
    thread::{
        AnnounceGuard, AnnouncedReply, JoinRequest, JoinedThread, ThreadActor, ThreadHandle, ThreadNotifier,
        ThreadSnapshot, ThreadState, UnloadedTurn,
    },
};

use ids::canonical;
use loaded::LoadedThreads;
use subagents::below;

pub use requests::{RequestPage, ThreadRequest};
pub use stored::ListedForks;
pub(crate) use {
    open::multi_agent_notice,
    subagents::{NewAgent, WeakThreads},
};

/// The registry of loaded threads. Clones are the same registry.
#[derive(Clone, Debug)]
pub struct Threads(Arc<ThreadsInner>);

#[derive(Debug)]
struct ThreadsInner {
    engine: Arc<EngineContext>,
    loaded: Mutex<LoadedThreads>,
    /// Owns the actors.
    tasks: TaskTracker,
    slots: SubagentSlots,
}

/// A thread that was opened, with the settings it has now.
#[derive(Debug)]
pub struct OpenedThread {
    pub thread: Thread,
    pub settings: TurnSettings,
    /// Stored turns, for requests that answer with them.
    pub turns: Vec<StoredTurn>,
    pub goal: Option<ThreadGoal>,
    pub config: Arc<EffectiveConfig>,
    /// The usage after the last turn that has ended.
    pub usage: Option<(TurnId, ThreadTokenUsage)>,
    /// Deprecated settings in its configuration.
    pub deprecations: Vec<DeprecationNoticeNotification>,
    /// The members of the request that had no effect because the thread was loaded already.
    pub unapplied: Vec<String>,
    /// What the user should know about the settings of a new thread.
    pub notices: Vec<StartNotice>,
    /// Warnings about its configuration.
    pub warnings: Vec<ConfigWarningNotification>,
    /// The position of the thread's last message.
    pub position: MessageSeq,
    /// Set for a thread that was loaded already: its notifications resume when this is dropped.
    pub announce: Option<AnnounceGuard>,
}

/// A thread and, if asked for, its turns.
#[derive(Debug)]
pub struct ThreadRead {
    pub thread: Thread,
    pub turns: Vec<StoredTurn>,
    /// What the user has read; `None` before the first turn.
    pub read_state: Option<ThreadReadState>,
}

/// When clients are told that a thread is not loaded any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnloadNotice {
    /// Before its running turn ends.
    AtOnce,
    AtEnd,
}

/// Numbers of loaded threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadCounts {
    /// Whether a thread has ever been loaded.
    pub ever_loaded: bool,
    pub loaded: usize,
    /// Threads with a running turn.
    pub active: usize,
    /// Threads of these whose turn waits for answers.
    pub waiting: usize,
}

/// Whether a request answers with the thread's turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeTurns {
    Included,
    LeftOut,
}

impl Threads {
    pub fn new(engine: EngineContext) -> Self {
        Self(Arc::new(ThreadsInner {
            engine: Arc::new(engine),
            loaded: Mutex::default(),
            tasks: TaskTracker::new(),
            slots: SubagentSlots::default(),
        }))
    }

    /// Returns the state that all threads share.
    pub fn engine(&self) -> &Arc<EngineContext> {
        &self.0.engine
    }

    /// Returns a loaded thread.
    pub fn get(&self, id: &ThreadId) -> Result<ThreadHandle, ThreadError> {
        let id = &canonical(id)?;
        let mut loaded = self.lock();
        // A thread whose task panicked is removed; it can be loaded again.
        if loaded.get(id).is_some_and(ThreadHandle::is_over) {
            loaded.remove(id);
        }
        if loaded.is_given_up(id) {
            // It exists, and clients are about to see that it is closed.
            return Err(ThreadError::GivenUp(id.clone()));
        }
        loaded.get(id).cloned().ok_or_else(|| ThreadError::NotFound(id.clone()))
    }

    /// Returns a thread that was opened just now. One that is not found any more has been given up meanwhile.
    fn get_opened(&self, id: &ThreadId) -> Result<ThreadHandle, ThreadError> {
        self.get(id).map_err(|_| ThreadError::GivenUp(id.clone()))
    }

    /// Returns the ids of loaded threads after `cursor`, in order.
    pub fn loaded(&self, cursor: Option<&str>) -> Result<Vec<ThreadId>, ThreadError> {
        if let Some(cursor) = cursor.filter(|cursor| Uuid::parse_str(cursor).is_err()) {
            return Err(StoreError::InvalidCursor(cursor.to_owned()).into());
        }
        let after = |id: &&ThreadId| cursor.is_none_or(|cursor| &id[..] > cursor);
        Ok(self.lock().ids().filter(after).cloned().collect())
    }

    /// Returns how many threads are loaded and how many of them have a running turn.
    pub fn counts(&self) -> ThreadCounts {
        let statuses = self.handles().into_iter().map(|handle| handle.status());
        let none = ThreadCounts { ever_loaded: self.lock().ever_loaded(), ..ThreadCounts::default() };
        statuses.fold(none, |counts, status| {
            let flags = match &status {
                Some(ThreadStatus::Active { active_flags }) => Some(active_flags),
                _ => None,
            };
            ThreadCounts {
                ever_loaded: true,
                loaded: counts.loaded + 1,
                active: counts.active + usize::from(flags.is_some()),
                waiting: counts.waiting + usize::from(flags.is_some_and(|flags| !flags.is_empty())),
            }
        })
    }

    /// Returns whether a thread has a turn that does not only wait for answers, or a background terminal.
    pub async fn is_working(&self) -> bool {
        let handles = self.handles();
        let is_running = |handle: &ThreadHandle| match handle.status() {
            Some(ThreadStatus::Active { active_flags }) => active_flags.is_empty(),
            _ => false,
        };
        if handles.iter().any(is_running) {
            return true;
        }
        // A thread that has ended meanwhile has no terminals.
        let terminals = join_all(handles.iter().map(ThreadHandle::terminals)).await;
        terminals.into_iter().flatten().any(|open| !open.is_empty())
    }

    fn handles(&self) -> Vec<ThreadHandle> {
        let loaded = self.lock();
        loaded.ids().filter_map(|id| loaded.get(id)).filter(|handle| !handle.is_over()).cloned().collect()
    }

    /// Runs a thread, or joins it if another request has loaded it meanwhile. `given` are the settings of the request.
    async fn open(
        &self,
        state: ThreadState,
        turns: Vec<StoredTurn>,
        given: SettingsOverrides,
    ) -> Result<OpenedThread, ThreadError> {
        let servers = self.join_servers(&state).await?;
        servers.required().await.map_err(|error| ThreadError::RequiredServers(error.to_string()))?;
        let mut thread = state.view();
        let facts = &state.facts;
        let labelled =
            self.0.engine.store.label(&mut thread, facts.section.as_ref(), facts.project_id.as_deref());
        labelled.await?;
        let settings = state.settings.clone();
        let goal = state.goal.clone();
        let config = state.config.clone();
        let usage = last_usage(&turns, &state.usage);
        let deprecations = state.config.deprecations.clone();
        let warnings = state.config.warnings.clone();
        let has_unfinished_turn = state.unfinished.is_some();
        let opened = {
            let mut loaded = self.lock();
            if loaded.is_stopping() {
                // Nothing would unload it.
                return Err(ThreadError::GivenUp(state.id));
            }
            // A thread whose task panicked is replaced.
            let other = loaded.get(&state.id).filter(|other| !other.is_over()).cloned();
            match other {
                Some(other) => Err(other),
                None => {
                    let handle = self.run(state, servers);
                    loaded.insert(handle.clone());
                    Ok(handle)
                }
            }
        };
        match opened {
            Err(other) => self.join(&other, None, JoinRequest { turns: IncludeTurns::Included, given }).await,
            Ok(handle) => {
                if has_unfinished_turn {
                    // A turn without an end is settled before the answer.
                    let _ = handle.setup().await;
                }
                let position = handle.position();
                let unapplied = Vec::new();
                let announce = None;
                Ok(OpenedThread {
                    thread,
                    settings,
                    turns,
                    goal,
                    config,
                    usage,
                    deprecations,
                    unapplied,
                    notices: Vec::new(),
                    warnings,
                    position,
                    announce,
                })
            }
        }
    }

    /// Runs a thread with a turn that has no end. The thread decides about the turn before the request is answered, and goes on
    /// with it when `announce` of the opened thread is dropped.
    async fn open_unfinished(
        &self,
        state: ThreadState,
        given: SettingsOverrides,
    ) -> Result<OpenedThread, ThreadError> {
        let id = state.id.clone();
        let opened = self.open(state, Vec::new(), given.clone()).await?;
        if opened.announce.is_some() {
            return Ok(opened);
        }
        let joining = self.get_opened(&id)?.join(JoinRequest { turns: IncludeTurns::Included, given });
        let AnnouncedReply { answer: JoinedThread { snapshot, turns, .. }, announce } = joining.await?;
        self.broadcast_status(&id, snapshot.thread.status.clone());
        Ok(OpenedThread { thread: snapshot.thread, turns, announce: Some(announce), ..opened })
    }

    /// Starts the thread's MCP servers, without waiting for them. A subagent shares those of its parent.
    async fn join_servers(&self, state: &ThreadState) -> Result<ThreadServers, ThreadError> {
        let engine = self.0.engine.clone();
        let config = state.config.clone();
        let table = if config.settings.plugins.is_empty() {
            engine.server_table(&config)
        } else {
            let read = tokio::task::spawn_blocking(move || engine.server_table(&config));
            read.await.map_err(|_| ThreadError::Closed)?
        };
        let mut table = table.map_err(|error| SettingsError::Servers(error.to_string()))?;
        table.extend(
            self.0.engine.extensions.apps.server(&state.config).await.map(|server| (APP_SERVER, server)),
        );
        let clients = self.0.engine.clients.clone();
        let observer = Arc::new(move |status| clients.broadcast::<McpServerStartupStatusUpdated>(&status));
        Ok(self.0.engine.mcp.join(&table, observer))
    }

    /// Starts the task of a thread.
    fn run(&self, state: ThreadState, servers: ThreadServers) -> ThreadHandle {
        let clients = self.0.engine.clients.clone();
        let last_ordinal = state.log.as_ref().map_or(0, |log| log.next_ordinal().saturating_sub(1));
        let notifier = ThreadNotifier::new(clients, state.id.clone(), last_ordinal, state.raw_events);
        let (handle, inbox) = ThreadHandle::new(
            state.id.clone(),
            SubagentOrigin::of(&state.source),
            notifier,
            state.settings.environments(),
        );
        let threads = WeakThreads::from(self);
        let span = thread_span(&state.id);
        let actor = ThreadActor::new(self.0.engine.clone(), threads, state, servers, inbox);
        self.0.tasks.spawn(actor.run().instrument(span));
        handle
    }

    /// Returns a loaded thread as it is. Settings in the request have no effect.
    async fn join(
        &self,
        handle: &ThreadHandle,
        path: Option<&str>,
        request: JoinRequest,
    ) -> Result<OpenedThread, ThreadError> {
        let AnnouncedReply { answer: JoinedThread { snapshot, turns, usage, unapplied, position }, announce } =
            handle.join(request).await?;
        let ThreadSnapshot { thread, settings, goal, config, .. } = snapshot;
        if thread.ephemeral {
            return Err(ThreadError::NotStored(thread.id));
        }
        if let (Some(requested), Some(active)) = (path, &thread.path)
            && requested != active
        {
            return Err(ThreadError::OtherPath {
                id: thread.id,
                requested: requested.to_owned(),
                active: active.clone(),
            });
        }
        Ok(OpenedThread {
            thread,
            settings,
            usage: last_usage(&turns, &usage),
            turns,
            goal,
            config,
            deprecations: Vec::new(),
            unapplied,
            notices: Vec::new(),
            warnings: Vec::new(),
            position,
            announce: Some(announce),
        })
    }

    /// Returns the files from which a thread has its instructions, for clients to show. Blocks.
    pub fn instruction_sources(&self, settings: &TurnSettings, config: &EffectiveConfig) -> Vec<PathBuf> {
        let home = self.0.engine.config.home().path();
        let project = settings.has_environment.then_some(settings.cwd.as_path());
        let docs = doc_search(home, config).run(project, &|path| File::open(path));
        docs.docs.into_iter().map(|doc| doc.path).collect()
    }

    fn broadcast_status(&self, id: &ThreadId, status: ThreadStatus) {
        let params = ThreadStatusChangedNotification { thread_id: id.clone(), status };
        self.0.engine.clients.announce::<ThreadStatusChanged>(id, &params);
    }

    fn lock(&self) -> MutexGuard<'_, LoadedThreads> {
        self.0.loaded.lock()
    }

    /// Unloads a thread and its subagents and interrupts their turns. Returns those that were loaded, the thread first.
    pub async fn unload(&self, id: &ThreadId) -> Vec<ThreadId> {
        let unloaded = self.unload_with(id, UnloadedTurn::Interrupted, UnloadNotice::AtEnd).await;
        unloaded.iter().for_each(|thread| self.lock().note_closed(thread));
        unloaded
    }

    /// Unloads a thread that is about to be deleted. Clients are told so before its turn ends.
    pub(super) async fn unload_for_deletion(&self, id: &ThreadId) {
        let unloaded = self.unload_with(id, UnloadedTurn::Interrupted, UnloadNotice::AtOnce).await;
        unloaded.iter().for_each(|thread| self.lock().note_closed(thread));
    }

    async fn unload_with(&self, id: &ThreadId, turn: UnloadedTurn, notice: UnloadNotice) -> Vec<ThreadId> {
        let mut threads = self.take_with_subagents(id).into_iter();
        let Some(first) = threads.next() else { return Vec::new() };
        // Before its subagents: a turn that waits for them must not continue without them.
        self.end(&first, turn, notice).await;
        let agents: Vec<_> = threads.collect();
        join_all(agents.iter().map(|agent| self.end(agent, turn, notice))).await;
        [first].iter().chain(&agents).map(|handle| handle.id().clone()).collect()
    }

    async fn end(&self, handle: &ThreadHandle, turn: UnloadedTurn, notice: UnloadNotice) {
        self.0.engine.realtime.end(handle.id());
        if notice == UnloadNotice::AtOnce {
            self.broadcast_status(handle.id(), ThreadStatus::NotLoaded);
        }
        // An error means that the thread has ended already.
        let status = handle.unload(turn).await.unwrap_or(ThreadStatus::NotLoaded);
        self.lock().forget(handle.id());
        // A thread whose turn waits for answers stays active.
        if status == ThreadStatus::NotLoaded && notice == UnloadNotice::AtEnd {
            self.broadcast_status(handle.id(), status);
        }
    }

    /// Unloads a thread without subscribers. A turn that waits for answers continues when the thread is loaded again.
    pub async fn close(&self, id: &ThreadId) {
        for thread_id in self.unload_with(id, UnloadedTurn::Parked, UnloadNotice::AtEnd).await {
            let closed = ThreadClosedNotification { thread_id };
            self.0.engine.clients.broadcast::<ThreadClosed>(&closed);
            self.lock().note_closed(&closed.thread_id);
        }
    }

    /// Unloads all threads, because others may write to them now. Their turns and commands are stopped before the first wait.
    /// Clients see that they are closed.
    pub async fn give_up(&self) {
        let ids: Vec<_> = self.lock().ids().cloned().collect();
        let leaving = self.lock().all_leaving();
        self.fence(&ids);
        leaving.iter().for_each(|handle| self.fence_thread(handle));
        self.close_given_up(ids).await;
        join_all(leaving.iter().map(ThreadHandle::over)).await;
    }

    /// Unloads a thread and its subagents, because another process has taken them. Clients see that they are closed.
    pub async fn give_up_tree(&self, id: &ThreadId) {
        let ids: Vec<_> = [id.clone()].into_iter().chain(self.agents_of(id)).collect();
        self.fence(&ids);
        self.close_given_up(ids).await;
    }

    /// Unloads the tree of a thread in which nothing runs, because another process has its workspace.
    pub async fn hand_over(&self, id: &ThreadId) {
        let tree: Vec<_> = [id.clone()].into_iter().chain(self.agents_of(id)).collect();
        let is_active = |id: &ThreadId| {
            let status = self.lock().get(id).and_then(ThreadHandle::status);
            matches!(status, Some(ThreadStatus::Active { .. }))
        };
        if !tree.iter().any(is_active) {
            self.give_up_tree(id).await;
        }
    }

    /// Stops the turns and kills the commands of threads, without waiting for their tasks, which may wait for the store.
    fn fence(&self, ids: &[ThreadId]) {
        let loaded = self.lock();
        let handles: Vec<_> = ids.iter().filter_map(|id| loaded.get(id)).cloned().collect();
        drop(loaded);
        handles.iter().for_each(|handle| self.fence_thread(handle));
    }

    fn fence_thread(&self, handle: &ThreadHandle) {
        handle.fence();
        self.0.engine.terminals.stop_all(&session_owner(handle.id()));
    }

    /// Closes threads. Until clients see it, they exist and cannot be used.
    async fn close_given_up(&self, ids: Vec<ThreadId>) {
        let ids = self.lock().give_up(ids);
        join_all(ids.iter().map(|id| self.close(id))).await;
        // Those of them that another request has unloaded.
        ids.iter().for_each(|id| self.lock().note_closed(id));
    }

    /// Unloads all threads and closes the store. Turns that wait for answers continue in the next process.
    pub async fn stop(&self) {
        let handles = self.lock().stop();
        join_all(handles.iter().map(|handle| handle.unload(UnloadedTurn::Parked))).await;
        self.0.engine.realtime.end_all().await;
        self.0.tasks.close();
        self.0.tasks.wait().await;
        self.0.engine.notify_programs.stop().await;
        self.0.engine.mcp.shutdown().await;
        if let Err(error) = self.0.engine.store.close().await {
            tracing::error!("failed to close the store: {error}");
        }
    }

    /// Removes a thread and all subagents below it from the registry.
    fn take_with_subagents(&self, id: &ThreadId) -> Vec<ThreadHandle> {
        let mut loaded = self.lock();
        let Some(first) = loaded.take_leaving(id) else { return Vec::new() };
        let agents = below(&loaded, id);
        for agent in &agents {
            loaded.take_leaving(agent.id());
        }
        [first].into_iter().chain(agents).collect()
    }
}

/// Returns the owner of the terminals of a thread.
pub(crate) fn session_owner(thread: &ThreadId) -> SessionOwner {
    SessionOwner::from(thread.to_string())
}

/// Returns the stored turns, with the active one as in progress.
pub(crate) async fn stored_turns(
    engine: &EngineContext,
    id: &ThreadId,
    live: Option<&ThreadSnapshot>,
) -> Result<Vec<StoredTurn>, ThreadError> {
    let StoredThread { mut turns, unfinished, .. } = engine.store.read(id).await?;
    let Some(last) = turns.last_mut().filter(|last| !last.ended) else { return Ok(turns) };
    let is_waiting = unfinished.as_ref().is_some_and(|turn| turn.open_requests().next().is_some());
    let is_running = match (live, &last.run) {
        (Some(live), _) if live.active_turn.as_ref() == Some(&last.id) => true,
        // A turn that waits for answers continues when the thread is loaded.
        (None, _) if is_waiting => true,
        (_, Some(run)) => matches!(engine.store.run_state(run).await?, RunState::Live(_)),
        (_, None) => false,
    };
    if is_running {
        let stored = unfinished.map(|turn| turn.open_items(&[])).unwrap_or_default();
        last.show_running(live.map_or(&stored, |live| &live.open_items));
    }
    Ok(turns)
}

/// Returns the usage of a thread with the last turn that has ended; `None` if no tokens were used.
fn last_usage(turns: &[StoredTurn], usage: &ThreadTokenUsage) -> Option<(TurnId, ThreadTokenUsage)> {
    let last_ended = turns.iter().rev().find(|turn| turn.completed().is_some())?;
    (usage.total.total_tokens > 0).then(|| (last_ended.id.clone(), usage.clone()))
}

fn not_stored(error: StoreError) -> ThreadError {
    match error {
        StoreError::NotFound(id) => ThreadError::NotStored(id),
        other => other.into(),
    }
}
