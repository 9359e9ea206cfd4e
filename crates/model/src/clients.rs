//! The HTTP clients that all providers share.
//!
//! Nothing is built before the first request. There are two kinds: one for loopback addresses, which
//! needs neither proxies nor certificates and so costs nothing, and one for the rest of the world, which
//! honours the proxy variables and trusts what the operating system trusts.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Client, ClientBuilder, Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;

use crate::ModelError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reach {
    Loopback,
    World,
}

/// As many as there are different connect timeouts in the config.
static CLIENTS: LazyLock<Mutex<HashMap<(Reach, Duration), Client>>> = LazyLock::new(Mutex::default);

/// The client for requests to `url`.
pub async fn client_for(url: &Url, connect_timeout: Duration) -> Result<Client, ModelError> {
    let reach = if is_loopback(url) { Reach::Loopback } else { Reach::World };
    let key = (reach, connect_timeout);
    if let Some(client) = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return Ok(client.clone());
    }
    let client = match reach {
        Reach::Loopback => build(reach, connect_timeout)?,
        // Reading the certificates of the system takes milliseconds.
        Reach::World => tokio::task::spawn_blocking(move || build(reach, connect_timeout))
            .await
            .map_err(|error| ModelError::Config(format!("failed to set up TLS: {error}")))??,
    };
    // Whoever was faster wins, so that all requests share one pool of connections.
    let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(clients.entry(key).or_insert(client).clone())
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "http" && is_local
}

fn build(reach: Reach, connect_timeout: Duration) -> Result<Client, ModelError> {
    let tls = tls_config(reach).map_err(|error| {
        ModelError::Config(format!(
            "failed to set up TLS: {error}; are the system's certificates installed (ca-certificates, or SSL_CERT_FILE)?"
        ))
    })?;
    let builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls)
        .connect_timeout(connect_timeout)
        // An API that redirects is a wrong base URL; following would carry the key elsewhere.
        .redirect(redirect::Policy::none())
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .pool_idle_timeout(Duration::from_secs(60))
        .pool_max_idle_per_host(32);
    let builder = if reach == Reach::Loopback { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| ModelError::Config(format!("failed to set up HTTP: {error}")))
}

fn tls_config(reach: Reach) -> Result<ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(match reach {
        Reach::Loopback => config.with_root_certificates(RootCertStore::empty()),
        Reach::World => config.with_platform_verifier()?,
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
