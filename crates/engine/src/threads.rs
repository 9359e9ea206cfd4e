//! Every loaded thread of the process, and how threads come and go.

mod agents;
mod deleted;
mod endings;
mod fork_point;
mod goals;
mod loaded;
mod names;
mod stored;

use std::{path::PathBuf, sync::Arc};

use codicil_config::{ConfigQuery, EffectiveConfig};
use codicil_mcp::{ServerTable, ThreadServers};
use codicil_protocol::{
    DeprecationNoticeNotification, McpServerStartupStatusUpdated, ResponseItem, Thread, ThreadForkParams,
    ThreadGoal, ThreadId, ThreadResumeParams, ThreadStartParams, ThreadStatus, ThreadStatusChanged,
    ThreadStatusChangedNotification, TurnStatus,
};
use codicil_store::{
    ForkPoint, LoadedThread, Record, StoreError, StoredThread, StoredTurn, ThreadMeta, new_thread_id,
};
use parking_lot::{Mutex, MutexGuard};
use tokio_util::task::TaskTracker;
use uuid::Uuid;

use crate::{
    error::ThreadError,
    kin::{SubagentOrigin, SubagentSlots},
    profiles::BuiltinProfile,
    settings::{SettingsOverrides, TurnSettings, join},
    thread::{
        AnnounceGuard, AnnouncedReply, JoinedThread, ThreadActor, ThreadHandle, ThreadSnapshot, ThreadState,
    },
    tools::check_dynamic_tools,
    world::EngineContext,
};

use loaded::LoadedThreads;
use names::{canonical, thread_of_file};

pub(crate) use agents::{NewAgent, WeakThreads};

/// The registry of loaded threads. Clones are the same registry.
#[derive(Clone, Debug)]
pub struct Threads(Arc<ThreadsInner>);

#[derive(Debug)]
struct ThreadsInner {
    world: Arc<EngineContext>,
    loaded: Mutex<LoadedThreads>,
    /// Owns the actors.
    tasks: TaskTracker,
    seats: SubagentSlots,
}

/// A thread that was opened, with the settings it has now.
#[derive(Debug)]
pub struct OpenedThread {
    pub thread: Thread,
    pub settings: TurnSettings,
    /// Stored turns, for requests that answer with them.
    pub turns: Vec<StoredTurn>,
    /// What it works towards, for those who have just come.
    pub goal: Option<ThreadGoal>,
    /// What in its configuration will go away.
    pub deprecations: Vec<DeprecationNoticeNotification>,
    /// Set for a thread that was loaded already: it goes on when this is dropped.
    pub announce: Option<AnnounceGuard>,
}

/// A thread and, if asked for, its turns.
#[derive(Debug)]
pub struct ThreadRead {
    pub thread: Thread,
    pub turns: Vec<StoredTurn>,
}

/// Whether a read is to bring the turns along.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncludeTurns {
    Included,
    LeftOut,
}

impl Threads {
    pub fn new(world: EngineContext) -> Self {
        Self(Arc::new(ThreadsInner {
            world: Arc::new(world),
            loaded: Mutex::default(),
            tasks: TaskTracker::new(),
            seats: SubagentSlots::default(),
        }))
    }

    pub fn world(&self) -> &Arc<EngineContext> {
        &self.0.world
    }

    /// A loaded thread.
    pub fn get(&self, id: &ThreadId) -> Result<ThreadHandle, ThreadError> {
        let id = &canonical(id)?;
        let mut loaded = self.lock();
        // One that broke is not there any more; it can be loaded again.
        if loaded.get(id).is_some_and(ThreadHandle::is_over) {
            loaded.remove(id);
        }
        loaded.get(id).cloned().ok_or_else(|| ThreadError::NotFound(id.clone()))
    }

    /// The ids of loaded threads, in order, after `cursor`.
    pub fn loaded(&self, cursor: Option<&str>) -> Result<Vec<ThreadId>, ThreadError> {
        if let Some(cursor) = cursor.filter(|cursor| Uuid::parse_str(cursor).is_err()) {
            return Err(StoreError::InvalidCursor(cursor.to_owned()).into());
        }
        let after = |id: &&ThreadId| cursor.is_none_or(|cursor| &id[..] > cursor);
        Ok(self.lock().ids().filter(after).cloned().collect())
    }

