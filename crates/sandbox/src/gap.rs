//! What a confinement does not stop, so that it can be said.

use std::fmt;

/// Something that a [`Confinement`](crate::Confinement) cannot prevent, though a better one could.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfinementGap {
    /// Mode, owner, times and extended attributes of files outside, as far as file permissions go.
    FileAttributes,
    /// Programs outside that listen on a socket in the file system.
    Sockets,
    /// Programs outside that listen on a socket in the abstract namespace.
    AbstractSockets,
    /// Named pipes that programs outside read from.
    Pipes,
    /// System V memory, queues and semaphores of the user's other processes.
    Ipc,
    /// Signals to the user's other processes.
    Signals,
    /// Reading from the user's other terminals.
    Terminals,
    /// Protected names that are not there yet.
    NewMetadata,
    /// Protected names that are symbolic links.
    LinkedMetadata,
    /// Repositories deeper down than was looked.
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
