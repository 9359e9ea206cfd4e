//! What only asking can tell: who is signed in, whether the threads can be listed, whether the provider answers.
//!
//! Each question has a bound in time, and none of them changes anything.

use std::{path::Path, time::Duration};

use codicil_accounts::Accounts;
use codicil_config::{ConfigStore, EffectiveConfig};
use codicil_http::{http_client, root_cause};
use codicil_model::{EnvironmentSource, ProviderConfig, provider_address};
use codicil_store::{ListQuery, Store};
use tokio::time::timeout;

use super::{DoctorFinding, FindingStatus};
use crate::{exec, login};

/// How long a provider may take to answer anything at all.
const PROVIDER: Duration = Duration::from_secs(5);
/// How long the threads may take to be listed; a new index reads every file once.
const THREADS: Duration = Duration::from_secs(20);

pub async fn account(config: &ConfigStore) -> DoctorFinding {
    let accounts = Accounts::new(config.clone(), EnvironmentSource::default());
    let current = accounts.current().await;
    // Providers with keys of their own need no account.
    DoctorFinding::new("account", FindingStatus::Ok, login::describe(current.as_ref()))
}

/// Lists the threads, unless there is nothing to list.
pub async fn threads(home: &Path) -> DoctorFinding {
    if !home.join("sessions").is_dir() && !home.join("archived_sessions").is_dir() {
        return DoctorFinding::new("threads", FindingStatus::Ok, "none stored yet");
    }
    let listing = async {
        let store = Store::open(home.to_path_buf())?;
        let newest = ListQuery { limit: Some(1), source_kinds: exec::somebodys(), ..ListQuery::default() };
        let page = store.list(newest).await?;
        store.close().await?;
        Ok::<_, codicil_store::StoreError>(page.threads.into_iter().next())
    };
    let advice = "`codicil reindex` makes the index anew; threads are not lost with it".to_owned();
    match timeout(THREADS, listing).await {
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

/// Any answer will do: who may ask what is another matter.
pub async fn provider(id: &str, config: &EffectiveConfig) -> DoctorFinding {
    let Ok(provider) = codicil_engine::provider_config(id, config) else {
        return DoctorFinding::new(
            "network",
            FindingStatus::Warning,
            "not tried, as the provider cannot be used",
        );
    };
    match ask(id, &provider).await {
        None => DoctorFinding::new("network", FindingStatus::Ok, "not needed by the provider"),
        Some((place, Ok(()))) => DoctorFinding::new("network", FindingStatus::Ok, format!("{place} answers")),
        Some((place, Err(reason))) => {
            let summary = format!("{place} does not answer: {reason}");
            DoctorFinding::new("network", FindingStatus::Warning, summary).with([
                "check the network, HTTPS_PROXY, and the provider's base_url; or choose another model_provider"
                    .to_owned(),
            ])
        }
    }
}

async fn ask(id: &str, provider: &ProviderConfig) -> Option<(String, Result<(), String>)> {
    let url = provider_address(id, provider, &EnvironmentSource::default())?;
    // What stands before an @ may be a password.
    let place = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let asking = async {
        let client = http_client(&url, PROVIDER).await.map_err(|error| error.to_string())?;
        let answer = client.head(url.clone()).send().await;
        answer.map(drop).map_err(|error| root_cause(&error.without_url()))
    };
    let result = timeout(PROVIDER, asking).await;
    Some((place, result.unwrap_or_else(|_| Err(format!("not within {} seconds", PROVIDER.as_secs())))))
}
