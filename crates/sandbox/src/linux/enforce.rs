//! A plan together with the means to enforce it.

use std::ffi::OsString;

use codicil_exec::ChildPreparation;

use super::{
    bubblewrap::BubblewrapOptions,
    child::{BubblewrapLauncher, CommonSetup, ConfinedChild},
    listener_sender,
    plan::EnforcementPlan,
    probe::{MachineSupport, ProbedMeans},
};
use crate::{
    ConfinementGap, ConfinementKind, ProxyListener, ProxyPorts, ResourceLimits, SandboxError,
    WritableFolders, access::CommandAccess,
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

    /// Gives the command its own network namespace, which only leads to a proxy.
    pub(crate) fn behind_proxy(&mut self, ports: ProxyPorts) -> Result<(), SandboxError> {
        let can_create_namespaces = match &self.means {
            ProbedMeans::Bubblewrap { program, .. } => program.covers.is_some(),
            ProbedMeans::Landlock { namespaces, .. } => namespaces.is_some(),
        };
        if !can_create_namespaces {
            let why = "a network behind a proxy needs network namespaces, which the server cannot create";
            return Err(SandboxError::Unavailable(why.to_owned()));
        }
        self.plan.proxy = Some(ports);
        self.plan.access.network = false;
        Ok(())
    }

    pub(crate) fn kind(&self) -> ConfinementKind {
        self.means.kind()
    }

    pub(crate) fn gaps(&self) -> Vec<ConfinementGap> {
        let gaps_of_means = self.means.gaps(self.plan.access.network);
        gaps_of_means.into_iter().chain(self.plan.gaps.iter().copied()).collect()
    }

    pub(crate) fn writable_folders(&self) -> WritableFolders {
        WritableFolders {
            roots: self.plan.access.roots.iter().map(|root| root.path.clone()).collect(),
            protected: self.plan.metadata.paths.clone(),
        }
    }

    /// Prepares the changes to one command, and the server's end of its connection to a proxy if it is behind one.
    pub(crate) fn steps(
        &self,
        limits: &ResourceLimits,
    ) -> Result<(EnforcementSteps, Option<ProxyListener>), SandboxError> {
        let (listener, sender) = self.plan.proxy.map(listener_sender::pair).transpose()?.unzip();
        let steps = match &self.means {
            ProbedMeans::Bubblewrap { program, landlock } => {
                let launcher =
                    BubblewrapLauncher::new(&self.plan, program.covers, *landlock, sender, limits)?;
                // Behind a proxy, the network namespace is created before `bwrap` starts.
                let network = self.plan.access.network || self.plan.proxy.is_some();
                let options = BubblewrapOptions { network, filter: launcher.filter_number() };
                let mut arguments = vec![program.path.clone().into_os_string()];
                arguments.extend(program.arguments(&self.plan, &options));
                EnforcementSteps::Launch { arguments, launcher: Box::new(launcher) }
            }
            ProbedMeans::Landlock { version, namespaces } => {
                let child = ConfinedChild::new(&self.plan, *version, *namespaces, sender, limits)?;
                EnforcementSteps::Confine(Box::new(child))
            }
        };
        Ok((steps, listener))
    }
}

/// The changes to one command.
pub(crate) enum EnforcementSteps {
    /// It gets resource limits only.
    Limit(CommonSetup),
    /// It is run by `bwrap`.
    Launch { arguments: Vec<OsString>, launcher: Box<BubblewrapLauncher> },
    /// It confines itself.
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
                let namespaces = child.clone_flags();
                ChildPreparation { namespaces, ..plain(Box::new(move || child.confine())) }
            }
        }
    }
}
