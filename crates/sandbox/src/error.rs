//! What can go wrong before and while a command is confined.

use std::{fmt, io, path::PathBuf};

/// Why a command was not run. None of these means that it ran with less than its policy asks for.
#[derive(Debug, thiserror::Error)]
pub enum SandboxError {
    /// Nothing on this machine can enforce the policy; the text says what is missing.
    #[error("commands cannot be confined here: {0}")]
    Unavailable(String),
    /// A newer peer's policy.
    #[error("sandbox policy not understood: {0}")]
    UnknownPolicy(String),
    /// Writing below it would undo the rest of the policy.
    #[error("not allowed as a writable root: {0}")]
    WritableRoot(PathBuf),
    /// Something the confinement needs could not be made ready.
    #[error("cannot prepare the sandbox: {what}: {source}")]
    Prepare { what: String, source: io::Error },
    /// The new process could not confine itself, and so did not run the command.
    #[error("the sandbox failed at {step}: {source}")]
    Step { step: SetupStep, source: io::Error },
}

impl SandboxError {
    /// Reads the error of a `spawn`: `None` if it is not the sandbox's. A child can hand back no more than a
    /// number, so its steps are packed into one, and would be shown as an unknown error.
    pub fn from_spawn(error: &io::Error) -> Option<Self> {
        let (step, errno) = SetupStep::unpack(error.raw_os_error()?)?;
        Some(Self::Step { step, source: io::Error::from_raw_os_error(errno) })
    }

    pub(crate) fn prepare(what: impl Into<String>, source: impl Into<io::Error>) -> Self {
        Self::Prepare { what: what.into(), source: source.into() }
    }
}

/// What a new process does to itself before it becomes the command, in this order.
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

    /// Error numbers end below 4096; the step goes above them.
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
            Self::Network => "opening the way to the proxy",
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
    fn a_step_survives_the_way_through_an_error_number() {
        for step in SetupStep::ALL {
            let error = SandboxError::from_spawn(&step.pack(13)).unwrap();
            let SandboxError::Step { step: read, source } = error else { panic!("{error}") };
            assert_eq!((read, source.raw_os_error()), (step, Some(13)));
        }
    }

    #[test]
    fn an_ordinary_spawn_error_is_not_the_sandbox() {
        assert!(SandboxError::from_spawn(&io::Error::from_raw_os_error(2)).is_none());
        assert!(SandboxError::from_spawn(&io::Error::other("text")).is_none());
    }
}
