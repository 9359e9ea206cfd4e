//! Websockets: one message per frame, many clients.

use std::{net::SocketAddr, sync::Arc};

use bytes::Bytes;
use futures_util::{SinkExt, Stream, StreamExt, stream::SplitSink};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpSocket},
};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        Error, Message, Utf8Bytes,
        protocol::{CloseFrame, Role, WebSocketConfig, frame::coding::CloseCode},
    },
};

use super::{
    auth::WsAuth,
    handshakes::{ConnectionLimits, HandshakeLimiter},
    http::{self, AllowedHosts, HttpEndpoint},
    listen::{ListenAddress, ListenError},
    metered::{self, MeteredStream},
};
use crate::{
    clients::ConnectedClient,
    inbound::InboundMeter,
    limits::{BACKLOG, MAX_MESSAGE_BYTES},
    outbox::OutboxClosed,
    server::Server,
};

/// Serves until the server is stopped.
pub async fn run(server: &Server, address: SocketAddr, auth: WsAuth) -> Result<(), ListenError> {
    let bind = |source| ListenError::Bind { listen: ListenAddress::WebSocket(address), source };
    if !address.ip().is_loopback()
        && matches!(auth, WsAuth::None)
        && !server.shared.setup.allow_unauthenticated
    {
        return Err(ListenError::Unprotected(address));
    }
    let listener = listen(server, address, &auth).map_err(bind)?;
    let address = listener.local_addr().map_err(bind)?;
    announce(address, &auth);
    server.listening.cancel();
    let limits = ConnectionLimits::of_process();
    let handshakes = HandshakeLimiter::new(limits.handshakes);
    let hosts = match auth {
        WsAuth::None if address.ip().is_loopback() => AllowedHosts::Loopback,
        _ => AllowedHosts::Any,
    };
    let endpoint = HttpEndpoint { auth, hosts, max_clients: limits.clients, server: server.clone() };
    let endpoint = Arc::new(endpoint);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.stopping.cancelled() => return Ok(()),
        };
        match accepted {
            Ok((stream, _)) => {
                // Messages are small and latency matters.
                let _ = stream.set_nodelay(true);
                server.tasks.spawn(http::serve(endpoint.clone(), stream, handshakes.begin()));
            }
            Err(error) => handshakes.recover_from(&error).await,
        }
    }
}

/// Binds the socket, denies sandboxed commands the port if it needs no authentication, and only then listens.
fn listen(server: &Server, address: SocketAddr, auth: &WsAuth) -> std::io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of an earlier server that are still closing must not block the address.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    if matches!(auth, WsAuth::None) {
        server.shared.places.add_open_port(socket.local_addr()?.port());
    }
    socket.listen(BACKLOG)
}

/// Prints the address to standard error, where the parent process finds the port that was chosen.
fn announce(address: SocketAddr, auth: &WsAuth) {
    eprintln!("codicil app-server (WebSockets)");
    eprintln!("  listening on: ws://{address}");
    eprintln!("  readyz: http://{address}/readyz");
    eprintln!("  healthz: http://{address}/healthz");
    if !address.ip().is_loopback() && matches!(auth, WsAuth::None) {
        tracing::warn!(
            "anyone who reaches {address} can run commands as this user: there is no authentication"
        );
    }
}

/// Serves a client over an upgraded connection.
pub async fn serve<S>(server: Server, stream: S)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE_BYTES))
        .max_frame_size(Some(MAX_MESSAGE_BYTES));
    let client = server.shared.clients.connect();
    let meter = Arc::new(InboundMeter::new(client.clone(), server.shared.inbound.clone()));
    let stream = MeteredStream { stream, meter: meter.clone() };
    let (sink, messages) = WebSocketStream::from_raw_socket(stream, Role::Server, Some(config)).await.split();
    super::serve(&server, client.clone(), Box::pin(payloads(messages, meter)), write(client, sink)).await;
}

/// Returns the messages of text and binary frames. Tungstenite answers pings itself.
fn payloads<S>(messages: S, meter: Arc<InboundMeter>) -> impl Stream<Item = Bytes>
where
    S: Stream<Item = Result<Message, Error>>,
{
    messages
        .map_while(move |message| match message {
            Ok(Message::Close(_)) => None,
            Ok(message) => metered::count(&meter, &message).is_ok().then_some(message),
            Err(error) => {
                if matches!(error, Error::Capacity(_)) {
                    meter.refuse();
                }
                tracing::debug!("a websocket failed: {error}");
                None
            }
        })
        .filter_map(async |message| match message {
            Message::Text(text) => Some(text.into()),
            Message::Binary(bytes) => Some(bytes),
            _ => None,
        })
}

/// `Iterator::map_while` for streams, which `futures_util` does not have.
trait MapWhile: Stream + Sized {
    fn map_while<T>(self, keep: impl FnMut(Self::Item) -> Option<T>) -> impl Stream<Item = T>;
}

impl<S: Stream> MapWhile for S {
    fn map_while<T>(self, keep: impl FnMut(Self::Item) -> Option<T>) -> impl Stream<Item = T> {
        self.map(keep).take_while(|kept| std::future::ready(kept.is_some())).filter_map(std::future::ready)
    }
}

async fn write<S>(client: Arc<ConnectedClient>, mut sink: SplitSink<WebSocketStream<S>, Message>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    while let Some(batch) = client.outbox.take().await {
        for message in batch {
            // serde_json writes valid UTF-8.
            let text = Utf8Bytes::try_from(message).unwrap_or_default();
            if sink.feed(Message::Text(text)).await.is_err() {
                client.outbox.finish();
                return;
            }
        }
        if sink.flush().await.is_err() {
            client.outbox.finish();
            return;
        }
    }
    let close_frame = match client.outbox.closed() {
        Some(OutboxClosed::TooSlow) => {
            CloseFrame { code: CloseCode::Policy, reason: "too many unread messages".into() }
        }
        Some(OutboxClosed::MessageTooLong) => {
            CloseFrame { code: CloseCode::Size, reason: "a message was too long".into() }
        }
        Some(OutboxClosed::TooMuchInput) => {
            CloseFrame { code: CloseCode::Again, reason: "too many unfinished messages".into() }
        }
        Some(OutboxClosed::Finished) | None => CloseFrame { code: CloseCode::Normal, reason: "".into() },
    };
    // Fails if the peer has disconnected.
    let _ = sink.send(Message::Close(Some(close_frame))).await;
}

#[cfg(test)]
mod tests;