    pub async fn start(&self, mut params: ThreadStartParams) -> Result<OpenedThread, ThreadError> {
        check_dynamic_tools(params.dynamic_tools.as_deref().unwrap_or_default())
            .map_err(ThreadError::DynamicTools)?;
        let given = SettingsOverrides::try_from(&mut params)?;
        let (config, settings) = self.configure(&given, None).await?;
        let meta = ThreadMeta {
            dynamic_tools: params.dynamic_tools.take().unwrap_or_default(),
            base_instructions: given.base_instructions,
            developer_instructions: given.developer_instructions,
            ..self.meta(new_thread_id(), &settings)
        };
        let mut state = ThreadState::new(&meta, None, config, settings);
        if params.ephemeral != Some(true) {
            state.create_log(&self.0.world.store, &meta).await?;
        }
        state.overrides = given.config;
        state.raw_events = params.experimental_raw_events;
        self.open(state, Vec::new()).await
    }

    /// Joins a loaded thread, or loads a stored one.
    pub async fn resume(&self, mut params: ThreadResumeParams) -> Result<OpenedThread, ThreadError> {
        let given = SettingsOverrides::try_from(&mut params)?;
        if let Some(history) = params.history.take() {
            return self.resume_history(history, given).await;
        }
        let turns = match params.exclude_turns && params.initial_turns_page.is_none() {
            true => IncludeTurns::LeftOut,
            false => IncludeTurns::Included,
        };
        // A loaded thread answers to its id; otherwise a file says which thread is meant.
        if let Ok(handle) = self.get(&params.thread_id) {
            return self.join(&handle, params.path.as_deref(), turns).await;
        }
        let id = match &params.path {
            Some(path) => thread_of_file(path).await?,
            None => canonical(&params.thread_id)?,
        };
        if let Ok(handle) = self.get(&id) {
            return self.join(&handle, None, turns).await;
        }
        let stored = self.load(&id).await?;
        self.reopen(stored, given).await
    }

    async fn resume_history(
        &self,
        history: Vec<ResponseItem>,
        given: SettingsOverrides,
    ) -> Result<OpenedThread, ThreadError> {
        if history.is_empty() {
            return Err(ThreadError::EmptyHistory);
        }
        let (config, settings) = self.configure(&given, None).await?;
        let meta = self.meta(new_thread_id(), &settings);
        let mut state = ThreadState::new(&meta, None, config, settings);
        state.create_log(&self.0.world.store, &meta).await?;
        let records: Vec<_> =
            (history.iter().cloned()).map(|item| Record::Context { turn_id: None, item }).collect();
        if let Some(log) = &mut state.log {
            log.append(&records).await?;
        }
        state.overrides = given.config;
        state.preview = (history.iter())
            .find(|item| is_from_user(item) && !codicil_prompts::is_context_message(item))
            .map(codicil_prompts::message_text);
        state.remember(history);
        let opened = self.open(state, Vec::new()).await?;
        self.say_status(&opened.thread.id, ThreadStatus::Idle);
        Ok(opened)
    }

    /// A loaded thread as it is; what the request would change does not count.
    async fn join(
        &self,
        handle: &ThreadHandle,
        path: Option<&str>,
        turns: IncludeTurns,
    ) -> Result<OpenedThread, ThreadError> {
        let AnnouncedReply { answer: JoinedThread { snapshot, turns }, announce } =
            handle.join(turns).await?;
        let ThreadSnapshot { thread, settings, goal, .. } = snapshot;
        if thread.ephemeral {
            return Err(ThreadError::NotStored(thread.id));
        }
        if let (Some(requested), Some(active)) = (path, &thread.path)
            && requested != active
        {
            let (requested, active) = (requested.to_owned(), active.clone());
            return Err(ThreadError::OtherPath { id: thread.id, requested, active });
        }
        Ok(OpenedThread { thread, settings, turns, goal, deprecations: Vec::new(), announce: Some(announce) })
    }

    async fn reopen(
        &self,
        stored: LoadedThread,
        given: SettingsOverrides,
    ) -> Result<OpenedThread, ThreadError> {
        let meta = stored.thread.meta.clone();
        let (config, mut settings) = self.configure(&given, Some(&stored.thread)).await?;
        let inherited = given.inherited();
        self.narrow_to_parents(&meta.source, &mut settings, inherited).await;
        if given.provider.is_none() && !given.config.contains_key("model_provider") {
            settings.provider.clone_from(&meta.model_provider);
        }
        let log = self.0.world.store.open_log(&meta.id).await?;
        let mut state = ThreadState::new(&meta, Some(log), config, settings);
        state.overrides = given.config;
        // While it is loaded; what is stored stays.
        state.base_instructions = given.base_instructions.or(state.base_instructions);
        let turns = stored.thread.turns.clone();
        state.recall(stored);
        let opened = self.open(state, turns).await?;
        if opened.announce.is_none() {
            self.say_status(&opened.thread.id, ThreadStatus::Idle);
        }
        Ok(opened)
    }

