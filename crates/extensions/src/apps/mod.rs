//! Apps: connectors of a ChatGPT account.
//!
//! Two sources are queried concurrently: the [`directory`] of all apps and the list of [`accessible`] apps.
//! Each result is cached for an hour. If a source fails, the error is logged and the cached result stays in
//! use. When signed out, or with the feature disabled, there are no apps and no requests are sent.

mod accessible;
mod directory;
pub(crate) mod merge;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_config::{ConfigQuery, ConfigStore, EffectiveConfig, Feature};
use codicil_mcp::{ServerConfig, ServerPool, ToolApp};
use codicil_protocol::{AppInfo, AppSummary};
use parking_lot::{Mutex, MutexGuard};

use crate::{
    account::{AccountSource, ChatgptAccount},
    backend::{BackendError, ChatgptBackend},
    plugins::Plugins,
};

/// Time for which the result of a source is cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(3600);
/// Time limit for a source, including all of its pages.
const SOURCE_TIMEOUT: Duration = Duration::from_secs(45);

/// Whether to query the sources even if their cached results are fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefetchApps {
    IfNeeded,
    Always,
}

/// The apps of the signed-in account. Clones share one cache.
#[derive(Clone)]
pub struct Apps(Arc<AppsInner>);

struct AppsInner {
    config: ConfigStore,
    plugins: Plugins,
    accounts: Arc<dyn AccountSource>,
    /// Connects to the MCP server of the apps.
    pool: ServerPool,
    known: Mutex<KnownApps>,
}

/// The cached results of the sources.
#[derive(Clone, Default)]
struct KnownApps {
    /// The account that the results belong to.
    owner: Option<AccountKey>,
    directory: Option<SourceAnswer<AppInfo>>,
    accessible: Option<SourceAnswer<ToolApp>>,
}

/// The id of an account, or a fingerprint of its token if it has none.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AccountKey(String);

impl AccountKey {
    fn of(account: &ChatgptAccount) -> Self {
        Self(account.account_id.clone().unwrap_or_else(|| token_fingerprint(account.access_token.reveal())))
    }
}

impl KnownApps {
    /// Clears the results if they belong to another account.
    fn set_owner(&mut self, owner: &AccountKey) {
        if self.owner.as_ref() != Some(owner) {
            *self = Self { owner: Some(owner.clone()), ..Self::default() };
        }
    }

    /// Returns the results if they still belong to `owner`: another account may have signed in while a source
    /// was being loaded.
    fn results_of(&mut self, owner: &AccountKey) -> Option<&mut Self> {
        (self.owner.as_ref() == Some(owner)).then_some(self)
    }
}

#[derive(Clone)]
struct SourceAnswer<T> {
    apps: Arc<Vec<T>>,
    received_at: Instant,
}

impl<T> SourceAnswer<T> {
    fn new(apps: Vec<T>) -> Self {
        Self { apps: Arc::new(apps), received_at: Instant::now() }
    }

    fn is_fresh(&self) -> bool {
        self.received_at.elapsed() < CACHE_LIFETIME
    }
}

impl Apps {
    pub(crate) fn new(
        config: ConfigStore,
        plugins: Plugins,
        accounts: Arc<dyn AccountSource>,
        pool: ServerPool,
    ) -> Self {
        Self(Arc::new(AppsInner { config, plugins, accounts, pool, known: Mutex::default() }))
    }

    /// Returns whether a ChatGPT account is signed in.
    pub async fn has_account(&self) -> bool {
        self.0.accounts.chatgpt().await.is_some()
    }

    /// Returns the MCP server that serves the apps' tools, or `None` when signed out or if the feature is disabled.
    pub async fn server(&self, config: &EffectiveConfig) -> Option<Arc<ServerConfig>> {
        if !config.features.enabled(Feature::Apps) {
            return None;
        }
        let account = self.0.accounts.chatgpt().await?;
        let backend = ChatgptBackend::new(config.settings.chatgpt_base_url.as_deref(), Some(account));
        match accessible::app_server(&backend, config.settings.apps.clone()) {
            Ok(server) => Some(Arc::new(server)),
            Err(error) => {
                tracing::warn!("the MCP server of the apps cannot be used: {error}");
                None
            }
        }
    }

    /// Returns all apps, or `None` when signed out or if the feature is disabled in `config`, which is the
    /// configuration of a thread or of the server. Calls `on_update` with the current list each time a source
    /// has been loaded, unless the accessible apps are still unknown.
    pub async fn list(
        &self,
        config: &EffectiveConfig,
        refetch: RefetchApps,
        on_update: impl Fn(Vec<AppInfo>) + Send + Sync,
    ) -> Option<Vec<AppInfo>> {
        if !config.features.enabled(Feature::Apps) {
            return None;
        }
        let account = self.0.accounts.chatgpt().await?;
        let owner = AccountKey::of(&account);
        self.0.lock().set_owner(&owner);
        let plugin_apps = self.plugin_apps(config).await;
        let merged = || {
            let known = self.0.lock().clone();
            let directory = known.directory.map(|answer| answer.apps).unwrap_or_default();
            let accessible = known.accessible.map(|answer| answer.apps).unwrap_or_default();
            merge::merge(&directory, &accessible, &plugin_apps, config.settings.apps.as_ref())
        };
        let notify_update = || {
            let apps = merged();
            // Without the accessible apps, the list would briefly show every app as disconnected.
            if self.0.lock().accessible.is_some() || apps.iter().any(|app| app.is_accessible) {
                on_update(apps);
            }
        };
        let backend = ChatgptBackend::new(config.settings.chatgpt_base_url.as_deref(), Some(account));
        tokio::join!(
            self.0.load_directory(&backend, &owner, refetch, &notify_update),
            self.0.load_accessible(&backend, &owner, refetch, &notify_update),
        );
        Some(merged())
    }

