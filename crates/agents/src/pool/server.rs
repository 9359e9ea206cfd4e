//! A server of the pool: supervised, with its own directory and turn queue.

use std::sync::{
    Arc, OnceLock, Weak,
    atomic::{AtomicU64, Ordering},
};

use codicil_client::{
    Client, ClientError, ServerAddress, Supervisor,
    protocol::{
        SandboxMode, ThreadFork, ThreadForkParams, ThreadId, ThreadResume, ThreadResumeParams, ThreadStart,
        ThreadStartParams,
    },
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tokio::{
    sync::{OwnedRwLockReadGuard, OwnedSemaphorePermit, RwLock},
    time::{Duration, Instant, sleep, sleep_until},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    counters::PoolCounters,
    error::PoolError,
    handle::PoolShared,
    questions::{self, QuestionBroker},
    settings::{DefaultDirectory, PoolSettings, TurnScheduling},
    turn_queue::TurnQueue,
};

#[derive(Debug)]
pub(super) struct PoolServer {
    // Dropped before the directory, since its processes run there.
    pub supervisor: Supervisor,
    pub queue: TurnQueue,
    pub broker: Arc<QuestionBroker>,
    /// The number of connections when restarts were last counted.
    connections: AtomicU64,
    usage: Arc<ServerUsage>,
    /// The task that suspends the server when it is idle.
    idle_watch: OnceLock<AbortOnDropHandle<()>>,
    cwd: Option<String>,
    directory: Mutex<Option<TempDir>>,
    /// Counts towards the maximum number of servers.
    _permit: OwnedSemaphorePermit,
}

/// Who uses a server now, and when its last use ended.
#[derive(Debug)]
struct ServerUsage {
    /// Uses hold it for reading. It is held for writing while the server is suspended.
    uses: Arc<RwLock<()>>,
    last_use: Mutex<Instant>,
}

/// A connection to a server. The server is not suspended before it is dropped.
#[derive(Debug)]
pub(super) struct ServerConnection {
    pub client: Client,
    pub generation: u64,
    usage: Arc<ServerUsage>,
    _use: OwnedRwLockReadGuard<()>,
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        *self.usage.last_use.lock() = Instant::now();
    }
}

impl PoolServer {
    pub async fn start(
        shared: &PoolShared,
        address: ServerAddress,
        permit: OwnedSemaphorePermit,
    ) -> Result<Arc<Self>, PoolError> {
        let settings = &shared.settings;
        let directory = match &settings.directory {
            DefaultDirectory::Isolated => Some(isolated_directory().await?),
            DefaultDirectory::At(_) | DefaultDirectory::ServerDefault => None,
        };
        let cwd = match (&settings.directory, &directory) {
            (DefaultDirectory::At(path), _) => Some(path.clone()),
            (_, directory) => directory.as_ref().map(|directory| directory.path().to_owned()),
        };
        let address = match (address, &cwd) {
            (ServerAddress::Launch(launch), Some(cwd)) => launch.cwd(cwd).into(),
            (address, _) => address,
        };
        let broker = QuestionBroker::new(shared.questions.clone(), settings.answer_within);
        let client =
            settings.client.clone().handler(questions::handler(&broker)).tools(settings.tools.clone());
        let supervisor = Supervisor::start(client, address, settings.restart_limits.clone()).await?;
        shared.counters.servers_started.increment();
        let usage = ServerUsage { uses: Arc::default(), last_use: Mutex::new(Instant::now()) };
        let server = Arc::new(Self {
            supervisor,
            queue: TurnQueue::new(initial_limit(settings)),
            broker,
            connections: AtomicU64::new(1),
            usage: Arc::new(usage),
            idle_watch: OnceLock::new(),
            cwd: cwd.map(|cwd| cwd.to_string_lossy().into_owned()),
            directory: Mutex::new(directory),
            _permit: permit,
        });
        if let Some(timeout) = settings.idle_timeout {
            let watch = suspend_when_idle(Arc::downgrade(&server), timeout, shared.counters.clone());
            server.idle_watch.get_or_init(|| AbortOnDropHandle::new(tokio::spawn(watch)));
        }
        Ok(server)
    }

    /// Returns a connection, after a restart if necessary.
    pub async fn connection(&self, shared: &PoolShared) -> Result<ServerConnection, ClientError> {
        let in_use = self.usage.uses.clone().read_owned().await;
        let (client, generation) = self.supervisor.connection().await?;
        self.count_restarts(shared);
        Ok(ServerConnection { client, generation, usage: self.usage.clone(), _use: in_use })
    }

    /// Counts the restarts since the last call, and has lost warm threads replaced.
    pub fn count_restarts(&self, shared: &PoolShared) {
        let connections = self.supervisor.connection_count();
        let restarts = connections.saturating_sub(self.connections.fetch_max(connections, Ordering::Relaxed));
        if restarts > 0 {
            shared.counters.restarts.add(restarts);
            shared.warm.refresh();
        }
    }

    /// Adapts the turn limit to what is known about the server's notifications.
    pub fn adapt_turn_limit(&self, client: &Client, settings: &PoolSettings) {
        if settings.scheduling == TurnScheduling::Detect {
            match client.names_threads() {
                Some(true) => self.queue.set_limit(settings.max_parallel_turns),
                Some(false) => self.queue.set_limit(1),
                None => {}
            }
        }
    }

    pub async fn start_thread(
        &self,
        client: &Client,
        settings: &PoolSettings,
        instructions: &str,
    ) -> Result<ThreadId, ClientError> {
        let mut params = self.thread_settings(settings);
        if !instructions.is_empty() {
            params.base_instructions = Some(instructions.to_owned());
        }
        if params.dynamic_tools.is_none() && !settings.tools.is_empty() {
            params.dynamic_tools = Some(settings.tools.specs().into_iter().map(Into::into).collect());
        }
        Ok(client.call::<ThreadStart>(params).await?.thread.id)
    }

