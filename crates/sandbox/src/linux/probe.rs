//! What this machine offers, found out by trying: a kernel may have a feature and an administrator may have switched it off.

use std::{
    env,
    fs::Metadata,
    io::{self, Read as _},
    os::unix::fs::MetadataExt,
    path::PathBuf,
    process::{Child as Process, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    process::geteuid,
    thread::{CapabilitySet, capabilities},
};

use super::{
    bubblewrap::{Bubblewrap, Options},
    child::{Child, Common, Launcher},
    landlock,
    plan::{Files, Plan},
    sys,
    view::Privilege,
};
use crate::{
    Gap, Kind, Limits, SandboxError,
    access::{Access, Reads, Root},
    metadata::Metadata as Protected,
};

/// Linux 6.2 and newer: before, files could be cut short that could not be written.
const LANDLOCK_ALONE: i32 = 3;

/// Linux 5.19 and newer: before, no file could be moved to another directory.
const LANDLOCK_WITH_MOUNTS: i32 = 2;

/// A program that is not there. A child that gets as far as looking for it has confined itself.
const NOWHERE: &str = "/proc/self/no-such-program";

/// How long `bwrap` may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

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
        Self { bubblewrap: bubblewrap(), landlock, namespaces, seccomp }
    }

    /// The best there is, or everything that is missing.
    pub(crate) fn means(&self, roots: &[Root]) -> Result<Means, String> {
        self.seccomp.clone()?;
        let bubblewrap =
            self.bubblewrap.as_ref().map_err(Clone::clone).and_then(|found| trusted(found, roots));
        let no_bubblewrap = match bubblewrap {
            Ok(found) => return Ok(Means::Bubblewrap(found.clone())),
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
            Self::Bubblewrap(_) => {
                [Gap::Pipes].into_iter().chain(network.then_some(Gap::AbstractSockets)).collect()
            }
            Self::Landlock { version, .. } => landlock::gaps(*version, self.files(), network),
        }
    }
}

/// A confined command must not be able to replace the program that will confine the next one.
fn trusted<'a>(found: &'a Bubblewrap, roots: &[Root]) -> Result<&'a Bubblewrap, String> {
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
    let child =
        Child::new(&smallest_plan(), version, Some(privilege), common).map_err(|error| error.to_string())?;
    let mut command = Command::new(NOWHERE);
    child.attach(&mut command);
    match command.spawn() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => {
            Err(SandboxError::from_spawn(&error).map_or(error.to_string(), |error| error.to_string()))
        }
        Ok(mut process) => {
            let _ = process.wait();
            Err(format!("{NOWHERE} was run"))
        }
    }
}

/// Nothing writable, no network, and one mount, to see that mounting works.
fn smallest_plan() -> Plan {
    Plan {
        access: Access { reads: Reads::Everywhere, roots: Vec::new(), network: false },
        metadata: Protected::default(),
        sockets: vec![PathBuf::from("/dev/null")],
        gaps: Vec::new(),
    }
}

fn bubblewrap() -> Result<Bubblewrap, String> {
    let path = find_program("bwrap").ok_or("there is no bwrap program in PATH")?;
    // In a user namespace of its own, root keeps no capability at all. Where an administrator forbids them, a
    // privileged bwrap can do without.
    let own = try_bubblewrap(Bubblewrap { path: path.clone(), user_namespace: true });
    own.or_else(|reason| try_bubblewrap(Bubblewrap { path, user_namespace: false }).map_err(|_| reason))
}

/// Runs it with the options that every command gets, on itself: that is a program which must be there.
fn try_bubblewrap(program: Bubblewrap) -> Result<Bubblewrap, String> {
    let launcher =
        Launcher::new(false, Common::new(&Limits::default(), false)).map_err(|error| error.to_string())?;
    let options = Options { network: false, dies_with_parent: false, filter: launcher.filter_number() };
    let mut command = Command::new(&program.path);
    command.args(program.arguments(&smallest_plan(), &options)).arg(&program.path).arg("--version");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    launcher.attach(&mut command);
    let mut process = command.spawn().map_err(|error| format!("{}: {error}", program.path.display()))?;
    match wait(&mut process) {
        Some(status) if status.success() => Ok(program),
        Some(status) => Err(complaint(&mut process).unwrap_or_else(|| format!("bwrap ended with {status}"))),
        None => Err(format!("bwrap did not end within {} s", PATIENCE.as_secs())),
    }
}

/// `None` if it had to be killed.
fn wait(process: &mut Process) -> Option<ExitStatus> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Ok(Some(status)) = process.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = process.kill();
    let _ = process.wait();
    None
}

/// The first line of what it wrote to standard error.
fn complaint(process: &mut Process) -> Option<String> {
    let mut text = String::new();
    process.stderr.take()?.take(1024).read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned)
}

/// In absolute directories only, and none that somebody else could have put there.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let candidates = env::split_paths(&path).filter(|directory| directory.is_absolute());
    candidates.map(|directory| directory.join(name)).find_map(|path| {
        let real = path.canonicalize().ok()?;
        is_sound(&real.metadata().ok()?).then_some(real)
    })
}

fn is_sound(found: &Metadata) -> bool {
    let (mode, owner) = (found.mode(), found.uid());
    found.is_file() && mode & 0o111 != 0 && mode & 0o022 == 0 && (owner == 0 || owner == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::Role;

    fn machine(bubblewrap: bool, landlock: Option<i32>, namespaces: bool) -> Machine {
        let no = || Err("no".to_owned());
        let program = Bubblewrap { path: "/usr/bin/bwrap".into(), user_namespace: false };
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

    #[test]
    fn a_program_that_others_can_write_is_not_sound() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bwrap");
        std::fs::write(&path, "").unwrap();
        let check = |mode, expected| {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(is_sound(&path.metadata().unwrap()), expected, "{mode:o}");
        };
        check(0o755, true);
        check(0o644, false);
        check(0o757, false);
        check(0o775, false);
    }
}
