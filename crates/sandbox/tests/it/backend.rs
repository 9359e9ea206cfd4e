//! The confinements and users that tests run with, and the helper program that runs a command with them.

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

use crate::test_tree::TestTree;

/// The exit code of the helper if the machine does not have the wanted confinement.
const UNAVAILABLE: i32 = 201;

/// The id of a user without privileges.
const ORDINARY_USER: u32 = 65_534;

/// A confinement that the helper can use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backend {
    Nothing,
    Bubblewrap,
    /// `bwrap` without mounts made before it starts.
    BubblewrapAlone,
    View,
    Landlock,
}

impl Backend {
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

/// The user that runs a command. `None` is the one that runs the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User(Option<u32>);

impl User {
    /// Returns the user that runs the tests, and an ordinary one if that is root.
    pub fn all() -> Vec<Self> {
        let mut users = vec![Self(None)];
        // SAFETY: takes nothing.
        if unsafe { libc::geteuid() } == 0 {
            users.push(Self(Some(ORDINARY_USER)));
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
pub fn for_each_backend(test: impl Fn(Backend, User)) {
    for user in User::all() {
        for backend in Backend::CONFINED {
            if is_available(backend, user) {
                test(backend, user);
            }
        }
    }
}

/// Returns the probe of this machine, or `None` if it has no confinement.
pub fn probe() -> Option<&'static MachineProbe> {
    match MachineProbe::cached().kind() {
        Ok(_) => Some(MachineProbe::cached()),
        Err(reason) => {
            skipped(format!("this machine has no confinement: {reason}"));
            None
        }
    }
}

/// Returns whether the machine has a confinement. Tries it once, and prints a line if it does not.
fn is_available(backend: Backend, user: User) -> bool {
    static KNOWN: Mutex<Vec<(Backend, User, bool)>> = Mutex::new(Vec::new());
    let mut known = KNOWN.lock();
    if let Some((.., found)) = known.iter().find(|(w, u, _)| (*w, *u) == (backend, user)) {
        return *found;
    }
    let tree = TestTree::new(user, &[]);
    let output = confined(&tree, backend, &[], &["true"]).output().unwrap();
    let found = output.status.code() != Some(UNAVAILABLE);
    assert!(!found || output.status.success(), "{backend:?} as {user:?}: {output:?}");
    known.push((backend, user, found));
    if !found {
        skipped(format!(
            "and every other test backend {backend:?} as {user:?}: this machine does not have it"
        ));
    }
    found
}

/// Prints which test is skipped and why. Writes to standard error directly, because the harness hides what a test prints.
pub fn skipped(why: impl Display) {
    let thread = thread::current();
    let line = format!("skipped: {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = stderr().write_all(line.as_bytes());
}

/// Returns a command in which the helper runs a command line confined. Its home is in the test tree, so that the files of
/// the user who runs the tests do not matter.
pub fn confined(tree: &TestTree, backend: Backend, options: &[&str], line: &[&str]) -> Command {
    let mut command = Command::new(tree.helper());
    command.args(["confine", "--with", backend.name()]).args(options).arg("--").args(line);
    command.current_dir(tree.workspace()).env("TMPDIR", tree.path("tmpdir")).env("HOME", tree.path("tmpdir"));
    tree.user().become_in(&mut command);
    command
}

/// Runs a command line confined. Panics if the helper itself fails.
pub fn run(tree: &TestTree, backend: Backend, options: &[&str], line: &[&str]) -> Output {
    let output = confined(tree, backend, options, line).output().unwrap();
    assert_ne!(output.status.code(), Some(101), "{backend:?} {line:?}: {output:?}");
    output
}

/// Returns whether a shell script succeeds in a sandbox.
pub fn succeeds(tree: &TestTree, backend: Backend, options: &[&str], script: &str) -> bool {
    run(tree, backend, options, &["sh", "-c", script]).status.success()
}

/// Returns whether the machine's kernel is too old to prevent something.
pub fn has_gap(gap: ConfinementGap) -> bool {
    MachineProbe::cached().clone().without_bubblewrap("test").report().contains(&gap.to_string())
}

/// Returns the confinement of a policy in a workspace, for a server without a home.
pub fn confinement(
    policy: &SandboxPolicy,
    workspace: &Path,
    grants: &SandboxGrants,
    probe: &MachineProbe,
) -> Confinement {
    let roots = &RootCache::default();
    let server = &ServerPlaces::default();
    Confinement::new(&AccessRequest { policy, workspace, grants, roots, server }, probe).unwrap()
}
