//! Which confinement is to be had on this machine.

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
};

use codicil_protocol::{ReadOnlyAccess, SandboxPolicy};

use crate::{
    AccessRequest, CommandLifetime, Confinement, ConfinementKind, RootCache, SandboxError, SandboxGrants,
    ServerPlaces, platform::MachineSupport,
};

/// A program that is not there. A child that gets as far as looking for it has confined itself.
pub(crate) const NOWHERE: &str = "/proc/self/no-such-program";

/// What the machine offers, tried out once. It belongs to the user and the privileges it was made with.
#[derive(Clone, Debug)]
pub struct MachineProbe {
    pub(crate) machine: MachineSupport,
}

impl MachineProbe {
    /// Tries everything. Starts a few processes and takes some milliseconds; blocks for so long.
    pub fn run() -> Self {
        Self { machine: MachineSupport::probe() }
    }

    /// The findings of the first call, for the life of the process.
    pub fn cached() -> &'static Self {
        static FOUND: OnceLock<MachineProbe> = OnceLock::new();
        FOUND.get_or_init(Self::run)
    }

    /// How commands are confined, or why they cannot be.
    pub fn kind(&self) -> Result<ConfinementKind, String> {
        self.machine.kind()
    }

    /// Tries whether commands can be put [behind a proxy](Confinement::behind_proxy). Starts a process and blocks
    /// until it has ended.
    pub fn proxy(&self) -> Result<(), SandboxError> {
        let request = AccessRequest {
            policy: &SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false },
            workspace: Path::new("/"),
            grants: &SandboxGrants::default(),
            roots: &RootCache::default(),
            server: &ServerPlaces::default(),
        };
        let mut prepared = Confinement::new(&request, self)?.behind_proxy()?.prepare()?;
        let door = prepared.take_door();
        let mut command = Command::new(NOWHERE);
        prepared.apply(&mut command, CommandLifetime::Own);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failed = |error| SandboxError::prepare("the way to the proxy", error);
        match command.spawn() {
            // Another program does the confining, and does not find this one either.
            Ok(mut process) => drop(process.wait()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(SandboxError::from_spawn(&error).unwrap_or_else(|| failed(error))),
        }
        // It holds the command's end, without which the door tells at once that nothing came.
        drop(command);
        door.map_or(Ok(()), |door| door.open().map(drop).map_err(failed))
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
impl MachineProbe {
    /// With bubblewrap, if it works, also where the built-in confinement is better.
    #[must_use]
    pub fn preferring_bubblewrap(mut self) -> Self {
        self.machine.prefers_bubblewrap = true;
        self
    }

    /// Without bubblewrap, even if it works.
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
