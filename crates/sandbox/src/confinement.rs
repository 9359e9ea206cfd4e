//! From a policy to a confined command.

use std::{
    ffi::{OsStr, OsString},
    os::unix::process::CommandExt,
    path::PathBuf,
    process::Command,
};

use codicil_exec::{ChildPreparation, attach_minder};

use crate::{
    AccessRequest, ConfinementGap, ConfinementKind, MachineProbe, ProxyListener, ResourceLimits,
    SandboxError,
    access::{self, PolicyScope},
    platform::{Enforcement, EnforcementSteps},
    wrap::wrap,
};

/// Tells a command that it has no network. The name is the reference server's; scripts look for it.
const NETWORK_DISABLED: &str = "CODEX_SANDBOX_NETWORK_DISABLED";

/// A policy made ready for one machine and one workspace, as they are now. Cheap enough to be made for each command,
/// which is best: what is protected and covered is looked up when it is made.
#[derive(Clone, Debug)]
pub struct Confinement {
    means: ConfinementMeans,
    network: bool,
    proxied: bool,
    limits: ResourceLimits,
}

#[derive(Clone, Debug)]
enum ConfinementMeans {
    Unconfined,
    External,
    Enforced(Box<Enforcement>),
}

impl Confinement {
    /// Finds out how the policy can be enforced. It is an error, not a weaker confinement, if it cannot.
    pub fn new(request: &AccessRequest<'_>, probe: &MachineProbe) -> Result<Self, SandboxError> {
        let (means, network) = match access::scope(request)? {
            PolicyScope::Unconfined => (ConfinementMeans::Unconfined, true),
            PolicyScope::External { network } => (ConfinementMeans::External, network),
            PolicyScope::Confined(access) => {
                let network = access.network;
                let enforcement = Enforcement::new(access, &probe.machine)?;
                (ConfinementMeans::Enforced(Box::new(enforcement)), network)
            }
        };
        Ok(Self { means, network, proxied: false, limits: ResourceLimits::default() })
    }

    /// No confinement, for a command that was let out of it: what is left is [`Self::with_limits`].
    pub fn none() -> Self {
        Self {
            means: ConfinementMeans::Unconfined,
            network: true,
            proxied: false,
            limits: ResourceLimits::default(),
        }
    }

    /// Leaves of the network only a proxy, whatever the policy says of it: the command reaches
    /// [`PROXY`](crate::PROXY) and nothing else, and [`PreparedConfinement::take_door`] is where that leads. It is an error
    /// where this cannot be enforced. A command that is not confined is left as it is.
    pub fn behind_proxy(mut self) -> Result<Self, SandboxError> {
        if let ConfinementMeans::Enforced(enforcement) = &mut self.means {
            enforcement.behind_proxy()?;
            (self.network, self.proxied) = (false, true);
        }
        Ok(self)
    }

    /// Puts ceilings on what the command uses. They hold under every policy.
    #[must_use]
    pub fn with_limits(mut self, limits: ResourceLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Does all that can fail, for one command.
    pub fn prepare(&self) -> Result<PreparedConfinement, SandboxError> {
        let (steps, door) = match &self.means {
            ConfinementMeans::Unconfined | ConfinementMeans::External => {
                (EnforcementSteps::unconfined(&self.limits), None)
            }
            ConfinementMeans::Enforced(enforcement) => enforcement.steps(&self.limits)?,
        };
        Ok(PreparedConfinement { steps, door, env: self.env().collect() })
    }

    /// Confines `command`, which should hold no more than program, arguments, directory and single environment
    /// variables: where another program does the confining, a new command takes its place, and streams, `env_clear`,
    /// process groups and `pre_exec` steps set before are lost. Set them afterwards. What the command starts ends
    /// with it; `lifetime` says whether it also ends with the caller. For a command that is not run by
    /// [`codicil_exec::Process`].
    pub fn apply(&self, command: &mut Command, lifetime: CommandLifetime) -> Result<(), SandboxError> {
        self.prepare()?.apply(command, lifetime);
        Ok(())
    }

    /// A command that will run confined. Add arguments, environment, streams and the rest as usual.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, SandboxError> {
        let mut command = Command::new(program);
        self.apply(&mut command, CommandLifetime::Own)?;
        Ok(command)
    }

    /// What the command's environment must say, for a caller that clears it afterwards.
    pub fn env(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        (!self.network && !self.proxied).then_some((NETWORK_DISABLED, "1")).into_iter()
    }

    /// How commands are confined.
    pub fn kind(&self) -> ConfinementKind {
        match &self.means {
            ConfinementMeans::Unconfined => ConfinementKind::Unconfined,
            ConfinementMeans::External => ConfinementKind::External,
            ConfinementMeans::Enforced(enforcement) => enforcement.kind(),
        }
    }

    /// Whether commands have a network. One behind a proxy does not count.
    pub fn network(&self) -> bool {
        self.network
    }

    /// The folders that commands can write to, and the protected ones in them that were found. Empty where nothing is
    /// confined.
    pub fn writable_folders(&self) -> WritableFolders {
        match &self.means {
            ConfinementMeans::Unconfined | ConfinementMeans::External => WritableFolders::default(),
            ConfinementMeans::Enforced(enforcement) => enforcement.writable_folders(),
        }
    }

    /// What this confinement does not stop. Empty where none was asked for.
    pub fn gaps(&self) -> Vec<ConfinementGap> {
        match &self.means {
            ConfinementMeans::Unconfined | ConfinementMeans::External => Vec::new(),
            ConfinementMeans::Enforced(enforcement) => enforcement.gaps(),
        }
    }
}

/// Where the commands of a confinement can write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WritableFolders {
    pub roots: Vec<PathBuf>,
    /// Repository metadata and configuration of agents in them, which stay read-only.
    pub protected: Vec<PathBuf>,
}

/// When a command that is run with [`Confinement::apply`] ends, at the latest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandLifetime {
    /// By itself.
    Own,
    /// With the thread that spawns it; the kernel knows no other parent. So spawn from a thread that lives long
    /// enough, and not from one of a pool.
    OfCaller,
}

/// A confinement with everything made ready that can fail: open files, rules, a compiled filter.
pub struct PreparedConfinement {
    steps: EnforcementSteps,
    door: Option<ProxyListener>,
    env: Vec<(&'static str, &'static str)>,
}

impl PreparedConfinement {
    /// The way from the command to a proxy, if it is behind one. Take it before [`PreparedConfinement::into_preparation`].
    pub fn take_door(&mut self) -> Option<ProxyListener> {
        self.door.take()
    }

    /// What a spawn has to do for the confinement.
    pub fn into_preparation(self) -> ChildPreparation {
        let env = self.env.into_iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        ChildPreparation { env: env.collect(), ..self.steps.into_preparation() }
    }
    /// Confines `command`: see [`Confinement::apply`].
    pub fn apply(self, command: &mut Command, lifetime: CommandLifetime) {
        let ChildPreparation { launcher, env, namespaces, steps } = self.into_preparation();
        wrap(command, launcher);
        command.envs(env);
        attach_minder(command, namespaces, lifetime == CommandLifetime::OfCaller);
        // SAFETY: the steps make only async-signal-safe calls.
        unsafe { command.pre_exec(steps) };
    }
}
