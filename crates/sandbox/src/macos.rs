//! Confinement on macOS, by `sandbox-exec`.

use std::{
    io,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::{Resource, Rlimit};

use crate::{
    Door, Gap, Kind, Limits, SandboxError,
    access::{Access, Root},
    limits,
    metadata::{self, Metadata},
    seatbelt::Profile,
    wrap::wrap,
};

/// Named in full: one from `PATH` could be anybody's.
const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// Whether the program is there.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    sandbox_exec: bool,
}

impl Machine {
    pub(crate) fn probe() -> Self {
        Self { sandbox_exec: Path::new(PROGRAM).is_file() }
    }

    pub(crate) fn kind(&self) -> Result<Kind, String> {
        self.sandbox_exec.then_some(Kind::Seatbelt).ok_or_else(|| format!("{PROGRAM} is missing"))
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        Vec::new()
    }
}

/// How one policy is enforced.
#[derive(Clone, Debug)]
pub(crate) struct Enforcement {
    profile: Profile,
    roots: Vec<Root>,
    metadata: Metadata,
}

impl Enforcement {
    pub(crate) fn new(access: Access, machine: &Machine) -> Result<Self, SandboxError> {
        machine.kind().map_err(SandboxError::Unavailable)?;
        let metadata = metadata::find(&access.roots);
        Ok(Self { profile: Profile::new(&access, &metadata), roots: access.roots, metadata })
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind::Seatbelt
    }

    /// None that is known.
    pub(crate) fn gaps(&self) -> Vec<Gap> {
        Vec::new()
    }

    pub(crate) fn appeared(&self) -> Vec<PathBuf> {
        self.metadata.appeared(&self.roots)
    }

    /// There are no network namespaces here.
    pub(crate) fn behind_proxy(&mut self) -> Result<(), SandboxError> {
        let why = "a network behind a proxy is not supported on this system";
        Err(SandboxError::Unavailable(why.to_owned()))
    }

    pub(crate) fn steps(
        &self,
        limits: &Limits,
        dies_with_parent: bool,
    ) -> Result<(Steps, Option<Door>), SandboxError> {
        let steps = Steps::unconfined(limits, dies_with_parent);
        Ok((Steps { profile: Some(self.profile.clone()), ..steps }, None))
    }
}

/// What happens to one command.
pub(crate) struct Steps {
    profile: Option<Profile>,
    limits: Vec<(Resource, Rlimit)>,
}

impl Steps {
    /// This system has no way to tie a process to its parent.
    pub(crate) fn unconfined(limits: &Limits, _dies_with_parent: bool) -> Self {
        Self { profile: None, limits: limits.prepare() }
    }

    pub(crate) fn apply(self, command: &mut Command) {
        if let Some(profile) = self.profile {
            wrap(command, Path::new(PROGRAM), profile.arguments());
        }
        if !self.limits.is_empty() {
            let set = move || limits::set(&self.limits).map_err(io::Error::from);
            // SAFETY: only system calls.
            unsafe { command.pre_exec(set) };
        }
    }
}
