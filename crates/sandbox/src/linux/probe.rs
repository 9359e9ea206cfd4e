//! Probes the means of confinement by trying them, because an administrator may have disabled a feature that the kernel
//! has.

use std::{io, os::unix::process::CommandExt, path::PathBuf, process::Command};

use codicil_exec::attach_minder;
use rustix::thread::{CapabilitySet, capabilities};

use super::{
    bubblewrap::Bubblewrap,
    child::{ConfinedChild, Namespaces},
    find_bubblewrap::find_bubblewrap,
    landlock,
    mount_view::NamespacePrivilege,
    plan::{EnforcementPlan, FileMeans},
    sys,
};
use crate::{
    ConfinementGap, ConfinementKind, ResourceLimits, SandboxError,
    access::{CommandAccess, ReadAccess, WritableRoot},
    metadata::ProjectMetadata,
    probe::MISSING_PROGRAM,
    server_places::HiddenPlaces,
};

/// The oldest version of Landlock used alone, of Linux 6.2. Older ones do not prevent truncating files.
const LANDLOCK_ALONE: i32 = 3;

/// The oldest version of Landlock used with mounts, of Linux 5.19. Older ones refuse to move any file to another
/// directory.
const LANDLOCK_WITH_MOUNTS: i32 = 2;

/// Each means of confinement, or why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct MachineSupport {
    pub bubblewrap: Result<Bubblewrap, String>,
    pub landlock: Result<i32, String>,
    pub namespaces: Result<Namespaces, String>,
    pub seccomp: Result<(), String>,
    /// Whether `bwrap` is used even where the built-in confinement is preferred. For tests.
    pub prefers_bubblewrap: bool,
}

/// The means of the best confinement.
#[derive(Clone, Debug)]
pub(crate) enum ProbedMeans {
    Bubblewrap { program: Bubblewrap, landlock: Option<i32> },
    Landlock { version: i32, namespaces: Option<Namespaces> },
}

impl MachineSupport {
    pub(crate) fn probe() -> Self {
        let seccomp =
            sys::seccomp_available().map_err(|error| format!("this kernel has no seccomp: {error}"));
        let landlock = landlock::version();
        let namespaces = match &landlock {
            Ok(version) => namespaces(*version),
            Err(_) => Err("of no use without Landlock".to_owned()),
        };
        let privilege = namespaces.as_ref().ok().map(|namespaces| namespaces.privilege);
        Self {
            bubblewrap: find_bubblewrap(privilege),
            landlock,
            namespaces,
            seccomp,
            prefers_bubblewrap: false,
        }
    }

    /// Returns the best means, or a text that names everything that is missing.
    pub(crate) fn means(&self, roots: &[WritableRoot]) -> Result<ProbedMeans, String> {
        self.seccomp.clone()?;
        if let (Ok(version), Ok(namespaces)) = (&self.landlock, &self.namespaces)
            && (*version >= landlock::SCOPES && namespaces.processes && !self.prefers_bubblewrap)
        {
            return Ok(ProbedMeans::Landlock { version: *version, namespaces: Some(*namespaces) });
        }
        let no_bubblewrap = match self.bubblewrap.clone().and_then(|found| trusted(found, roots)) {
            Ok(found) => {
                let covers = found.covers.filter(|_| self.namespaces.is_ok());
                let program = Bubblewrap { covers, ..found };
                return Ok(ProbedMeans::Bubblewrap {
                    program,
                    landlock: self.landlock.as_ref().ok().copied(),
                });
            }
            Err(reason) => reason,
        };
        let missing = |landlock: &str| format!("{landlock}, and bubblewrap cannot be used: {no_bubblewrap}");
        let version = *self.landlock.as_ref().map_err(|reason| missing(reason))?;
        let namespaces = self.namespaces.clone().ok();
        let least = if namespaces.is_some() { LANDLOCK_WITH_MOUNTS } else { LANDLOCK_ALONE };
        if version < least {
            return Err(missing(&format!("Landlock is too old (version {version}, wanted {least})")));
        }
        Ok(ProbedMeans::Landlock { version, namespaces })
    }

