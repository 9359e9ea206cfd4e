//! Who confines, and as whom.

use std::{
    fmt::Display,
    io::{Write, stderr},
    os::unix::process::CommandExt,
    path::Path,
    process::{Command, Output},
    thread,
};

use codicil_protocol::SandboxPolicy;
use codicil_sandbox::{
    AccessRequest, Confinement, ConfinementGap, ConfinementKind, MachineProbe, RootCache, SandboxGrants,
    ServerPlaces,
};
use parking_lot::Mutex;

use crate::place::Place;

/// The exit code by which the helper says that the machine has no such confinement.
const UNAVAILABLE: i32 = 201;

/// An ordinary user, the one that is called nobody.
const NOBODY: u32 = 65_534;

/// A confinement by the helper's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    Nothing,
    Bubblewrap,
    /// Where only `bwrap` itself may mount.
    BubblewrapAlone,
    View,
    Landlock,
}

impl With {
    pub const CONFINED: [Self; 4] = [Self::Bubblewrap, Self::BubblewrapAlone, Self::View, Self::Landlock];

    pub fn is_bubblewrap(self) -> bool {
        self.kind() == ConfinementKind::Bubblewrap
    }

    fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Bubblewrap => "bubblewrap",
            Self::BubblewrapAlone => "bubblewrap-alone",
            Self::View => "view",
            Self::Landlock => "landlock",
        }
    }

    fn kind(self) -> ConfinementKind {
        match self {
            Self::Nothing => ConfinementKind::Unconfined,
            Self::Bubblewrap | Self::BubblewrapAlone => ConfinementKind::Bubblewrap,
            Self::View => ConfinementKind::LandlockView,
            Self::Landlock => ConfinementKind::Landlock,
        }
    }
}

/// The user to be. `None` is the one that runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(Option<u32>);

impl User {
    /// Whoever runs the tests, and nobody if that is root.
    pub fn all() -> Vec<Self> {
        let mut users = vec![Self(None)];
        // SAFETY: takes nothing.
        if unsafe { libc::geteuid() } == 0 {
            users.push(Self(Some(NOBODY)));
        }
        users
    }

    pub fn id(self) -> Option<u32> {
        self.0
    }

    pub fn become_in(self, command: &mut Command) {
        if let Some(id) = self.0 {
            command.uid(id).gid(id);
        }
    }
}

/// Calls `test` for each confinement and user that this machine has.
pub fn everywhere(test: impl Fn(With, User)) {
    for user in User::all() {
        for with in With::CONFINED {
            if is_available(with, user) {
                test(with, user);
            }
        }
    }
}

/// The best confinement of this machine for this process.
pub fn probe() -> Option<&'static MachineProbe> {
    match MachineProbe::cached().kind() {
        Ok(_) => Some(MachineProbe::cached()),
        Err(reason) => {
            skipped(format!("this machine has no confinement: {reason}"));
            None
        }
    }
}

/// Found out, and said, once.
fn is_available(with: With, user: User) -> bool {
    static KNOWN: Mutex<Vec<(With, User, bool)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock();
    if let Some((.., found)) = known.iter().find(|(w, u, _)| (*w, *u) == (with, user)) {
        return *found;
    }
    let place = Place::new(user, &[]);
    let output = confined(&place, with, &[], &["true"]).output().unwrap();
    let found = output.status.code() != Some(UNAVAILABLE);
    assert!(!found || output.status.success(), "{with:?} as {user:?}: {output:?}");
    known.push((with, user, found));
    if !found {
        skipped(format!("and every other test with {with:?} as {user:?}: this machine does not have it"));
    }
    found
}

/// Says which test is skipped and why, past the harness, which keeps to itself what a test prints.
pub fn skipped(why: impl Display) {
    let thread = thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = stderr().write_all(line.as_bytes());
}

/// A command line that has the helper confine another one.
pub fn confined(place: &Place, with: With, options: &[&str], line: &[&str]) -> Command {
    let mut command = Command::new(place.helper());
    command.args(["confine", "--with", with.name()]).args(options).arg("--").args(line);
    command.current_dir(place.workspace()).env("TMPDIR", place.path("tmpdir"));
    place.user().become_in(&mut command);
    command
}

/// Runs it, and fails unless the helper itself worked.
pub fn run(place: &Place, with: With, options: &[&str], line: &[&str]) -> Output {
    let output = confined(place, with, options, line).output().unwrap();
    assert_ne!(output.status.code(), Some(101), "{with:?} {line:?}: {output:?}");
    output
}

/// Whether a shell line succeeds.
pub fn succeeds(place: &Place, with: With, options: &[&str], script: &str) -> bool {
    run(place, with, options, &["sh", "-c", script]).status.success()
}

/// Whether the machine's kernel is too old to stop something.
pub fn has_gap(gap: ConfinementGap) -> bool {
    MachineProbe::cached().clone().without_bubblewrap("test").report().contains(&gap.to_string())
}

/// A policy ready to be enforced in a workspace, for a server without a home.
pub fn confinement(
    policy: &SandboxPolicy,
    workspace: &Path,
    grants: &SandboxGrants,
    probe: &MachineProbe,
) -> Confinement {
    let (roots, server) = (&RootCache::default(), &ServerPlaces::default());
    Confinement::new(&AccessRequest { policy, workspace, grants, roots, server }, probe).unwrap()
}
