//! Messages as websocket frames, with TLS for `wss://`.

use std::{io, sync::Arc};

use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use rustls::{ClientConfig, pki_types::ServerName};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};
use tokio_rustls::TlsConnector;
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        Error, Message, Utf8Bytes,
        client::IntoClientRequest,
        handshake::client::Request,
        http::{HeaderName, HeaderValue},
        protocol::WebSocketConfig,
    },
};

use super::{MessageSink, MessageSource, TransportLink};
use crate::{endpoint::WebSocket, error::DisconnectCause, options::ClientLimits};

/// A TCP stream, or TLS over one.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// An open websocket to a server.
pub type SocketStream = WebSocketStream<Box<dyn ByteStream>>;

pub async fn connect(socket: &WebSocket, limits: &ClientLimits) -> Result<TransportLink, String> {
    let (sink, source) = open_socket(socket, limits.message_bytes).await?.split();
    Ok(TransportLink {
        source: MessageSource::WebSocket(SocketReader { source, ready: None }),
        sink: MessageSink::WebSocket(SocketWriter { sink }),
    })
}

/// Opens a websocket to a server, for programs that pass messages on. Messages that are longer end the connection.
pub async fn open_socket(socket: &WebSocket, max_message_bytes: usize) -> Result<SocketStream, String> {
    let request = request(socket)?;
    let stream = connect_stream(&request).await?;
    let config = WebSocketConfig::default()
        .max_message_size(Some(max_message_bytes))
        .max_frame_size(Some(max_message_bytes));
    let opened = client_async_with_config(request, stream, Some(config)).await;
    opened.map(|(stream, _)| stream).map_err(|error| refusal(&error))
}

fn request(socket: &WebSocket) -> Result<Request, String> {
    let mut request = socket.url.as_str().into_client_request().map_err(|error| error.to_string())?;
    for (name, value) in &socket.headers {
        let invalid = || format!("the header {name} is not valid");
        let key = HeaderName::try_from(name.as_str()).map_err(|_| invalid())?;
        let mut value = HeaderValue::try_from(value.as_str()).map_err(|_| invalid())?;
        value.set_sensitive(true);
        request.headers_mut().insert(key, value);
    }
    Ok(request)
}

async fn connect_stream(request: &Request) -> Result<Box<dyn ByteStream>, String> {
    let uri = request.uri();
    let host = uri.host().ok_or("the address has no host")?.trim_start_matches('[').trim_end_matches(']');
    let is_secure = match uri.scheme_str() {
        Some("ws") => false,
        Some("wss") => true,
        _ => return Err("the address must begin with ws:// or wss://".to_owned()),
    };
    let port = uri.port_u16().unwrap_or(if is_secure { 443 } else { 80 });
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    // Requests are small, and their latency matters.
    let _ = stream.set_nodelay(true);
    if !is_secure {
        return Ok(Box::new(stream));
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(tls().await?);
    Ok(Box::new(connector.connect(name, stream).await.map_err(|error| error.to_string())?))
}

/// Builds the TLS configuration. Runs on a blocking thread, since reading the operating system's certificates takes a
/// while.
async fn tls() -> Result<Arc<ClientConfig>, String> {
    let build = || {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
        Ok::<_, rustls::Error>(config.with_platform_verifier()?.with_no_client_auth())
    };
    let config = tokio::task::spawn_blocking(build).await.map_err(|error| error.to_string())?;
    config.map(Arc::new).map_err(|error| format!("failed to set up TLS: {error}"))
}

/// Describes why the server did not open a websocket. The response body may hold secrets and is left out.
fn refusal(error: &Error) -> String {
    match error {
        Error::Http(response) => format!("the server answered {}", response.status()),
        other => other.to_string(),
    }
}

pub struct SocketReader {
    source: SplitStream<SocketStream>,
    ready: Option<Bytes>,
}

impl SocketReader {
    pub async fn fill(&mut self) -> Result<(), DisconnectCause> {
        loop {
            match self.source.next().await {
                Some(Ok(Message::Text(text))) => self.ready = Some(text.into()),
                Some(Ok(Message::Binary(bytes))) => self.ready = Some(bytes),
                Some(Ok(Message::Close(frame))) => {
                    let reason = frame.map(|frame| format!("{} {}", frame.code, frame.reason));
                    let reason = reason.unwrap_or_default().trim_end().to_owned();
                    return Err(DisconnectCause::ClosedByServer(reason));
                }
                // The library answers pings.
                Some(Ok(_)) => continue,
                Some(Err(error)) => return Err(disconnect_cause(error)),
                None => return Err(DisconnectCause::ClosedByServer(String::new())),
            }
            return Ok(());
        }
    }

    pub fn take(&mut self) -> Option<Bytes> {
        self.ready.take()
    }
}

fn disconnect_cause(error: Error) -> DisconnectCause {
    match error {
        Error::ConnectionClosed | Error::AlreadyClosed => DisconnectCause::ClosedByServer(String::new()),
        Error::Io(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
            DisconnectCause::ClosedByServer(String::new())
        }
        other => DisconnectCause::Failed(other.to_string()),
    }
}

pub struct SocketWriter {
    sink: SplitSink<SocketStream, Message>,
}

impl SocketWriter {
    pub async fn send(&mut self, batch: &mut Vec<Bytes>) -> Result<(), String> {
        for message in batch.drain(..) {
            let text = Utf8Bytes::try_from(message).map_err(|error| error.to_string())?;
            self.sink.feed(Message::Text(text)).await.map_err(|error| error.to_string())?;
        }
        self.sink.flush().await.map_err(|error| error.to_string())
    }

    pub async fn close(mut self) {
        // The server may be gone already.
        let _ = self.sink.close().await;
    }
}
