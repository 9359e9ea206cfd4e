//! The HTTP face of a listener: health probes and the door to the websocket.
//!
//! In this order: anything with an `Origin` comes from a web page and is refused; probes answer without
//! authentication; everything else must be an upgrade by someone who may connect.

use std::{convert::Infallible, sync::Arc};

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

use super::{auth::WsAuth, websocket};
use crate::{
    limits::{HANDSHAKE_TIME, MAX_CONNECTIONS},
    server::Server,
};

/// Who may come in, and to where.
pub struct Door {
    pub auth: WsAuth,
    pub server: Server,
}

/// Serves one HTTP connection, which may become a websocket.
pub async fn serve<S>(door: Arc<Door>, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let stopping = door.server.stopping.clone();
    let service = service_fn(move |request| {
        let door = door.clone();
        async move { Ok::<_, Infallible>(answer(&door, request)) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIME)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    tokio::select! {
        result = connection => if let Err(error) = result {
            tracing::debug!("an HTTP connection ended: {error}");
        },
        () = stopping.cancelled() => {}
    }
}

fn answer(door: &Door, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if request.headers().contains_key(header::ORIGIN) {
        return plain(StatusCode::FORBIDDEN, "requests of web pages are refused\n");
    }
    if request.method() == Method::GET && matches!(request.uri().path(), "/readyz" | "/healthz") {
        return plain(StatusCode::OK, "ok\n");
    }
    let Some(key) = upgrade_key(request.headers()) else {
        return plain(
            StatusCode::NOT_FOUND,
            "this is a websocket endpoint; probes are /readyz and /healthz\n",
        );
    };
    let authorization = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if !door.auth.allows(authorization) {
        return plain(StatusCode::UNAUTHORIZED, "a valid bearer token is needed\n");
    }
    if door.server.shared.clients.count() >= MAX_CONNECTIONS {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "too many connections\n");
    }
    let accept = derive_accept_key(key.as_bytes());
    admit(door.server.clone(), request);
    switching(&accept)
}

/// The websocket key, when the request asks for this upgrade.
fn upgrade_key(headers: &HeaderMap) -> Option<&HeaderValue> {
    let says = |name, word: &str| {
        let value = headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        value.is_some_and(|value| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word)))
    };
    let wanted = says(header::UPGRADE, "websocket")
        && says(header::CONNECTION, "upgrade")
        && says(header::SEC_WEBSOCKET_VERSION, "13");
    headers.get(header::SEC_WEBSOCKET_KEY).filter(|_| wanted)
}

/// The websocket begins when the answer has been sent; the server owns its task.
fn admit(server: Server, request: Request<Incoming>) {
    let tasks = server.tasks.clone();
    tasks.spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => websocket::serve(server, TokioIo::new(upgraded)).await,
            Err(error) => tracing::debug!("a websocket handshake failed: {error}"),
        }
    });
}

fn switching(accept: &str) -> Response<Full<Bytes>> {
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

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}
