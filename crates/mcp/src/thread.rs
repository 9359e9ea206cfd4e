//! The servers of one thread: which it holds, what they offer, and calls to them.

use std::{collections::BTreeMap, sync::Arc};

use codicil_protocol::{McpServerStartupState, McpServerStatusUpdatedNotification, Tool};
use futures_util::future::join_all;
use parking_lot::{Mutex, MutexGuard};
use thiserror::Error;
use tokio::{sync::watch, time::timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::{
    call::{CallError, McpCall, ToolOutcome},
    config::{ServerConfig, ServerTable},
    connection::ServerConnection,
    limits::RETRY_PATIENCE,
    pool::ServerPool,
    slot::{ServerSlot, SlotState},
    tools::ToolSet,
};

/// Told of each step in starting a thread's servers: `starting`, then one of the others. Must not wait.
pub type StartupObserver = Arc<dyn Fn(McpServerStatusUpdatedNotification) + Send + Sync>;

/// What a thread holds of the pool. Dropping it lets go.
pub struct ThreadServers {
    pool: ServerPool,
    observer: StartupObserver,
    share: Mutex<ServerShare>,
}

#[derive(Default)]
struct ServerShare {
    servers: BTreeMap<String, HeldServer>,
    generation: u64,
    offered: Option<OfferedTools>,
}

#[derive(Clone)]
struct HeldServer {
    slot: Arc<ServerSlot>,
    config: Arc<ServerConfig>,
    _reports: Arc<AbortOnDropHandle<()>>,
}

/// The last set of tools, and what it was made from.
struct OfferedTools {
    sources: Vec<ToolSource>,
    tools: Arc<ToolSet>,
}

#[derive(Clone)]
struct ToolSource {
    name: String,
    config: Arc<ServerConfig>,
    tools: Arc<[Tool]>,
}

/// A thread cannot start without these servers.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("required MCP servers failed to initialize: {0}")]
pub struct RequiredError(String);

impl ThreadServers {
    pub(crate) fn new(pool: ServerPool, table: &ServerTable, observer: StartupObserver) -> ThreadServers {
        let servers = ThreadServers { pool, observer, share: Mutex::default() };
        servers.update(table);
        servers
    }

    /// True when the configuration was reloaded since the last update.
    pub fn is_stale(&self) -> bool {
        self.share().generation != self.pool.generation()
    }

    /// Takes up another configuration: lets go of what is not in it, starts what is new, keeps the rest.
    pub fn update(&self, table: &ServerTable) {
        let generation = self.pool.generation();
        let wanted = table.iter().filter(|(_, config)| config.enabled);
        let mut share = self.share();
        let mut before = std::mem::take(&mut share.servers);
        share.servers = wanted
            .map(|(name, config)| {
                let kept = before.remove(name).filter(|held| held.config.transport == config.transport);
                let held = match kept {
                    Some(held) => HeldServer { config: config.clone(), ..held },
                    None => self.hold(name, config),
                };
                (name.to_owned(), held)
            })
            .collect();
        share.generation = generation;
        drop(share);
        // Ends the last of them outside of the lock.
        drop(before);
    }

    fn hold(&self, name: &str, config: &Arc<ServerConfig>) -> HeldServer {
        let slot = self.pool.slot(name, config);
        slot.start();
        let reports = tokio::spawn(report(name.to_owned(), slot.watch(), self.observer.clone()));
        HeldServer { slot, config: config.clone(), _reports: Arc::new(AbortOnDropHandle::new(reports)) }
    }

    /// To be called when a turn begins: takes up the configuration if it was reloaded, and starts again what has
    /// failed or ended. Does not wait. When the configuration cannot be read, what there was stays.
    pub fn begin_turn<E>(&self, read: impl FnOnce() -> Result<ServerTable, E>) -> Result<(), E> {
        let updated = if self.is_stale() { read().map(|table| self.update(&table)) } else { Ok(()) };
        self.retry();
        updated
    }

    /// Starts again what has failed or ended. Does not wait.
    pub fn retry(&self) {
        self.slots().iter().for_each(|(_, slot)| slot.start());
    }

    /// Waits for the servers without which the thread must not start.
    pub async fn required(&self) -> Result<(), RequiredError> {
        let required = self.held().into_iter().filter(|(_, held)| held.config.required);
        let failures = required.map(|(name, held)| async move {
            let error = held.slot.settled().await.err()?;
            Some(format!("{name}: {error}"))
        });
        let failures: Vec<String> = join_all(failures).await.into_iter().flatten().collect();
        if failures.is_empty() { Ok(()) } else { Err(RequiredError(failures.join("; "))) }
    }

    /// Whether any server is configured and enabled.
    pub fn is_empty(&self) -> bool {
        self.share().servers.is_empty()
    }

    /// The tools to offer. Waits until each server has started or failed; one that has failed before is waited
    /// for only a moment.
    pub async fn tools(&self) -> Arc<ToolSet> {
        let sources = self.held().into_iter().map(|(name, held)| async move {
            let tools = connected(&held.slot).await?.tools().await;
            Some(ToolSource { name, config: held.config, tools })
        });
        let sources: Vec<ToolSource> = join_all(sources).await.into_iter().flatten().collect();
        self.offer(sources)
    }

    /// The same set as before when nothing has changed: most turns have what the turn before had.
    fn offer(&self, sources: Vec<ToolSource>) -> Arc<ToolSet> {
        if let Some(offered) = &self.share().offered
            && same(&offered.sources, &sources)
        {
            return offered.tools.clone();
        }
        let tools =
            ToolSet::new(sources.iter().map(|source| (&*source.name, &*source.config, &*source.tools)));
        let tools = Arc::new(tools);
        self.share().offered = Some(OfferedTools { sources, tools: tools.clone() });
        tools
    }

    /// Calls a tool, starting its server if it has ended. Dropping the future cancels the call.
    pub async fn call(&self, call: McpCall) -> Result<ToolOutcome, CallError> {
        let held = self.get(&call.server)?;
        if !held.config.offers(&call.tool) {
            return Err(CallError::DisabledTool { server: call.server, tool: call.tool });
        }
        let connection = tokio::select! {
            connection = started(&call.server, &held.slot) => connection?,
            () = call.cancel.cancelled() => return Err(CallError::Cancelled),
        };
        connection.call(call, held.config.tool_timeout).await
    }

    pub(crate) fn slot(&self, server: &str) -> Result<Arc<ServerSlot>, CallError> {
        self.get(server).map(|held| held.slot)
    }

    pub(crate) fn slots(&self) -> Vec<(String, Arc<ServerSlot>)> {
        self.held().into_iter().map(|(name, held)| (name, held.slot)).collect()
    }

    fn get(&self, server: &str) -> Result<HeldServer, CallError> {
        let held = self.share().servers.get(server).cloned();
        held.ok_or_else(|| CallError::UnknownServer(server.to_owned()))
    }

    fn held(&self) -> Vec<(String, HeldServer)> {
        self.share().servers.iter().map(|(name, held)| (name.clone(), held.clone())).collect()
    }

    fn share(&self) -> MutexGuard<'_, ServerShare> {
        self.share.lock()
    }
}

