//! Landlock: rules by which a process restricts itself, for files, TCP ports, signals and abstract sockets.
//!
//! Rules can only allow, and apply to everything beneath a directory. Rights that a kernel does not know are left out;
//! [`gaps`] returns what is then not prevented, and `probe.rs` has the oldest versions that are used.

use std::{
    io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, NetPort, PathBeneath, Ruleset, RulesetAttr,
    RulesetCreatedAttr, Scope,
};
use parking_lot::Mutex;
use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};

use super::{
    plan::{DEVICES, EnforcementPlan, FileMeans, PLATFORM},
    sys,
};
use crate::{
    ConfinementGap, SandboxError,
    access::{ReadAccess, RootRole},
};

/// The newest version whose rights are used.
const NEWEST: ABI = ABI::V9;

/// The first version that restricts signals and abstract sockets.
pub(super) const SCOPES: i32 = 6;

/// The first version that restricts TCP ports.
pub(super) const PORTS: i32 = 4;

/// A path and the rights on everything beneath it.
type LandlockRule = (PathBuf, BitFlags<AccessFs>);

/// Returns the version that the kernel has.
pub(super) fn version() -> Result<i32, String> {
    sys::landlock_abi().map_err(|error| match error {
        Errno::NOSYS => "this kernel has no Landlock".to_owned(),
        Errno::OPNOTSUPP => "Landlock is switched off in this kernel".to_owned(),
        other => format!("Landlock does not answer: {other}"),
    })
}

/// Returns what a kernel with this version does not prevent.
pub(super) fn gaps(version: i32, files: FileMeans, network: bool) -> Vec<ConfinementGap> {
    let mut gaps = Vec::new();
    if files == FileMeans::LandlockOnly {
        gaps.extend([ConfinementGap::FileAttributes, ConfinementGap::Terminals, ConfinementGap::Ipc]);
    }
    if version < SCOPES {
        gaps.push(ConfinementGap::Signals);
        // Without a network, a network namespace or the system call filter prevents these.
        gaps.extend(network.then_some(ConfinementGap::AbstractSockets));
    }
    gaps
}

