//! What this machine offers, found out by trying: a kernel may have a feature, and an administrator may have
//! switched it off.

use std::{io, path::PathBuf, process::Command};

use rustix::thread::{CapabilitySet, capabilities};

use super::{
    bubblewrap::Bubblewrap,
    child::{Child, Common},
    find::find_bubblewrap,
    landlock,
    plan::{Files, Plan},
    sys,
    view::Privilege,
};
use crate::{
    Gap, Kind, Limits, SandboxError,
    access::{Access, Reads, Root},
    metadata::Metadata,
    probe::NOWHERE,
};

/// Linux 6.2 and newer: before, files could be cut short that could not be written.
const LANDLOCK_ALONE: i32 = 3;

/// Linux 5.19 and newer: before, no file could be moved to another directory.
const LANDLOCK_WITH_MOUNTS: i32 = 2;

/// Each part, or why it cannot be used.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub bubblewrap: Result<Bubblewrap, String>,
    pub landlock: Result<i32, String>,
    pub namespaces: Result<Privilege, String>,
    pub seccomp: Result<(), String>,
}

/// The parts that make up the best confinement.
#[derive(Clone, Debug)]
pub(crate) enum Means {
    Bubblewrap(Bubblewrap),
    Landlock { version: i32, privilege: Option<Privilege> },
}

impl Machine {
    pub(crate) fn probe() -> Self {
        let seccomp =
            sys::seccomp_available().map_err(|error| format!("this kernel has no seccomp: {error}"));
        let landlock = landlock::version();
        let namespaces = match &landlock {
            Ok(version) => namespaces(*version),
            Err(_) => Err("of no use without Landlock".to_owned()),
        };
        Self { bubblewrap: find_bubblewrap(namespaces.clone().ok()), landlock, namespaces, seccomp }
    }

    /// The best there is, or everything that is missing.
    pub(crate) fn means(&self, roots: &[Root]) -> Result<Means, String> {
        self.seccomp.clone()?;
        let no_bubblewrap = match self.bubblewrap.clone().and_then(|found| trusted(found, roots)) {
            Ok(found) => {
                let covers = found.covers.filter(|_| self.namespaces.is_ok());
                return Ok(Means::Bubblewrap(Bubblewrap { covers, ..found }));
            }
            Err(reason) => reason,
        };
        let missing = |landlock: &str| format!("{landlock}, and bubblewrap cannot be used: {no_bubblewrap}");
        let version = *self.landlock.as_ref().map_err(|reason| missing(reason))?;
        let privilege = self.namespaces.clone().ok();
        let least = if privilege.is_some() { LANDLOCK_WITH_MOUNTS } else { LANDLOCK_ALONE };
        if version < least {
            return Err(missing(&format!("Landlock is too old (version {version}, wanted {least})")));
        }
        Ok(Means::Landlock { version, privilege })
    }

    pub(crate) fn kind(&self) -> Result<Kind, String> {
        self.means(&[]).map(|means| means.kind())
    }

    /// One line for each part, and for each thing that is not stopped.
    pub(crate) fn lines(&self) -> Vec<String> {
        let line = |name: &str, found: Result<String, &String>| match found {
            Ok(what) => format!("{name}: {what}"),
            Err(reason) => format!("{name}: not used: {reason}"),
        };
        let bubblewrap = self.bubblewrap.as_ref().map(|found| found.path.display().to_string());
        let namespaces = self.namespaces.as_ref().map(|privilege| match privilege {
            Privilege::Own => "with the server's own privilege".to_owned(),
            Privilege::UserNamespace => "through a user namespace".to_owned(),
        });
        let gaps = self.means(&[]).map(|means| means.gaps(false)).unwrap_or_default();
        let parts = [
            line("bubblewrap", bubblewrap),
            line("mount namespace", namespaces),
            line("Landlock", self.landlock.as_ref().map(|version| format!("version {version}"))),
            line("seccomp", self.seccomp.as_ref().map(|()| "available".to_owned())),
        ];
        parts.into_iter().chain(gaps.iter().map(|gap| format!("not stopped: {gap}"))).collect()
    }
}

impl Means {
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::Bubblewrap(_) => Kind::Bubblewrap,
            Self::Landlock { privilege: Some(_), .. } => Kind::LandlockView,
            Self::Landlock { privilege: None, .. } => Kind::Landlock,
        }
    }

    pub(crate) fn files(&self) -> Files {
        match self {
            Self::Landlock { privilege: None, .. } => Files::LandlockOnly,
            Self::Bubblewrap(_) | Self::Landlock { .. } => Files::Mounted,
        }
    }

    /// What it does not stop, whatever the plan.
    pub(crate) fn gaps(&self, network: bool) -> Vec<Gap> {
        match self {
            Self::Bubblewrap(program) => {
                let mut gaps = vec![Gap::Pipes];
                gaps.extend(network.then_some(Gap::AbstractSockets));
                gaps.extend((network && program.covers.is_none()).then_some(Gap::Sockets));
                gaps
            }
            Self::Landlock { version, .. } => landlock::gaps(*version, self.files(), network),
        }
    }
}

