//! The servers of a thread: their slots, their tools, and calls to them.

use std::{collections::BTreeMap, sync::Arc};

use codicil_protocol::{McpServerStartupState, McpServerStatusUpdatedNotification, Tool};
use futures_util::future::join_all;
use parking_lot::Mutex;
use thiserror::Error;
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    apps::APP_SERVER,
    call::{CallError, McpCall, ToolOutcome},
    config::{OauthSettings, ServerConfig, ServerTable},
    connection::ServerConnection,
    oauth::{LoginError, LoginOptions, OauthError, OauthLogin},
    pool::ServerPool,
    server_slot::{ServerSlot, SlotState},
    start_error::StartError,
    tools::ToolSet,
};

/// Receives the startup states of a thread's servers: `starting`, then one of the others. Must not block.
pub type StartupObserver = Arc<dyn Fn(McpServerStatusUpdatedNotification) + Send + Sync>;

/// A thread's servers in the pool. Dropping it releases them.
pub struct ThreadServers {
    pool: ServerPool,
    observer: StartupObserver,
    holdings: Mutex<ServerHoldings>,
}

/// The servers that a thread holds, with the configuration that they come from.
#[derive(Default)]
struct ServerHoldings {
    servers: BTreeMap<String, HeldServer>,
    oauth: OauthSettings,
    generation: u64,
    offered: Option<OfferedTools>,
}

#[derive(Clone)]
struct HeldServer {
    slot: Arc<ServerSlot>,
    config: Arc<ServerConfig>,
    _reports: Arc<AbortOnDropHandle<()>>,
}

/// The last set of tools, with its inputs.
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

/// The required servers that failed to start, with their errors.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("required MCP servers failed to initialize: {0}")]
pub struct RequiredError(String);

impl ThreadServers {
    pub(crate) fn new(pool: ServerPool, table: &ServerTable, observer: StartupObserver) -> ThreadServers {
        let servers = ThreadServers { pool, observer, holdings: Mutex::default() };
        servers.update(table);
        servers
    }

    /// Returns whether the configuration was reloaded since the last update.
    pub fn is_stale(&self) -> bool {
        self.holdings.lock().generation != self.pool.generation()
    }

    /// Applies a configuration: releases servers that it lacks, starts new ones, keeps the rest.
    pub fn update(&self, table: &ServerTable) {
        let generation = self.pool.generation();
        let wanted = table.iter().filter(|(_, config)| config.enabled);
        let mut holdings = self.holdings.lock();
        let mut before = std::mem::take(&mut holdings.servers);
        holdings.servers = wanted
            .map(|(name, config)| {
                let kept = before.remove(name).filter(|held| held.config.transport == config.transport);
                let held = match kept {
                    Some(held) => {
                        // A reload may have removed the cause of a failure.
                        held.slot.reset_failure();
                        HeldServer { config: config.clone(), ..held }
                    }
                    None => self.hold(name, config),
                };
                (name.to_owned(), held)
            })
            .collect();
        holdings.oauth = table.oauth.clone();
        holdings.generation = generation;
        drop(holdings);
        // Connections are closed outside of the lock.
        drop(before);
    }

    /// Sets the server of the account's apps, or releases it if there is no configuration. The others stay as they are.
    pub fn set_app_server(&self, config: Option<&Arc<ServerConfig>>) {
        let mut holdings = self.holdings.lock();
        let before = holdings.servers.get(APP_SERVER).cloned();
        match (&before, config) {
            (Some(held), Some(config)) if held.config == *config => return,
            (Some(held), None) if held.config.apps.is_none() => return,
            (Some(held), Some(config)) if held.config.transport == config.transport => {
                let held = HeldServer { config: config.clone(), ..held.clone() };
                holdings.servers.insert(APP_SERVER.to_owned(), held);
            }
            (_, Some(config)) => {
                holdings.servers.insert(APP_SERVER.to_owned(), self.hold(APP_SERVER, config));
            }
            (_, None) => {
                holdings.servers.remove(APP_SERVER);
            }
        }
        drop(holdings);
        // The connection is closed outside of the lock.
        drop(before);
    }

    fn hold(&self, name: &str, config: &Arc<ServerConfig>) -> HeldServer {
        let slot = self.pool.slot(name, config);
        slot.start();
        let reports = tokio::spawn(report(name.to_owned(), slot.watch(), self.observer.clone()));
        HeldServer { slot, config: config.clone(), _reports: Arc::new(AbortOnDropHandle::new(reports)) }
    }

    /// Prepares for a turn: applies the configuration if it was reloaded, and restarts servers that failed or
    /// ended. Does not wait. If the configuration cannot be read, the previous one stays in use.
    pub fn begin_turn<E>(&self, read: impl FnOnce() -> Result<ServerTable, E>) -> Result<(), E> {
        let updated = if self.is_stale() { read().map(|table| self.update(&table)) } else { Ok(()) };
        self.retry();
        updated
    }

    /// Restarts servers that failed or ended, with growing delays if they fail again and again. Does not wait.
    pub fn retry(&self) {
        self.slots().iter().for_each(|(_, slot)| slot.retry());
    }

    /// Waits for the required servers.
    pub async fn required(&self) -> Result<(), RequiredError> {
        let required = self.held().into_iter().filter(|(_, held)| held.config.required);
        let failures = required.map(|(name, held)| async move {
            let error = held.slot.settled().await.err()?;
            Some(format!("{name}: {error}"))
        });
        let failures: Vec<String> = join_all(failures).await.into_iter().flatten().collect();
        if failures.is_empty() { Ok(()) } else { Err(RequiredError(failures.join("; "))) }
    }

