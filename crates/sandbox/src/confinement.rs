//! From a policy to a confined command.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Command,
};

use codicil_protocol::SandboxPolicy;

#[cfg(target_os = "linux")]
use crate::linux::{Child, Common, Launcher, Means, Options, Plan};
use crate::{
    Gap, Grants, Kind, Limits, Probe, SandboxError,
    access::{self, Access, Scope},
};

/// Tells a command that it has no network. The name is the reference server's; scripts look for it.
const NETWORK_DISABLED: &str = "CODEX_SANDBOX_NETWORK_DISABLED";

/// A policy made ready for one machine and one working directory, as they are now. Cheap enough to be
/// made for each command, which is best: what is protected and covered is looked up when it is made.
#[derive(Clone, Debug)]
pub struct Confinement {
    means: Enforcement,
    network: bool,
    limits: Limits,
    dies_with_parent: bool,
}

#[derive(Clone, Debug)]
enum Enforcement {
    Unconfined,
    External,
    #[cfg(target_os = "linux")]
    Linux {
        means: Means,
        plan: Box<Plan>,
    },
    #[cfg(target_os = "macos")]
    Seatbelt(Box<crate::seatbelt::Profile>),
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
            Scope::Unconfined => (Enforcement::Unconfined, true),
            Scope::External { network } => (Enforcement::External, network),
            Scope::Confined(access) => {
                let network = access.network;
                (Enforcement::new(access, probe)?, network)
            }
        };
        Ok(Self { means, network, limits: Limits::default(), dies_with_parent: false })
    }

    /// Puts ceilings on what the command uses. They hold under every policy.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Kills the command when the *thread* that spawns it ends; the kernel knows no other parent. So spawn from a thread
    /// that lives long enough, and not from one of a pool. Linux only.
    #[must_use]
    pub fn dying_with_parent(mut self) -> Self {
        self.dies_with_parent = true;
        self
    }

    /// Does all that can fail, for one command.
    pub fn prepare(&self) -> Result<Prepared, SandboxError> {
        Ok(Prepared { steps: self.steps()?, env: self.env().collect() })
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
        (!self.network).then_some((NETWORK_DISABLED, "1")).into_iter()
    }

    /// How commands are confined.
    pub fn kind(&self) -> Kind {
        match &self.means {
            Enforcement::Unconfined => Kind::Unconfined,
            Enforcement::External => Kind::External,
            #[cfg(target_os = "linux")]
            Enforcement::Linux { means, .. } => means.kind(),
            #[cfg(target_os = "macos")]
            Enforcement::Seatbelt(_) => Kind::Seatbelt,
        }
    }

    /// Whether commands have a network.
    pub fn network(&self) -> bool {
        self.network
    }

    /// What this confinement does not stop. Empty where none was asked for.
    pub fn gaps(&self) -> Vec<Gap> {
        match &self.means {
            Enforcement::Unconfined | Enforcement::External => Vec::new(),
            #[cfg(target_os = "linux")]
            Enforcement::Linux { means, plan } => {
                means.gaps(self.network).into_iter().chain(plan.gaps.iter().copied()).collect()
            }
            #[cfg(target_os = "macos")]
            Enforcement::Seatbelt(profile) => profile.gaps(),
        }
    }

    /// Protected names that did not exist when this was made and exist now. Whoever made them, git and agents will
    /// obey what is in them; the user should be told. Searches the writable roots again.
    pub fn appeared(&self) -> Vec<PathBuf> {
        match &self.means {
            #[cfg(target_os = "linux")]
            Enforcement::Linux { plan, .. } => plan.metadata.appeared(&plan.access.roots),
            _ => Vec::new(),
        }
    }

    #[cfg(target_os = "linux")]
    fn steps(&self) -> Result<Steps, SandboxError> {
        let common = Common::new(&self.limits, self.dies_with_parent);
        match &self.means {
            Enforcement::Unconfined | Enforcement::External => Ok(Steps::Bind(common)),
            Enforcement::Linux { means: Means::Bubblewrap(program), plan } => {
                let launcher = Launcher::new(self.network, common)?;
                let options = Options {
                    network: self.network,
                    dies_with_parent: self.dies_with_parent,
                    filter: launcher.filter_number(),
                };
                let arguments = program.arguments(plan, &options);
                Ok(Steps::Launch { program: program.path.clone(), arguments, launcher })
            }
            Enforcement::Linux { means: Means::Landlock { version, privilege }, plan } => {
                Ok(Steps::Confine(Box::new(Child::new(plan, *version, *privilege, common)?)))
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn steps(&self) -> Result<Steps, SandboxError> {
        let limits = self.limits.prepare();
        match &self.means {
            Enforcement::Unconfined | Enforcement::External => Ok(Steps::Bind(limits)),
            #[cfg(target_os = "macos")]
            Enforcement::Seatbelt(profile) => Ok(Steps::Launch { arguments: profile.arguments(), limits }),
        }
    }
}

/// A confinement with everything made ready that can fail: open files, rules, a compiled filter.
pub struct Prepared {
    steps: Steps,
    env: Vec<(&'static str, &'static str)>,
}

#[cfg(target_os = "linux")]
enum Steps {
    Bind(Common),
    Launch { program: PathBuf, arguments: Vec<OsString>, launcher: Launcher },
    Confine(Box<Child>),
}

#[cfg(not(target_os = "linux"))]
enum Steps {
    Bind(Vec<(rustix::process::Resource, rustix::process::Rlimit)>),
    #[cfg(target_os = "macos")]
    Launch {
        arguments: Vec<OsString>,
        limits: Vec<(rustix::process::Resource, rustix::process::Rlimit)>,
    },
}

impl Prepared {
    /// Confines `command`, which should hold no more than program, arguments, directory and single
    /// environment variables: where another program does the confining, a new command takes its place, and
    /// streams, `env_clear`, process groups and `pre_exec` steps set before are lost. Set them afterwards.
    pub fn apply(self, command: &mut Command) {
        match self.steps {
            #[cfg(target_os = "linux")]
            Steps::Bind(common) => common.attach(command),
            #[cfg(target_os = "linux")]
            Steps::Launch { program, arguments, launcher } => {
                wrap(command, &program, arguments);
                launcher.attach(command);
            }
            #[cfg(target_os = "linux")]
            Steps::Confine(child) => child.attach(command),
            #[cfg(not(target_os = "linux"))]
            Steps::Bind(limits) => bind(command, limits),
            #[cfg(target_os = "macos")]
            Steps::Launch { arguments, limits } => {
                wrap(command, Path::new(crate::seatbelt::PROGRAM), arguments);
                bind(command, limits);
            }
        }
        command.envs(self.env);
    }
}

#[cfg(not(target_os = "linux"))]
fn bind(command: &mut Command, limits: Vec<(rustix::process::Resource, rustix::process::Rlimit)>) {
    use std::os::unix::process::CommandExt;

    if !limits.is_empty() {
        // SAFETY: only system calls.
        unsafe { command.pre_exec(move || Ok(crate::limits::set(&limits)?)) };
    }
}

impl Enforcement {
    #[cfg(target_os = "linux")]
    fn new(access: Access, probe: &Probe) -> Result<Self, SandboxError> {
        let means = probe.machine.means(&access.roots).map_err(SandboxError::Unavailable)?;
        let plan = Plan::new(access, means.files());
        Ok(Self::Linux { means, plan: Box::new(plan) })
    }

    #[cfg(target_os = "macos")]
    fn new(access: Access, probe: &Probe) -> Result<Self, SandboxError> {
        probe.kind().map_err(SandboxError::Unavailable)?;
        Ok(Self::Seatbelt(Box::new(crate::seatbelt::Profile::new(&access))))
    }

    #[cfg(not(any(target_os = "linux", target_os = "macos")))]
    fn new(_access: Access, probe: &Probe) -> Result<Self, SandboxError> {
        Err(SandboxError::Unavailable(probe.kind().err().unwrap_or_default()))
    }
}

/// Makes `command` the argument of another program.
#[cfg_attr(not(any(target_os = "linux", target_os = "macos")), allow(dead_code))]
fn wrap(command: &mut Command, program: &Path, arguments: Vec<OsString>) {
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
