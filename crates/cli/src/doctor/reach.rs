//! What only asking can tell: who is signed in, whether the threads can be listed, whether the provider answers.
//!
//! Each question has a bound in time, and none of them changes anything.

use std::{path::Path, time::Duration};

use codicil_accounts::Accounts;
use codicil_config::{ConfigStore, EffectiveConfig};
use codicil_model::{Environment, ProviderConfig, http_client, provider_address};
use codicil_store::{ListQuery, Store};
use tokio::time::timeout;

use super::{Finding, Status};
use crate::{exec, login};

/// How long a provider may take to answer anything at all.
const PROVIDER: Duration = Duration::from_secs(5);
/// How long the threads may take to be listed; a new index reads every file once.
const THREADS: Duration = Duration::from_secs(20);

pub async fn account(config: &ConfigStore) -> Finding {
    let accounts = Accounts::new(config.clone(), Environment::default());
    let current = accounts.current().await;
    // Providers with keys of their own need no account.
    Finding::new("account", Status::Ok, login::describe(current.as_ref()))
}

/// Lists the threads, unless there is nothing to list.
pub async fn threads(home: &Path) -> Finding {
    if !home.join("sessions").is_dir() && !home.join("archived_sessions").is_dir() {
        return Finding::new("threads", Status::Ok, "none stored yet");
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
            Finding::new("threads", Status::Ok, summary)
        }
        Ok(Ok(None)) => Finding::new("threads", Status::Ok, "can be listed; there are none"),
        Ok(Err(error)) => Finding::new("threads", Status::Error, error.to_string()).with([advice]),
        Err(_) => Finding::new("threads", Status::Warning, "could not be listed in time").with([advice]),
    }
}

/// Any answer will do: who may ask what is another matter.
pub async fn provider(id: &str, config: &EffectiveConfig) -> Finding {
    let Ok(provider) = codicil_engine::provider_config(id, config) else {
        return Finding::new("network", Status::Warning, "not tried, as the provider cannot be used");
    };
    match ask(id, &provider).await {
        None => Finding::new("network", Status::Ok, "not needed by the provider"),
        Some((place, Ok(()))) => Finding::new("network", Status::Ok, format!("{place} answers")),
        Some((place, Err(reason))) => {
            let summary = format!("{place} does not answer: {reason}");
            Finding::new("network", Status::Warning, summary).with([
                "check the network, HTTPS_PROXY, and the provider's base_url; or choose another model_provider"
                    .to_owned(),
            ])
        }
    }
}

async fn ask(id: &str, provider: &ProviderConfig) -> Option<(String, Result<(), String>)> {
    let url = provider_address(id, provider, &Environment::default())?;
    // What stands before an @ may be a password.
    let place = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let asking = async {
        let client = http_client(&url, PROVIDER).await.map_err(|error| error.to_string())?;
        let answer = client.head(url.clone()).send().await;
        answer.map(drop).map_err(|error| innermost(&error.without_url()))
    };
    let result = timeout(PROVIDER, asking).await;
    Some((place, result.unwrap_or_else(|_| Err(format!("not within {} seconds", PROVIDER.as_secs())))))
}

fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}
