//! Confinements and users: starts a server with a particular kind of sandbox.

use std::{
    env, fs,
    os::unix::{fs::symlink, process::CommandExt},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use codicil_sandbox::{ConfinementGap, ConfinementKind};
use serde_json::Value;

use super::scene::Scene;

/// The id of a user without privileges.
const ORDINARY_USER: u32 = 65_534;

/// Directories with programs. The tester's own `PATH` may contain directories that other users cannot read.
const PROGRAMS: [&str; 5] = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/sbin"];

/// Names a directory with `bwrap`, for machines that have it in none of [`PROGRAMS`].
const BWRAP_DIRECTORY: &str = "CODICIL_TEST_BWRAP";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confinement {
    /// `bwrap` on a kernel without Landlock.
    Bubblewrap,
    /// Landlock in a mount namespace.
    Mounts,
    /// Landlock without namespaces.
    LandlockAlone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    Tester,
    /// A user without privileges, for a tester who is root.
    Ordinary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    pub confinement: Confinement,
    pub user: User,
}

/// The server's report on its sandbox.
pub struct SandboxReport {
    text: String,
    confinement: Confinement,
}

impl SandboxReport {
    /// Returns whether a gap is documented: `codicil doctor` lists it, or `docs/sandbox.md` for commands with
    /// a network, which `doctor` does not cover.
    pub fn documents(&self, gap: ConfinementGap) -> bool {
        let with_network =
            self.confinement == Confinement::Bubblewrap && gap == ConfinementGap::AbstractSockets;
        with_network || self.text.contains(&gap.to_string())
    }
}

impl Mode {
    pub fn name(self) -> String {
        let confinement = match self.confinement {
            Confinement::Bubblewrap => "bubblewrap",
            Confinement::Mounts => "mounts",
            Confinement::LandlockAlone => "landlock",
        };
        let user = match self.user {
            User::Tester if rustix::process::geteuid().is_root() => "root",
            User::Tester => "tester",
            User::Ordinary => "ordinary",
        };
        format!("{confinement}/{user}")
    }

    pub fn user_id(self) -> Option<u32> {
        (self.user == User::Ordinary).then_some(ORDINARY_USER)
    }

    /// Returns why this machine cannot run the tests in this mode.
    pub fn missing(self) -> Option<String> {
        if self.user == User::Ordinary && !rustix::process::geteuid().is_root() {
            return Some("only root can become another user".to_owned());
        }
        if find_program("python3").is_none() {
            return Some("python3 is not installed".to_owned());
        }
        if self.confinement == Confinement::Bubblewrap && find_bwrap().is_none() {
            return Some(format!("bwrap is not installed, and {BWRAP_DIRECTORY} names no directory with it"));
        }
        None
    }

    /// Runs `codicil doctor` to find out how commands are confined. The error explains why that is not this
    /// mode.
    pub fn report(self, scene: &Scene) -> Result<SandboxReport, String> {
        let mut command = self.codicil(scene, &["doctor", "--json", "--offline"]);
        let output = command.stdin(Stdio::null()).output().map_err(|error| error.to_string())?;
        let report: Value = serde_json::from_slice(&output.stdout).map_err(|_| format!("{output:?}"))?;
        let checks = report["checks"].as_array().into_iter().flatten();
        let sandbox = checks.into_iter().find(|check| check["name"] == "sandbox").unwrap();
        let wanted = match self.confinement {
            Confinement::Bubblewrap => ConfinementKind::Bubblewrap,
            Confinement::Mounts => ConfinementKind::LandlockView,
            Confinement::LandlockAlone => ConfinementKind::Landlock,
        };
        if sandbox["summary"] != wanted.to_string() {
            return Err(sandbox.to_string());
        }
        Ok(SandboxReport { text: sandbox.to_string(), confinement: self.confinement })
    }

    /// Returns a command of the built binary in this mode, with the scene's home and environment.
    pub fn codicil(self, scene: &Scene, arguments: &[&str]) -> Command {
        let binary = env!("CARGO_BIN_EXE_codicil");
        let without = |part: &str| {
            let mut command = Command::new("python3");
            command.args(["-I", "-S"]).arg(scene.tool("without.py")).arg(part).arg(binary);
            command
        };
        let mut command = match self.confinement {
            Confinement::Mounts => Command::new(binary),
            Confinement::LandlockAlone => without("namespaces"),
            // With Landlock, the built-in confinement would be preferred.
            Confinement::Bubblewrap => without("landlock"),
        };
        command.args(arguments).current_dir(scene.path("server")).env_clear();
        command.env("PATH", self.search_path(scene)).env("SHELL", "/bin/bash").env("LANG", "C.UTF-8");
        command.env("CODICIL_HOME", scene.home()).env("HOME", scene.path("person"));
        command.env("TMPDIR", scene.tmpdir()).env("USER", "tester");
        command.env("ESCAPE_API_KEY", super::scene::SECRET);
        if let Some(user) = self.user_id() {
            command.uid(user).gid(user);
        }
        command
    }

    /// Returns `PATH` with `bwrap`, or without it and with everything else.
    fn search_path(self, scene: &Scene) -> String {
        let mut directories: Vec<PathBuf> = PROGRAMS.iter().map(PathBuf::from).collect();
        match self.confinement {
            Confinement::Bubblewrap => directories.insert(0, find_bwrap().unwrap()),
            _ if find_program("bwrap").is_none() => {}
            Confinement::Mounts | Confinement::LandlockAlone => directories = vec![links(scene)],
        }
        env::join_paths(directories).unwrap().into_string().unwrap()
    }
}

/// Creates a directory with links to all programs but `bwrap`, once.
fn links(scene: &Scene) -> PathBuf {
    let directory = scene.path("programs");
    if fs::create_dir(&directory).is_err() {
        return directory;
    }
    for place in PROGRAMS {
        for entry in fs::read_dir(place).into_iter().flatten().flatten() {
            if entry.file_name() != "bwrap" {
                // The first directory of the path has precedence, so an existing link is kept.
                let _ = symlink(entry.path(), directory.join(entry.file_name()));
            }
        }
    }
    directory
}

/// Returns the directory of [`PROGRAMS`] with this program.
fn find_program(name: &str) -> Option<&'static Path> {
    PROGRAMS.iter().map(Path::new).find(|directory| directory.join(name).exists())
}

fn find_bwrap() -> Option<PathBuf> {
    let named = env::var_os(BWRAP_DIRECTORY).map(PathBuf::from).filter(|place| place.join("bwrap").exists());
    named.or_else(|| find_program("bwrap").map(Path::to_owned))
}
