//! Threads that the agents of other threads start: how they are opened, found and ended with them.

use std::sync::{Arc, Weak};

use codicil_config::EffectiveConfig;
use codicil_protocol::{SessionSource, ThreadId, ThreadStatus};
use codicil_store::{LoadedThread, Record, ThreadMeta, new_thread_id};

use super::{Threads, ThreadsInner, loaded::LoadedThreads};
use crate::{
    error::ThreadError,
    kin::{SubagentOrigin, SubagentSlot},
    permissions::{InheritedPermissions, StoredPermissions},
    settings::TurnSettings,
    thread::{InheritedHistory, ThreadHandle, ThreadState},
};

/// How many threads above an agent are asked what it may do. Agents do not nest that deep.
const MAX_PARENTS: usize = 32;

/// The registry, for those whom it holds: it does not live longer because of them.
#[derive(Clone, Debug)]
pub(crate) struct WeakThreads(Weak<ThreadsInner>);

impl From<&Threads> for WeakThreads {
    fn from(threads: &Threads) -> Self {
        Self(Arc::downgrade(&threads.0))
    }
}

impl WeakThreads {
    /// `None` when the server is ending.
    pub fn upgrade(&self) -> Option<Threads> {
        self.0.upgrade().map(Threads)
    }
}

/// An agent that is about to be started.
pub(crate) struct NewAgent {
    pub kin: SubagentOrigin,
    pub seat: SubagentSlot,
    pub settings: TurnSettings,
    pub config: Arc<EffectiveConfig>,
    pub base_instructions: Option<String>,
    pub developer_instructions: Option<String>,
    /// Not kept, because its parent is not.
    pub ephemeral: bool,
    /// What it knows of its parent's conversation.
    pub inherited: Option<InheritedHistory>,
}

impl Threads {
    /// The agents below a thread that are loaded, in the order in which they were started.
    pub fn agents_of(&self, id: &ThreadId) -> Vec<ThreadId> {
        self.agents_below(id).iter().map(|handle| handle.id().clone()).collect()
    }

    pub(crate) fn agents_below(&self, id: &ThreadId) -> Vec<ThreadHandle> {
        below(&self.lock(), id)
    }

    /// A place for one more agent in the tree that a thread belongs to; `None` when all are taken.
    pub(crate) fn seat(&self, parent: &ThreadId, max: usize, names: &[String]) -> Option<SubagentSlot> {
        let root = root_of(&self.lock(), parent);
        self.0.seats.take(&root, max, names)
    }

    /// Starts the thread of an agent. Whoever listens to its parent listens to it from now on.
    pub(crate) async fn open_agent(&self, new: NewAgent) -> Result<ThreadHandle, ThreadError> {
        self.0.world.provider(&new.settings.provider, &new.config).map_err(ThreadError::Provider)?;
        let meta = ThreadMeta {
            source: new.kin.source(),
            parent_thread_id: Some(new.kin.parent.clone()),
            agent_nickname: new.kin.nickname.clone(),
            agent_role: new.kin.role.clone(),
            base_instructions: new.base_instructions,
            developer_instructions: new.developer_instructions,
            ..self.meta(new_thread_id(), &new.settings)
        };
        let mut state = ThreadState::new(&meta, None, new.config, new.settings);
        if !new.ephemeral {
            state.create_log(&self.0.world.store, &meta).await?;
        }
        if let (Some(log), Some(inherited)) = (&mut state.log, &new.inherited) {
            let items = inherited.history.iter().cloned();
            let records: Vec<_> = items.map(|item| Record::Context { turn_id: None, item }).collect();
            log.append(&records).await?;
        }
        if let Some(InheritedHistory { history, told, tone }) = new.inherited {
            state.remember(history);
            (state.told, state.tone) = (told, tone);
        }
        state.seat = Some(new.seat);
        self.join_family(state, &new.kin.parent).await
    }

