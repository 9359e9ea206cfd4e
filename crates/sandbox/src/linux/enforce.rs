//! A plan together with the means to carry it out.

use std::ffi::OsString;

use codicil_exec::Preparation;

use super::{
    bubblewrap::Options,
    child::{Child, Common, Launcher},
    doorstep,
    plan::Plan,
    probe::{Machine, Means},
};
use crate::{Door, Gap, Kind, Limits, SandboxError, WritableFolders, access::Access};

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
            Means::Bubblewrap { program, .. } => program.covers.is_some(),
            Means::Landlock { namespaces, .. } => namespaces.is_some(),
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

    pub(crate) fn writable_folders(&self) -> WritableFolders {
        WritableFolders {
            roots: self.plan.access.roots.iter().map(|root| root.path.clone()).collect(),
            protected: self.plan.metadata.paths.clone(),
        }
    }

    /// What to do to one command, and where its listener will come from if it is behind a proxy.
    pub(crate) fn steps(&self, limits: &Limits) -> Result<(Steps, Option<Door>), SandboxError> {
        let (door, doorstep) = match self.plan.proxied {
            true => doorstep::pair().map(|(door, step)| (Some(door), Some(step)))?,
            false => (None, None),
        };
        let steps = match &self.means {
            Means::Bubblewrap { program, landlock } => {
                let launcher = Launcher::new(&self.plan, program.covers, *landlock, doorstep, limits)?;
                // The namespace behind a proxy is made before `bwrap` starts.
                let network = self.plan.access.network || self.plan.proxied;
                let options = Options { network, filter: launcher.filter_number() };
                let mut arguments = vec![program.path.clone().into_os_string()];
                arguments.extend(program.arguments(&self.plan, &options));
                Steps::Launch { arguments, launcher: Box::new(launcher) }
            }
            Means::Landlock { version, namespaces } => {
                let child = Child::new(&self.plan, *version, *namespaces, doorstep, limits)?;
                Steps::Confine(Box::new(child))
            }
        };
        Ok((steps, door))
    }
}

/// What happens to one command.
pub(crate) enum Steps {
    Limit(Common),
    Launch { arguments: Vec<OsString>, launcher: Box<Launcher> },
    Confine(Box<Child>),
}

impl Steps {
    pub(crate) fn unconfined(limits: &Limits) -> Self {
        Self::Limit(Common::new(limits))
    }

    pub(crate) fn into_preparation(self) -> Preparation {
        let plain = |steps| Preparation { launcher: Vec::new(), env: Vec::new(), namespaces: 0, steps };
        match self {
            Self::Limit(common) => plain(Box::new(move || common.limit())),
            Self::Launch { arguments, mut launcher } => {
                Preparation { launcher: arguments, ..plain(Box::new(move || launcher.prepare())) }
            }
            Self::Confine(mut child) => {
                let namespaces = child.birth_namespaces();
                Preparation { namespaces, ..plain(Box::new(move || child.confine())) }
            }
        }
    }
}
