//! A plan together with the means to carry it out.

use std::{ffi::OsString, path::PathBuf, process::Command};

use super::{
    bubblewrap::Options,
    child::{Child, Common, Launcher},
    plan::Plan,
    probe::{Machine, Means},
};
use crate::{Gap, Kind, Limits, SandboxError, access::Access, wrap::wrap};

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

    pub(crate) fn steps(&self, limits: &Limits, dies_with_parent: bool) -> Result<Steps, SandboxError> {
        let common = Common::new(limits, dies_with_parent);
        let network = self.plan.access.network;
        match &self.means {
            Means::Bubblewrap(program) => {
                let launcher = Launcher::new(&self.plan, program.covers, common)?;
                let options = Options { network, dies_with_parent, filter: launcher.filter_number() };
                let arguments = program.arguments(&self.plan, &options);
                Ok(Steps::Launch { program: program.path.clone(), arguments, launcher })
            }
            Means::Landlock { version, privilege } => {
                Ok(Steps::Confine(Box::new(Child::new(&self.plan, *version, *privilege, common)?)))
            }
        }
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
