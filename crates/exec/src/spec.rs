//! The description of a process to spawn: plain data, filled in by the caller.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt, io,
    path::PathBuf,
    time::Duration,
};

/// The environment variables of a process, by name.
pub type ProcessEnvironment = BTreeMap<OsString, OsString>;

/// The changes that another crate (the sandbox) makes to a command before it runs.
pub struct ChildPreparation {
    /// A program and its arguments that run the command, which is appended to them. Empty to run the command directly.
    pub launcher: Vec<OsString>,
    /// Variables to set in addition to the environment.
    pub env: Vec<(OsString, OsString)>,
    /// The new namespaces that the command starts in, as flags of `clone`. With a PID namespace, `steps` must call
    /// [`become_init`](crate::become_init).
    pub namespaces: i32,
    /// Steps that run between `fork` and `exec`, in a process that leads its session. They must not allocate, lock or
    /// panic.
    pub steps: Box<dyn FnMut() -> io::Result<()> + Send + Sync>,
}

/// A process to spawn.
pub struct ProcessSpec {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// The working directory. A relative path is relative to the server's own working directory.
    pub cwd: PathBuf,
    /// The complete environment; nothing is inherited.
    pub env: ProcessEnvironment,
    /// The source of standard input. Ignored with a terminal.
    pub stdin: InputSource,
    /// The size of the command's own terminal, or `None` for two output pipes. A terminal always has input, and
    /// standard output and error arrive as one stream.
    pub tty: Option<TerminalSize>,
    /// The time after which the command and everything it started is killed. The exit is then
    /// [`crate::ProcessExit::TimedOut`].
    pub timeout: Option<Duration>,
    /// The sandbox's changes to the command.
    pub preparation: Option<ChildPreparation>,
}

/// The source of standard input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputSource {
    /// `/dev/null`.
    #[default]
    Null,
    /// A pipe, written through [`crate::Process::stdin`].
    Piped,
}

/// The size of a terminal in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminalSize {
    pub rows: u16,
    pub cols: u16,
}

impl Default for TerminalSize {
    fn default() -> Self {
        TerminalSize { rows: 24, cols: 80 }
    }
}

/// How much of a stream [`crate::Process::capture`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureLimit {
    /// At most this many bytes, half of them from the beginning and half from the end.
    HeadTail(usize),
    /// At most this many bytes from the beginning.
    Head(usize),
    /// Everything. Memory use is then bounded by the command's output alone.
    Unlimited,
}

impl ProcessSpec {
    /// Returns a process with output pipes, empty input, no timeout and no preparation.
    pub fn new<A: AsRef<OsStr>>(
        argv: impl IntoIterator<Item = A>,
        cwd: impl Into<PathBuf>,
        env: ProcessEnvironment,
    ) -> ProcessSpec {
        ProcessSpec {
            argv: argv.into_iter().map(|word| word.as_ref().to_owned()).collect(),
            cwd: cwd.into(),
            env,
            stdin: InputSource::Null,
            tty: None,
            timeout: None,
            preparation: None,
        }
    }
}

/// Prints the program and the names of the variables. Arguments and values may be secret.
impl fmt::Debug for ProcessSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessSpec")
            .field("program", &self.argv.first())
            .field("arguments", &self.argv.len().saturating_sub(1))
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("stdin", &self.stdin)
            .field("tty", &self.tty)
            .field("timeout", &self.timeout)
            .field("preparation", &self.preparation.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_arguments_nor_values() {
        let env = ProcessEnvironment::from([("API_KEY".into(), "s3cret-value".into())]);
        let shown = format!("{:?}", ProcessSpec::new(["curl", "-HAuthorization: s3cret-arg"], "/", env));

        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("curl") && shown.contains("API_KEY"), "{shown}");
    }
}
