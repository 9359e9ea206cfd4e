//! What to run and how: plain data, filled in by the caller.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt, io,
    path::PathBuf,
    time::Duration,
};

/// All variables of a process, name to value.
pub type ProcessEnvironment = BTreeMap<OsString, OsString>;

/// What another crate (the sandbox) does to a command.
pub struct ChildPreparation {
    /// A program with arguments that runs the command, which is appended to it; empty for none.
    pub launcher: Vec<OsString>,
    /// Variables that are set on top of the environment.
    pub env: Vec<(OsString, OsString)>,
    /// Namespaces that the command starts in, as flags of `clone`. With a process namespace, `steps` must call
    /// [`become_init`](crate::become_init).
    pub namespaces: i32,
    /// Runs between `fork` and `exec`, in a process that leads its session: it may not allocate, lock or panic.
    pub steps: Box<dyn FnMut() -> io::Result<()> + Send + Sync>,
}

/// One process to spawn.
pub struct ProcessSpec {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// Where it runs. What is relative in it is relative to the server's own directory.
    pub cwd: PathBuf,
    /// The whole environment; nothing is inherited.
    pub env: ProcessEnvironment,
    /// Where standard input comes from when there is no terminal.
    pub stdin: InputSource,
    /// The size of a terminal of its own; without one, output comes by two pipes. With one, input is always
    /// offered, and standard output and error arrive as one stream.
    pub tty: Option<TerminalSize>,
    /// After this time everything is killed and the exit is [`crate::ProcessExit::TimedOut`].
    pub timeout: Option<Duration>,
    /// What the sandbox does to the command.
    pub preparation: Option<ChildPreparation>,
}

/// Where standard input comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InputSource {
    /// `/dev/null`: reading ends at once.
    #[default]
    Null,
    /// From [`crate::Process::stdin`].
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
    /// At most so many bytes, half of them from the beginning and half from the end.
    HeadTail(usize),
    /// At most so many bytes from the beginning.
    Head(usize),
    /// Everything; the caller answers for the memory.
    Unlimited,
}

impl ProcessSpec {
    /// A process with pipes, nothing to read, no timeout and no preparation.
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

/// Arguments and values of variables may be secret: shown are the program and the names of the variables.
impl fmt::Debug for ProcessSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
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
