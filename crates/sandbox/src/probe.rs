//! Which confinement is to be had on this machine.

use std::{path::PathBuf, sync::OnceLock};

use crate::{Kind, platform::Machine};

/// What the machine offers, tried out once. It belongs to the user and the privileges it was made with.
#[derive(Clone, Debug)]
pub struct Probe {
    pub(crate) machine: Machine,
}

impl Probe {
    /// Tries everything. Starts a few processes and takes some milliseconds; blocks for so long.
    pub fn run() -> Self {
        Self { machine: Machine::probe() }
    }

    /// The findings of the first call, for the life of the process.
    pub fn cached() -> &'static Self {
        static FOUND: OnceLock<Probe> = OnceLock::new();
        FOUND.get_or_init(Self::run)
    }

    /// How commands are confined, or why they cannot be.
    pub fn kind(&self) -> Result<Kind, String> {
        self.machine.kind()
    }

    /// Where `bwrap` is, or why it is not used.
    pub fn bubblewrap(&self) -> Result<PathBuf, String> {
        self.machine.bubblewrap_path()
    }

    /// Which confinement is used and why not a better one, for people to read.
    pub fn report(&self) -> String {
        let chosen = match self.kind() {
            Ok(kind) => format!("confinement: {kind}"),
            Err(reason) => format!("confinement: none, commands are refused: {reason}"),
        };
        let lines = [chosen].into_iter().chain(self.machine.lines());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The same in one line, for a log.
    pub fn summary(&self) -> String {
        match self.kind() {
            Ok(kind) => {
                let unused = self.machine.lines().into_iter().filter(|line| line.contains(": not used: "));
                [kind.to_string()].into_iter().chain(unused).collect::<Vec<_>>().join("; ")
            }
            Err(reason) => format!("none, commands are refused: {reason}"),
        }
    }
}

#[cfg(target_os = "linux")]
impl Probe {
    /// Without bubblewrap, even if it works: the built-in confinement starts faster, with fewer namespaces.
    #[must_use]
    pub fn without_bubblewrap(mut self, reason: &str) -> Self {
        self.machine.bubblewrap = Err(reason.to_owned());
        self
    }

    /// Without a mount namespace of our own: what is left of the built-in confinement is Landlock and seccomp.
    #[must_use]
    pub fn without_namespaces(mut self, reason: &str) -> Self {
        self.machine.namespaces = Err(reason.to_owned());
        self
    }
}
