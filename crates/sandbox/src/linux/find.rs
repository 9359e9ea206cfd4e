//! Finds `bwrap` and tries it.

use std::{
    env,
    fs::Metadata,
    io::Read as _,
    os::unix::{fs::MetadataExt, process::CommandExt},
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use rustix::process::geteuid;

use super::{
    bubblewrap::{Bubblewrap, BubblewrapOptions},
    child::BubblewrapLauncher,
    probe::{smallest_plan, spawn_reason},
    view::NamespacePrivilege,
};
use crate::ResourceLimits;

/// How long `bwrap` may take to say its version.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tries what `bwrap` may be allowed to do, the best first. In a user namespace of its own even root keeps no
/// capability at all; where an administrator forbids those, a privileged `bwrap` can do without.
pub(super) fn find_bubblewrap(privilege: Option<NamespacePrivilege>) -> Result<Bubblewrap, String> {
    let path = find_program("bwrap").ok_or("there is no bwrap program in PATH")?;
    let covers = privilege.map(Some).into_iter().chain([None]);
    let ways = covers.flat_map(|covers| [(covers, true), (covers, false)]);
    let mut last = Err(String::new());
    for (covers, user_namespace) in ways {
        last = try_bubblewrap(Bubblewrap { path: path.clone(), user_namespace, covers });
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Runs it with the options that every command gets, on itself: that is a program which must be there.
fn try_bubblewrap(program: Bubblewrap) -> Result<Bubblewrap, String> {
    let launcher =
        BubblewrapLauncher::new(&smallest_plan(), program.covers, None, None, &ResourceLimits::default());
    let mut launcher = launcher.map_err(|error| error.to_string())?;
    let options = BubblewrapOptions { network: false, filter: launcher.filter_number() };
    let mut command = Command::new(&program.path);
    command.args(program.arguments(&smallest_plan(), &options)).arg(&program.path).arg("--version");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // SAFETY: `prepare` makes only async-signal-safe calls.
    unsafe { command.pre_exec(move || launcher.prepare()) };
    let mut process = command.spawn().map_err(spawn_reason)?;
    match wait(&mut process) {
        Some(status) if status.success() => Ok(program),
        Some(status) => Err(complaint(&mut process).unwrap_or_else(|| format!("bwrap ended with {status}"))),
        None => Err(format!("bwrap did not end within {} s", PATIENCE.as_secs())),
    }
}

/// `None` if it had to be killed.
fn wait(process: &mut Child) -> Option<ExitStatus> {
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
fn complaint(process: &mut Child) -> Option<String> {
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
