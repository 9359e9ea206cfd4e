//! A unix socket: lines as over stdio, or a websocket for clients that start with an HTTP request.
//!
//! The mode of the socket file is the only access control: the file belongs to its owner only.

use std::{
    io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use codicil_protocol::LineSplitter;
use futures_util::{Stream, stream};
use rustix::fs::{Mode, chmod, fchmod};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixSocket, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{
    auth::WsAuth,
    handshakes::{ConnectionLimits, HandshakeLimiter, OpenHandshake},
    http::{self, AllowedHosts, HttpEndpoint},
    listen::{ListenAddress, ListenError},
    push_line,
};
use crate::{clients::ConnectedClient, inbound::InboundMeter, limits::BACKLOG, server::Server};

/// Serves until the server is stopped, then removes the socket file.
pub async fn run(server: &Server, path: PathBuf) -> Result<(), ListenError> {
    let failed = |source| ListenError::Bind { listen: ListenAddress::Unix(path.clone()), source };
    let socket = bind(&path).await?;
    // Resolved now, because the current directory or links on the way may change.
    let file = SocketFile(std::fs::canonicalize(&path).map_err(failed)?);
    server.shared.places.add_socket(file.0.clone());
    let listener = socket.listen(BACKLOG).map_err(failed)?;
    let limits = ConnectionLimits::of_process();
    let handshakes = HandshakeLimiter::new(limits.handshakes);
    let endpoint = Arc::new(HttpEndpoint {
        auth: WsAuth::None,
        hosts: AllowedHosts::Any,
        max_clients: limits.clients,
        server: server.clone(),
    });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.stopping.cancelled() => return Ok(()),
        };
        match accepted {
            Ok(_) if server.shared.clients.count() >= limits.clients => {
                tracing::warn!("refused a connection: there are {} clients already", limits.clients);
            }
            Ok((stream, _)) => {
                server.tasks.spawn(serve(endpoint.clone(), stream, handshakes.begin()));
            }
            Err(error) => handshakes.recover_from(&error).await,
        }
    }
}

/// Removes the socket file when dropped.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Fails if another process has removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Creates the socket file and replaces one that a dead server left behind. Clients cannot connect until the socket
/// listens.
async fn bind(path: &Path) -> Result<UnixSocket, ListenError> {
    let failed = |source| ListenError::Bind { listen: ListenAddress::Unix(path.to_owned()), source };
    match bind_socket(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            // Anything but a socket is another program's file.
            if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
                return Err(failed(error));
            }
            // Only a refused connection means that no server listens; a busy server fails in other ways.
            match UnixStream::connect(path).await {
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                _ => return Err(ListenError::InUse(path.to_owned())),
            }
            std::fs::remove_file(path).map_err(failed)?;
            bind_socket(path).map_err(failed)
        }
        bound => bound.map_err(failed),
    }
}

/// Binds a socket whose file only its owner can open.
fn bind_socket(path: &Path) -> io::Result<UnixSocket> {
    let mode = Mode::RUSR | Mode::WUSR;
    let socket = UnixSocket::new_stream()?;
    // On Linux the file gets the mode of the socket, minus the umask, so others can never open it. Elsewhere a socket
    // has no mode, and the file is changed below.
    let _ = fchmod(&socket, mode);
    socket.bind(path)?;
    if std::fs::symlink_metadata(path)?.permissions().mode() & 0o777 != mode.as_raw_mode() {
        chmod(path, mode)?;
    }
    Ok(socket)
}

async fn serve(endpoint: Arc<HttpEndpoint>, stream: UnixStream, handshake: OpenHandshake) {
    let is_http = tokio::select! {
        is_http = begins_with_http(&stream) => is_http,
        () = handshake.must_close() => return,
        () = endpoint.server.stopping.cancelled() => return,
    };
    match is_http {
        Ok(true) => http::serve(endpoint, stream, handshake).await,
        Ok(false) => {
            drop(handshake);
            serve_lines(&endpoint.server, stream).await;
        }
        Err(error) => tracing::debug!("a connection failed: {error}"),
    }
}

/// Peeks at the first byte and returns whether it begins an HTTP request. A message of the protocol cannot begin with a
/// letter.
async fn begins_with_http(stream: &UnixStream) -> io::Result<bool> {
    let mut first = [0];
    loop {
        stream.readable().await?;
        match rustix::net::recv(stream, &mut first, rustix::net::RecvFlags::PEEK) {
            Ok(_) => return Ok(first[0].is_ascii_alphabetic()),
            // The readiness was stale; `try_io` clears it, so that the next wait is for a new event.
            Err(rustix::io::Errno::AGAIN) => {
                let _ = stream
                    .try_io(tokio::io::Interest::READABLE, || Err::<(), _>(io::ErrorKind::WouldBlock.into()));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

async fn serve_lines(server: &Server, stream: UnixStream) {
    let (reader, writer) = stream.into_split();
    let client = server.shared.clients.connect();
    let meter = InboundMeter::new(client.clone(), server.shared.inbound.clone());
    super::serve(server, client.clone(), Box::pin(lines(reader, meter)), write(client, writer)).await;
}

/// Returns the lines of a connection. The stream reads on only when earlier lines have been served, so that the message
/// limit after `initialize` applies to the lines behind it.
fn lines(reader: OwnedReadHalf, meter: InboundMeter) -> impl Stream<Item = Bytes> {
    let reader = BufReader::with_capacity(64 << 10, reader);
    let splitter = LineSplitter::new(meter.max_message_bytes());
    let state = (reader, meter, Some(splitter), Vec::new().into_iter());
    stream::unfold(state, |(mut reader, meter, mut splitter, mut batch)| async move {
        loop {
            if let Some(line) = batch.next() {
                return Some((line, (reader, meter, splitter, batch)));
            }
            let mut lines = splitter.take()?;
            let mut next = Vec::new();
            match reader.fill_buf().await {
                Ok([]) | Err(_) => next.extend(lines.finish()),
                Ok(bytes) => {
                    lines.set_max_line_bytes(meter.max_message_bytes());
                    lines.feed(bytes, |line| push_line(line, &mut next));
                    let read = bytes.len();
                    reader.consume(read);
                    meter.set_unfinished(lines.partial_bytes()).ok()?;
                    splitter = Some(lines);
                }
            }
            batch = next.into_iter();
        }
    })
}

async fn write(client: Arc<ConnectedClient>, mut writer: OwnedWriteHalf) {
    let mut buffer = Vec::new();
    while let Some(batch) = client.outbox.take().await {
        buffer.clear();
        for message in batch {
            buffer.extend_from_slice(&message);
            buffer.push(b'\n');
        }
        if writer.write_all(&buffer).await.is_err() {
            client.outbox.finish();
            return;
        }
        buffer.shrink_to(1 << 20);
    }
}
