//! Probes which confinement this machine supports.

use std::{
    io,
    path::Path,
    process::{Command, Stdio},
    sync::OnceLock,
};

use codicil_protocol::{ReadOnlyAccess, SandboxPolicy};

use crate::{
    AccessRequest, CommandLifetime, Confinement, ConfinementKind, ProxyPorts, RootCache, SandboxError,
    SandboxGrants, ServerPlaces, platform::MachineSupport,
};

/// A program that does not exist. A child whose `exec` fails because of that has confined itself before.
pub(crate) const MISSING_PROGRAM: &str = "/proc/self/no-such-program";

/// The means of confinement that work on this machine. Valid for the user and the privileges of the probe.
#[derive(Clone, Debug)]
pub struct MachineProbe {
    pub(crate) machine: MachineSupport,
}

impl MachineProbe {
    /// Tries all means. Starts a few processes and blocks for some milliseconds.
    pub fn run() -> Self {
        Self { machine: MachineSupport::probe() }
    }

    /// Returns the result of the first probe of this process.
    pub fn cached() -> &'static Self {
        static FOUND: OnceLock<MachineProbe> = OnceLock::new();
        FOUND.get_or_init(Self::run)
    }

    /// Returns how commands are confined, or why they cannot be.
    pub fn kind(&self) -> Result<ConfinementKind, String> {
        self.machine.kind()
    }

    /// Tries to put a command [behind a proxy](Confinement::behind_proxy). Starts a process and blocks until it has
    /// exited.
    pub fn proxy(&self) -> Result<(), SandboxError> {
        let request = AccessRequest {
            policy: &SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false },
            workspace: Path::new("/"),
            grants: &SandboxGrants::default(),
            roots: &RootCache::default(),
            server: &ServerPlaces::default(),
        };
        let mut prepared = Confinement::new(&request, self)?.behind_proxy(ProxyPorts::DEFAULT)?.prepare()?;
        let proxy_listener = prepared.take_proxy_listener();
        let mut command = Command::new(MISSING_PROGRAM);
        prepared.apply(&mut command, CommandLifetime::Own);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let failed = |error| SandboxError::prepare("the connection to the proxy", error);
        match command.spawn() {
            // Another program does the confining, and fails to find this program.
            Ok(mut process) => drop(process.wait()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(SandboxError::from_spawn(&error).unwrap_or_else(|| failed(error))),
        }
        // The command holds the sending end. Once it is closed, receiving fails at once if nothing was sent.
        drop(command);
        match proxy_listener {
            Some(listener) => listener.open().map(drop).map_err(failed),
            None => Ok(()),
        }
    }

    /// Returns how commands are confined, or a text with the reason why they are refused.
    pub fn verdict(&self) -> Result<String, String> {
        self.kind()
            .map(|kind| kind.to_string())
            .map_err(|reason| format!("none, so commands are refused: {reason}"))
    }

    /// Returns the means of this machine, one per line, and the gaps of the confinement.
    pub fn details(&self) -> Vec<String> {
        self.machine.lines()
    }

    /// Returns a text with the confinement, the means of this machine and its gaps.
    pub fn report(&self) -> String {
        let chosen = match self.kind() {
            Ok(kind) => format!("confinement: {kind}"),
            Err(reason) => format!("confinement: none, commands are refused: {reason}"),
        };
        let lines = [chosen].into_iter().chain(self.details());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// Returns the confinement and the unused means in one line, for a log.
    pub fn summary(&self) -> String {
        match self.kind() {
            Ok(kind) => {
                let unused = self.details().into_iter().filter(|line| line.contains(": not used: "));
                [kind.to_string()].into_iter().chain(unused).collect::<Vec<_>>().join("; ")
            }
            Err(reason) => format!("none, commands are refused: {reason}"),
        }
    }
}

#[cfg(target_os = "linux")]
impl MachineProbe {
    /// Uses bubblewrap if it works, even where the built-in confinement is better.
    #[must_use]
    pub fn preferring_bubblewrap(mut self) -> Self {
        self.machine.prefers_bubblewrap = true;
        self
    }

    /// Does not use bubblewrap.
    #[must_use]
    pub fn without_bubblewrap(mut self, reason: &str) -> Self {
        self.machine.bubblewrap = Err(reason.to_owned());
        self
    }

    /// Does not use namespaces of its own: the built-in confinement is then Landlock and seccomp alone.
    #[must_use]
    pub fn without_namespaces(mut self, reason: &str) -> Self {
        self.machine.namespaces = Err(reason.to_owned());
        self
    }
}