    /// Copies a stored thread, up to now or up to one of its turns.
    pub async fn fork(&self, mut params: ThreadForkParams) -> Result<OpenedThread, ThreadError> {
        let point = fork_point::asked(&mut params)?;
        let given = SettingsOverrides::try_from(&mut params)?;
        let source = match &params.path {
            Some(path) => thread_of_file(path).await?,
            None => canonical(&params.thread_id)?,
        };
        let loaded = self.load(&source).await?;
        let unended = loaded.thread.turns.last().filter(|turn| !turn.ended).map(|turn| &turn.id);
        let running = unended.filter(|_| self.get(&source).is_ok());
        fork_point::check(&point, &loaded.thread.turns, running)?;
        let (config, settings) = self.configure(&given, Some(&loaded.thread)).await?;
        let meta = ThreadMeta {
            forked_from: Some(source.clone()),
            dynamic_tools: loaded.thread.meta.dynamic_tools.clone(),
            base_instructions: (given.base_instructions)
                .or_else(|| loaded.thread.meta.base_instructions.clone()),
            developer_instructions: (given.developer_instructions)
                .or_else(|| loaded.thread.meta.developer_instructions.clone()),
            ..self.meta(new_thread_id(), &settings)
        };
        let mut log = match params.ephemeral {
            Some(true) => None,
            _ => Some(self.0.world.store.fork(&source, point.clone(), meta.clone()).await?),
        };
        let loaded = match point {
            ForkPoint::End => loaded,
            // What is left of it is known to the store.
            ForkPoint::After(_) | ForkPoint::Before(_) => self.0.world.store.load(&meta.id).await?,
        };
        // What still runs there is cut off here, and the model is told.
        let cut_off = loaded.thread.turns.last().filter(|turn| !turn.ended).map(|turn| turn.id.clone());
        let aborted = cut_off.as_ref().map(|_| codicil_prompts::turn_aborted_message());
        if let (Some(log), Some(turn_id), Some(item)) = (&mut log, cut_off, aborted.clone()) {
            let told = Record::Context { turn_id: Some(turn_id.clone()), item };
            let end = Record::TurnEnd { turn_id, status: TurnStatus::Interrupted, error: None };
            log.append(&[told, end]).await?;
        }
        let mut state = ThreadState::new(&meta, log, config, settings);
        state.overrides = given.config;
        let created_at = state.created_at;
        let turns = loaded.thread.turns.clone();
        state.recall(loaded);
        // The settings of the source as it is now, also where the copy ends at an earlier turn.
        state.store_settings().await?;
        state.remember(aborted);
        (state.name, state.goal) = (None, None);
        (state.created_at, state.updated_at) = (created_at, created_at);
        self.open(state, turns).await
    }

    /// A fork of a thread for a review of its own; announced at once, before anything happens in it.
    pub async fn fork_for_review(&self, id: &ThreadId) -> Result<OpenedThread, ThreadError> {
        self.get(id)?;
        self.fork(ThreadForkParams::new(id.clone())).await
    }

    /// Runs a thread, or joins it if somebody else has loaded it meanwhile.
    async fn open(&self, state: ThreadState, turns: Vec<StoredTurn>) -> Result<OpenedThread, ThreadError> {
        let servers = self.join_servers(&state).await?;
        servers.required().await.map_err(|error| ThreadError::RequiredServers(error.to_string()))?;
        let (thread, settings, goal) = (state.view(), state.settings.clone(), state.goal.clone());
        let deprecations = state.config.deprecations.clone();
        let other = {
            let mut loaded = self.lock();
            // One that broke meanwhile gives its place to this one.
            let other = loaded.get(&state.id).filter(|other| !other.is_over()).cloned();
            if other.is_none() {
                loaded.insert(self.run(state, servers));
            }
            other
        };
        match other {
            Some(other) => self.join(&other, None, IncludeTurns::Included).await,
            None => Ok(OpenedThread { thread, settings, turns, goal, deprecations, announce: None }),
        }
    }

    /// Starts the thread's MCP servers, without waiting for them. An agent has none of their tools, and needs none
    /// of them.
    async fn join_servers(&self, state: &ThreadState) -> Result<ThreadServers, ThreadError> {
        let (world, config) = (self.0.world.clone(), state.config.clone());
        let table = match config.settings.plugins.is_empty() {
            _ if SubagentOrigin::of(&state.source).is_some() => Ok(ServerTable::default()),
            true => world.server_table(&config),
            false => tokio::task::spawn_blocking(move || world.server_table(&config))
                .await
                .map_err(|_| ThreadError::Closed)?,
        };
        let table = table.map_err(|error| ThreadError::Servers(error.to_string()))?;
        let audience = self.0.world.audience.clone();
        let observer = Arc::new(move |status| audience.broadcast::<McpServerStartupStatusUpdated>(&status));
        Ok(self.0.world.mcp.join(&table, observer))
    }