fn same(one: &[ToolSource], two: &[ToolSource]) -> bool {
    let equal = |(one, two): (&ToolSource, &ToolSource)| {
        one.name == two.name && Arc::ptr_eq(&one.config, &two.config) && Arc::ptr_eq(&one.tools, &two.tools)
    };
    one.len() == two.len() && one.iter().zip(two).all(equal)
}

/// The connection of a server that is expected to be starting or running.
async fn connected(slot: &ServerSlot) -> Option<Arc<ServerConnection>> {
    if let Some(connection) = slot.connection() {
        return Some(connection);
    }
    let again = matches!(&*slot.watch().borrow(), SlotState::Starting { again: true });
    let settled = slot.settled();
    if again { timeout(RETRY_PATIENCE, settled).await.ok()?.ok() } else { settled.await.ok() }
}

/// The connection of a server, started if need be.
pub(crate) async fn started(server: &str, slot: &ServerSlot) -> Result<Arc<ServerConnection>, CallError> {
    slot.ready().await.map_err(|error| CallError::NotStarted(error.describe(server)))
}

/// Tells a thread how a server starts. One that joins late is told the beginning as well.
async fn report(name: String, mut state: watch::Receiver<SlotState>, observer: StartupObserver) {
    let mut teller = StartupReporter { name, observer, starting: false };
    loop {
        let (outcome, error) = match &*state.borrow_and_update() {
            SlotState::Starting { .. } => (Some(McpServerStartupState::Starting), None),
            SlotState::Ready(_) => (Some(McpServerStartupState::Ready), None),
            SlotState::Failed(error) => {
                (Some(McpServerStartupState::Failed), Some(error.describe(&teller.name)))
            }
            SlotState::Idle | SlotState::Ended => (None, None),
        };
        if let Some(outcome) = outcome {
            teller.tell(outcome, error);
        }
        if state.changed().await.is_err() {
            return;
        }
    }
}

struct StartupReporter {
    name: String,
    observer: StartupObserver,
    /// Told that it starts, and nothing since.
    starting: bool,
}

impl StartupReporter {
    fn tell(&mut self, outcome: McpServerStartupState, error: Option<String>) {
        let starting = outcome == McpServerStartupState::Starting;
        if !self.starting {
            self.starting = true;
            self.send(McpServerStartupState::Starting, None);
        }
        if !starting {
            self.starting = false;
            self.send(outcome, error);
        }
    }

    fn send(&self, status: McpServerStartupState, error: Option<String>) {
        (self.observer)(McpServerStatusUpdatedNotification { name: self.name.clone(), status, error });
    }
}

impl Drop for StartupReporter {
    /// The thread let go of the server while it was starting.
    fn drop(&mut self) {
        if self.starting {
            self.send(McpServerStartupState::Cancelled, None);
        }
    }
}
