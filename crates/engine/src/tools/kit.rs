//! What the tools of a thread keep between turns.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use codicil_exec::{SessionId, SessionOwner};
use codicil_mcp::ThreadServers;
use codicil_model::ToolList;
use codicil_policy::ThreadGrants;
use codicil_protocol::{DynamicToolEntry, ItemId, ThreadId};
use codicil_sandbox::RootCache;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    agents::SubagentContext,
    network::HostQuestions,
    offer::{OfferCache, ToolOffer},
};
use crate::{engine_context::EngineContext, thread::ThreadState, threads::WeakThreads};

/// The tools' side of a thread.
pub(crate) struct ThreadTools {
    pub engine: Arc<EngineContext>,
    pub thread: ThreadId,
    /// Whose terminals they are.
    pub owner: SessionOwner,
    /// The thread's MCP servers.
    pub servers: ThreadServers,
    /// Tools that the client runs.
    pub dynamic: Vec<DynamicToolEntry>,
    pub family: SubagentContext,
    /// What is being asked about hosts.
    pub network_questions: HostQuestions,
    /// How many questions a client says that it asks the person by itself.
    pub elicitations: watch::Sender<u64>,
    /// Where the writable and readable roots of the thread lead.
    pub roots: RootCache,
    /// What people have agreed to for the rest of the thread.
    grants: Mutex<ThreadGrants>,
    /// Tools of MCP servers, by server and name, that need not be asked about again.
    approved_mcp_tools: Mutex<HashSet<(String, String)>>,
    /// How the thread came to be here, until hooks have been told.
    begun_by: Mutex<Option<&'static str>>,
    terminals: Mutex<HashMap<SessionId, BackgroundTerminal>>,
    /// Names of tools that the model has found, which are offered like others from then on.
    found: Mutex<Arc<BTreeSet<String>>>,
    /// What is offered here and nowhere else.
    offers: OfferCache,
}

/// A command that outlives the call that started it.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundTerminal {
    pub item: ItemId,
    /// Cancelled once its item is complete.
    pub over: CancellationToken,
}

impl ThreadTools {
    pub fn new(
        engine: Arc<EngineContext>,
        threads: WeakThreads,
        state: &ThreadState,
        servers: ThreadServers,
    ) -> Arc<Self> {
        let begun_by = if state.history.is_empty() { "startup" } else { "resume" };
        let kit = Self {
            engine,
            thread: state.id.clone(),
            owner: SessionOwner::from(state.id.to_string()),
            servers,
            dynamic: state.dynamic_tools.clone(),
            family: SubagentContext::of(threads, state),
            network_questions: HostQuestions::default(),
            elicitations: watch::Sender::new(0),
            roots: RootCache::default(),
            grants: Mutex::default(),
            approved_mcp_tools: Mutex::default(),
            begun_by: Mutex::new(Some(begun_by)),
            terminals: Mutex::default(),
            found: Mutex::default(),
            offers: OfferCache::default(),
        };
        Arc::new(kit)
    }

    pub fn grants(&self) -> MutexGuard<'_, ThreadGrants> {
        self.grants.lock()
    }

    pub fn approved_mcp_tools(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.approved_mcp_tools.lock()
    }

    pub fn terminals(&self) -> MutexGuard<'_, HashMap<SessionId, BackgroundTerminal>> {
        self.terminals.lock()
    }

    /// `startup` or `resume`, the first time that somebody asks.
    pub fn take_begun_by(&self) -> Option<&'static str> {
        self.begun_by.lock().take()
    }

    /// The tools that the model has found so far.
    pub fn found(&self) -> Arc<BTreeSet<String>> {
        self.found.lock().clone()
    }

    /// Takes note of tools that the model has found.
    pub fn find(&self, names: impl IntoIterator<Item = String>) -> Arc<BTreeSet<String>> {
        let mut found = self.found.lock();
        Arc::make_mut(&mut found).extend(names);
        found.clone()
    }

    /// The tools of an offer.
    pub fn tools(&self, offer: ToolOffer) -> ToolList {
        let offers = match self.dynamic.is_empty() && offer.is_common() {
            true => &self.engine.offers,
            false => &self.offers,
        };
        offers.tools(offer, &self.dynamic)
    }

    /// Ends every command that is still running in the background.
    pub async fn end_terminals(&self) {
        self.engine.terminals.end_all(&self.owner).await;
    }
}