    /// Loads the thread of an agent that was closed, under the present settings of its parent.
    pub(crate) async fn reopen_agent(
        &self,
        parent: &ThreadId,
        stored: LoadedThread,
        seat: SubagentSlot,
        mut settings: TurnSettings,
        config: Arc<EffectiveConfig>,
    ) -> Result<ThreadHandle, ThreadError> {
        let meta = stored.thread.meta.clone();
        settings.use_model_of(&stored.thread);
        settings.provider.clone_from(&meta.model_provider);
        self.0.world.provider(&settings.provider, &config).map_err(ThreadError::Provider)?;
        let log = self.0.world.store.open_log(&meta.id).await?;
        let mut state = ThreadState::new(&meta, Some(log), config, settings);
        state.recall(stored);
        state.seat = Some(seat);
        self.join_family(state, parent).await
    }

    /// The stored thread of an agent that `parent` once started.
    pub(crate) async fn stored_agent(
        &self,
        parent: &ThreadId,
        id: &ThreadId,
    ) -> Result<LoadedThread, ThreadError> {
        let stored = self.load(id).await?;
        match SubagentOrigin::of(&stored.thread.meta.source) {
            Some(kin) if kin.parent == *parent => Ok(stored),
            _ => Err(ThreadError::NotFound(id.clone())),
        }
    }

    /// Leaves of an agent's permissions what the threads above it have now, as far as the request leaves them to the
    /// thread. Does nothing for a thread that is no agent.
    pub(super) async fn narrow_to_parents(
        &self,
        source: &SessionSource,
        settings: &mut TurnSettings,
        which: InheritedPermissions,
    ) {
        let mut kin = SubagentOrigin::of(source);
        // Bounded: stored files could name each other as parents.
        for _ in 0..MAX_PARENTS {
            let Some(SubagentOrigin { parent, .. }) = kin else { return };
            let (permissions, above) = match self.get(&parent) {
                Ok(handle) => match handle.snapshot().await {
                    Ok(snapshot) => (StoredPermissions::from(&snapshot.settings), handle.kin().cloned()),
                    Err(_) => return,
                },
                // Without its parent an agent has what it was given.
                Err(_) => match self.0.world.store.read(&parent).await {
                    Ok(stored) => (
                        StoredPermissions::read(stored.settings.as_ref()),
                        SubagentOrigin::of(&stored.meta.source),
                    ),
                    Err(_) => return,
                },
            };
            settings.narrow_to(&permissions, which);
            kin = above;
        }
    }

    /// Runs the thread of an agent, unless its parent has been unloaded meanwhile: nobody would end it.
    async fn join_family(&self, state: ThreadState, parent: &ThreadId) -> Result<ThreadHandle, ThreadError> {
        let id = state.id.clone();
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
        self.0.world.audience.follow(&id, parent);
        self.say_status(&id, ThreadStatus::Idle);
        Ok(handle)
    }
}

/// Everything below a thread. Ids made later sort later, so those who were started first come first.
pub(super) fn below(loaded: &LoadedThreads, id: &ThreadId) -> Vec<ThreadHandle> {
    let is_below = |handle: &&ThreadHandle| {
        let mut seen = handle.kin();
        // Bounded: stored files could name each other as parents.
        for _ in 0..=loaded.len() {
            match seen {
                Some(kin) if kin.parent == *id => return true,
                Some(kin) => seen = loaded.get(&kin.parent).and_then(ThreadHandle::kin),
                None => return false,
            }
        }
        false
    };
    loaded.agents().filter(|handle| handle.id() != id).filter(is_below).cloned().collect()
}

/// The thread at the top of the tree, as far as it is loaded.
fn root_of(loaded: &LoadedThreads, id: &ThreadId) -> ThreadId {
    let mut root = id;
    for _ in 0..=loaded.len() {
        match loaded.get(root).and_then(ThreadHandle::kin) {
            Some(kin) => root = &kin.parent,
            None => break,
        }
    }
    root.clone()
}
