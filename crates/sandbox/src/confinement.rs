//! A policy made ready for one machine and workspace, and the confined commands made from it.

use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
};

use codicil_exec::{ChildPreparation, attach_minder, attach_minder_of_thread};

use crate::{
    AccessRequest, ConfinementGap, ConfinementKind, MachineProbe, ProxyListener, ProxyPorts, ResourceLimits,
    SandboxError,
    access::{self, PolicyScope},
    platform::{Enforcement, EnforcementSteps},
};

/// The variable that marks the environment of a command without a network. Scripts look for this name, which is that of
/// the reference server.
const NETWORK_DISABLED: &str = "CODEX_SANDBOX_NETWORK_DISABLED";

/// A policy made ready for one machine and one workspace, as they are now. Cheap enough to create one for each command,
/// and callers should: the metadata to protect and the sockets to cover are looked up on creation.
#[derive(Clone, Debug)]
pub struct Confinement {
    means: ConfinementMeans,
    network: bool,
    is_proxied: bool,
    limits: ResourceLimits,
}

#[derive(Clone, Debug)]
enum ConfinementMeans {
    Unconfined,
    External,
    Enforced(Box<Enforcement>),
}

impl Confinement {
    /// Chooses how the policy is enforced. Returns an error, not a weaker confinement, if it cannot be.
    pub fn new(request: &AccessRequest<'_>, probe: &MachineProbe) -> Result<Self, SandboxError> {
        let (means, network) = match access::policy_scope(request)? {
            PolicyScope::Unconfined => (ConfinementMeans::Unconfined, true),
            PolicyScope::External { network } => (ConfinementMeans::External, network),
            PolicyScope::Confined(access) => {
                let network = access.network;
                let enforcement = Enforcement::new(access, &probe.machine)?;
                (ConfinementMeans::Enforced(Box::new(enforcement)), network)
            }
        };
        Ok(Self { means, network, is_proxied: false, limits: ResourceLimits::default() })
    }

    /// Returns no confinement, for a command that may run without. Only [`Self::with_limits`] has an effect.
    pub fn none() -> Self {
        Self {
            means: ConfinementMeans::Unconfined,
            network: true,
            is_proxied: false,
            limits: ResourceLimits::default(),
        }
    }

    /// Replaces the network by a proxy, whatever the policy says about the network: the command can connect to
    /// these ports and to nothing else, and [`PreparedConfinement::take_proxy_listener`] is the server's end.
    /// Returns an error if this cannot be enforced. An unconfined command is not changed.
    pub fn behind_proxy(mut self, ports: ProxyPorts) -> Result<Self, SandboxError> {
        if let ConfinementMeans::Enforced(enforcement) = &mut self.means {
            enforcement.behind_proxy(ports)?;
            self.network = false;
            self.is_proxied = true;
        }
        Ok(self)
    }

    /// Sets resource limits, which apply under every policy.
    #[must_use]
    pub fn with_limits(mut self, limits: ResourceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Prepares the confinement of one command: everything that can fail.
    pub fn prepare(&self) -> Result<PreparedConfinement, SandboxError> {
        let (steps, proxy_listener) = match &self.means {
            ConfinementMeans::Unconfined | ConfinementMeans::External => {
                (EnforcementSteps::unconfined(&self.limits), None)
            }
            ConfinementMeans::Enforced(enforcement) => enforcement.steps(&self.limits)?,
        };
        Ok(PreparedConfinement { steps, proxy_listener, env: self.env().collect() })
    }

    /// Confines a command that is not run by [`codicil_exec::Process`]. Everything the command starts ends with it;
    /// `lifetime` says whether it also ends with the caller.
    ///
    /// `command` should have only a program, arguments, a working directory and single environment variables. If another
    /// program does the confining, a new command replaces it, and streams, `env_clear`, process groups and `pre_exec`
    /// steps set before are lost. Set them afterwards.
    pub fn apply(&self, command: &mut Command, lifetime: CommandLifetime) -> Result<(), SandboxError> {
        self.prepare()?.apply(command, lifetime);
        Ok(())
    }

    /// Returns a command that runs confined. Add arguments, environment and streams to it as usual.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, SandboxError> {
        let mut command = Command::new(program);
        self.apply(&mut command, CommandLifetime::Own)?;
        Ok(command)
    }

