//! What belongs to the server itself and is out of reach for confined commands, whatever their policy says.
//!
//! The home holds credentials, stored threads and the configuration that says which programs the server starts. Its
//! listeners obey every client that connects. A command that reaches either has left its sandbox.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use parking_lot::RwLock;

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
    /// The home free of links, once it exists.
    real_home: OnceLock<PathBuf>,
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
        Self { home: Some(home.to_owned()), ..Self::default() }
    }

    /// Adds a socket in the file system that the server listens on, by its path without links. Call it before the first client is accepted.
    pub fn add_socket(&self, path: PathBuf) {
        self.listeners.write().sockets.push(path);
    }

    /// Adds a TCP port that the server listens on without asking clients for a token.
    pub fn add_open_port(&self, port: u16) {
        self.listeners.write().open_ports.push(port);
    }

    /// What the server listens on now.
    pub fn listeners(&self) -> ListenerAddresses {
        self.listeners.read().clone()
    }

    /// The places as they are now, free of links. Makes the home if it is missing: a command could otherwise make it
    /// and write the server's configuration.
    pub(crate) fn resolve(&self) -> HiddenPlaces {
        let home = self.real_home();
        let entries = home.iter().flat_map(|home| READABLE.map(|name| home.join(name)));
        let ListenerAddresses { sockets, open_ports } = self.listeners();
        HiddenPlaces {
            readable: entries.filter_map(ReadableEntry::of).collect(),
            home,
            sockets,
            ports: open_ports,
        }
    }

    fn real_home(&self) -> Option<PathBuf> {
        if let Some(home) = self.real_home.get() {
            return Some(home.clone());
        }
        let home = self.home.as_ref()?;
        DirBuilder::new().recursive(true).mode(0o700).create(home).ok()?;
        let real = home.canonicalize().ok()?;
        Some(self.real_home.get_or_init(|| real).clone())
    }
}

/// The server's places at the moment when a command starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HiddenPlaces {
    pub home: Option<PathBuf>,
    /// Entries of the home that commands may read, as far as they exist.
    pub readable: Vec<ReadableEntry>,
    pub sockets: Vec<PathBuf>,
    pub ports: Vec<u16>,
}

/// An entry of the home that commands may read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReadableEntry {
    pub path: PathBuf,
    pub kind: EntryKind,
}

/// What such an entry is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Folder,
    File,
    /// A link, with where it leads.
    Link(PathBuf),
}

impl ReadableEntry {
    /// `None` for what does not exist, and for a link that leads nowhere.
    fn of(path: PathBuf) -> Option<Self> {
        let kind = match path.symlink_metadata().ok()?.file_type() {
            kind if kind.is_symlink() => EntryKind::Link(path.canonicalize().ok()?),
            kind if kind.is_dir() => EntryKind::Folder,
            _ => EntryKind::File,
        };
        Some(Self { path, kind })
    }
}

impl HiddenPlaces {
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
