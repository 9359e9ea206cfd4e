//! Apps: connectors of a ChatGPT account.
//!
//! Two sources are asked at once, the [`directory`] of all apps and the [`accessible`] ones, and each is
//! remembered for an hour. A source that fails is logged and leaves what was known; without a sign-in, or
//! with the feature off, there are no apps and nobody is asked.

mod accessible;
mod account;
mod backend;
mod directory;
mod merge;

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_config::{ConfigQuery, ConfigStore, EffectiveConfig, Feature};
use codicil_protocol::{AppInfo, AppSummary};
use parking_lot::{Mutex, MutexGuard};

pub use self::{
    account::{AccountFuture, AccountSource, AuthAccount, ChatgptAccount, NoAccount},
    backend::AppsError,
};

use self::{accessible::AccessibleApp, backend::AppsBackend};
use crate::plugins::Plugins;

/// How long an answer of a source is good for.
const LIFETIME: Duration = Duration::from_secs(3600);
/// How long a source may take in all, whatever its pages do.
const SOURCE_TIME: Duration = Duration::from_secs(45);

/// Whether the sources are asked although their answers are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefetchApps {
    IfNeeded,
    Always,
}

/// The apps of whoever is signed in. Clones share what they know.
#[derive(Clone)]
pub struct Apps(Arc<AppsInner>);

struct AppsInner {
    config: ConfigStore,
    plugins: Plugins,
    accounts: Arc<dyn AccountSource>,
    known: Mutex<KnownApps>,
}

/// What the sources said last.
#[derive(Clone, Default)]
struct KnownApps {
    /// Whose apps these are.
    owner: Option<String>,
    directory: Option<SourceAnswer<AppInfo>>,
    accessible: Option<SourceAnswer<AccessibleApp>>,
}

#[derive(Clone)]
struct SourceAnswer<T> {
    apps: Arc<Vec<T>>,
    at: Instant,
}

impl<T> SourceAnswer<T> {
    fn now(apps: Vec<T>) -> Self {
        Self { apps: Arc::new(apps), at: Instant::now() }
    }

    fn is_fresh(&self) -> bool {
        self.at.elapsed() < LIFETIME
    }
}

impl Apps {
    pub(crate) fn new(config: ConfigStore, plugins: Plugins, accounts: Arc<dyn AccountSource>) -> Self {
        Self(Arc::new(AppsInner { config, plugins, accounts, known: Mutex::default() }))
    }

    /// Whether somebody with apps is signed in.
    pub async fn has_account(&self) -> bool {
        self.0.accounts.chatgpt().await.is_some()
    }

    /// The whole list; `None` where there are no apps at all, for want of a sign-in or of the feature.
    /// `config` is the one that decides, of a thread or of the server; `updated` hears of the list whenever
    /// a source has answered.
    pub async fn list(
        &self,
        config: &EffectiveConfig,
        refetch: RefetchApps,
        updated: impl Fn(Vec<AppInfo>) + Send + Sync,
    ) -> Option<Vec<AppInfo>> {
        if !config.features.enabled(Feature::Apps) {
            return None;
        }
        let account = self.0.accounts.chatgpt().await?;
        self.0.belong_to(&account);
        let of_plugins = self.of_plugins(config).await;
        let merged = || {
            let known = self.0.lock().clone();
            let directory = known.directory.map(|answered| answered.apps).unwrap_or_default();
            let accessible = known.accessible.map(|answered| answered.apps).unwrap_or_default();
            merge::merge(&directory, &accessible, &of_plugins, config.settings.apps.as_ref())
        };
        let say = || {
            let apps = merged();
            // Before it is known what the account can use, a list would take it all away for a moment.
            if self.0.lock().accessible.is_some() || apps.iter().any(|app| app.is_accessible) {
                updated(apps);
            }
        };
        let backend = AppsBackend::new(config.settings.chatgpt_base_url.as_deref(), account);
        tokio::join!(
            self.0.load_directory(&backend, refetch, &say),
            self.0.load_accessible(&backend, refetch, &say),
        );
        Some(merged())
    }

