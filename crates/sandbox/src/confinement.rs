//! From a policy to a confined command.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    process::Command,
};

use codicil_protocol::SandboxPolicy;

use crate::{
    Door, Gap, Grants, Kind, Limits, Probe, SandboxError,
    access::{self, Scope},
    platform::{Enforcement, Steps},
};

/// Tells a command that it has no network. The name is the reference server's; scripts look for it.
const NETWORK_DISABLED: &str = "CODEX_SANDBOX_NETWORK_DISABLED";

/// A policy made ready for one machine and one working directory, as they are now. Cheap enough to be
/// made for each command, which is best: what is protected and covered is looked up when it is made.
#[derive(Clone, Debug)]
pub struct Confinement {
    means: Means,
    network: bool,
    proxied: bool,
    limits: Limits,
    dies_with_parent: bool,
}

#[derive(Clone, Debug)]
enum Means {
    Unconfined,
    External,
    Enforced(Box<Enforcement>),
}

impl Confinement {
    /// Finds out how `policy` can be enforced for commands that work in `cwd`. It is an error, not a weaker
    /// confinement, if it cannot.
    pub fn new(
        policy: &SandboxPolicy,
        cwd: &Path,
        grants: &Grants,
        probe: &Probe,
    ) -> Result<Self, SandboxError> {
        let (means, network) = match access::scope(policy, cwd, grants)? {
            Scope::Unconfined => (Means::Unconfined, true),
            Scope::External { network } => (Means::External, network),
            Scope::Confined(access) => {
                let network = access.network;
                let enforcement = Enforcement::new(access, &probe.machine)?;
                (Means::Enforced(Box::new(enforcement)), network)
            }
        };
        Ok(Self { means, network, proxied: false, limits: Limits::default(), dies_with_parent: false })
    }

    /// No confinement, for a command that was let out of it: what is left is [`Self::with_limits`].
    pub fn none() -> Self {
        let limits = Limits::default();
        Self { means: Means::Unconfined, network: true, proxied: false, limits, dies_with_parent: false }
    }

    /// Leaves of the network only a proxy, whatever the policy says of it: the command reaches
    /// [`PROXY`](crate::PROXY) and nothing else, and [`Prepared::take_door`] is where that leads. It is an error
    /// where this cannot be enforced. A command that is not confined is left as it is.
    pub fn behind_proxy(mut self) -> Result<Self, SandboxError> {
        if let Means::Enforced(enforcement) = &mut self.means {
            enforcement.behind_proxy()?;
            (self.network, self.proxied) = (false, true);
        }
        Ok(self)
    }

    /// Puts ceilings on what the command uses. They hold under every policy.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Kills the command when the *thread* that spawns it ends; the kernel knows no other parent. So spawn from
    /// a thread that lives long enough, and not from one of a pool. Linux only.
    #[must_use]
    pub fn dying_with_parent(mut self) -> Self {
        self.dies_with_parent = true;
        self
    }

    /// Does all that can fail, for one command.
    pub fn prepare(&self) -> Result<Prepared, SandboxError> {
        let (steps, door) = match &self.means {
            Means::Unconfined | Means::External => {
                (Steps::unconfined(&self.limits, self.dies_with_parent), None)
            }
            Means::Enforced(enforcement) => enforcement.steps(&self.limits, self.dies_with_parent)?,
        };
        Ok(Prepared { steps, door, env: self.env().collect() })
    }

    /// Confines `command`: see [`Prepared::apply`] for what it may already hold.
    pub fn apply(&self, command: &mut Command) -> Result<(), SandboxError> {
        self.prepare()?.apply(command);
        Ok(())
    }

    /// A command that will run confined. Add arguments, environment, streams and the rest as usual.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Result<Command, SandboxError> {
        let mut command = Command::new(program);
        self.apply(&mut command)?;
        Ok(command)
    }

    /// What the command's environment must say, for a caller that clears it afterwards.
    pub fn env(&self) -> impl Iterator<Item = (&'static str, &'static str)> + use<> {
        (!self.network && !self.proxied).then_some((NETWORK_DISABLED, "1")).into_iter()
    }

    /// How commands are confined.
    pub fn kind(&self) -> Kind {
        match &self.means {
            Means::Unconfined => Kind::Unconfined,
            Means::External => Kind::External,
            Means::Enforced(enforcement) => enforcement.kind(),
        }
    }

    /// Whether commands have a network. One behind a proxy does not count.
    pub fn network(&self) -> bool {
        self.network
    }

    /// What this confinement does not stop. Empty where none was asked for.
    pub fn gaps(&self) -> Vec<Gap> {
        match &self.means {
            Means::Unconfined | Means::External => Vec::new(),
            Means::Enforced(enforcement) => enforcement.gaps(),
        }
    }

    /// Protected names that did not exist when this was made and exist now. Whoever made them, git and agents
    /// will obey what is in them; the user should be told. Searches the writable roots again.
    pub fn appeared(&self) -> Vec<PathBuf> {
        match &self.means {
            Means::Unconfined | Means::External => Vec::new(),
            Means::Enforced(enforcement) => enforcement.appeared(),
        }
    }
}

/// A confinement with everything made ready that can fail: open files, rules, a compiled filter.
pub struct Prepared {
    steps: Steps,
    door: Option<Door>,
    env: Vec<(&'static str, &'static str)>,
}

impl Prepared {
    /// The way from the command to a proxy, if it is behind one. Take it before [`Prepared::apply`].
    pub fn take_door(&mut self) -> Option<Door> {
        self.door.take()
    }

    /// Confines `command`, which should hold no more than program, arguments, directory and single
    /// environment variables: where another program does the confining, a new command takes its place, and
    /// streams, `env_clear`, process groups and `pre_exec` steps set before are lost. Set them afterwards.
    pub fn apply(self, command: &mut Command) {
        self.steps.apply(command);
        command.envs(self.env);
    }
}
