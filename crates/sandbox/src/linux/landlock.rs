//! Landlock: rules that a process lays upon itself, for files, TCP ports, signals and abstract sockets.
//!
//! Rules can only allow, and hold for everything beneath a directory. What a kernel does not know yet is left
//! out; [`gaps`] says what that means, and `probe.rs` draws the line below which Landlock is not used.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreatedAttr,
    Scope,
};
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};

use super::{
    plan::{DEVICES, Files, PLATFORM, Plan},
    sys,
};
use crate::{
    Gap, SandboxError,
    access::{Reads, Role},
};

/// The newest interface whose rights are used.
const NEWEST: ABI = ABI::V9;

/// From here on signals and abstract sockets stay within.
pub(super) const SCOPES: i32 = 6;

/// From here on sockets in the file system are a right of their own.
pub(super) const UNIX_SOCKETS: i32 = 9;

/// Something that can be read, written or both.
type Rule = (PathBuf, BitFlags<AccessFs>);

/// Which interface the kernel has.
pub(super) fn version() -> Result<i32, String> {
    sys::landlock_abi().map_err(|error| match error {
        Errno::NOSYS => "this kernel has no Landlock".to_owned(),
        Errno::OPNOTSUPP => "Landlock is switched off in this kernel".to_owned(),
        other => format!("Landlock does not answer: {other}"),
    })
}

/// What a kernel with this interface lets through.
pub(super) fn gaps(version: i32, files: Files, network: bool) -> Vec<Gap> {
    // A thread names itself by number when it chooses its processors, so the filter cannot tell it from others.
    let mut gaps = vec![Gap::Scheduling];
    if files == Files::LandlockOnly {
        gaps.extend([Gap::FileAttributes, Gap::Terminals, Gap::Ipc]);
        gaps.extend((network && version < UNIX_SOCKETS).then_some(Gap::Sockets));
    }
    if version < SCOPES {
        gaps.push(Gap::Signals);
        // Without a network, a namespace or the system call filter sees to these.
        gaps.extend(network.then_some(Gap::AbstractSockets));
    }
    gaps
}

/// Makes the rules ready for a process that is about to start.
pub(super) fn ruleset(plan: &Plan, files: Files) -> Result<OwnedFd, SandboxError> {
    let failed =
        |error: landlock::RulesetError| SandboxError::prepare("Landlock rules", io::Error::other(error));
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST)).map_err(failed)?;
    // Behind a proxy, the network is the command's own, and ports in it are its own business.
    if !plan.access.network && !plan.proxied {
        ruleset = ruleset.handle_access(AccessNet::from_all(NEWEST)).map_err(failed)?;
    }
    let mut ruleset = ruleset.scope(Scope::from_all(NEWEST)).and_then(Ruleset::create).map_err(failed)?;
    for (path, rights) in rules(plan, files) {
        if let Some(fd) = open(&path)? {
            ruleset = ruleset.add_rule(PathBeneath::new(fd, rights)).map_err(failed)?;
        }
    }
    Option::<OwnedFd>::from(ruleset)
        .ok_or_else(|| SandboxError::Unavailable("this kernel has no Landlock".to_owned()))
}

/// What the private directories for devices allow, as far as a kernel knows these rights.
pub(super) fn device_rights(version: i32) -> u64 {
    (write_rights(Role::Workspace) & AccessFs::from_all(ABI::from(version))).bits()
}

fn rules(plan: &Plan, files: Files) -> Vec<Rule> {
    let mut rules = readable(plan);
    match files {
        Files::Mounted => {
            let roots = plan.access.roots.iter();
            rules.extend(roots.map(|root| (root.path.clone(), write_rights(root.role))));
        }
        Files::LandlockOnly => {
            let parts = plan.writable_parts().into_iter();
            rules.extend(parts.map(|(path, role)| (path, write_rights(role))));
        }
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    rules.extend(DEVICES.iter().map(|path| (real(path), device)));
    rules
}

fn readable(plan: &Plan) -> Vec<Rule> {
    let read = AccessFs::from_read(NEWEST);
    match &plan.access.reads {
        Reads::Everywhere => vec![(PathBuf::from("/"), read)],
        Reads::Only { platform, roots } => {
            let platform = platform.then(|| PLATFORM.iter().chain(["/proc"].iter()));
            let mut rules: Vec<_> = platform.into_iter().flatten().map(|path| (real(path), read)).collect();
            rules.extend(roots.iter().map(|path| (path.clone(), read)));
            rules.extend(plan.access.roots.iter().map(|root| (root.path.clone(), read)));
            rules
        }
    }
}

/// Without links: `/bin` and `/dev/ptmx` often are one.
fn real(path: &str) -> PathBuf {
    Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path))
}

/// Everything but devices. In a scratch directory a stranger may listen, so sockets there are only one's own.
fn write_rights(role: Role) -> BitFlags<AccessFs> {
    let rights = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    if role == Role::Scratch { rights & !AccessFs::ResolveUnix } else { rights }
}

/// `None` if it is gone. Paths were resolved before, so a link on the way was put there since, and is an error.
fn open(path: &Path) -> Result<Option<OwnedFd>, SandboxError> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR) => Ok(None),
        Err(error) => Err(SandboxError::prepare(path.display().to_string(), error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_kernels_and_missing_mounts_leave_gaps() {
        use Gap::*;
        let check = |version, files, network, expected: &[Gap]| {
            assert_eq!(gaps(version, files, network), expected, "{version} {files:?} {network}");
        };
        check(7, Files::Mounted, false, &[Scheduling]);
        check(7, Files::Mounted, true, &[Scheduling]);
        check(5, Files::Mounted, false, &[Scheduling, Signals]);
        check(5, Files::Mounted, true, &[Scheduling, Signals, AbstractSockets]);
        check(7, Files::LandlockOnly, false, &[Scheduling, FileAttributes, Terminals, Ipc]);
        check(7, Files::LandlockOnly, true, &[Scheduling, FileAttributes, Terminals, Ipc, Sockets]);
        check(3, Files::LandlockOnly, false, &[Scheduling, FileAttributes, Terminals, Ipc, Signals]);
        check(9, Files::LandlockOnly, true, &[Scheduling, FileAttributes, Terminals, Ipc]);
    }

    #[test]
    fn devices_cannot_be_made_and_scratch_sockets_not_reached() {
        assert!(!write_rights(Role::Named).intersects(AccessFs::MakeChar | AccessFs::MakeBlock));
        assert!(write_rights(Role::Workspace).contains(AccessFs::ResolveUnix));
        assert!(!write_rights(Role::Scratch).contains(AccessFs::ResolveUnix));
    }
}
