//! Errors of confining a command.

use std::{fmt, io, path::PathBuf};

/// Why a command was not run. After each of these errors the command has not run at all.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// No means on this machine can enforce the policy. The text names what is missing.
    #[error("commands cannot be confined here: {0}")]
    Unavailable(String),
    /// The policy of a newer client.
    #[error("sandbox policy not understood: {0}")]
    UnknownPolicy(String),
    /// A writable root that would undo the rest of the policy.
    #[error("not allowed as a writable root: {0}")]
    WritableRoot(PathBuf),
    /// The server could not prepare something that the confinement needs.
    #[error("cannot prepare the sandbox: {what}: {source}")]
    Prepare { what: String, source: io::Error },
    /// The new process could not confine itself and has not run the command.
    #[error("the sandbox failed at {step}: {source}")]
    Step { step: SetupStep, source: io::Error },
}

impl SandboxError {
    /// Decodes the error of a `spawn`. Returns `None` if it does not come from the sandbox. A child can return only a
    /// number, so the failed step is packed into it; undecoded, it would be displayed as an unknown error.
    pub fn from_spawn(error: &io::Error) -> Option<Self> {
        let (step, errno) = SetupStep::unpack(error.raw_os_error()?)?;
        Some(Self::Step { step, source: io::Error::from_raw_os_error(errno) })
    }

    pub(crate) fn prepare(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Prepare { what: what.into(), source: source.into() }
    }
}

/// The steps by which a new process confines itself before it becomes the command, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum SetupStep {
    Namespaces = 1,
    View,
    WritableRoot,
    Metadata,
    Home,
    Sockets,
    Devices,
    WorkingDirectory,
    Network,
    Capabilities,
    Files,
    Limits,
    Landlock,
    Seccomp,
}

impl SetupStep {
    const ALL: [Self; 14] = [
        Self::Namespaces,
        Self::View,
        Self::WritableRoot,
        Self::Metadata,
        Self::Home,
        Self::Sockets,
        Self::Devices,
        Self::WorkingDirectory,
        Self::Network,
        Self::Capabilities,
        Self::Files,
        Self::Limits,
        Self::Landlock,
        Self::Seccomp,
    ];

    /// Packs the step above the error number, which is below 4096.
    #[cfg_attr(not(target_os = "linux"), allow(dead_code))]
    pub(crate) fn pack(self, errno: i32) -> io::Error {
        io::Error::from_raw_os_error(((self as i32) << 16) | (errno & 0xfff))
    }

    fn unpack(code: i32) -> Option<(Self, i32)> {
        let step = Self::ALL.into_iter().find(|step| *step as i32 == code >> 16)?;
        Some((step, code & 0xffff))
    }
}

impl fmt::Display for SetupStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Namespaces => "creating namespaces",
            Self::Network => "opening the listeners for the proxy",
            Self::View => "making the file system read-only",
            Self::WritableRoot => "opening a writable root",
            Self::Metadata => "protecting repository metadata",
            Self::Home => "hiding the server's home",
            Self::Sockets => "covering sockets",
            Self::Devices => "mounting private devices",
            Self::WorkingDirectory => "returning to the working directory",
            Self::Capabilities => "dropping capabilities",
            Self::Files => "closing files",
            Self::Limits => "setting resource limits",
            Self::Landlock => "entering the Landlock domain",
            Self::Seccomp => "installing the seccomp filter",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_packed_and_unpacked() {
        for step in SetupStep::ALL {
            let error = SandboxError::from_spawn(&step.pack(13)).unwrap();
            let SandboxError::Step { step: unpacked, source } = error else { panic!("{error}") };
            assert_eq!((unpacked, source.raw_os_error()), (step, Some(13)));
        }
    }

    #[test]
    fn an_ordinary_spawn_error_is_not_from_the_sandbox() {
        assert!(SandboxError::from_spawn(&io::Error::from_raw_os_error(2)).is_none());
        assert!(SandboxError::from_spawn(&io::Error::other("text")).is_none());
    }
}