    pub(crate) fn kind(&self) -> Result<ConfinementKind, String> {
        self.means(&[]).map(|means| means.kind())
    }

    /// Returns a line for each means and for each gap.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |name: &str, found: Result<String, &String>| match found {
            Ok(what) => format!("{name}: {what}"),
            Err(reason) => format!("{name}: not used: {reason}"),
        };
        let bubblewrap = self.bubblewrap.as_ref().map(|found| found.path.display().to_string());
        let namespaces = self.namespaces.as_ref().map(|namespaces| {
            let privilege = match namespaces.privilege {
                NamespacePrivilege::Own => "with the server's own privilege",
                NamespacePrivilege::UserNamespace => "through a user namespace",
            };
            let processes = if namespaces.processes { ", with processes" } else { ", without processes" };
            format!("{privilege}{processes}")
        });
        let gaps = self.means(&[]).map(|means| means.gaps(false)).unwrap_or_default();
        let parts = [
            line("bubblewrap", bubblewrap),
            line("namespaces", namespaces),
            line("Landlock", self.landlock.as_ref().map(|version| format!("version {version}"))),
            line("seccomp", self.seccomp.as_ref().map(|()| "available".to_owned())),
        ];
        parts.into_iter().chain(gaps.iter().map(|gap| format!("not prevented: {gap}"))).collect()
    }
}

impl ProbedMeans {
    pub(crate) fn kind(&self) -> ConfinementKind {
        match self {
            Self::Bubblewrap { .. } => ConfinementKind::Bubblewrap,
            Self::Landlock { namespaces: Some(_), .. } => ConfinementKind::LandlockView,
            Self::Landlock { namespaces: None, .. } => ConfinementKind::Landlock,
        }
    }

    pub(crate) fn files(&self) -> FileMeans {
        match self {
            Self::Landlock { namespaces: None, .. } => FileMeans::LandlockOnly,
            Self::Bubblewrap { .. } | Self::Landlock { .. } => FileMeans::Mounted,
        }
    }

    /// Returns what these means do not prevent under any plan.
    pub(crate) fn gaps(&self, network: bool) -> Vec<ConfinementGap> {
        match self {
            Self::Bubblewrap { program, landlock } => {
                let mut gaps = vec![ConfinementGap::Pipes];
                let is_scoped = landlock.is_some_and(|version| version >= landlock::SCOPES);
                gaps.extend(
                    (network && program.covers.is_some() && !is_scoped)
                        .then_some(ConfinementGap::AbstractSockets),
                );
                gaps
            }
            Self::Landlock { version, .. } => landlock::gaps(*version, self.files(), network),
        }
    }
}

/// Refuses a `bwrap` inside a writable root: a confined command must not be able to replace the program that confines the
/// next one.
fn trusted(found: Bubblewrap, roots: &[WritableRoot]) -> Result<Bubblewrap, String> {
    match roots.iter().find(|root| found.path.starts_with(&root.path)) {
        Some(root) => Err(format!("{} is inside {}", found.path.display(), root.path.display())),
        None => Ok(found),
    }
}

/// Tries namespaces in a separate process, the best ones first. The server's own privilege is preferred to a user
/// namespace, in which all files of other users appear to belong to the user with the overflow id.
fn namespaces(version: i32) -> Result<Namespaces, String> {
    let admin = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    let privileges =
        admin.then_some(NamespacePrivilege::Own).into_iter().chain([NamespacePrivilege::UserNamespace]);
    let candidates =
        privileges.flat_map(|privilege| [true, false].map(|processes| Namespaces { privilege, processes }));
    let mut last = Err(String::new());
    for namespaces in candidates {
        last = attempt(version, namespaces).map(|()| namespaces);
        if last.is_ok() {
            break;
        }
    }
    last
}

