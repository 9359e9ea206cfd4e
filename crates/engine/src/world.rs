//! What every thread of a process shares.

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
use codicil_model::{ModelCatalogue, ModelError, ModelProvider, ProviderConfig, ProviderContext};
use codicil_protocol::{SessionSource, SkillsChanged, SkillsChangedNotification};
use codicil_sandbox::ServerPlaces;
use codicil_store::Store;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use crate::{
    audience::ThreadClients,
    error::{SettingsError, ThreadError},
    realtime,
    settings::DEFAULT_PROVIDER,
    tools::OfferCache,
};

/// Configuration, store, models and clients. One for the process.
pub struct EngineContext {
    pub config: ConfigStore,
    pub store: Store,
    pub audience: Arc<dyn ThreadClients>,
    pub models: ProviderContext,
    /// Skills, plugins and apps.
    pub extensions: Extensions,
    /// Where threads work that name no directory.
    pub cwd: PathBuf,
    /// What stored threads say wrote them.
    pub version: String,
    /// Where new threads say they come from.
    pub source: SessionSource,
    /// What confined commands must not reach. Listeners are added as they are opened.
    pub server_places: Arc<ServerPlaces>,
    /// Connections to MCP servers, shared by threads.
    pub mcp: ServerPool,
    /// Commands that outlive the calls that started them, of all threads.
    pub(crate) terminals: TerminalSessions,
    /// What threads without tools of their own offer.
    pub(crate) offers: OfferCache,
    /// Voice sessions of threads.
    pub(crate) realtime: realtime::RealtimeSessions,
    /// How often loaded threads were told to look at the configuration again.
    reloads: AtomicU64,
    shell: OnceCell<UserShell>,
    providers: Mutex<HashMap<String, ConnectedProvider>>,
}

/// A provider and the configuration it was made from.
type ConnectedProvider = (ProviderConfig, Arc<dyn ModelProvider>);

impl EngineContext {
    pub fn new(
        config: ConfigStore,
        store: Store,
        audience: Arc<dyn ThreadClients>,
        models: ProviderContext,
        cwd: PathBuf,
        version: String,
    ) -> Self {
        let identity = ClientIdentity { name: "codicil".to_owned(), version: version.clone() };
        let mcp = ServerPool::new(PoolOptions::new(config.home().path().to_path_buf(), identity));
        let (told, accounts) = (audience.clone(), Arc::new(AuthAccount(models.auth.clone())));
        let extensions = Extensions::new(config.clone(), std::env::home_dir(), accounts, move || {
            told.broadcast::<SkillsChanged>(&SkillsChangedNotification {});
        });
        let server_places = Arc::new(ServerPlaces::new(config.home().path()));
        Self {
            server_places,
            mcp,
            config,
            store,
            audience,
            models,
            extensions,
            cwd,
            version,
            source: SessionSource::Vscode,
            terminals: TerminalSessions::default(),
            offers: OfferCache::default(),
            realtime: realtime::RealtimeSessions::default(),
            reloads: AtomicU64::new(0),
            shell: OnceCell::new(),
            providers: Mutex::default(),
        }
    }

    /// The person's shell. Looked up once, where blocking is allowed.
    pub async fn shell(&self) -> UserShell {
        let look_up = async || tokio::task::spawn_blocking(UserShell::of_user).await;
        match self.shell.get_or_try_init(look_up).await {
            Ok(shell) => shell.clone(),
            Err(_) => UserShell::at("/bin/sh"),
        }
    }

    /// Lets loaded threads see, from their next turn on, what the configuration says now.
    pub fn reload_config(&self) {
        self.reloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn config_reloads(&self) -> u64 {
        self.reloads.load(Ordering::Relaxed)
    }

    pub fn catalogue(&self) -> &ModelCatalogue {
        &self.models.catalogue
    }

    /// Reads files, so it is called where waiting is allowed.
    pub fn load_config(&self, query: &ConfigQuery) -> Result<EffectiveConfig, ThreadError> {
        Ok(self.config.load(query).map_err(SettingsError::from)?)
    }

    /// The MCP servers of a configuration, those of plugins included. Reads files when there are plugins.
    pub fn server_table(&self, config: &EffectiveConfig) -> Result<ServerTable, ServerConfigError> {
        let mut table = ServerTable::read(config)?;
        if !config.settings.plugins.is_empty() {
            for (name, server) in self.extensions.plugins.mcp_servers(config) {
                table.add(&name, &server)?;
            }
        }
        Ok(table)
    }

    /// The provider with this id. Threads with the same configuration share it, and so its connections.
    pub fn provider(&self, id: &str, config: &EffectiveConfig) -> Result<Arc<dyn ModelProvider>, ModelError> {
        let wanted = provider_config(id, config)?;
        let mut providers = self.providers.lock();
        if let Some((known, provider)) = providers.get(id)
            && *known == wanted
        {
            return Ok(provider.clone());
        }
        let provider = codicil_model::connect(id, &wanted, &self.models)?;
        providers.insert(id.to_owned(), (wanted, provider.clone()));
        Ok(provider)
    }
}

/// What the configuration says of a provider, or what is built in.
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
    let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let deadlines = &config.settings.codicil.deadlines;
    provider.connect_timeout_ms.get_or_insert(millis(deadlines.connect));
    // A provider that says how long it may be silent means the first token too.
    let first = provider.stream_idle_timeout_ms.unwrap_or(millis(deadlines.first_token));
    provider.first_token_timeout_ms.get_or_insert(first);
    provider.stream_idle_timeout_ms.get_or_insert(millis(deadlines.between_tokens));
    Ok(provider)
}

impl std::fmt::Debug for EngineContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("cwd", &self.cwd).finish_non_exhaustive()
    }
}
