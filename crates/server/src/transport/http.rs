//! HTTP requests of a listener: health probes, metrics and websocket upgrades.
//!
//! The checks, in this order: a request with an `Origin` comes from a web page and is refused. On a listener without
//! other protection, so is a `Host` that is not a loopback name. Probes need no authentication. Everything else must be
//! authenticated, and is `/metrics`, if the server shows them, or a websocket upgrade.

use std::{
    convert::Infallible,
    net::{Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{self, HeaderMap, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

use super::{
    auth::WsAuth,
    handshakes::OpenHandshake,
    metrics::{self, METRICS_PATH},
    websocket,
};
use crate::{
    limits::{HANDSHAKE_TIME, MAX_HEAD_BYTES},
    server::Server,
};

/// The configuration of a listener.
pub struct HttpEndpoint {
    pub auth: WsAuth,
    pub hosts: AllowedHosts,
    pub max_clients: usize,
    pub server: Server,
}

/// The values of `Host` that a listener accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllowedHosts {
    /// For a listener that a token or the mode of its socket file protects.
    Any,
    /// Names and addresses of the loopback interface. A web page whose own host name was made to resolve to
    /// 127.0.0.1 (DNS rebinding) sends that name, and sends no `Origin` with a `GET`.
    Loopback,
}

impl AllowedHosts {
    fn allow(self, request: &Request<Incoming>) -> bool {
        match self {
            Self::Any => true,
            Self::Loopback => {
                // The authority of an absolute request target takes precedence over the header.
                let authority = request.uri().authority().map(hyper::http::uri::Authority::as_str);
                let mut hosts = request.headers().get_all(header::HOST).iter().peekable();
                hosts.peek().is_some()
                    && hosts.all(|host| host.to_str().is_ok_and(is_loopback_host))
                    && authority.is_none_or(is_loopback_host)
            }
        }
    }
}

/// Returns whether a `Host` value, with or without a port, is `localhost` or a loopback address.
fn is_loopback_host(host: &str) -> bool {
    let is_port = |rest: &str| {
        let digits = rest.strip_prefix(':');
        rest.is_empty() || digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some((address, rest)) = host.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        return is_port(rest) && address.parse().is_ok_and(|address: Ipv6Addr| address.is_loopback());
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    let is_loopback = name.eq_ignore_ascii_case("localhost")
        || name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback());
    is_port(port) && is_loopback
}

/// Serves an HTTP connection, which may become a websocket. The handshake's deadline covers all requests of the
/// connection.
pub async fn serve<S>(endpoint: Arc<HttpEndpoint>, stream: S, handshake: OpenHandshake)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stopping = endpoint.server.stopping.clone();
    let service = service_fn(move |request| {
        let endpoint = endpoint.clone();
        async move { Ok::<_, Infallible>(respond(&endpoint, request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        result = connection => if let Err(error) = result {
            tracing::debug!("an HTTP connection failed: {error}");
        },
        () = handshake.must_close() => {}
        () = stopping.cancelled() => {}
    }
}

async fn respond(endpoint: &HttpEndpoint, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if let Some(response) = refuse_pages(endpoint.hosts, &request).or_else(|| probe(&request)) {
        return response;
    }
    let is_for_metrics = endpoint.server.shows_metrics()
        && request.method() == Method::GET
        && request.uri().path() == METRICS_PATH;
    let key = upgrade_key(request.headers());
    if key.is_none() && !is_for_metrics {
        return plain(
            StatusCode::NOT_FOUND,
            "this is a websocket endpoint; probes are /readyz and /healthz\n",
        );
    }
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if !endpoint.auth.allows(authorization) {
        return plain(StatusCode::UNAUTHORIZED, "a valid bearer token is needed\n");
    }
    let Some(key) = key else { return metrics::text(&endpoint.server).await };
    if endpoint.server.shared.clients.count() >= endpoint.max_clients {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too many connections\n");
    }
    let accept = derive_accept_key(key.as_bytes());
    serve_upgraded(endpoint.server.clone(), request);
    switching_protocols(&accept)
}

/// Refuses requests of web pages: those with an `Origin`, and those for another host where only loopback is served.
pub(super) fn refuse_pages(
    hosts: AllowedHosts,
    request: &Request<Incoming>,
) -> Option<Response<Full<Bytes>>> {
    if request.headers().contains_key(header::ORIGIN) {
        return Some(plain(StatusCode::FORBIDDEN, "requests of web pages are refused\n"));
    }
    if !hosts.allow(request) {
        return Some(plain(StatusCode::FORBIDDEN, "the Host must be localhost or a loopback address\n"));
    }
    None
}

/// Answers a health probe.
pub(super) fn probe(request: &Request<Incoming>) -> Option<Response<Full<Bytes>>> {
    let is_probe = request.method() == Method::GET && matches!(request.uri().path(), "/readyz" | "/healthz");
    is_probe.then(|| plain(StatusCode::OK, "ok\n"))
}

/// Returns the websocket key if the request is a websocket upgrade.
fn upgrade_key(headers: &HeaderMap) -> Option<&HeaderValue> {
    let contains = |name, word: &str| {
        let value = headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        value.is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    let is_upgrade = contains(header::UPGRADE, "websocket")
        && contains(header::CONNECTION, "upgrade")
        && contains(header::SEC_WEBSOCKET_VERSION, "13");
    headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| is_upgrade)
}

/// Serves the websocket once the response has been sent.
fn serve_upgraded(server: Server, request: Request<Incoming>) {
    let tasks = server.tasks.clone();
    tasks.spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => websocket::serve(server, TokioIo::new(upgraded)).await,
            Err(error) => tracing::debug!("a websocket handshake failed: {error}"),
        }
    });
}

fn switching_protocols(accept: &str) -> Response<Full<Bytes>> {
    let mut response = plain(StatusCode::SWITCHING_PROTOCOLS, "");
    let headers = response.headers_mut();
    headers.remove(header::CONTENT_TYPE);
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    if let Ok(accept) = HeaderValue::from_str(accept) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    }
    response
}

pub(super) fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_and_addresses_are_loopback_hosts() {
        let check = |host: &str, expected: bool| assert_eq!(is_loopback_host(host), expected, "{host}");
        for host in ["localhost", "LocalHost:4500", "127.0.0.1", "127.9.8.7:80", "[::1]", "[::1]:4500"] {
            check(host, true);
        }
        for host in [
            "",
            "x",
            "evil.example",
            "evil.example:4500",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evil.example:@127.0.0.1",
            "user@localhost",
            "localhost:80:80",
            "localhost:http",
            "0.0.0.0",
            "192.168.0.1",
            "127.1",
            "[::]",
            "[::1",
            "[::1]x",
            "::1",
            "[127.0.0.1]",
        ] {
            check(host, false);
        }
    }
}
