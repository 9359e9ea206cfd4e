//! What belongs to the server itself and is out of reach for confined commands, whatever their policy says.
//!
//! The home holds credentials, stored threads and the configuration that says which programs the server starts. Its
//! listeners obey every client that connects. A command that reaches either has left its sandbox.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::{PoisonError, RwLock},
};

/// What of the home commands may read: instructions and programs that are meant for agents. The rest of the home does
/// not exist for them.
const READABLE: [&str; 8] = [
    "AGENTS.md",
    "AGENTS.override.md",
    "generated_images",
    "memories",
    "plugins",
    "prompts",
    "skills",
    "worktrees",
];

/// The server's home and its listeners. One per process, shared by everything that confines commands.
#[derive(Debug, Default)]
pub struct ServerPlaces {
    home: Option<PathBuf>,
    listeners: RwLock<ListenerAddresses>,
}

/// Where a server listens. A listener is added before it accepts its first connection, and stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerAddresses {
    /// Sockets in the file system: absolute paths without links.
    pub sockets: Vec<PathBuf>,
    /// TCP ports where clients need no token, those that the system chose included.
    pub open_ports: Vec<u16>,
}

impl ServerPlaces {
    /// The places of a server with this home.
    pub fn new(home: &Path) -> Self {
        Self { home: Some(home.to_owned()), listeners: RwLock::default() }
    }

    /// Adds a socket in the file system that the server listens on. Call it before the first client is accepted.
    pub fn add_socket(&self, path: PathBuf) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).sockets.push(path);
    }

    /// Adds a TCP port that the server listens on without asking clients for a token.
    pub fn add_open_port(&self, port: u16) {
        self.listeners.write().unwrap_or_else(PoisonError::into_inner).open_ports.push(port);
    }

    /// What the server listens on now.
    pub fn listeners(&self) -> ListenerAddresses {
        self.listeners.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The places as they are now, free of links. Makes the home if it is missing: a command could otherwise make it
    /// and write the server's configuration.
    pub(crate) fn resolve(&self) -> HiddenPlaces {
        let real = |path: &PathBuf| path.canonicalize().ok();
        let make = |home: &PathBuf| {
            let made = DirBuilder::new().recursive(true).mode(0o700).create(home);
            made.ok().and_then(|()| real(home))
        };
        let ListenerAddresses { sockets, open_ports } = self.listeners();
        HiddenPlaces {
            home: self.home.as_ref().and_then(|home| real(home).or_else(|| make(home))),
            sockets: sockets.iter().filter_map(real).collect(),
            ports: open_ports,
        }
    }
}

/// The server's places at the moment when a command starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HiddenPlaces {
    pub home: Option<PathBuf>,
    pub sockets: Vec<PathBuf>,
    pub ports: Vec<u16>,
}

impl HiddenPlaces {
    /// Entries of the home that commands may read, as far as they exist.
    pub(crate) fn readable(&self) -> Vec<PathBuf> {
        let entries = self.home.iter().flat_map(|home| READABLE.map(|name| home.join(name)));
        entries.filter(|path| path.symlink_metadata().is_ok()).collect()
    }

    /// Whether a path, free of links, belongs to the server. Readable entries of the home are not meant.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.home.as_ref().is_some_and(|home| path.starts_with(home))
            || self.sockets.iter().any(|socket| path == socket)
    }

    /// Whether a path in the home may be read by commands.
    pub(crate) fn is_readable(&self, path: &Path) -> bool {
        let below = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
        let first = below.and_then(|below| below.iter().next());
        first.is_some_and(|first| READABLE.iter().any(|name| first == *name))
    }
}
