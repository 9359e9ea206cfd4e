//! What the tools of a thread keep between turns: approvals, background terminals, tools found by searching.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use codicil_exec::{SessionId, SessionOwner};
use codicil_mcp::{ThreadServers, ToolSet};
use codicil_model::ToolList;
use codicil_policy::ThreadGrants;
use codicil_protocol::{ApprovalsReviewer, DynamicToolEntry, ItemId, ThreadId, TurnId};
use codicil_sandbox::RootCache;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    agents::SubagentContext,
    network::HostQuestions,
    offer::{OfferCache, ToolOffer},
};
use crate::{
    engine_context::EngineContext,
    thread::ThreadState,
    threads::{WeakThreads, session_owner},
};

/// The state of a thread that its tools share.
pub(crate) struct ThreadTools {
    pub engine: Arc<EngineContext>,
    pub thread_id: ThreadId,
    /// The owner of the thread's terminals.
    pub owner: SessionOwner,
    pub servers: ThreadServers,
    /// The tools that the client runs.
    pub dynamic: Arc<[DynamicToolEntry]>,
    pub subagents: SubagentContext,
    /// The open questions about hosts that commands want to reach.
    pub network_questions: HostQuestions,
    /// The number of open out-of-band elicitations reported by the client.
    pub elicitations: watch::Sender<u64>,
    /// The resolved readable and writable roots of the thread.
    pub roots: RootCache,
    /// What the user has approved for the rest of the turn or of the thread.
    grants: Mutex<ThreadGrants>,
    /// MCP tools, by server and name, that the user has approved for the rest of the thread.
    approved_mcp_tools: Mutex<HashSet<(String, String)>>,
    /// Names of MCP servers that the user was asked to install.
    offered_servers: Mutex<HashSet<String>>,
    /// How the thread was opened; taken by the first `SessionStart` hook.
    start_source: Mutex<Option<&'static str>>,
    /// The reviewer that a client chose for a running turn.
    turn_reviewer: Mutex<Option<(TurnId, ApprovalsReviewer)>>,
    terminals: Mutex<HashMap<SessionId, BackgroundTerminal>>,
    /// Names of deferred tools that the model has found. They stay on the list from then on.
    discovered: Mutex<Arc<BTreeSet<String>>>,
    /// The offer of the running or last turn.
    current_offer: Mutex<Option<ToolOffer>>,
    /// Lists for offers that no other thread can share.
    offers: OfferCache,
}

/// A command that outlives the call that started it.
#[derive(Clone, Debug)]
pub(crate) struct BackgroundTerminal {
    pub item: ItemId,
    /// The command line, without the shell that runs it.
    pub line: String,
    pub cwd: String,
    /// Whether the command was approved to run outside the sandbox of its thread.
    pub is_escalated: bool,
    /// Cancelled once the item is complete.
    pub completed: CancellationToken,
}

impl ThreadTools {
    pub fn new(
        engine: Arc<EngineContext>,
        threads: WeakThreads,
        state: &ThreadState,
        servers: ThreadServers,
    ) -> Arc<Self> {
        let start_source = if !state.history.is_empty() {
            "resume"
        } else if state.is_cleared {
            "clear"
        } else {
            "startup"
        };
        let tools = Self {
            engine,
            thread_id: state.id.clone(),
            owner: session_owner(&state.id),
            servers,
            dynamic: state.dynamic_tools.clone().into(),
            subagents: SubagentContext::new(threads, state),
            network_questions: HostQuestions::default(),
            elicitations: watch::Sender::new(0),
            roots: RootCache::default(),
            grants: Mutex::default(),
            approved_mcp_tools: Mutex::default(),
            offered_servers: Mutex::default(),
            start_source: Mutex::new(Some(start_source)),
            turn_reviewer: Mutex::default(),
            terminals: Mutex::default(),
            discovered: Mutex::default(),
            current_offer: Mutex::default(),
            offers: OfferCache::default(),
        };
        Arc::new(tools)
    }

    pub fn grants(&self) -> MutexGuard<'_, ThreadGrants> {
        self.grants.lock()
    }

    pub fn approved_mcp_tools(&self) -> MutexGuard<'_, HashSet<(String, String)>> {
        self.approved_mcp_tools.lock()
    }

    /// Notes that the user is asked to install an MCP server. Returns false after the first time.
    pub fn offer_server(&self, name: &str) -> bool {
        self.offered_servers.lock().insert(name.to_owned())
    }

    pub fn terminals(&self) -> MutexGuard<'_, HashMap<SessionId, BackgroundTerminal>> {
        self.terminals.lock()
    }

    /// Changes who answers the approvals of a running turn.
    pub fn set_turn_reviewer(&self, turn: TurnId, reviewer: ApprovalsReviewer) {
        *self.turn_reviewer.lock() = Some((turn, reviewer));
    }

    /// Returns the reviewer that a client chose for a turn while it ran.
    pub fn turn_reviewer(&self, turn: &TurnId) -> Option<ApprovalsReviewer> {
        let chosen = self.turn_reviewer.lock();
        chosen.as_ref().filter(|(of, _)| of == turn).map(|(_, reviewer)| reviewer.clone())
    }

    /// Returns `startup`, `clear` or `resume`; `None` after the first time.
    pub fn take_start_source(&self) -> Option<&'static str> {
        self.start_source.lock().take()
    }

    pub fn discovered_tools(&self) -> Arc<BTreeSet<String>> {
        self.discovered.lock().clone()
    }

    /// Adds deferred tools that the model has found, and returns all found so far.
    pub fn add_discovered(&self, names: impl IntoIterator<Item = String>) -> Arc<BTreeSet<String>> {
        let mut discovered = self.discovered.lock();
        Arc::make_mut(&mut discovered).extend(names);
        discovered.clone()
    }

    /// Keeps the offer of a turn.
    pub fn set_current_offer(&self, offer: ToolOffer) {
        *self.current_offer.lock() = Some(offer);
    }

    /// Returns the tools of MCP servers that the running turn offers, deferred ones included.
    pub fn mcp_tools(&self) -> Option<Arc<ToolSet>> {
        self.current_offer.lock().as_ref()?.mcp.as_ref().map(|tools| tools.0.clone())
    }

    /// Returns the list of the running turn with these deferred tools on it; `None` if no tools are deferred.
    pub fn offer_deferred(&self, names: impl IntoIterator<Item = String>) -> Option<ToolList> {
        let offer = self.current_offer.lock().clone().filter(ToolOffer::has_deferred_tools)?;
        let discovered = self.add_discovered(names);
        Some(self.tools(ToolOffer { discovered, ..offer }))
    }

    /// Returns the list of tools for an offer.
    pub fn tools(&self, offer: ToolOffer) -> ToolList {
        let cache = if offer.is_thread_independent() { &self.engine.offers } else { &self.offers };
        cache.tools(offer)
    }

    /// Ends every command that is still running in the background.
    pub async fn end_terminals(&self) {
        self.engine.terminals.end_all(&self.owner).await;
    }
}