/// A confined command must not be able to replace the program that will confine the next one.
fn trusted(found: Bubblewrap, roots: &[Root]) -> Result<Bubblewrap, String> {
    match roots.iter().find(|root| found.path.starts_with(&root.path)) {
        Some(root) => Err(format!("{} is inside {}", found.path.display(), root.path.display())),
        None => Ok(found),
    }
}

/// Tries the whole of it, in a process of its own. The server's own privilege needs no user namespace, in
/// which every file of somebody else appears to be nobody's.
fn namespaces(version: i32) -> Result<Privilege, String> {
    let admin = capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if admin && attempt(version, Privilege::Own).is_ok() {
        return Ok(Privilege::Own);
    }
    attempt(version, Privilege::UserNamespace).map(|()| Privilege::UserNamespace)
}

fn attempt(version: i32, privilege: Privilege) -> Result<(), String> {
    let common = Common::new(&Limits::default(), false);
    let child = Child::new(&smallest_plan(), version, Some(privilege), None, common)
        .map_err(|error| error.to_string())?;
    let mut command = Command::new(NOWHERE);
    child.attach(&mut command);
    match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(spawn_reason(error)),
        Ok(mut process) => {
            let _ = process.wait();
            Err(format!("{NOWHERE} was run"))
        }
    }
}

pub(super) fn spawn_reason(error: io::Error) -> String {
    SandboxError::from_spawn(&error).map_or_else(|| error.to_string(), |error| error.to_string())
}

/// Nothing writable, no network, and one mount, to see that mounting works.
pub(super) fn smallest_plan() -> Plan {
    Plan {
        proxied: false,
        access: Access { reads: Reads::Everywhere, roots: Vec::new(), network: false },
        metadata: Metadata::default(),
        sockets: vec![PathBuf::from("/dev/null")],
        gaps: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    fn machine(bubblewrap: bool, landlock: Option<i32>, namespaces: bool) -> Machine {
        let no = || Err("no".to_owned());
        let program = Bubblewrap { path: "/usr/bin/bwrap".into(), user_namespace: false, covers: None };
        Machine {
            bubblewrap: if bubblewrap { Ok(program) } else { no() },
            landlock: landlock.ok_or_else(|| "no".to_owned()),
            namespaces: if namespaces { Ok(Privilege::Own) } else { Err("no".to_owned()) },
            seccomp: Ok(()),
        }
    }

    fn check(machine: &Machine, expected: Option<Kind>) {
        assert_eq!(machine.means(&[]).ok().map(|means| means.kind()), expected, "{machine:?}");
    }

    #[test]
    fn the_best_means_are_taken_and_nothing_is_refused_silently() {
        check(&machine(true, Some(7), true), Some(Kind::Bubblewrap));
        check(&machine(true, None, false), Some(Kind::Bubblewrap));
        check(&machine(false, Some(7), true), Some(Kind::LandlockView));
        check(&machine(false, Some(2), true), Some(Kind::LandlockView));
        check(&machine(false, Some(3), false), Some(Kind::Landlock));
        check(&machine(false, Some(2), false), None);
        check(&machine(false, Some(1), true), None);
        check(&machine(false, None, true), None);
        let no_filter = Machine { seccomp: Err("no seccomp".into()), ..machine(true, Some(7), true) };
        assert_eq!(no_filter.means(&[]).unwrap_err(), "no seccomp");
        let refusal = machine(false, Some(2), false).means(&[]).unwrap_err();
        assert_eq!(refusal, "Landlock is too old (version 2, wanted 3), and bubblewrap cannot be used: no");
    }

    #[test]
    fn a_bwrap_that_a_command_could_replace_is_not_used() {
        let roots = [Root { path: "/usr".into(), role: Role::Named }];
        let means = machine(true, Some(7), true).means(&roots).unwrap();
        assert_eq!(means.kind(), Kind::LandlockView);
    }

    /// There a network namespace does what newer versions do by themselves.
    #[test]
    fn an_older_landlock_works_with_mounts_too() {
        match landlock::version().and_then(namespaces) {
            Ok(privilege) => assert_eq!(attempt(LANDLOCK_WITH_MOUNTS, privilege), Ok(())),
            Err(reason) => eprintln!("skipped: namespaces, which this machine does not have: {reason}"),
        }
    }
}