    pub async fn fork_thread(
        &self,
        client: &Client,
        settings: &PoolSettings,
        source: &ThreadId,
    ) -> Result<ThreadId, ClientError> {
        let params = ThreadForkParams::with_settings(source.clone(), self.thread_settings(settings));
        Ok(client.call::<ThreadFork>(params).await?.thread.id)
    }

    /// Resumes a stored thread in this server's directory: the one it was stored with may be gone.
    pub async fn resume_thread(
        &self,
        client: &Client,
        settings: &PoolSettings,
        thread: &ThreadId,
    ) -> Result<ThreadId, ClientError> {
        let params = ThreadResumeParams::with_settings(thread.clone(), self.thread_settings(settings));
        Ok(client.call::<ThreadResume>(params).await?.thread.id)
    }

    /// Returns the settings of all threads of this server.
    fn thread_settings(&self, settings: &PoolSettings) -> ThreadStartParams {
        let given = settings.thread.clone();
        let config = given.config.unwrap_or_default();
        let has_profile = given.permissions.is_some() || config.contains_key("sandbox_mode");
        let default_sandbox = (!has_profile).then_some(SandboxMode::WorkspaceWrite);
        ThreadStartParams {
            cwd: given.cwd.or_else(|| self.cwd.clone()),
            sandbox: given.sandbox.or(default_sandbox.map(Into::into)),
            config: Some(thread_config(config, &settings.directory)),
            ..given
        }
    }

    /// Fails waiting turns, ends the server and removes its directory.
    pub async fn close(&self) {
        self.queue.close();
        self.supervisor.close().await;
        let directory = self.directory.lock().take();
        if let Some(directory) = directory {
            let removed = tokio::task::spawn_blocking(move || directory.close()).await;
            if let Ok(Err(error)) = removed {
                tracing::warn!("failed to remove a working directory: {error}");
            }
        }
    }
}

/// Suspends a server that was not used for this time, again and again.
async fn suspend_when_idle(server: Weak<PoolServer>, timeout: Duration, counters: Arc<PoolCounters>) {
    let last_use = || server.upgrade().map(|server| *server.usage.last_use.lock());
    while let Some(since) = last_use() {
        match since.checked_add(timeout) {
            Some(due) if due > Instant::now() => sleep_until(due).await,
            // It is in use, or suspended already.
            _ => sleep(timeout).await,
        }
        let Some(server) = server.upgrade() else { return };
        let is_due = since.elapsed() >= timeout && *server.usage.last_use.lock() == since;
        if is_due
            && let Ok(_not_in_use) = server.usage.uses.try_write()
            && server.supervisor.connected().is_some()
        {
            server.supervisor.suspend().await;
            counters.idle_stops.increment();
            tracing::debug!(target: "codicil_agents", "ended an idle server");
        }
    }
}

/// Adds the settings that the pool needs, except for those that are given.
fn thread_config(mut config: Map<String, Value>, directory: &DefaultDirectory) -> Map<String, Value> {
    // `thinking` messages come from the raw reasoning, which servers do not send otherwise.
    set_default(&mut config, "show_raw_agent_reasoning", json!(true));
    if *directory == DefaultDirectory::Isolated {
        set_default(&mut config, "project_doc_max_bytes", json!(0));
        set_default(&mut config, "skills.include_instructions", json!(false));
        set_default(&mut config, "skills.bundled.enabled", json!(false));
        set_default(&mut config, "features.plugins", json!(false));
    }
    config
}

/// Sets a dotted key, unless it is given as such or within a table.
fn set_default(config: &mut Map<String, Value>, key: &str, value: Value) {
    let is_within = |(start, rest): (&str, &str)| {
        config
            .get(start)
            .is_some_and(|table| table.pointer(&format!("/{}", rest.replace('.', "/"))).is_some())
    };
    let mut prefixes =
        key.match_indices('.').filter_map(|(at, _)| Some((key.get(..at)?, key.get(at + 1..)?)));
    if !config.contains_key(key) && !prefixes.any(is_within) {
        config.insert(key.to_owned(), value);
    }
}

fn initial_limit(settings: &PoolSettings) -> usize {
    match settings.scheduling {
        TurnScheduling::Parallel => settings.max_parallel_turns,
        TurnScheduling::Detect | TurnScheduling::OneAtATime => 1,
    }
}

/// Creates an empty directory that only its owner can access.
async fn isolated_directory() -> std::io::Result<TempDir> {
    let make = || {
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        builder.prefix("codicil-").tempdir()
    };
    tokio::task::spawn_blocking(make).await.map_err(std::io::Error::other)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_settings_take_precedence_over_the_pools() {
        let check = |given: Value, key: &str, expected: Option<Value>| {
            let config = thread_config(given.as_object().unwrap().clone(), &DefaultDirectory::Isolated);
            assert_eq!(config.get(key).cloned(), expected, "{given}");
        };
        check(json!({}), "project_doc_max_bytes", Some(json!(0)));
        check(json!({ "project_doc_max_bytes": 100 }), "project_doc_max_bytes", Some(json!(100)));
        check(json!({ "skills": { "bundled": {} } }), "skills.bundled.enabled", Some(json!(false)));
        check(json!({ "skills": { "bundled": { "enabled": true } } }), "skills.bundled.enabled", None);
        check(json!({ "skills.bundled": { "enabled": true } }), "skills.bundled.enabled", None);
        let kept = thread_config(Map::new(), &DefaultDirectory::ServerDefault);
        assert_eq!(Value::from(kept), json!({ "show_raw_agent_reasoning": true }));
    }
}
