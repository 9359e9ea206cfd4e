//! The state that all threads of a process share.

use std::{
    collections::HashMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use codicil_config::{ConfigQuery, ConfigStore, EffectiveConfig};
use codicil_exec::{TerminalSessions, UserShell};
use codicil_extensions::{AuthAccount, Extensions};
use codicil_mcp::{ClientIdentity, PoolOptions, ServerConfigError, ServerPool, ServerTable};
use codicil_model::{
    ModelCatalogue, ModelError, ModelProvider, ProviderConfig, ProviderContext, ServedModels,
};
use codicil_protocol::{SessionSource, SkillsChanged, SkillsChangedNotification};
use codicil_sandbox::ServerPlaces;
use codicil_store::Store;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{
    error::{SettingsError, ThreadError},
    notify_program::NotifyPrograms,
    realtime,
    settings::DEFAULT_PROVIDER,
    thread_clients::ThreadClients,
    tools::OfferCache,
};

/// Configuration, store, models, clients and extensions. One for the process.
pub struct EngineContext {
    pub config: ConfigStore,
    pub store: Store,
    pub clients: Arc<dyn ThreadClients>,
    pub models: ProviderContext,
    /// Skills, plugins and apps.
    pub extensions: Extensions,
    /// The working directory of threads that name none.
    pub cwd: PathBuf,
    /// The version that is stored with threads.
    pub version: String,
    /// The source of new threads.
    pub source: SessionSource,
    /// The server's files and sockets, which sandboxed commands must not reach.
    pub server_places: Arc<ServerPlaces>,
    /// Connections to MCP servers, shared by threads.
    pub mcp: ServerPool,
    /// The terminal sessions of all threads.
    pub(crate) terminals: TerminalSessions,
    /// The tool lists that threads share.
    pub(crate) offers: OfferCache,
    /// Voice sessions of threads.
    pub(crate) realtime: realtime::RealtimeSessions,
    /// The user's programs that run after turns.
    pub(crate) notify_programs: NotifyPrograms,
    /// The number of configuration reloads that clients have asked for.
    reloads: AtomicU64,
    shell: OnceCell<UserShell>,
    providers: Mutex<HashMap<String, ConnectedProvider>>,
}

/// A provider and the configuration it was made from.
#[derive(Clone)]
struct ConnectedProvider {
    config: ProviderConfig,
    provider: Arc<dyn ModelProvider>,
    /// `None` for providers whose models are in the catalogue.
    served: Option<ServedModels>,
}

impl EngineContext {
    pub fn new(
        config: ConfigStore,
        store: Store,
        clients: Arc<dyn ThreadClients>,
        models: ProviderContext,
        cwd: PathBuf,
        version: String,
    ) -> Self {
        let identity = ClientIdentity { name: "codicil".to_owned(), version: version.clone() };
        let options = PoolOptions::new(config.home().path().to_path_buf(), identity);
        let mcp = ServerPool::new(PoolOptions { account: models.auth.clone(), ..options });
        let observers = clients.clone();
        let accounts = Arc::new(AuthAccount(models.auth.clone()));
        let on_skills_changed = move || observers.broadcast::<SkillsChanged>(&SkillsChangedNotification {});
        let home = std::env::home_dir();
        let extensions = Extensions::new(config.clone(), home, accounts, mcp.clone(), on_skills_changed);
        let server_places = Arc::new(ServerPlaces::new(config.home().path()));
        Self {
            server_places,
            mcp,
            config,
            store,
            clients,
            models,
            extensions,
            cwd,
            version,
            source: SessionSource::Vscode,
            terminals: TerminalSessions::default(),
            offers: OfferCache::default(),
            realtime: realtime::RealtimeSessions::default(),
            notify_programs: NotifyPrograms::default(),
            reloads: AtomicU64::new(0),
            shell: OnceCell::new(),
            providers: Mutex::default(),
        }
    }

    /// Returns the user's shell, which is looked up once.
    pub async fn shell(&self) -> UserShell {
        let look_up = async || tokio::task::spawn_blocking(UserShell::of_user).await;
        match self.shell.get_or_try_init(look_up).await {
            Ok(shell) => shell.clone(),
            Err(_) => UserShell::at("/bin/sh"),
        }
    }

    /// Returns the id of the provider that a configuration names.
    pub fn provider_id(&self, config: &EffectiveConfig) -> String {
        config.settings.model_provider.clone().unwrap_or_else(|| DEFAULT_PROVIDER.to_owned())
    }

    /// Has loaded threads reload the configuration before their next turn.
    pub fn reload_config(&self) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn config_reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    pub fn catalogue(&self) -> &ModelCatalogue {
        &self.models.catalogue
    }

    /// Loads the configuration of a directory. Blocks on files.
    pub fn load_config(&self, query: &ConfigQuery) -> Result<EffectiveConfig, ThreadError> {
        Ok(self.config.load(query).map_err(SettingsError::from)?)
    }

    /// Returns the MCP servers of a configuration, with those of plugins. Blocks on files if there are plugins.
    pub fn server_table(&self, config: &EffectiveConfig) -> Result<ServerTable, ServerConfigError> {
        let mut table = ServerTable::read(config)?;
        if !config.settings.plugins.is_empty() {
            for (name, server) in self.extensions.plugins.mcp_servers(config) {
                table.add(&name, &server)?;
            }
        }
        Ok(table)
    }

    /// Returns the provider with this id. Threads with the same configuration share it and its connections.
    pub fn provider(&self, id: &str, config: &EffectiveConfig) -> Result<Arc<dyn ModelProvider>, ModelError> {
        Ok(self.connected(id, config)?.provider)
    }

    /// Returns the models of a provider that reports them itself; `None` for providers whose models are in the
    /// catalogue.
    pub fn served_models(
        &self,
        id: &str,
        config: &EffectiveConfig,
    ) -> Result<Option<ServedModels>, ModelError> {
        Ok(self.connected(id, config)?.served)
    }

    fn connected(&self, id: &str, config: &EffectiveConfig) -> Result<ConnectedProvider, ModelError> {
        let config = provider_config(id, config)?;
        let mut providers = self.providers.lock();
        if let Some(known) = providers.get(id)
            && known.config == config
        {
            return Ok(known.clone());
        }
        let provider = codicil_model::connect(id, &config, &self.models)?;
        let served = ServedModels::of(id, &config, &self.models);
        let connected = ConnectedProvider { config, provider, served };
        providers.insert(id.to_owned(), connected.clone());
        Ok(connected)
    }
}

/// Returns the configuration of a provider: the configured one, else the built-in one.
pub fn provider_config(id: &str, config: &EffectiveConfig) -> Result<ProviderConfig, ModelError> {
    let configured = config.model_providers().find(|(name, _)| *name == id).map(|(_, table)| table);
    let mut provider: ProviderConfig = match (configured, ProviderConfig::builtin(id)) {
        (Some(table), _) => (table.clone().try_into())
            .map_err(|error| ModelError::Config(format!("model_providers.{id}: {error}")))?,
        (None, Some(builtin)) if id == DEFAULT_PROVIDER => {
            let base_url = config.settings.openai_base_url.clone().or(builtin.base_url);
            ProviderConfig { base_url, ..builtin }
        }
        (None, Some(builtin)) => builtin,
        (None, None) => return Err(ModelError::Config(format!("Model provider `{id}` not found"))),
    };
    if let Some(residency) = config.requirements.residency() {
        require_residency(&mut provider, id, &residency)?;
    }
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let deadlines = &config.settings.codicil.deadlines;
    provider.connect_timeout_ms.get_or_insert(millis(deadlines.connect));
    // An idle timeout of the provider also applies to the first token.
    let first = provider.stream_idle_timeout_ms.unwrap_or(millis(deadlines.first_token));
    provider.first_token_timeout_ms.get_or_insert(first);
    provider.stream_idle_timeout_ms.get_or_insert(millis(deadlines.between_tokens));
    Ok(provider)
}

/// The header with the region in which OpenAI must process data.
const RESIDENCY_HEADER: &str = "x-openai-internal-codex-residency";

/// Adds the administrator's residency to the requests of a provider. Only OpenAI's own service can promise it, so others
/// are refused.
fn require_residency(provider: &mut ProviderConfig, id: &str, residency: &str) -> Result<(), ModelError> {
    if id != DEFAULT_PROVIDER {
        return Err(ModelError::Config(format!(
            "the administrator requires that data is processed in `{residency}` (`enforce_residency`), which the \
             provider `{id}` cannot promise; use `{DEFAULT_PROVIDER}`"
        )));
    }
    let headers = provider.http_headers.get_or_insert_default();
    let is_residency = |name: &String| name.eq_ignore_ascii_case(RESIDENCY_HEADER);
    headers.retain(|name, _| !is_residency(name));
    provider.env_http_headers.iter_mut().for_each(|from| from.retain(|name, _| !is_residency(name)));
    headers.insert(RESIDENCY_HEADER.to_owned(), residency.to_owned());
    Ok(())
}

impl std::fmt::Debug for EngineContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineContext").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}
