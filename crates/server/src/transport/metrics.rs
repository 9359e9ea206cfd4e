//! `GET /metrics`: on the listener of the clients, or on a listener of its own.
//!
//! The text has numbers only: no ids, no names, no paths. On the listener of the clients it needs what an upgrade
//! needs, a token if clients need one. A listener of its own answers everyone who reaches its address, which the operator
//! has named; it serves nothing else but the probes. On both, requests of web pages are refused.

use std::{convert::Infallible, net::SocketAddr, sync::Arc};

use codicil_metrics::METRICS;
use http_body_util::Full;
use hyper::{
    Method, Request, Response, StatusCode,
    body::{Bytes, Incoming},
    header::{self, HeaderValue},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};

use super::{
    handshakes::{HandshakeLimiter, OpenHandshake},
    http::{AllowedHosts, plain, probe, refuse_pages},
    listen::ListenError,
};
use crate::{
    limits::{HANDSHAKE_TIME, MAX_HEAD_BYTES, MAX_METRICS_CONNECTIONS},
    server::{Server, ServerShared},
};

/// The path of the metrics.
pub(super) const METRICS_PATH: &str = "/metrics";

/// Listens on an address of its own, and serves until the server stops. Returns once it listens.
pub async fn listen(server: &Server, address: SocketAddr) -> Result<(), ListenError> {
    let failed = |source| ListenError::Metrics { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    // Confined commands reach no listener of the server.
    server.shared.places.add_open_port(address.port());
    eprintln!("  metrics: http://{address}{METRICS_PATH}");
    let hosts = if address.ip().is_loopback() { AllowedHosts::Loopback } else { AllowedHosts::Any };
    server.tasks.spawn(accept(server.clone(), listener, hosts));
    Ok(())
}

async fn accept(server: Server, listener: TcpListener, hosts: AllowedHosts) {
    let handshakes = HandshakeLimiter::new(MAX_METRICS_CONNECTIONS);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.stopping.cancelled() => return,
        };
        match accepted {
            Ok((stream, _)) => {
                server.tasks.spawn(serve(server.clone(), stream, hosts, handshakes.begin()));
            }
            Err(error) => handshakes.recover_from(&error).await,
        }
    }
}

async fn serve(server: Server, stream: TcpStream, hosts: AllowedHosts, handshake: OpenHandshake) {
    let stopping = server.stopping.clone();
    let service = service_fn(move |request| {
        let server = server.clone();
        async move { Ok::<_, Infallible>(respond(&server, hosts, &request).await) }
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HANDSHAKE_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        result = connection => if let Err(error) = result {
            tracing::debug!("a connection for metrics failed: {error}");
        },
        () = handshake.must_close() => {}
        () = stopping.cancelled() => {}
    }
}

async fn respond(server: &Server, hosts: AllowedHosts, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    if let Some(refusal) = refuse_pages(hosts, request).or_else(|| probe(request)) {
        return refusal;
    }
    if request.method() == Method::GET && request.uri().path() == METRICS_PATH {
        return text(server).await;
    }
    plain(StatusCode::NOT_FOUND, "this listener serves /metrics, /readyz and /healthz\n")
}

/// Returns all metrics. Encoded beside the runtime: counting the threads and descriptors of a large server takes
/// milliseconds.
pub(super) async fn text(server: &Server) -> Response<Full<Bytes>> {
    let shared: Arc<ServerShared> = server.shared.clone();
    let encoded = tokio::task::spawn_blocking(move || {
        read_gauges(&shared);
        codicil_metrics::encode()
    });
    let Ok(text) = encoded.await else {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "cannot encode the metrics\n");
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(codicil_metrics::CONTENT_TYPE));
    response
}

/// Sets the gauges that are counted only when they are asked for.
fn read_gauges(shared: &ServerShared) {
    METRICS.connections.set(shared.clients.count());
    METRICS.queue_bytes.set(shared.clients.queue_bytes());
    METRICS.requests_in_flight.set(shared.requests.load(std::sync::atomic::Ordering::Relaxed));
    let counts = shared.started_threads().map(codicil_engine::Threads::counts).unwrap_or_default();
    METRICS.threads_loaded.set(counts.loaded);
    METRICS.threads_running.set(counts.active.saturating_sub(counts.waiting));
    METRICS.threads_waiting.set(counts.waiting);
}
