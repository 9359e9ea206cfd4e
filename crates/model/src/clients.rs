//! The HTTP clients that all providers share, and all others who speak HTTP on a person's behalf.
//!
//! Nothing is built before the first request. There are two kinds: one for loopback addresses, which
//! needs neither proxies nor certificates and so costs nothing, and one for the rest of the world, which
//! honours the proxy variables and trusts what the operating system trusts.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
    time::Duration,
};

use parking_lot::Mutex;
use reqwest::{Client, ClientBuilder, Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::ModelError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ClientReach {
    Loopback,
    World,
}

/// What is done when a server sends a request on to another address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedirectPolicy {
    /// An API that redirects is a wrong base URL; following would carry the key elsewhere.
    Refused,
    /// Only to the same server, and only where the request stays what it is: `/mcp` to `/mcp/` is usual.
    /// Anything else would carry credentials elsewhere or lose the message.
    WithinServer,
}

const MAX_REDIRECTS: usize = 5;

/// What clients differ by.
type ClientKind = (ClientReach, Duration, RedirectPolicy);

/// As many as there are different connect timeouts in the config, and a few more.
static CLIENTS: LazyLock<Mutex<HashMap<ClientKind, Client>>> = LazyLock::new(Mutex::default);

/// The client for requests to an API at `url`.
pub async fn http_client(url: &Url, connect_timeout: Duration) -> Result<Client, ModelError> {
    http_client_with(url, connect_timeout, RedirectPolicy::Refused).await
}

/// The client for requests to `url` that may be redirected.
pub async fn http_client_with(
    url: &Url,
    connect_timeout: Duration,
    redirects: RedirectPolicy,
) -> Result<Client, ModelError> {
    let reach = if is_loopback(url) { ClientReach::Loopback } else { ClientReach::World };
    let kind = (reach, connect_timeout, redirects);
    if let Some(client) = CLIENTS.lock().get(&kind) {
        return Ok(client.clone());
    }
    let client = match reach {
        ClientReach::Loopback => build(kind)?,
        // Reading the certificates of the system takes milliseconds.
        ClientReach::World => tokio::task::spawn_blocking(move || build(kind))
            .await
            .map_err(|error| ModelError::Config(format!("failed to set up TLS: {error}")))??,
    };
    // Whoever was faster wins, so that all requests share one pool of connections.
    let mut clients = CLIENTS.lock();
    Ok(clients.entry(kind).or_insert(client).clone())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "http" && is_local
}

fn build((reach, connect_timeout, redirects): ClientKind) -> Result<Client, ModelError> {
    let tls = tls_config(reach).map_err(|error| {
        ModelError::Config(format!(
            "failed to set up TLS: {error}; are the system's certificates installed (ca-certificates, or SSL_CERT_FILE)?"
        ))
    })?;
    let builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls)
        .connect_timeout(connect_timeout)
        .redirect(match redirects {
            RedirectPolicy::Refused => redirect::Policy::none(),
            RedirectPolicy::WithinServer => redirect::Policy::custom(follow),
        })
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_max_idle_per_host(32);
    let builder = if reach == ClientReach::Loopback { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| ModelError::Config(format!("failed to set up HTTP: {error}")))
}

fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
    let first = attempt.previous().first().map(Url::origin);
    let same_server = first.is_some_and(|origin| origin == attempt.url().origin());
    let few = attempt.previous().len() <= MAX_REDIRECTS;
    if keeps_body && same_server && few { attempt.follow() } else { attempt.stop() }
}

fn tls_config(reach: ClientReach) -> Result<ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(match reach {
        ClientReach::Loopback => config.with_root_certificates(RootCertStore::empty()),
        ClientReach::World => config.with_platform_verifier()?,
    }
    .with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised() {
        let check = |url: &str, expected| assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
        check("http://127.0.0.1:9100/v1", true);
        check("http://localhost:11434/v1", true);
        check("http://[::1]:80/", true);
        check("https://localhost/v1", false);
        check("http://192.168.1.7:11434/v1", false);
        check("http://localhost.example.com/", false);
    }
}
