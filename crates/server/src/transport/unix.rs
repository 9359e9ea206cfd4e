//! A unix socket: lines as over stdio, or a websocket for clients that start with an HTTP request.
//!
//! The mode of the socket file is the only access control: the file belongs to its owner only. A lock beside the file
//! (`socket_lock.rs`) decides which of several servers may replace the file of a dead one.

use std::{
    io,
    os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
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
    time::{Instant, sleep},
};

use super::{
    auth::WsAuth,
    handshakes::{ConnectionLimits, HandshakeLimiter, OpenHandshake},
    http::{self, AllowedHosts, HttpEndpoint},
    listen::{ListenAddress, ListenError},
    push_line,
    socket_lock::{LockAttempt, SocketLock},
};
use crate::{clients::ConnectedClient, inbound::InboundMeter, limits::BACKLOG, server::Server};

/// How long a new server waits for one that does not listen any more and has not ended yet.
const TAKEOVER_TIME: Duration = Duration::from_secs(10);

/// How often it looks.
const TAKEOVER_PAUSE: Duration = Duration::from_millis(20);

/// Returns the control socket of a home: the one place where all clients of a user find one server.
pub fn control_socket(home: &Path) -> PathBuf {
    home.join("app-server-control/app-server-control.sock")
}

/// Serves the control socket of the home. Its directory belongs to its owner only.
pub async fn run_control(server: &Server) -> Result<(), ListenError> {
    let path = control_socket(server.shared.home());
    if let Some(folder) = path.parent() {
        let created = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
        created.map_err(|source| ListenError::Bind { listen: ListenAddress::Unix(path.clone()), source })?;
    }
    run(server, path).await
}

/// Serves until the server is stopped, then removes the socket file.
pub async fn run(server: &Server, path: PathBuf) -> Result<(), ListenError> {
    let failed = |source| ListenError::Bind { listen: ListenAddress::Unix(path.clone()), source };
    // Released last: until the socket file is gone and the process ends, no other server replaces the file.
    *server.socket_lock.lock() = take_lock(&path).await?;
    let socket = bind(&path).await?;
    // Resolved now, because the current directory or links on the way may change.
    let file = SocketFile::new(&path).map_err(failed)?;
    server.shared.places.add_socket(file.path.clone());
    let listener = socket.listen(BACKLOG).map_err(failed)?;
    server.listening.cancel();
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

/// Removes the socket file when dropped, unless another program has replaced it.
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn new(path: &Path) -> io::Result<Self> {
        let path = std::fs::canonicalize(path)?;
        Ok(Self { identity: identity(&path)?, path })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Returns the device and the inode of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Takes the lock of the socket. Waits for a server that is ending; one that listens keeps its lock. Returns `None` on a
/// file system without locks.
async fn take_lock(path: &Path) -> Result<Option<SocketLock>, ListenError> {
    let failed = |source| ListenError::Bind { listen: ListenAddress::Unix(path.to_owned()), source };
    let deadline = Instant::now() + TAKEOVER_TIME;
    loop {
        match SocketLock::try_take(path).map_err(failed)? {
            LockAttempt::Taken(lock) => return Ok(Some(lock)),
            LockAttempt::Unsupported => return Ok(None),
            LockAttempt::Held => {}
        }
        if Instant::now() >= deadline || UnixStream::connect(path).await.is_ok() {
            return Err(ListenError::InUse(path.to_owned()));
        }
        sleep(TAKEOVER_PAUSE).await;
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
