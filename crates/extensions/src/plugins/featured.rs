//! The plugins of the curated marketplace that clients show first. The backend chooses them.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_config::EffectiveConfig;
use codicil_protocol::PluginListResponse;
use parking_lot::Mutex;
use reqwest::Method;

use crate::{
    account::AccountSource,
    backend::{BackendError, ChatgptBackend, read_response, send},
};

/// The marketplace whose plugins the backend features.
const CURATED: &str = "openai-curated";
const PATH: &str = "/plugins/featured";
/// Time for which an answer is cached.
const CACHE_LIFETIME: Duration = Duration::from_secs(3 * 3600);
/// Time limit for an answer, because `plugin/list` waits for it.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The featured plugins. Clones share one cache.
#[derive(Clone)]
pub struct FeaturedPlugins {
    accounts: Arc<dyn AccountSource>,
    known: Arc<Mutex<Option<KnownFeatured>>>,
}

struct KnownFeatured {
    /// Where the answer comes from, and for which account.
    source: (String, Option<String>),
    ids: Vec<String>,
    received_at: Instant,
}

impl FeaturedPlugins {
    pub(crate) fn new(accounts: Arc<dyn AccountSource>) -> Self {
        Self { accounts, known: Arc::default() }
    }

    /// Returns the ids of featured plugins. There are none unless the list has the curated marketplace; a backend that
    /// does not answer is logged.
    pub async fn ids(&self, listed: &PluginListResponse, config: &EffectiveConfig) -> Vec<String> {
        if !listed.marketplaces.iter().any(|market| market.name == CURATED) {
            return Vec::new();
        }
        let account = self.accounts.chatgpt().await;
        let account_id = account.as_ref().and_then(|account| account.account_id.clone());
        let backend = ChatgptBackend::new(config.settings.chatgpt_base_url.as_deref(), account);
        let source = (backend.url(PATH), account_id);
        if let Some(known) = &*self.known.lock()
            && known.source == source
            && known.received_at.elapsed() < CACHE_LIFETIME
        {
            return known.ids.clone();
        }
        let ids = match tokio::time::timeout(TIMEOUT, fetch(&backend)).await {
            Ok(Ok(ids)) => ids,
            Ok(Err(error)) => {
                tracing::warn!("failed to load the featured plugins: {error}");
                return Vec::new();
            }
            Err(_) => {
                tracing::warn!("timed out loading the featured plugins after {TIMEOUT:?}");
                return Vec::new();
            }
        };
        *self.known.lock() = Some(KnownFeatured { source, ids: ids.clone(), received_at: Instant::now() });
        ids
    }
}

async fn fetch(backend: &ChatgptBackend) -> Result<Vec<String>, BackendError> {
    let request = backend.request(Method::GET, PATH, &[("platform", "codex")]).await?;
    let bytes = read_response(send(request).await?).await?;
    serde_json::from_slice(&bytes).map_err(|error| BackendError::InvalidResponse(error.to_string()))
}
