//! The threads of subagents: opening, reopening and finding them.

use std::sync::{Arc, Weak};

use codicil_config::EffectiveConfig;
use codicil_protocol::{
    Frame, FrameAudience, ProtocolGeneration, SessionSource, ThreadId, ThreadStarted,
    ThreadStartedNotification, ThreadStatus,
};
use codicil_store::{Epoch, LoadedThread, Record, ThreadMeta, new_thread_id};

use super::{Threads, ThreadsInner, loaded::LoadedThreads};
use crate::{
    error::{SettingsError, ThreadError},
    permissions::{InheritedPermissions, StoredPermissions},
    settings::TurnSettings,
    subagent::{SubagentOrigin, SubagentSlot},
    thread::{InheritedHistory, ThreadHandle, ThreadState},
};

/// The number of parents whose permissions limit a subagent. Subagents do not nest that deep.
const MAX_PARENTS: usize = 32;

/// A weak reference to the registry, for the threads in it.
#[derive(Clone, Debug)]
pub(crate) struct WeakThreads(Weak<ThreadsInner>);

impl From<&Threads> for WeakThreads {
    fn from(threads: &Threads) -> Self {
        Self(Arc::downgrade(&threads.0))
    }
}

impl WeakThreads {
    /// Returns `None` when the server is stopping.
    pub fn upgrade(&self) -> Option<Threads> {
        self.0.upgrade().map(Threads)
    }
}

/// A subagent that is about to be started.
pub(crate) struct NewAgent {
    pub origin: SubagentOrigin,
    pub slot: SubagentSlot,
    pub settings: TurnSettings,
    pub config: Arc<EffectiveConfig>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    pub originator: Option<String>,
    /// Set if the parent is ephemeral.
    pub ephemeral: bool,
    /// The epoch at which the parent was loaded.
    pub parent_epoch: Option<Epoch>,
    /// The parent's history, if the subagent starts with it.
    pub inherited: Option<InheritedHistory>,
}

impl Threads {
    /// Returns the loaded subagents below a thread, in the order in which they were started.
    pub fn agents_of(&self, id: &ThreadId) -> Vec<ThreadId> {
        self.agents_below(id).iter().map(|handle| handle.id().clone()).collect()
    }

    pub(crate) fn agents_below(&self, id: &ThreadId) -> Vec<ThreadHandle> {
        below(&self.lock(), id)
    }

    /// Takes a slot for one more subagent in the tree that a thread belongs to; `None` if all are taken.
    pub(crate) fn take_slot(&self, parent: &ThreadId, max: usize, names: &[String]) -> Option<SubagentSlot> {
        let root = root_of(&self.lock(), parent);
        self.0.slots.take(&root, max, names)
    }

    /// Starts the thread of a subagent. The parent's subscribers are subscribed to it.
    pub(crate) async fn open_agent(&self, new: NewAgent) -> Result<ThreadHandle, ThreadError> {
        self.0.engine.provider(&new.settings.provider, &new.config).map_err(SettingsError::Provider)?;
        let meta = ThreadMeta {
            source: new.origin.source(),
            parent_thread_id: Some(new.origin.parent.clone()),
            agent_nickname: new.origin.nickname.clone(),
            agent_role: new.origin.role.clone(),
            base_instructions: new.base_instructions,
            developer_instructions: new.developer_instructions,
            originator: new.originator,
            ..self.meta(new_thread_id(), &new.settings)
        };
        let mut state = ThreadState::new(&meta, None, new.config, new.settings);
        if !new.ephemeral {
            state.create_log(&self.0.engine.store, &meta, new.parent_epoch).await?;
        }
        if let (Some(log), Some(inherited)) = (&mut state.log, &new.inherited) {
            let items = inherited.history.iter().cloned();
            let records: Vec<_> = items.map(|item| Record::Context { turn_id: None, item }).collect();
            log.append(&records).await?;
        }
        if let Some(InheritedHistory { history, context, first_personality }) = new.inherited {
            state.remember(history);
            state.context = context;
            state.first_personality = first_personality;
        }
        state.slot = Some(new.slot);
        self.run_subagent(state, &new.origin.parent).await
    }