    /// Returns the summaries of a plugin's apps. If the apps cannot be listed, as when signed out, their names
    /// are their ids and `needs_auth` is false.
    pub async fn summaries(&self, ids: &[String]) -> Vec<AppSummary> {
        if ids.is_empty() {
            return Vec::new();
        }
        let known = match self.global_config().await {
            Some(config) => self.list(&config, RefetchApps::IfNeeded, |_| {}).await,
            None => None,
        };
        let is_access_known = known.is_some() && self.0.lock().accessible.is_some();
        let known = known.unwrap_or_default();
        let summary = |id: &String| {
            let found = known.iter().find(|app| app.id == *id).cloned();
            let app = found.unwrap_or_else(|| merge::unlisted(id));
            AppSummary {
                needs_auth: is_access_known && !app.is_accessible,
                category: app.branding.and_then(|branding| branding.category),
                id: app.id,
                name: app.name,
                description: app.description,
                install_url: app.install_url,
            }
        };
        ids.iter().map(summary).collect()
    }

    /// Loads the configuration that applies outside of threads; `None` if it is invalid.
    pub async fn global_config(&self) -> Option<EffectiveConfig> {
        let config = self.0.config.clone();
        tokio::task::spawn_blocking(move || config.load(&ConfigQuery::default()).ok()).await.ok()?
    }

    /// Returns pairs of app id and plugin name for the enabled plugins.
    async fn plugin_apps(&self, config: &EffectiveConfig) -> Vec<(String, String)> {
        if !config.features.enabled(Feature::Plugins) {
            return Vec::new();
        }
        let plugins = self.0.plugins.clone();
        let configured = config.settings.plugins.clone();
        let enabled = tokio::task::spawn_blocking(move || plugins.enabled(&configured)).await;
        let apps = enabled.unwrap_or_default().into_iter().flat_map(|plugin| {
            let name = plugin.display_name().to_owned();
            plugin.contents.apps.into_iter().map(move |id| (id, name.clone()))
        });
        apps.collect()
    }
}

impl AppsInner {
    async fn load_directory(
        &self,
        backend: &ChatgptBackend,
        owner: &AccountKey,
        refetch: RefetchApps,
        notify_update: &(dyn Fn() + Sync),
    ) {
        let is_fresh = self.lock().directory.as_ref().is_some_and(SourceAnswer::is_fresh);
        if is_fresh && refetch == RefetchApps::IfNeeded {
            return;
        }
        if let Some(apps) = load_source("the app directory", directory::list(backend)).await {
            if let Some(known) = self.lock().results_of(owner) {
                known.directory = Some(SourceAnswer::new(apps));
            }
            notify_update();
        }
    }

    async fn load_accessible(
        &self,
        backend: &ChatgptBackend,
        owner: &AccountKey,
        refetch: RefetchApps,
        notify_update: &(dyn Fn() + Sync),
    ) {
        let is_fresh = self.lock().accessible.as_ref().is_some_and(SourceAnswer::is_fresh);
        if is_fresh && refetch == RefetchApps::IfNeeded {
            return;
        }
        if let Some(apps) = load_source("the connected apps", accessible::list(&self.pool, backend)).await {
            if let Some(known) = self.lock().results_of(owner) {
                known.accessible = Some(SourceAnswer::new(apps));
            }
            notify_update();
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownApps> {
        self.known.lock()
    }
}

/// Returns a hash that identifies a token, so that the token itself is not stored.
fn token_fingerprint(token: &str) -> String {
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    format!("token {:016x}", hasher.finish())
}

/// Awaits a source within its time limit. Logs an error or a timeout and returns `None`.
async fn load_source<T>(name: &str, source: impl Future<Output = Result<T, BackendError>>) -> Option<T> {
    match tokio::time::timeout(SOURCE_TIMEOUT, source).await {
        Ok(Ok(apps)) => Some(apps),
        Ok(Err(error)) => {
            tracing::warn!("failed to load {name}: {error}");
            None
        }
        Err(_) => {
            tracing::warn!("timed out loading {name} after {SOURCE_TIMEOUT:?}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_another_account_are_neither_kept_nor_stored() {
        let ada = AccountKey("ada".to_owned());
        let bob = AccountKey("bob".to_owned());
        let mut known = KnownApps::default();
        known.set_owner(&ada);
        known.results_of(&ada).unwrap().directory = Some(SourceAnswer::new(Vec::new()));
        known.set_owner(&ada);
        assert!(known.directory.is_some());

        known.set_owner(&bob);
        assert!(known.directory.is_none());
        assert!(known.results_of(&ada).is_none(), "a request of the first account ends now");
        assert!(known.results_of(&bob).is_some());
    }
}