    /// Returns the variables that the command's environment must have, for a caller that clears it afterwards.
    pub fn env(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        (!self.network && !self.is_proxied).then_some((NETWORK_DISABLED, "1")).into_iter()
    }

    pub fn kind(&self) -> ConfinementKind {
        match &self.means {
            ConfinementMeans::Unconfined => ConfinementKind::Unconfined,
            ConfinementMeans::External => ConfinementKind::External,
            ConfinementMeans::Enforced(enforcement) => enforcement.kind(),
        }
    }

    /// Returns whether commands have a network. A proxy does not count as one.
    pub fn network(&self) -> bool {
        self.network
    }

    /// Returns the folders that commands can write to, and the protected folders found in them. Empty if commands are not
    /// confined here.
    pub fn writable_folders(&self) -> WritableFolders {
        match &self.means {
            ConfinementMeans::Unconfined | ConfinementMeans::External => WritableFolders::default(),
            ConfinementMeans::Enforced(enforcement) => enforcement.writable_folders(),
        }
    }

    /// Returns what this confinement does not prevent. Empty if commands are not confined here.
    pub fn gaps(&self) -> Vec<ConfinementGap> {
        match &self.means {
            ConfinementMeans::Unconfined | ConfinementMeans::External => Vec::new(),
            ConfinementMeans::Enforced(enforcement) => enforcement.gaps(),
        }
    }
}

/// The folders that commands of a confinement can write to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritableFolders {
    pub roots: Vec<PathBuf>,
    /// Repository metadata and agent configuration inside the roots, which stay read-only.
    pub protected: Vec<PathBuf>,
}

/// The lifetime of a command that is run with [`Confinement::apply`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandLifetime {
    /// Until it exits.
    Own,
    /// At most until the *thread* that spawned it ends; the kernel has no such signal for a process. Spawn it from a
    /// thread that lives long enough, not from one of a pool.
    OfCaller,
}

/// A confinement with everything prepared that can fail: open files, rules, a compiled filter.
pub struct PreparedConfinement {
    steps: EnforcementSteps,
    proxy_listener: Option<ProxyListener>,
    env: Vec<(&'static str, &'static str)>,
}

impl PreparedConfinement {
    /// Takes the server's end of the connection to the proxy, if the command is behind one. Call it before
    /// [`PreparedConfinement::into_preparation`].
    pub fn take_proxy_listener(&mut self) -> Option<ProxyListener> {
        self.proxy_listener.take()
    }

    /// Converts the confinement into the steps of a spawn.
    pub fn into_preparation(self) -> ChildPreparation {
        let env = self.env.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        ChildPreparation { env: env.collect(), ..self.steps.into_preparation() }
    }

    /// Confines `command`: see [`Confinement::apply`].
    pub fn apply(self, command: &mut Command, lifetime: CommandLifetime) {
        let ChildPreparation { launcher, env, namespaces, steps } = self.into_preparation();
        launch_with(command, launcher);
        command.envs(env);
        match lifetime {
            CommandLifetime::Own => attach_minder(command, namespaces),
            CommandLifetime::OfCaller => attach_minder_of_thread(command, namespaces),
        }
        // SAFETY: the steps make only async-signal-safe calls.
        unsafe { command.pre_exec(steps) };
    }
}

/// Replaces `command` by one in which `launcher` runs it, unless `launcher` is empty. Keeps only what a [`Command`] can
/// return of itself: program, arguments, working directory and single variables.
fn launch_with(command: &mut Command, launcher: Vec<OsString>) {
    let Some((program, arguments)) = launcher.split_first() else { return };
    let mut outer = Command::new(program);
    outer.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    if let Some(directory) = command.get_current_dir() {
        outer.current_dir(directory);
    }
    *command = outer;
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_launched_command_keeps_arguments_directory_and_variables() {
        let mut command = Command::new("sh");
        command.args(["-c", "true"]).current_dir("/usr").env("A", "1").env_remove("B");
        launch_with(&mut command, vec!["/bin/outer".into(), "--".into()]);
        command.arg("last");
        assert_eq!(command.get_program(), "/bin/outer");
        assert_eq!(command.get_args().collect::<Vec<_>>(), ["--", "sh", "-c", "true", "last"]);
        assert_eq!(command.get_current_dir(), Some(Path::new("/usr")));
        let env: Vec<_> = command.get_envs().collect();
        assert_eq!(env, [("A".as_ref(), Some("1".as_ref())), ("B".as_ref(), None)]);
    }
}
