//! The checks that have to wait: the account, the stored threads, the provider.
//!
//! Each has a time limit, and none of them changes anything.

use std::{path::Path, time::Duration};

use codicil_accounts::Accounts;
use codicil_client::user_thread_sources;
use codicil_config::{ConfigStore, EffectiveConfig};
use codicil_http::{http_client, root_cause};
use codicil_model::{EnvironmentSource, ProviderConfig, provider_address};
use codicil_store::{ListQuery, Store};
use tokio::time::timeout;

use super::{DoctorFinding, FindingStatus};
use crate::login;

/// Maximum time for a provider to respond.
const PROVIDER_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time to list the threads. Building a new index reads every file once.
const THREADS_TIMEOUT: Duration = Duration::from_secs(20);

pub async fn account(config: &ConfigStore) -> DoctorFinding {
    let accounts = Accounts::new(config.clone(), EnvironmentSource::default());
    let current = accounts.current().await;
    // A missing account is not a problem: providers with keys need none.
    DoctorFinding::new("account", FindingStatus::Ok, login::describe(current.as_ref()))
}

/// Lists the threads, if there are any.
pub async fn threads(home: &Path) -> DoctorFinding {
    if !home.join("sessions").is_dir() && !home.join("archived_sessions").is_dir() {
        return DoctorFinding::new("threads", FindingStatus::Ok, "none stored yet");
    }
    let listing = async {
        let store = Store::open(home.to_path_buf())?;
        let newest =
            ListQuery { limit: Some(1), source_kinds: user_thread_sources(), ..ListQuery::default() };
        let page = store.list(newest).await?;
        store.close().await?;
        Ok::<_, codicil_store::StoreError>(page.threads.into_iter().next())
    };
    let advice = "`codicil reindex` rebuilds the index; threads are not lost with it".to_owned();
    match timeout(THREADS_TIMEOUT, listing).await {
        Ok(Ok(Some(thread))) => {
            let summary = format!("can be listed; the newest is {}", thread.id);
            DoctorFinding::new("threads", FindingStatus::Ok, summary)
        }
        Ok(Ok(None)) => DoctorFinding::new("threads", FindingStatus::Ok, "can be listed; there are none"),
        Ok(Err(error)) => {
            DoctorFinding::new("threads", FindingStatus::Error, error.to_string()).with([advice])
        }
        Err(_) => DoctorFinding::new("threads", FindingStatus::Warning, "could not be listed in time")
            .with([advice]),
    }
}

/// Checks that the provider responds. Any HTTP status counts, also one that refuses the request.
pub async fn provider(id: &str, config: &EffectiveConfig) -> DoctorFinding {
    let Ok(provider) = codicil_engine::provider_config(id, config) else {
        return DoctorFinding::new(
            "network",
            FindingStatus::Warning,
            "not checked, because the provider cannot be used",
        );
    };
    match send_request(id, &provider).await {
        None => DoctorFinding::new("network", FindingStatus::Ok, "not needed by the provider"),
        Some((address, Ok(()))) => {
            DoctorFinding::new("network", FindingStatus::Ok, format!("{address} answers"))
        }
        Some((address, Err(reason))) => {
            let summary = format!("{address} does not answer: {reason}");
            DoctorFinding::new("network", FindingStatus::Warning, summary).with([
                "check the network, HTTPS_PROXY, and the provider's base_url; or choose another model_provider"
                    .to_owned(),
            ])
        }
    }
}

async fn send_request(id: &str, provider: &ProviderConfig) -> Option<(String, Result<(), String>)> {
    let url = provider_address(id, provider, &EnvironmentSource::default())?;
    // Only host and port are shown: the URL may contain a password.
    let address = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let request = async {
        let client = http_client(&url, PROVIDER_TIMEOUT).await.map_err(|error| error.to_string())?;
        let answer = client.head(url.clone()).send().await;
        answer.map(drop).map_err(|error| root_cause(&error.without_url()))
    };
    let result = timeout(PROVIDER_TIMEOUT, request).await;
    Some((
        address,
        result.unwrap_or_else(|_| Err(format!("not within {} seconds", PROVIDER_TIMEOUT.as_secs()))),
    ))
}