/// Creates the rules of a process that is about to start.
pub(super) fn ruleset(plan: &EnforcementPlan, files: FileMeans) -> Result<OwnedFd, SandboxError> {
    let failed =
        |error: landlock::RulesetError| SandboxError::prepare("Landlock rules", io::Error::other(error));
    let mut ruleset = Ruleset::default().handle_access(AccessFs::from_all(NEWEST)).map_err(failed)?;
    // Behind a proxy, the command has its own network namespace and may use every port in it.
    if !plan.access.network && plan.proxy.is_none() {
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

/// Returns rules for the network alone, which allow the process to make mounts afterwards: it can connect to every port
/// except these, and to no abstract socket outside. Rules for ports need [`PORTS`]. There is one for each open port, so
/// the rules are cached.
pub(super) fn network_rules(closed_ports: &[u16]) -> Result<Arc<OwnedFd>, SandboxError> {
    static CACHE: Mutex<Option<(Vec<u16>, Arc<OwnedFd>)>> = Mutex::new(None);
    let mut cache = CACHE.lock();
    if let Some((_, rules)) = cache.as_ref().filter(|(ports, _)| ports == closed_ports) {
        return Ok(rules.clone());
    }
    let failed =
        |error: landlock::RulesetError| SandboxError::prepare("Landlock rules", io::Error::other(error));
    let mut ruleset = Ruleset::default().scope(Scope::AbstractUnixSocket).map_err(failed)?;
    if !closed_ports.is_empty() {
        ruleset = ruleset.handle_access(AccessNet::ConnectTcp).map_err(failed)?;
    }
    let mut ruleset = ruleset.create().map_err(failed)?;
    if !closed_ports.is_empty() {
        let open = (0..=u16::MAX).filter(|port| !closed_ports.contains(port));
        let rules =
            open.map(|port| Ok::<_, landlock::RulesetError>(NetPort::new(port, AccessNet::ConnectTcp)));
        ruleset = ruleset.add_rules(rules).map_err(failed)?;
    }
    let rules = Option::<OwnedFd>::from(ruleset)
        .ok_or_else(|| SandboxError::Unavailable("this kernel has no Landlock".to_owned()))?;
    Ok(cache.insert((closed_ports.to_vec(), Arc::new(rules))).1.clone())
}

/// Returns the rights on private shared memory and pseudo-terminals, limited to those that the kernel knows.
pub(super) fn device_rights(version: i32) -> u64 {
    (write_rights(RootRole::Workspace) & AccessFs::from_all(ABI::from(version))).bits()
}

/// Returns the rights on a private `/proc`: reading, if the policy allows it.
pub(super) fn process_rights(reads: &ReadAccess, version: i32) -> u64 {
    match reads {
        ReadAccess::Only { platform: false, .. } => 0,
        ReadAccess::Everywhere | ReadAccess::Only { .. } => AccessFs::from_read(ABI::from(version)).bits(),
    }
}

fn rules(plan: &EnforcementPlan, files: FileMeans) -> Vec<LandlockRule> {
    let mut rules = readable(plan, files);
    match files {
        FileMeans::Mounted => {
            let roots = plan.access.roots.iter();
            rules.extend(roots.map(|root| (root.path.clone(), write_rights(root.role))));
        }
        FileMeans::LandlockOnly => {
            let parts = plan.writable_parts().into_iter();
            rules.extend(parts.map(|(path, role)| (path, write_rights(role))));
        }
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    static REAL_DEVICES: OnceLock<Vec<PathBuf>> = OnceLock::new();
    let devices = REAL_DEVICES.get_or_init(|| DEVICES.iter().map(|path| real(path)).collect());
    rules.extend(devices.iter().map(|path| (path.clone(), device)));
    rules
}

fn readable(plan: &EnforcementPlan, files: FileMeans) -> Vec<LandlockRule> {
    let read = AccessFs::from_read(NEWEST);
    let whole = match &plan.access.reads {
        ReadAccess::Everywhere => vec![PathBuf::from("/")],
        ReadAccess::Only { platform, roots } => {
            let platform = platform.then(|| PLATFORM.iter().chain(["/proc"].iter()));
            let mut whole: Vec<_> = platform.into_iter().flatten().map(|path| real(path)).collect();
            whole.extend(roots.iter().cloned());
            whole.extend(plan.access.roots.iter().map(|root| root.path.clone()));
            whole
        }
    };
    if files == FileMeans::Mounted || plan.access.hidden.home.is_none() {
        return whole.into_iter().map(|path| (path, read)).collect();
    }
    // Every directory can be listed, but the files of the home cannot be read.
    let mut rules: Vec<_> = whole.iter().map(|path| (path.clone(), AccessFs::ReadDir.into())).collect();
    let parts = whole.iter().flat_map(|path| plan.readable_parts(path));
    let readable = plan.access.hidden.readable.iter().map(|entry| entry.path.clone());
    rules.extend(parts.chain(readable).map(|path| (path, read)));
    rules
}

/// Resolves symbolic links: `/bin` and `/dev/ptmx` often are links.
fn real(path: &str) -> PathBuf {
    Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path))
}

/// Returns all rights except creating devices. In a scratch directory other users may listen on sockets, so connecting
/// to sockets there is not allowed.
fn write_rights(role: RootRole) -> BitFlags<AccessFs> {
    let rights = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    if role == RootRole::Scratch { rights & !AccessFs::ResolveUnix } else { rights }
}

/// Opens a path, or returns `None` if it is gone. The path was resolved before, so a symbolic link in it was created
/// since, and is an error.
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
        use ConfinementGap::*;
        let check = |version, files, network, expected: &[ConfinementGap]| {
            assert_eq!(gaps(version, files, network), expected, "{version} {files:?} {network}");
        };
        check(7, FileMeans::Mounted, false, &[]);
        check(7, FileMeans::Mounted, true, &[]);
        check(5, FileMeans::Mounted, false, &[Signals]);
        check(5, FileMeans::Mounted, true, &[Signals, AbstractSockets]);
        check(7, FileMeans::LandlockOnly, false, &[FileAttributes, Terminals, Ipc]);
        check(7, FileMeans::LandlockOnly, true, &[FileAttributes, Terminals, Ipc]);
        check(3, FileMeans::LandlockOnly, false, &[FileAttributes, Terminals, Ipc, Signals]);
        check(9, FileMeans::LandlockOnly, true, &[FileAttributes, Terminals, Ipc]);
    }

    #[test]
    fn devices_cannot_be_created_and_scratch_sockets_cannot_be_connected_to() {
        assert!(!write_rights(RootRole::Named).intersects(AccessFs::MakeChar | AccessFs::MakeBlock));
        assert!(write_rights(RootRole::Workspace).contains(AccessFs::ResolveUnix));
        assert!(!write_rights(RootRole::Scratch).contains(AccessFs::ResolveUnix));
    }
}