    /// Loads the thread of a closed subagent, with the current settings of its parent.
    pub(crate) async fn reopen_agent(
        &self,
        parent: &ThreadId,
        stored: LoadedThread,
        slot: SubagentSlot,
        mut settings: TurnSettings,
        config: Arc<EffectiveConfig>,
    ) -> Result<ThreadHandle, ThreadError> {
        let meta = stored.thread.meta.clone();
        settings.use_model_of(&stored.thread);
        settings.provider.clone_from(&meta.model_provider);
        self.0.engine.provider(&settings.provider, &config).map_err(SettingsError::Provider)?;
        let log = self.0.engine.store.open_log_after(&stored.thread).await?;
        let mut state = ThreadState::new(&meta, Some(log), config, settings);
        state.recall(stored);
        state.slot = Some(slot);
        self.run_subagent(state, parent).await
    }

    /// Returns the stored thread of a subagent of `parent`.
    pub(crate) async fn stored_agent(
        &self,
        parent: &ThreadId,
        id: &ThreadId,
    ) -> Result<LoadedThread, ThreadError> {
        let stored = self.load(id).await?;
        match SubagentOrigin::of(&stored.thread.meta.source) {
            Some(origin) if origin.parent == *parent => Ok(stored),
            _ => Err(ThreadError::NotFound(id.clone())),
        }
    }

    /// Narrows the permissions of a subagent to those that the threads above it have now, except for permissions that
    /// the request names. Does nothing for other threads.
    pub(super) async fn narrow_to_parents(
        &self,
        source: &SessionSource,
        settings: &mut TurnSettings,
        which: InheritedPermissions,
    ) {
        let mut origin = SubagentOrigin::of(source);
        // Bounded: stored files could name each other as parents.
        for _ in 0..MAX_PARENTS {
            let Some(SubagentOrigin { parent, .. }) = origin else { return };
            let (permissions, above) = match self.get(&parent) {
                Ok(handle) => match handle.snapshot().await {
                    Ok(snapshot) => (StoredPermissions::from(&snapshot.settings), handle.origin().cloned()),
                    Err(_) => return,
                },
                // Without its parent, a subagent keeps its permissions.
                Err(_) => match self.0.engine.store.read(&parent).await {
                    Ok(stored) => (
                        StoredPermissions::read(stored.settings.as_ref()),
                        SubagentOrigin::of(&stored.meta.source),
                    ),
                    Err(_) => return,
                },
            };
            settings.narrow_to(&permissions, which);
            origin = above;
        }
    }

    /// Runs the thread of a subagent, unless its parent has been unloaded meanwhile: it would never be unloaded.
    async fn run_subagent(&self, state: ThreadState, parent: &ThreadId) -> Result<ThreadHandle, ThreadError> {
        let id = state.id.clone();
        let started = ThreadStartedNotification { thread: state.view() };
        let servers = self.join_servers(&state).await?;
        let handle = {
            let mut loaded = self.lock();
            if loaded.get(parent).is_none() {
                return Err(ThreadError::Closed);
            }
            if loaded.get(&id).is_some() {
                return Err(ThreadError::Busy);
            }
            let handle = self.run(state, servers);
            loaded.insert(handle.clone());
            handle
        };
        self.0.engine.clients.subscribe_like(&id, parent);
        let started = Frame::notification::<ThreadStarted>(&started).only_in(ProtocolGeneration::V166);
        self.0.engine.clients.notify_followers(&id, &started.only_for(FrameAudience::WithCursor));
        self.broadcast_status(&id, ThreadStatus::Idle);
        Ok(handle)
    }
}

/// Returns all subagents below a thread, in the order of their ids, which is the order in which they were started.
pub(super) fn below(loaded: &LoadedThreads, id: &ThreadId) -> Vec<ThreadHandle> {
    let is_below = |handle: &&ThreadHandle| {
        let mut origin = handle.origin();
        // Bounded: stored files could name each other as parents.
        for _ in 0..=loaded.len() {
            match origin {
                Some(above) if above.parent == *id => return true,
                Some(above) => origin = loaded.get(&above.parent).and_then(ThreadHandle::origin),
                None => return false,
            }
        }
        false
    };
    loaded.agents().filter(|handle| handle.id() != id).filter(is_below).cloned().collect()
}

/// Returns the topmost loaded thread above a thread.
fn root_of(loaded: &LoadedThreads, id: &ThreadId) -> ThreadId {
    let mut root = id;
    for _ in 0..=loaded.len() {
        match loaded.get(root).and_then(ThreadHandle::origin) {
            Some(origin) => root = &origin.parent,
            None => break,
        }
    }
    root.clone()
}
