//! The ways to confine a command.

use std::fmt;

/// How a command is confined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfinementKind {
    /// The policy asks for none.
    Unconfined,
    /// By whoever started the server, who said so; nothing is added here.
    External,
    /// The `bwrap` program builds namespaces; the seccomp filter is ours.
    Bubblewrap,
    /// Landlock and seccomp, in a mount namespace that is read-only outside the writable roots.
    LandlockView,
    /// Landlock and seccomp alone, where namespaces are not to be had.
    Landlock,
    /// The sandbox of macOS.
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
