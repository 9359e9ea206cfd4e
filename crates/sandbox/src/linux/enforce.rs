//! A plan together with the means to carry it out.

use std::{ffi::OsString, path::PathBuf, process::Command};

use super::{
    bubblewrap::Options,
    child::{Child, Common, Launcher},
    doorstep,
    plan::Plan,
    probe::{Machine, Means},
};
use crate::{Door, Gap, Kind, Limits, SandboxError, access::Access, wrap::wrap};

/// How one policy is enforced on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Enforcement {
    means: Means,
    plan: Plan,
}

impl Enforcement {
    pub(crate) fn new(access: Access, machine: &Machine) -> Result<Self, SandboxError> {
        let means = machine.means(&access.roots).map_err(SandboxError::Unavailable)?;
        let plan = Plan::new(access, means.files());
        Ok(Self { means, plan })
    }

    /// Puts the command into a network of its own, with a way to a proxy and no other.
    pub(crate) fn behind_proxy(&mut self) -> Result<(), SandboxError> {
        let namespaces = match &self.means {
            Means::Bubblewrap(program) => program.covers.is_some(),
            Means::Landlock { privilege, .. } => privilege.is_some(),
        };
        if !namespaces {
            let why = "a network behind a proxy needs network namespaces, which the server cannot make";
            return Err(SandboxError::Unavailable(why.to_owned()));
        }
        self.plan.proxied = true;
        self.plan.access.network = false;
        Ok(())
    }

    pub(crate) fn kind(&self) -> Kind {
        self.means.kind()
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let always = self.means.gaps(self.plan.access.network);
        always.into_iter().chain(self.plan.gaps.iter().copied()).collect()
    }

    pub(crate) fn appeared(&self) -> Vec<PathBuf> {
        self.plan.metadata.appeared(&self.plan.access.roots)
    }

    /// What to do to one command, and where its listener will come from if it is behind a proxy.
    pub(crate) fn steps(
        &self,
        limits: &Limits,
        dies_with_parent: bool,
    ) -> Result<(Steps, Option<Door>), SandboxError> {
        let common = Common::new(limits, dies_with_parent);
        let (door, doorstep) = match self.plan.proxied {
            true => doorstep::pair().map(|(door, step)| (Some(door), Some(step)))?,
            false => (None, None),
        };
        let steps = match &self.means {
            Means::Bubblewrap(program) => {
                let launcher = Launcher::new(&self.plan, program.covers, doorstep, common)?;
                // The namespace behind a proxy is made before `bwrap` starts.
                let network = self.plan.access.network || self.plan.proxied;
                let options = Options { network, dies_with_parent, filter: launcher.filter_number() };
                let arguments = program.arguments(&self.plan, &options);
                Steps::Launch { program: program.path.clone(), arguments, launcher }
            }
            Means::Landlock { version, privilege } => {
                let child = Child::new(&self.plan, *version, *privilege, doorstep, common)?;
                Steps::Confine(Box::new(child))
            }
        };
        Ok((steps, door))
    }
}

/// What happens to one command.
pub(crate) enum Steps {
    Bind(Common),
    Launch { program: PathBuf, arguments: Vec<OsString>, launcher: Launcher },
    Confine(Box<Child>),
}

impl Steps {
    pub(crate) fn unconfined(limits: &Limits, dies_with_parent: bool) -> Self {
        Self::Bind(Common::new(limits, dies_with_parent))
    }

    pub(crate) fn apply(self, command: &mut Command) {
        match self {
            Self::Bind(common) => common.attach(command),
            Self::Launch { program, arguments, launcher } => {
                wrap(command, &program, arguments);
                launcher.attach(command);
            }
            Self::Confine(child) => child.attach(command),
        }
    }
}
