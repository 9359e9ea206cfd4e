//! Confinement on macOS, by `sandbox-exec`.

use std::{ffi::OsString, io, path::Path};

use codicil_exec::ChildPreparation;
use rustix::process::{Resource, Rlimit};

pub(crate) use crate::seatbelt::is_platform_path;
use crate::{
    ConfinementGap, ConfinementKind, ProxyListener, ProxyPorts, ResourceLimits, SandboxError,
    WritableFolders, access::CommandAccess, limits, metadata, seatbelt::SeatbeltProfile,
};

/// The absolute path of `sandbox-exec`. A program of that name in `PATH` could be another one.
const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// The means of confinement that this machine has.
#[derive(Clone, Debug)]
pub(crate) struct MachineSupport {
    sandbox_exec: bool,
}

impl MachineSupport {
    pub(crate) fn probe() -> Self {
        Self { sandbox_exec: Path::new(PROGRAM).is_file() }
    }

    pub(crate) fn kind(&self) -> Result<ConfinementKind, String> {
        self.sandbox_exec.then_some(ConfinementKind::Seatbelt).ok_or_else(|| format!("{PROGRAM} is missing"))
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How one policy is enforced.
#[derive(Clone, Debug)]
pub(crate) struct Enforcement {
    profile: SeatbeltProfile,
    writable: WritableFolders,
}

impl Enforcement {
    pub(crate) fn new(access: CommandAccess, machine: &MachineSupport) -> Result<Self, SandboxError> {
        machine.kind().map_err(SandboxError::Unavailable)?;
        let metadata = metadata::find(&access.roots);
        let profile = SeatbeltProfile::new(&access, &metadata);
        let roots = access.roots.into_iter().map(|root| root.path).collect();
        Ok(Self { profile, writable: WritableFolders { roots, protected: metadata.paths } })
    }

    pub(crate) fn writable_folders(&self) -> WritableFolders {
        self.writable.clone()
    }

    pub(crate) fn kind(&self) -> ConfinementKind {
        ConfinementKind::Seatbelt
    }

    /// Returns no gaps: none is known.
    pub(crate) fn gaps(&self) -> Vec<ConfinementGap> {
        Vec::new()
    }

    /// Returns an error: macOS has no network namespaces.
    pub(crate) fn behind_proxy(&mut self, _ports: ProxyPorts) -> Result<(), SandboxError> {
        let why = "a network behind a proxy is not supported on this system";
        Err(SandboxError::Unavailable(why.to_owned()))
    }

    pub(crate) fn steps(
        &self,
        limits: &ResourceLimits,
    ) -> Result<(EnforcementSteps, Option<ProxyListener>), SandboxError> {
        Ok((
            EnforcementSteps { profile: Some(self.profile.clone()), ..EnforcementSteps::unconfined(limits) },
            None,
        ))
    }
}

/// The changes to one command.
pub(crate) struct EnforcementSteps {
    profile: Option<SeatbeltProfile>,
    limits: Vec<(Resource, Rlimit)>,
}

impl EnforcementSteps {
    pub(crate) fn unconfined(limits: &ResourceLimits) -> Self {
        Self { profile: None, limits: limits.prepare() }
    }

    pub(crate) fn into_preparation(self) -> ChildPreparation {
        let launcher = self.profile.map_or_else(Vec::new, |profile| {
            [OsString::from(PROGRAM)].into_iter().chain(profile.arguments()).collect()
        });
        let limits = self.limits;
        let steps = Box::new(move || limits::set(&limits).map_err(io::Error::from));
        ChildPreparation { launcher, env: Vec::new(), namespaces: 0, steps }
    }
}
