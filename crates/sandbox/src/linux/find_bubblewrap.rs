//! Finds `bwrap` and tries what it is allowed to do.

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
    mount_view::NamespacePrivilege,
    probe::{smallest_plan, spawn_reason},
};
use crate::ResourceLimits;

/// How long `bwrap` may take to print its version.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Tries how `bwrap` can be used, the best way first. In its own user namespace even root keeps no capability. Where an
/// administrator forbids user namespaces, a privileged `bwrap` works without one.
pub(super) fn find_bubblewrap(privilege: Option<NamespacePrivilege>) -> Result<Bubblewrap, String> {
    let path = find_program("bwrap").ok_or("there is no bwrap program in PATH")?;
    let covers = privilege.map(Some).into_iter().chain([None]);
    let candidates = covers.flat_map(|covers| [(covers, true), (covers, false)]);
    let mut last = Err(String::new());
    for (covers, user_namespace) in candidates {
        last = try_bubblewrap(Bubblewrap { path: path.clone(), user_namespace, covers });
        if last.is_ok() {
            break;
        }
    }
    last
}

/// Runs `bwrap --version` inside `bwrap`, with the options that every command gets.
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
        Some(status) => Err(error_line(&mut process).unwrap_or_else(|| format!("bwrap ended with {status}"))),
        None => Err(format!("bwrap did not end within {} s", PROBE_TIMEOUT.as_secs())),
    }
}

/// Waits for the process. Returns `None` if it had to be killed.
fn wait(process: &mut Child) -> Option<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < PROBE_TIMEOUT {
        if let Ok(Some(status)) = process.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let _ = process.kill();
    let _ = process.wait();
    None
}

/// Returns the first line of standard error.
fn error_line(process: &mut Child) -> Option<String> {
    let mut text = String::new();
    process.stderr.take()?.take(1024).read_to_string(&mut text).ok()?;
    text.lines().next().map(str::to_owned)
}

/// Finds a program in the absolute directories of `PATH` that only root or this user can have written.
fn find_program(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let candidates = env::split_paths(&path).filter(|directory| directory.is_absolute());
    candidates.map(|directory| directory.join(name)).find_map(|path| {
        let real = path.canonicalize().ok()?;
        is_trustworthy(&real.metadata().ok()?).then_some(real)
    })
}

fn is_trustworthy(found: &Metadata) -> bool {
    let mode = found.mode();
    let owner = found.uid();
    found.is_file() && mode & 0o111 != 0 && mode & 0o022 == 0 && (owner == 0 || owner == geteuid().as_raw())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_others_can_write_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bwrap");
        std::fs::write(&path, "").unwrap();
        let check = |mode, expected| {
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            assert_eq!(is_trustworthy(&path.metadata().unwrap()), expected, "{mode:o}");
        };
        check(0o755, true);
        check(0o644, false);
        check(0o757, false);
        check(0o775, false);
    }
}
