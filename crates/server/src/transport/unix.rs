//! A unix socket: lines as over stdio, or a websocket for clients that begin with an HTTP request.
//!
//! Whoever may open the socket file may connect; it is made for its owner only.

use std::{
    io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::{
        UnixListener, UnixSocket, UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
};

use super::{
    auth::WsAuth,
    http::{self, Door},
    lines::Lines,
    listen::{Listen, ListenError},
};
use crate::{
    clients::Client,
    limits::{BACKLOG, HANDSHAKE_TIME, MAX_CONNECTIONS},
    server::Server,
};

/// Serves until the server is stopped, then removes the socket file.
pub async fn run(server: &Server, path: PathBuf) -> Result<(), ListenError> {
    let listener = bind(&path).await?;
    let _file = SocketFile(path);
    let door = Arc::new(Door { auth: WsAuth::None, server: server.clone() });
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.stopping.cancelled() => return Ok(()),
        };
        match accepted {
            Ok(_) if server.shared.clients.count() >= MAX_CONNECTIONS => {
                tracing::warn!("turned a connection away: there are {MAX_CONNECTIONS} already");
            }
            Ok((stream, _)) => {
                server.tasks.spawn(serve(door.clone(), stream));
            }
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        }
    }
}

struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        // Somebody may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Takes over a socket file that nobody listens on any more. The file has its mode before anybody can
/// connect: that takes somebody who listens.
async fn bind(path: &Path) -> Result<UnixListener, ListenError> {
    let failed = |source| ListenError::Bind { listen: Listen::Unix(path.to_owned()), source };
    let bound = match bind_socket(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if UnixStream::connect(path).await.is_ok() {
                return Err(ListenError::InUse(path.to_owned()));
            }
            // Anything but a socket is somebody's file.
            if !std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
                return Err(failed(error));
            }
            std::fs::remove_file(path).map_err(failed)?;
            bind_socket(path)
        }
        bound => bound,
    };
    let socket = bound.map_err(failed)?;
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).map_err(failed)?;
    socket.listen(BACKLOG).map_err(failed)
}

fn bind_socket(path: &Path) -> io::Result<UnixSocket> {
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    Ok(socket)
}

async fn serve(door: Arc<Door>, stream: UnixStream) {
    let mut first = [0];
    match tokio::time::timeout(HANDSHAKE_TIME, peek(&stream, &mut first)).await {
        Ok(Ok(true)) => http::serve(door, stream).await,
        Ok(Ok(false)) => serve_lines(&door.server, stream).await,
        Ok(Err(error)) => tracing::debug!("a connection ended: {error}"),
        Err(_) => tracing::debug!("a connection said nothing and was closed"),
    }
}

/// Whether the client speaks HTTP: a message of the protocol cannot begin with a letter.
async fn peek(stream: &UnixStream, first: &mut [u8]) -> io::Result<bool> {
    loop {
        stream.readable().await?;
        match rustix::net::recv(stream, &mut *first, rustix::net::RecvFlags::PEEK) {
            Ok(_) => return Ok(first.first().is_some_and(u8::is_ascii_alphabetic)),
            // Readiness was stale; the next wait must be for a new event.
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
    super::serve(server, Box::pin(lines(reader)), |client| write(client, writer)).await;
}

fn lines(reader: OwnedReadHalf) -> impl Stream<Item = Bytes> {
    let state = (BufReader::with_capacity(64 << 10, reader), Some(Lines::default()), Vec::new().into_iter());
    stream::unfold(state, |(mut reader, mut splitter, mut batch)| async move {
        loop {
            if let Some(line) = batch.next() {
                return Some((line, (reader, splitter, batch)));
            }
            let mut lines = splitter.take()?;
            let mut next = Vec::new();
            match reader.fill_buf().await {
                Ok([]) | Err(_) => next.extend(lines.finish()),
                Ok(bytes) => {
                    lines.feed(bytes, |line| next.push(line));
                    let read = bytes.len();
                    reader.consume(read);
                    splitter = Some(lines);
                }
            }
            batch = next.into_iter();
        }
    })
}

async fn write(client: Arc<Client>, mut writer: OwnedWriteHalf) {
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
