//! Endpoints: a program to start, an address to connect to, or streams that the caller has already opened.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, io,
    path::PathBuf,
    sync::Arc,
};

use bytes::Bytes;
use codicil_exec::ProcessEnvironment;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// The target of [`ClientBuilder::connect`](crate::ClientBuilder::connect): a [`ServerAddress`], or a connection that
/// is already open.
#[derive(Debug)]
pub struct Endpoint(pub(crate) EndpointKind);

#[derive(Debug)]
pub(crate) enum EndpointKind {
    Address(ServerAddress),
    Open(OpenEnds),
}

/// Both directions of a connection that the caller opened.
pub(crate) enum OpenEnds {
    Lines { reader: Box<dyn AsyncRead + Send + Unpin>, writer: Box<dyn AsyncWrite + Send + Unpin> },
    Channels { to_server: mpsc::Sender<Bytes>, from_server: mpsc::Receiver<Bytes> },
}

impl Endpoint {
    /// Creates an endpoint from byte streams that carry one message per line.
    pub fn lines(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self(EndpointKind::Open(OpenEnds::Lines { reader: Box::new(reader), writer: Box::new(writer) }))
    }

    /// Creates an endpoint from channels of whole messages, for a server in the same process.
    /// `codicil_server::connect(&server).split()` returns the two ends.
    pub fn channels(to_server: mpsc::Sender<Bytes>, from_server: mpsc::Receiver<Bytes>) -> Self {
        Self(EndpointKind::Open(OpenEnds::Channels { to_server, from_server }))
    }
}

impl<A: Into<ServerAddress>> From<A> for Endpoint {
    fn from(address: A) -> Self {
        Self(EndpointKind::Address(address.into()))
    }
}

impl fmt::Debug for OpenEnds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lines { .. } => "Lines",
            Self::Channels { .. } => "Channels",
        })
    }
}

/// An address that can be connected to repeatedly.
#[derive(Clone, Debug)]
pub enum ServerAddress {
    /// A server process started for this client.
    Launch(ServerLaunch),
    /// A server that listens at a `ws://` or `wss://` address.
    WebSocket(WebSocket),
    /// A server that listens at a unix socket.
    Unix(UnixSocket),
    /// A server in this process.
    InProcess(InProcessServer),
}

impl From<ServerLaunch> for ServerAddress {
    fn from(launch: ServerLaunch) -> Self {
        Self::Launch(launch)
    }
}

impl From<WebSocket> for ServerAddress {
    fn from(socket: WebSocket) -> Self {
        Self::WebSocket(socket)
    }
}

impl From<UnixSocket> for ServerAddress {
    fn from(socket: UnixSocket) -> Self {
        Self::Unix(socket)
    }
}

impl From<InProcessServer> for ServerAddress {
    fn from(server: InProcessServer) -> Self {
        Self::InProcess(server)
    }
}

/// A server in this process, to which any number of connections can be opened.
#[derive(Clone)]
pub struct InProcessServer(Arc<dyn Fn() -> MessageChannels + Send + Sync>);

/// Both directions of a connection within the process: to the server, and from it.
pub type MessageChannels = (mpsc::Sender<Bytes>, mpsc::Receiver<Bytes>);

impl InProcessServer {
    /// Creates the address of a server that `connect` connects to: `move || codicil_server::connect(&server).split()`.
    pub fn new(connect: impl Fn() -> MessageChannels + Send + Sync + 'static) -> Self {
        Self(Arc::new(connect))
    }

    pub(crate) fn connect(&self) -> MessageChannels {
        (self.0)()
    }
}

impl fmt::Debug for InProcessServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InProcessServer")
    }
}

/// The path of a unix socket that carries one message per line.
#[derive(Clone, Debug)]
pub struct UnixSocket(pub(crate) PathBuf);

