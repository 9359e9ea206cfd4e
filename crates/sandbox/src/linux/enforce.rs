//! A plan together with the means to carry it out.

use std::ffi::OsString;

use codicil_exec::ChildPreparation;

use super::{
    bubblewrap::BubblewrapOptions,
    child::{BubblewrapLauncher, CommonSetup, ConfinedChild},
    doorstep,
    plan::EnforcementPlan,
    probe::{MachineSupport, ProbedMeans},
};
use crate::{
    ConfinementGap, ConfinementKind, ProxyListener, ResourceLimits, SandboxError, WritableFolders,
    access::CommandAccess,
};

/// How one policy is enforced on this machine.
#[derive(Clone, Debug)]
pub(crate) struct Enforcement {
    means: ProbedMeans,
    plan: EnforcementPlan,
}

impl Enforcement {
    pub(crate) fn new(access: CommandAccess, machine: &MachineSupport) -> Result<Self, SandboxError> {
        let means = machine.means(&access.roots).map_err(SandboxError::Unavailable)?;
        let plan = EnforcementPlan::new(access, means.files());
        Ok(Self { means, plan })
    }

    /// Puts the command into a network of its own, with a way to a proxy and no other.
    pub(crate) fn behind_proxy(&mut self) -> Result<(), SandboxError> {
        let namespaces = match &self.means {
            ProbedMeans::Bubblewrap { program, .. } => program.covers.is_some(),
            ProbedMeans::Landlock { namespaces, .. } => namespaces.is_some(),
        };
        if !namespaces {
            let why = "a network behind a proxy needs network namespaces, which the server cannot make";
            return Err(SandboxError::Unavailable(why.to_owned()));
        }
        self.plan.proxied = true;
        self.plan.access.network = false;
        Ok(())
    }

    pub(crate) fn kind(&self) -> ConfinementKind {
        self.means.kind()
    }

    pub(crate) fn gaps(&self) -> Vec<ConfinementGap> {
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
    pub(crate) fn steps(
        &self,
        limits: &ResourceLimits,
    ) -> Result<(EnforcementSteps, Option<ProxyListener>), SandboxError> {
        let (door, doorstep) = match self.plan.proxied {
            true => doorstep::pair().map(|(door, step)| (Some(door), Some(step)))?,
            false => (None, None),
        };
        let steps = match &self.means {
            ProbedMeans::Bubblewrap { program, landlock } => {
                let launcher =
                    BubblewrapLauncher::new(&self.plan, program.covers, *landlock, doorstep, limits)?;
                // The namespace behind a proxy is made before `bwrap` starts.
                let network = self.plan.access.network || self.plan.proxied;
                let options = BubblewrapOptions { network, filter: launcher.filter_number() };
                let mut arguments = vec![program.path.clone().into_os_string()];
                arguments.extend(program.arguments(&self.plan, &options));
                EnforcementSteps::Launch { arguments, launcher: Box::new(launcher) }
            }
            ProbedMeans::Landlock { version, namespaces } => {
                let child = ConfinedChild::new(&self.plan, *version, *namespaces, doorstep, limits)?;
                EnforcementSteps::Confine(Box::new(child))
            }
        };
        Ok((steps, door))
    }
}

/// What happens to one command.
pub(crate) enum EnforcementSteps {
    Limit(CommonSetup),
    Launch { arguments: Vec<OsString>, launcher: Box<BubblewrapLauncher> },
    Confine(Box<ConfinedChild>),
}

impl EnforcementSteps {
    pub(crate) fn unconfined(limits: &ResourceLimits) -> Self {
        Self::Limit(CommonSetup::new(limits))
    }

    pub(crate) fn into_preparation(self) -> ChildPreparation {
        let plain = |steps| ChildPreparation { launcher: Vec::new(), env: Vec::new(), namespaces: 0, steps };
        match self {
            Self::Limit(common) => plain(Box::new(move || common.limit())),
            Self::Launch { arguments, mut launcher } => {
                ChildPreparation { launcher: arguments, ..plain(Box::new(move || launcher.prepare())) }
            }
            Self::Confine(mut child) => {
                let namespaces = child.birth_namespaces();
                ChildPreparation { namespaces, ..plain(Box::new(move || child.confine())) }
            }
        }
    }
}