fn attempt(version: i32, namespaces: Namespaces) -> Result<(), String> {
    let child =
        ConfinedChild::new(&smallest_plan(), version, Some(namespaces), None, &ResourceLimits::default());
    let mut child = child.map_err(|error| error.to_string())?;
    let mut command = Command::new(MISSING_PROGRAM);
    attach_minder(&mut command, child.clone_flags());
    // SAFETY: `confine` makes only async-signal-safe calls.
    unsafe { command.pre_exec(move || child.confine()) };
    match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(spawn_reason(error)),
        Ok(mut process) => {
            let _ = process.wait();
            Err(format!("{MISSING_PROGRAM} was run"))
        }
    }
}

pub(super) fn spawn_reason(error: io::Error) -> String {
    SandboxError::from_spawn(&error).map_or_else(|| error.to_string(), |error| error.to_string())
}

/// Returns a plan without writable roots and network, and with one mount, to see that mounting works.
pub(super) fn smallest_plan() -> EnforcementPlan {
    EnforcementPlan {
        proxy: None,
        access: CommandAccess {
            reads: ReadAccess::Everywhere,
            roots: Vec::new(),
            network: false,
            hidden: HiddenPlaces::default(),
        },
        metadata: ProjectMetadata::default(),
        sockets: vec![PathBuf::from("/dev/null")],
        gaps: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::RootRole;

    fn machine(bubblewrap: bool, landlock: Option<i32>, namespaces: bool) -> MachineSupport {
        let no = || "no".to_owned();
        let program = Bubblewrap { path: "/usr/bin/bwrap".into(), user_namespace: false, covers: None };
        let own_namespaces = Namespaces { privilege: NamespacePrivilege::Own, processes: true };
        MachineSupport {
            bubblewrap: bubblewrap.then_some(program).ok_or_else(no),
            landlock: landlock.ok_or_else(no),
            namespaces: namespaces.then_some(own_namespaces).ok_or_else(no),
            seccomp: Ok(()),
            prefers_bubblewrap: false,
        }
    }

    fn check(machine: &MachineSupport, expected: Option<ConfinementKind>) {
        assert_eq!(machine.means(&[]).ok().map(|means| means.kind()), expected, "{machine:?}");
    }

    #[test]
    fn the_best_means_are_chosen_and_refusals_have_a_reason() {
        check(&machine(true, Some(7), true), Some(ConfinementKind::LandlockView));
        check(&machine(true, Some(5), true), Some(ConfinementKind::Bubblewrap));
        check(&machine(true, Some(7), false), Some(ConfinementKind::Bubblewrap));
        check(&machine(true, None, false), Some(ConfinementKind::Bubblewrap));
        check(&machine(false, Some(7), true), Some(ConfinementKind::LandlockView));
        check(&machine(false, Some(2), true), Some(ConfinementKind::LandlockView));
        check(&machine(false, Some(3), false), Some(ConfinementKind::Landlock));
        check(&machine(false, Some(2), false), None);
        check(&machine(false, Some(1), true), None);
        check(&machine(false, None, true), None);
        let no_filter = MachineSupport { seccomp: Err("no seccomp".into()), ..machine(true, Some(7), true) };
        assert_eq!(no_filter.means(&[]).unwrap_err(), "no seccomp");
        let refusal = machine(false, Some(2), false).means(&[]).unwrap_err();
        assert_eq!(refusal, "Landlock is too old (version 2, wanted 3), and bubblewrap cannot be used: no");
    }

    #[test]
    fn a_bwrap_that_a_command_could_replace_is_not_used() {
        let roots = [WritableRoot { path: "/usr".into(), role: RootRole::Named }];
        let means = machine(true, Some(7), false).means(&roots).unwrap();
        assert_eq!(means.kind(), ConfinementKind::Landlock);
    }

    /// With an older version, a network namespace does what newer versions do themselves.
    #[test]
    fn an_older_landlock_works_with_mounts_too() {
        match landlock::version().and_then(namespaces) {
            Ok(namespaces) => assert_eq!(attempt(LANDLOCK_WITH_MOUNTS, namespaces), Ok(())),
            Err(reason) => eprintln!("skipped: namespaces, which this machine does not have: {reason}"),
        }
    }
}