impl UnixSocket {
    /// Creates the address of the socket at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

/// The command that starts a server which speaks over its standard input and output.
///
/// The server inherits the environment and the working directory of this process unless configured otherwise, and runs
/// in its own session. It ends with its client: when the client is dropped, or this process exits or is killed, the
/// server and every process that it started are ended.
///
/// ```
/// use codicil_client::ServerLaunch;
///
/// let server = ServerLaunch::new("codicil").config("model", "gpt-5.1").env("RUST_LOG", "warn").cwd("/srv/project");
/// let another = ServerLaunch::command(["ssh", "host", "codicil", "app-server"]);
/// ```
#[derive(Clone)]
pub struct ServerLaunch {
    pub(crate) argv: Vec<OsString>,
    pub(crate) env: Vec<(OsString, Option<OsString>)>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) forwards_stderr: bool,
}

impl ServerLaunch {
    /// Creates the command `PROGRAM app-server`. A program name without a slash is looked up in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self::command([program.as_ref(), OsStr::new("app-server")])
    }

    /// Creates a command with these arguments, the first being the program.
    pub fn command<A: AsRef<OsStr>>(argv: impl IntoIterator<Item = A>) -> Self {
        let argv = argv.into_iter().map(|word| word.as_ref().to_owned()).collect();
        Self { argv, env: Vec::new(), cwd: None, forwards_stderr: false }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.argv.push(argument.as_ref().to_owned());
        self
    }

    /// Adds the configuration override `-c KEY=VALUE`.
    pub fn config(self, key: &str, value: impl fmt::Display) -> Self {
        self.arg("-c").arg(format!("{key}={value}"))
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Removes an environment variable.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// Sets the server's working directory, which is the default of threads without a `cwd`.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Forwards the server's standard error to that of this process, in addition to keeping its tail. The server
    /// blocks while this process's standard error is not read.
    pub fn forward_stderr(mut self) -> Self {
        self.forwards_stderr = true;
        self
    }

    #[allow(clippy::disallowed_methods, reason = "a server needs its credentials")]
    pub(crate) fn environment(&self) -> ProcessEnvironment {
        let mut environment: ProcessEnvironment = env::vars_os().collect();
        for (name, value) in &self.env {
            match value {
                Some(value) => environment.insert(name.clone(), value.clone()),
                None => environment.remove(name),
            };
        }
        environment
    }

    pub(crate) fn directory(&self) -> io::Result<PathBuf> {
        self.cwd.clone().map_or_else(env::current_dir, Ok)
    }

    pub(crate) fn program(&self) -> String {
        self.argv.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
    }
}

/// Prints the program and the names of the variables only: arguments and values may be secret.
impl fmt::Debug for ServerLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerLaunch")
            .field("program", &self.argv.first())
            .field("arguments", &self.argv.len().saturating_sub(1))
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// The address of a websocket server, and the headers of the handshake.
///
/// ```
/// use codicil_client::WebSocket;
///
/// let server = WebSocket::new("ws://127.0.0.1:4500").bearer("the token");
/// ```
#[derive(Clone)]
pub struct WebSocket {
    pub(crate) url: String,
    pub(crate) headers: Vec<(String, String)>,
}

impl WebSocket {
    /// Creates the address `ws://HOST:PORT` or `wss://HOST:PORT`. TLS uses the operating system's certificate store.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new() }
    }

    /// Adds `Authorization: Bearer TOKEN` to the handshake.
    pub fn bearer(self, token: impl AsRef<str>) -> Self {
        let value = format!("Bearer {}", token.as_ref().trim());
        self.header("Authorization", value)
    }

    /// Adds a header to the handshake.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }
}

/// Prints the names of the headers only: their values are credentials.
impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("url", &redact_url(&self.url))
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

/// Removes credentials from a URL: user info before an `@`, and everything from `?` or `#` on.
pub fn redact_url(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    match (plain.split_once("://"), plain.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, rest))) => format!("{scheme}://{rest}"),
        _ => plain.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let socket = WebSocket::new("ws://me:s3cret@host:1/path?token=s3cret").bearer("s3cret");
        let launch = ServerLaunch::new("codicil").config("key", "s3cret").env("API_KEY", "s3cret");
        let printed = format!("{launch:?} {:?}", Endpoint::from(socket));
        assert!(!printed.contains("s3cret"), "{printed}");
        assert!(printed.contains("ws://host:1/path") && printed.contains("API_KEY"), "{printed}");
    }
}