    /// Starts the task of a thread.
    fn run(&self, state: ThreadState, servers: ThreadServers) -> ThreadHandle {
        let (handle, inbox) = ThreadHandle::new(state.id.clone(), SubagentOrigin::of(&state.source));
        let threads = WeakThreads::from(self);
        self.0.tasks.spawn(ThreadActor::new(self.0.world.clone(), threads, state, servers, inbox).run());
        handle
    }

    /// The configuration and settings of a thread that is about to be opened. What the request does not name is as it
    /// was in the stored thread, else as it is configured.
    async fn configure(
        &self,
        given: &SettingsOverrides,
        stored: Option<&StoredThread>,
    ) -> Result<(Arc<EffectiveConfig>, TurnSettings), ThreadError> {
        let world = self.0.world.clone();
        let stored_cwd = stored.map(|stored| stored.meta.cwd.as_str());
        let cwd: PathBuf = match given.cwd.as_deref().or(stored_cwd) {
            Some(cwd) => join(&world.cwd, cwd),
            None => world.cwd.clone(),
        };
        let query = ConfigQuery { cwd: Some(cwd.clone()), overrides: given.config.clone() };
        let loading = tokio::task::spawn_blocking({
            let world = world.clone();
            move || world.load_config(&query)
        });
        let config = loading.await.map_err(|_| ThreadError::Closed)??;
        if let Some(policy) = &given.approval_policy {
            config.requirements.check_approval_policy(policy)?;
        }
        if let Some(mode) = &given.sandbox {
            config.requirements.check_sandbox_mode(mode)?;
        }
        BuiltinProfile::configured(&config)?;
        if let Some(profile) = &given.profile {
            config.requirements.check_sandbox_mode(&profile.mode())?;
        }
        let mut settings = TurnSettings::resolve(&config, world.config.home(), cwd, given);
        let provider = world.provider(&settings.provider, &config).map_err(ThreadError::Provider)?;
        let is_named = given.model.is_some() || config.settings.model.is_some();
        if let Some(model) = world.catalogue().default_model(provider.wire_api()).filter(|_| !is_named) {
            settings.model.clone_from(&model.slug);
        }
        if let Some(stored) = stored {
            if !given.choose_model() {
                settings.use_model_of(stored);
            }
            settings.keep_permissions(stored, given, &config, world.config.home());
        }
        Ok((Arc::new(config), settings))
    }

    fn meta(&self, id: ThreadId, settings: &TurnSettings) -> ThreadMeta {
        let cwd = settings.cwd.to_string_lossy();
        ThreadMeta {
            cli_version: self.0.world.version.clone(),
            ..ThreadMeta::new(id, cwd, self.0.world.source.clone(), &settings.provider)
        }
    }

    async fn load(&self, id: &ThreadId) -> Result<LoadedThread, ThreadError> {
        // One that is being unloaded has its last words to write.
        let leaving = self.lock().leaving(id).cloned();
        if let Some(leaving) = leaving {
            leaving.over().await;
        }
        let location = self.0.world.store.find(id).await.map_err(not_stored)?;
        if location.archived {
            return Err(ThreadError::NotStored(id.clone()));
        }
        self.0.world.store.load(id).await.map_err(not_stored)
    }

    fn say_status(&self, id: &ThreadId, status: ThreadStatus) {
        let params = ThreadStatusChangedNotification { thread_id: id.clone(), status };
        self.0.world.audience.broadcast::<ThreadStatusChanged>(&params);
    }

    fn lock(&self) -> MutexGuard<'_, LoadedThreads> {
        self.0.loaded.lock()
    }
}

/// The stored turns, with the one that is running as such.
pub(crate) async fn stored_turns(
    world: &EngineContext,
    id: &ThreadId,
    active: Option<&str>,
) -> Result<Vec<StoredTurn>, ThreadError> {
    let mut turns = world.store.read(id).await?.turns;
    if let (Some(active), Some(last)) = (active, turns.last_mut())
        && !last.ended
        && &last.id[..] == active
    {
        last.status = TurnStatus::InProgress;
    }
    Ok(turns)
}

/// A stored thread is the root of its own session unless it says otherwise.
fn own_session(mut thread: Thread) -> Thread {
    let root = SubagentOrigin::of(&thread.source).map_or_else(|| thread.id.clone(), |kin| kin.parent);
    thread.session_id.get_or_insert(root);
    thread
}

fn not_stored(error: StoreError) -> ThreadError {
    match error {
        StoreError::NotFound(id) => ThreadError::NotStored(id),
        other => other.into(),
    }
}

fn is_from_user(item: &ResponseItem) -> bool {
    matches!(item, ResponseItem::Message { role, .. } if role == "user")
}