    /// The apps with these ids, as a plugin presents them. Without a sign-in nobody can say what they are
    /// called, or that they want one.
    pub async fn summaries(&self, ids: &[String]) -> Vec<AppSummary> {
        if ids.is_empty() {
            return Vec::new();
        }
        let known = match self.global_config().await {
            Some(config) => self.list(&config, RefetchApps::IfNeeded, |_| {}).await,
            None => None,
        };
        let can_tell = known.is_some() && self.0.lock().accessible.is_some();
        let known = known.unwrap_or_default();
        let summary = |id: &String| {
            let found = known.iter().find(|app| app.id == *id).cloned();
            let app = found.unwrap_or_else(|| merge::unlisted(id));
            AppSummary {
                needs_auth: can_tell && !app.is_accessible,
                id: app.id,
                name: app.name,
                description: app.description,
                install_url: app.install_url,
            }
        };
        ids.iter().map(summary).collect()
    }

    /// The configuration of no thread in particular; `None` when it is broken.
    pub async fn global_config(&self) -> Option<EffectiveConfig> {
        let config = self.0.config.clone();
        tokio::task::spawn_blocking(move || config.load(&ConfigQuery::default()).ok()).await.ok()?
    }

    async fn of_plugins(&self, config: &EffectiveConfig) -> Vec<(String, String)> {
        if !config.features.enabled(Feature::Plugins) {
            return Vec::new();
        }
        let (plugins, configured) = (self.0.plugins.clone(), config.settings.plugins.clone());
        let enabled = tokio::task::spawn_blocking(move || plugins.enabled(&configured)).await;
        let apps = enabled.unwrap_or_default().into_iter().flat_map(|plugin| {
            let name = plugin.display_name().to_owned();
            plugin.contents.apps.into_iter().map(move |id| (id, name.clone()))
        });
        apps.collect()
    }
}

impl AppsInner {
    /// Forgets what was known of another account.
    fn belong_to(&self, account: &ChatgptAccount) {
        let owner = Some(account.account_id.clone().unwrap_or_else(|| mark(account.access_token.reveal())));
        let mut known = self.lock();
        if known.owner != owner {
            *known = KnownApps { owner, ..KnownApps::default() };
        }
    }

    async fn load_directory(&self, backend: &AppsBackend, refetch: RefetchApps, say: &(dyn Fn() + Sync)) {
        let is_fresh = self.lock().directory.as_ref().is_some_and(SourceAnswer::is_fresh);
        if is_fresh && refetch == RefetchApps::IfNeeded {
            return;
        }
        if let Some(apps) = in_time("the directory of apps", directory::list(backend)).await {
            self.lock().directory = Some(SourceAnswer::now(apps));
            say();
        }
    }

    async fn load_accessible(&self, backend: &AppsBackend, refetch: RefetchApps, say: &(dyn Fn() + Sync)) {
        let is_fresh = self.lock().accessible.as_ref().is_some_and(SourceAnswer::is_fresh);
        if is_fresh && refetch == RefetchApps::IfNeeded {
            return;
        }
        if let Some(apps) = in_time("the list of connected apps", accessible::list(backend)).await {
            self.lock().accessible = Some(SourceAnswer::now(apps));
            say();
        }
    }

    fn lock(&self) -> MutexGuard<'_, KnownApps> {
        self.known.lock()
    }
}

/// Tells tokens apart without keeping them.
fn mark(token: &str) -> String {
    let mut hasher = DefaultHasher::new();
    token.hash(&mut hasher);
    format!("token {:016x}", hasher.finish())
}

/// What a source says, or a line in the log.
async fn in_time<T>(what: &str, source: impl Future<Output = Result<T, AppsError>>) -> Option<T> {
    match tokio::time::timeout(SOURCE_TIME, source).await {
        Ok(Ok(apps)) => Some(apps),
        Ok(Err(error)) => {
            tracing::warn!("{what} could not be loaded: {error}");
            None
        }
        Err(_) => {
            tracing::warn!("{what} could not be loaded within {SOURCE_TIME:?}");
            None
        }
    }
}
