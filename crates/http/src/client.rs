//! The HTTP clients that all crates share.
//!
//! A client is built with its first request. Loopback addresses have their own, which needs neither proxies nor
//! certificates and costs nothing to build. The client for other addresses honours the proxy variables and
//! trusts the certificates of the operating system.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use parking_lot::Mutex;
use reqwest::{Client, ClientBuilder, Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::address::is_loopback;

/// The reason why no client could be built. The text is complete and meant for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ClientError(String);

/// The handling of redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedirectPolicy {
    /// Returns the redirect as the response. An API that redirects has a wrong base URL, and following it would
    /// send the key to another address.
    Refused,
    /// Follows redirects to the same origin that keep method and body, such as `/mcp` to `/mcp/`. Any other
    /// redirect would send credentials elsewhere or lose the message.
    WithinServer,
}

const MAX_REDIRECTS: usize = 5;

/// The properties by which clients differ.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct ClientKey {
    reach: ClientReach,
    connect_timeout: Duration,
    redirects: RedirectPolicy,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum ClientReach {
    Loopback,
    Network,
}

/// Bounded by the number of connect timeouts in the configuration and the few that are constants.
static CLIENTS: LazyLock<Mutex<HashMap<ClientKey, Client>>> = LazyLock::new(Mutex::default);

/// Returns the client for requests to `url` that refuses redirects.
pub async fn http_client(url: &Url, connect_timeout: Duration) -> Result<Client, ClientError> {
    http_client_with(url, connect_timeout, RedirectPolicy::Refused).await
}

/// Returns the client for requests to `url` with the given redirect policy.
pub async fn http_client_with(
    url: &Url,
    connect_timeout: Duration,
    redirects: RedirectPolicy,
) -> Result<Client, ClientError> {
    let is_plain_loopback = url.scheme() == "http" && is_loopback(url);
    let reach = if is_plain_loopback { ClientReach::Loopback } else { ClientReach::Network };
    let key = ClientKey { reach, connect_timeout, redirects };
    if let Some(client) = CLIENTS.lock().get(&key) {
        return Ok(client.clone());
    }
    let client = match reach {
        ClientReach::Loopback => build(key)?,
        // Reading the certificates of the system takes milliseconds.
        ClientReach::Network => tokio::task::spawn_blocking(move || build(key))
            .await
            .map_err(|error| ClientError(format!("failed to set up TLS: {error}")))??,
    };
    // A concurrent call may have built one too. The first is kept, so that all requests share its connections.
    Ok(CLIENTS.lock().entry(key).or_insert(client).clone())
}

fn build(key: ClientKey) -> Result<Client, ClientError> {
    let tls = tls_config(key.reach).map_err(|error| {
        ClientError(format!(
            "failed to set up TLS: {error}; are the system's certificates installed (ca-certificates, or SSL_CERT_FILE)?"
        ))
    })?;
    let builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls)
        .connect_timeout(key.connect_timeout)
        .redirect(match key.redirects {
            RedirectPolicy::Refused => redirect::Policy::none(),
            RedirectPolicy::WithinServer => redirect::Policy::custom(follow_within_server),
        })
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_max_idle_per_host(32);
    let builder = match key.reach {
        ClientReach::Loopback => builder.no_proxy(),
        ClientReach::Network => builder,
    };
    builder.build().map_err(|error| ClientError(format!("failed to set up HTTP: {error}")))
}

fn follow_within_server(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
    let first_origin = attempt.previous().first().map(Url::origin);
    let is_same_server = first_origin.is_some_and(|origin| origin == attempt.url().origin());
    let is_below_limit = attempt.previous().len() <= MAX_REDIRECTS;
    if keeps_body && is_same_server && is_below_limit { attempt.follow() } else { attempt.stop() }
}

fn tls_config(reach: ClientReach) -> Result<ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(match reach {
        ClientReach::Loopback => config.with_root_certificates(RootCertStore::empty()),
        ClientReach::Network => config.with_platform_verifier()?,
    }
    .with_no_client_auth())
}
