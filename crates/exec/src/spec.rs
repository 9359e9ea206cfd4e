//! What to run and how: plain data, filled in by the caller.

use std::{
    collections::BTreeMap,
    ffi::{OsStr, OsString},
    fmt,
    path::PathBuf,
    process::Command,
    time::Duration,
};

/// All variables of a process, name to value.
pub type Environment = BTreeMap<OsString, OsString>;

/// A step by which another crate (the sandbox) changes the command before it is spawned.
///
/// It gets the command with arguments, directory and environment in place, and may
/// - add `pre_exec` steps: they run after this crate's own, in a process that already leads its session;
/// - set or remove variables, and change the directory;
/// - replace the command as a whole (`*command = Command::new("bwrap")`). Directory and environment are carried
///   over unless set anew; nothing is ever inherited from the server. `pre_exec` steps of the new command run
///   *before* this crate's own.
///
/// What it sets for standard input, output and error is overwritten. It runs on the thread that spawns: while
/// it works, nothing else is spawned. A panic in it fails this spawn only.
pub type Prepare = Box<dyn FnOnce(&mut Command) + Send>;

/// One process to spawn.
pub struct Spec {
    /// Program and arguments. A program without a slash is looked up in the `PATH` of `env`.
    pub argv: Vec<OsString>,
    /// Where it runs. What is relative in it is relative to the server's own directory.
    pub cwd: PathBuf,
    /// The whole environment; nothing is inherited.
    pub env: Environment,
    /// Where standard input comes from when there is no terminal.
    pub stdin: Input,
    /// The size of a terminal of its own; without one, output comes by two pipes. With one, input is always
    /// offered, and standard output and error arrive as one stream.
    pub tty: Option<Size>,
    /// After this time the group is killed and the exit is [`crate::Exit::TimedOut`].
    pub timeout: Option<Duration>,
    /// Which processes end together with this one.
    pub reach: Reach,
    /// What the sandbox does to the command.
    pub prepare: Option<Prepare>,
}

/// Where standard input comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Input {
    /// `/dev/null`: reading ends at once.
    #[default]
    Null,
    /// From [`crate::Process::stdin`].
    Piped,
}

/// Which processes are killed with their owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    /// The process group that was created with the process.
    #[default]
    Group,
    /// Also the groups that programs made inside the session that was created with the process: the jobs of
    /// an interactive shell, what `timeout` or `set -m` started. Linux only; elsewhere the same as `Group`.
    Session,
}

/// The size of a terminal in character cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    pub rows: u16,
    pub cols: u16,
}

impl Default for Size {
    fn default() -> Self {
        Size { rows: 24, cols: 80 }
    }
}

/// How much of a stream [`crate::Process::capture`] keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cap {
    /// At most so many bytes, half of them from the beginning and half from the end.
    HeadTail(usize),
    /// At most so many bytes from the beginning.
    Head(usize),
    /// Everything; the caller answers for the memory.
    Unlimited,
}

impl Spec {
    /// A process with pipes, nothing to read, no timeout and no preparation.
    pub fn new<A: AsRef<OsStr>>(
        argv: impl IntoIterator<Item = A>,
        cwd: impl Into<PathBuf>,
        env: Environment,
    ) -> Spec {
        Spec {
            argv: argv.into_iter().map(|word| word.as_ref().to_owned()).collect(),
            cwd: cwd.into(),
            env,
            stdin: Input::Null,
            tty: None,
            timeout: None,
            reach: Reach::Group,
            prepare: None,
        }
    }
}

/// Arguments and values of variables may be secret: shown are the program and the names of the variables.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("program", &self.argv.first())
            .field("arguments", &self.argv.len().saturating_sub(1))
            .field("cwd", &self.cwd)
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("stdin", &self.stdin)
            .field("tty", &self.tty)
            .field("timeout", &self.timeout)
            .field("reach", &self.reach)
            .field("prepare", &self.prepare.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_neither_arguments_nor_values() {
        let env = Environment::from([("API_KEY".into(), "s3cret-value".into())]);
        let shown = format!("{:?}", Spec::new(["curl", "-HAuthorization: s3cret-arg"], "/", env));

        assert!(!shown.contains("s3cret"), "{shown}");
        assert!(shown.contains("curl") && shown.contains("API_KEY"), "{shown}");
    }
}