    /// Returns whether no server is configured and enabled.
    pub fn is_empty(&self) -> bool {
        self.holdings.lock().servers.is_empty()
    }

    /// Returns the tools to offer, as they are now. Waits until each server has started or failed; for a server whose
    /// previous start failed, only a short time.
    pub async fn tools(&self) -> Arc<ToolSet> {
        let sources = self.held().into_iter().map(|(name, held)| async move {
            let tools = held.slot.for_turn().await?.tools().await;
            Some(ToolSource { name, config: held.config, tools })
        });
        let sources: Vec<ToolSource> = join_all(sources).await.into_iter().flatten().collect();
        self.tool_set(sources)
    }

    /// Builds the set of tools, or returns the last one if its inputs are unchanged, as in most turns.
    fn tool_set(&self, sources: Vec<ToolSource>) -> Arc<ToolSet> {
        if let Some(offered) = &self.holdings.lock().offered
            && is_same(&offered.sources, &sources)
        {
            return offered.tools.clone();
        }
        let tools =
            ToolSet::new(sources.iter().map(|source| (&*source.name, &*source.config, &*source.tools)));
        let tools = Arc::new(tools);
        self.holdings.lock().offered = Some(OfferedTools { sources, tools: tools.clone() });
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

    /// Waits for the pending start of a server and returns its result.
    pub async fn started(&self, server: &str) -> Result<(), StartError> {
        match self.get(server) {
            Ok(held) => held.slot.settled().await.map(drop),
            Err(error) => Err(StartError::Failed(error.to_string())),
        }
    }

    /// Begins a login to a server that has refused a call. A server with configured credentials has none.
    pub async fn login(&self, server: &str) -> Result<OauthLogin, LoginError> {
        let held = self.get(server).map_err(|_| LoginError::UnknownServer(server.to_owned()))?;
        if held.config.has_own_credentials() {
            let error = OauthError::Credentials("the configuration names its credentials".to_owned());
            return Err(LoginError::Failed { server: server.to_owned(), error });
        }
        let settings = self.holdings.lock().oauth.clone();
        self.pool.begin_login(server, &held.config, &settings, LoginOptions::default()).await
    }

    pub(crate) fn slot(&self, server: &str) -> Result<Arc<ServerSlot>, CallError> {
        self.get(server).map(|held| held.slot)
    }

    pub(crate) fn slots(&self) -> Vec<(String, Arc<ServerSlot>)> {
        self.held().into_iter().map(|(name, held)| (name, held.slot)).collect()
    }

    fn get(&self, server: &str) -> Result<HeldServer, CallError> {
        let held = self.holdings.lock().servers.get(server).cloned();
        held.ok_or_else(|| CallError::UnknownServer(server.to_owned()))
    }

    fn held(&self) -> Vec<(String, HeldServer)> {
        self.holdings.lock().servers.iter().map(|(name, held)| (name.clone(), held.clone())).collect()
    }
}

fn is_same(old: &[ToolSource], new: &[ToolSource]) -> bool {
    let is_equal = |(old, new): (&ToolSource, &ToolSource)| {
        old.name == new.name && Arc::ptr_eq(&old.config, &new.config) && Arc::ptr_eq(&old.tools, &new.tools)
    };
    old.len() == new.len() && old.iter().zip(new).all(is_equal)
}

/// Returns the connection of a server, starting it if necessary.
pub(crate) async fn started(server: &str, slot: &ServerSlot) -> Result<Arc<ServerConnection>, CallError> {
    slot.ready().await.map_err(|error| CallError::NotStarted(error.describe(server)))
}

/// Reports the startup of a server to a thread. A thread that joins late also receives `starting`.
async fn report(name: String, mut state: watch::Receiver<SlotState>, observer: StartupObserver) {
    let mut reporter = StartupReporter { name, observer, is_starting: false };
    loop {
        match &*state.borrow_and_update() {
            SlotState::Starting { .. } => reporter.report_starting(),
            SlotState::Ready(_) => reporter.report_end(McpServerStartupState::Ready, None),
            SlotState::Failed { error, .. } => {
                let text = error.describe(&reporter.name);
                reporter.report_end(McpServerStartupState::Failed, Some(text));
            }
            SlotState::Idle | SlotState::Ended => {}
        }
        if state.changed().await.is_err() {
            return;
        }
    }
}

struct StartupReporter {
    name: String,
    observer: StartupObserver,
    /// `starting` was reported, and no state since.
    is_starting: bool,
}

impl StartupReporter {
    fn report_starting(&mut self) {
        if !self.is_starting {
            self.is_starting = true;
            self.send(McpServerStartupState::Starting, None);
        }
    }

    fn report_end(&mut self, state: McpServerStartupState, error: Option<String>) {
        self.report_starting();
        self.is_starting = false;
        self.send(state, error);
    }

    fn send(&self, status: McpServerStartupState, error: Option<String>) {
        (self.observer)(McpServerStatusUpdatedNotification {
            name: self.name.clone(),
            status,
            error,
            thread_id: None,
            failure_reason: None,
        });
    }
}

impl Drop for StartupReporter {
    /// Reports that the thread released the server while it was starting.
    fn drop(&mut self) {
        if self.is_starting {
            self.send(McpServerStartupState::Cancelled, None);
        }
    }
}
