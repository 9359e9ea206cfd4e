//! Where a server is: a program to start, an address, or two ends that the caller holds already.

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt, io,
    path::PathBuf,
};

use bytes::Bytes;
use codicil_exec::ProcessEnvironment;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::mpsc,
};

/// What [`ClientBuilder::connect`](crate::ClientBuilder::connect) connects to: an [`Address`], or ends that are open already.
#[derive(Debug)]
pub struct Endpoint(pub(crate) EndpointKind);

#[derive(Debug)]
pub(crate) enum EndpointKind {
    Address(ServerAddress),
    Open(OpenEnds),
}

/// Ends that the caller opened.
pub(crate) enum OpenEnds {
    Lines { reader: Box<dyn AsyncRead + Send + Unpin>, writer: Box<dyn AsyncWrite + Send + Unpin> },
    Channels { to_server: mpsc::Sender<Bytes>, from_server: mpsc::Receiver<Bytes> },
}

impl Endpoint {
    /// Anything that carries bytes, one message a line.
    pub fn lines(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self(EndpointKind::Open(OpenEnds::Lines { reader: Box::new(reader), writer: Box::new(writer) }))
    }

    /// Channels of whole messages, for a server in the same process: the two ends that
    /// `codicil_server::connect(&server).split()` gives.
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

/// A place that can be connected to more than once.
#[derive(Clone, Debug)]
pub enum ServerAddress {
    /// A server of one's own, started for this client.
    Launch(ServerLaunch),
    /// A server that listens at `ws://` or `wss://`.
    WebSocket(WebSocket),
    /// A server that listens at a socket file.
    Unix(UnixSocket),
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

/// The file of a unix socket; one message a line.
#[derive(Clone, Debug)]
pub struct UnixSocket(pub(crate) PathBuf);

impl UnixSocket {
    /// The path of the file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }
}

/// How to start a server that speaks over its standard input and output.
///
/// It gets this process's environment and directory unless told otherwise, and leads a session of its own. It
/// ends with its client: dropping the client, ending this process and killing it all end the server and
/// what it started.
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
    pub(crate) shows_stderr: bool,
}

impl ServerLaunch {
    /// `PROGRAM app-server`; a program without a slash is looked up in `PATH`.
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Self::command([program.as_ref(), OsStr::new("app-server")])
    }

    /// Any other command.
    pub fn command<A: AsRef<OsStr>>(argv: impl IntoIterator<Item = A>) -> Self {
        let argv = argv.into_iter().map(|word| word.as_ref().to_owned()).collect();
        Self { argv, env: Vec::new(), cwd: None, shows_stderr: false }
    }

    /// Adds an argument.
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.argv.push(argument.as_ref().to_owned());
        self
    }

    /// Adds a configuration value for this server: `-c KEY=VALUE`.
    pub fn config(self, key: &str, value: impl fmt::Display) -> Self {
        self.arg("-c").arg(format!("{key}={value}"))
    }

    /// Sets a variable.
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), Some(value.as_ref().to_owned())));
        self
    }

    /// Takes a variable away.
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.env.push((name.as_ref().to_owned(), None));
        self
    }

    /// The server's own directory, where threads work that name none.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = Some(cwd.into());
        self
    }

    /// Shows what the server writes to standard error on this process's own, besides keeping the last of it. The
    /// server waits while nobody reads that.
    pub fn show_stderr(mut self) -> Self {
        self.shows_stderr = true;
        self
    }

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

/// Arguments and values may be secret: shown are the program and the names of the variables.
impl fmt::Debug for ServerLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launch")
            .field("program", &self.argv.first())
            .field("arguments", &self.argv.len().saturating_sub(1))
            .field("env", &self.env.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .field("cwd", &self.cwd)
            .finish()
    }
}

/// The address of a server that listens for websockets, and how to get in.
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
    /// `ws://HOST:PORT` or, with what the operating system trusts, `wss://HOST:PORT`.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), headers: Vec::new() }
    }

    /// Sends `Authorization: Bearer TOKEN` with the handshake.
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

/// Shows no values: headers carry credentials.
impl fmt::Debug for WebSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WebSocket")
            .field("url", &shown(&self.url))
            .field("headers", &self.headers.iter().map(|(name, _)| name).collect::<Vec<_>>())
            .finish()
    }
}

/// An address without what may be a password before an `@` or a token behind a `?`.
pub(crate) fn shown(url: &str) -> String {
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
        let all = format!("{launch:?} {:?}", Endpoint::from(socket));
        assert!(!all.contains("s3cret"), "{all}");
        assert!(all.contains("ws://host:1/path") && all.contains("API_KEY"), "{all}");
    }
}
