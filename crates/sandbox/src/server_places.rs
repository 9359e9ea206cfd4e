//! The places of the server that confined commands cannot access, whatever their policy says: its home and its listeners.
//!
//! The home has credentials, stored threads, and the configuration that names the programs the server starts. The
//! listeners serve every client that connects. A command with access to either could leave its sandbox.

use std::{
    fs::DirBuilder,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use parking_lot::RwLock;

/// The entries of the home that commands may read: instructions and programs for agents. Other entries do not exist for
/// commands.
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

/// The server's home and its listeners. One instance per process, shared by everything that confines commands.
#[derive(Debug, Default)]
pub struct ServerPlaces {
    home: Option<PathBuf>,
    /// The home without symbolic links, once it exists.
    real_home: OnceLock<PathBuf>,
    listeners: RwLock<ListenerAddresses>,
}

/// The addresses that a server listens on. A listener is added before it accepts its first connection, and is never
/// removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListenerAddresses {
    /// Sockets in the file system: absolute paths without symbolic links.
    pub sockets: Vec<PathBuf>,
    /// TCP ports where clients need no token, including those that the system chose.
    pub open_ports: Vec<u16>,
}

impl ServerPlaces {
    pub fn new(home: &Path) -> Self {
        Self { home: Some(home.to_owned()), ..Self::default() }
    }

    /// Adds a socket in the file system that the server listens on, by its path without symbolic links. Call it before the
    /// first client is accepted.
    pub fn add_socket(&self, path: PathBuf) {
        self.listeners.write().sockets.push(path);
    }

    /// Adds a TCP port that the server listens on without a token for clients.
    pub fn add_open_port(&self, port: u16) {
        self.listeners.write().open_ports.push(port);
    }

    pub fn listeners(&self) -> ListenerAddresses {
        self.listeners.read().clone()
    }

    /// Resolves the places as they are now. Creates the home if it is missing: a command could otherwise create it and
    /// write the server's configuration.
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

/// The server's places when a command starts, without symbolic links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HiddenPlaces {
    pub home: Option<PathBuf>,
    /// The existing entries of the home that commands may read.
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

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EntryKind {
    Folder,
    File,
    /// A symbolic link with its resolved target.
    Link(PathBuf),
}

impl ReadableEntry {
    /// Returns `None` for a missing entry and for a dangling link.
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
    /// Returns whether a path without symbolic links belongs to the server. Includes the readable entries of the home.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.home.as_ref().is_some_and(|home| path.starts_with(home))
            || self.sockets.iter().any(|socket| path == socket)
    }

    /// Returns whether commands may read a path in the home.
    pub(crate) fn is_readable(&self, path: &Path) -> bool {
        let below = self.home.as_ref().and_then(|home| path.strip_prefix(home).ok());
        let first = below.and_then(|below| below.iter().next());
        first.is_some_and(|first| READABLE.iter().any(|name| first == *name))
    }
}
