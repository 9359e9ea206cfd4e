//! The HTTP clients of this crate: one for loopback addresses, which needs neither proxies nor certificates,
//! and one for the rest of the world, which honours the proxy variables and trusts what the operating system
//! trusts. Neither is built before it is needed.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use reqwest::{Client, ClientBuilder, Url, redirect};
use rustls::{ClientConfig, RootCertStore, crypto::CryptoProvider};
use rustls_platform_verifier::BuilderVerifierExt;

static LOOPBACK: Mutex<Option<Client>> = Mutex::new(None);
static WORLD: Mutex<Option<Client>> = Mutex::new(None);

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
const MAX_REDIRECTS: usize = 5;

/// The client for requests to an address, or why there is none.
pub(crate) async fn client_for(url: &Url) -> Result<Client, String> {
    let loopback = is_loopback(url);
    let place = if loopback { &LOOPBACK } else { &WORLD };
    if let Some(client) = place.lock().unwrap_or_else(PoisonError::into_inner).clone() {
        return Ok(client);
    }
    // Reading the certificates of the system takes milliseconds.
    let built = tokio::task::spawn_blocking(move || build(loopback)).await;
    let client = built.map_err(|error| format!("failed to set up TLS: {error}"))??;
    Ok(place.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(client).clone())
}

pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let is_local = host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback());
    url.scheme() == "http" && is_local
}

fn build(loopback: bool) -> Result<Client, String> {
    let tls = tls_config(loopback).map_err(|error| {
        format!("failed to set up TLS: {error}; are the system's certificates installed (ca-certificates)?")
    })?;
    let builder = ClientBuilder::new()
        .tls_backend_preconfigured(tls)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::custom(follow))
        .tcp_nodelay(true)
        .tcp_keepalive(Duration::from_secs(60))
        .pool_idle_timeout(Duration::from_secs(60))
        .user_agent(concat!("codicil/", env!("CARGO_PKG_VERSION")));
    let builder = if loopback { builder.no_proxy() } else { builder };
    builder.build().map_err(|error| format!("failed to set up HTTP: {error}"))
}

/// Only to the same server, and only where the request stays what it is: `/mcp` to `/mcp/` is usual. Anything
/// else would carry credentials elsewhere or lose the message.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_body = matches!(attempt.status().as_u16(), 307 | 308);
    let first = attempt.previous().first().map(Url::origin);
    let same_server = first.is_some_and(|origin| origin == attempt.url().origin());
    let few = attempt.previous().len() <= MAX_REDIRECTS;
    if keeps_body && same_server && few { attempt.follow() } else { attempt.stop() }
}

fn tls_config(loopback: bool) -> Result<ClientConfig, rustls::Error> {
    let provider: Arc<CryptoProvider> = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = match loopback {
        true => config.with_root_certificates(RootCertStore::empty()),
        false => config.with_platform_verifier()?,
    };
    Ok(config.with_no_client_auth())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_recognised() {
        let check = |url: &str, expected| assert_eq!(is_loopback(&url.parse().unwrap()), expected, "{url}");
        check("http://127.0.0.1:9100/mcp", true);
        check("http://localhost/mcp", true);
        check("http://[::1]:80/", true);
        check("https://localhost/mcp", false);
        check("http://192.168.1.7/mcp", false);
        check("http://localhost.example.com/", false);
    }
}
