//! The kinds of confinement, and the gaps that each may have.

use std::fmt;

/// How a command is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfinementKind {
    /// Not at all: the policy demands none.
    Unconfined,
    /// By the environment that the server runs in, as the policy declares. Nothing is enforced here.
    External,
    /// By namespaces that the `bwrap` program creates, and a seccomp filter of this crate.
    Bubblewrap,
    /// By Landlock and seccomp, in a mount namespace that is read-only outside the writable roots.
    LandlockView,
    /// By Landlock and seccomp alone, where namespaces are not available.
    Landlock,
    /// By the sandbox of macOS.
    Seatbelt,
}

impl fmt::Display for ConfinementKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unconfined => "no confinement",
            Self::External => "confinement left to the server's environment",
            Self::Bubblewrap => "bubblewrap and seccomp",
            Self::LandlockView => "Landlock and seccomp in a private mount namespace",
            Self::Landlock => "Landlock and seccomp",
            Self::Seatbelt => "Seatbelt",
        })
    }
}

/// Something that a [`Confinement`](crate::Confinement) does not prevent, although another kind or a newer kernel could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfinementGap {
    /// Changes to mode, owner, times and extended attributes of files outside, within their permissions.
    FileAttributes,
    /// Connections to programs outside that listen on a socket in the file system.
    Sockets,
    /// Connections to programs outside that listen on an abstract socket.
    AbstractSockets,
    /// Writes to named pipes that programs outside read from.
    Pipes,
    /// Use of System V memory, queues and semaphores of the user's other processes.
    Ipc,
    /// Signals to the user's other processes.
    Signals,
    /// Reads from the user's other terminals.
    Terminals,
    /// Creation of protected names that do not exist yet.
    NewMetadata,
    /// Replacement of protected names that are symbolic links.
    LinkedMetadata,
    /// Writes to the metadata of repositories below the searched depth.
    DeepRepositories,
}

impl fmt::Display for ConfinementGap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::FileAttributes => "modes, owners and times of files outside can be changed by their owner",
            Self::Sockets => "sockets of other programs can be connected to",
            Self::AbstractSockets => "abstract sockets of other programs can be connected to",
            Self::Pipes => "named pipes of other programs can be written to",
            Self::Ipc => "System V memory, queues and semaphores of the same user can be used",
            Self::Signals => "other processes of the same user can be signalled",
            Self::Terminals => "other terminals of the same user can be read",
            Self::NewMetadata => "protected names can be created where there are none",
            Self::LinkedMetadata => "a protected name that is a symbolic link can be replaced",
            Self::DeepRepositories => "not every folder was searched for nested repositories",
        })
    }
}
