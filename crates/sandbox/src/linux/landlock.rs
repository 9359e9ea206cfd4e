//! Landlock: rules that a process lays upon itself, for files, TCP ports, signals and abstract sockets.
//!
//! Rules can only allow, and hold for everything beneath a directory. What a kernel does not know yet is left
//! out; [`gaps`] says what that means, and `probe.rs` draws the line below which Landlock is not used.

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

/// The newest interface whose rights are used.
const NEWEST: ABI = ABI::V9;

/// From here on signals and abstract sockets stay within.
pub(super) const SCOPES: i32 = 6;

/// From here on TCP ports have rules.
pub(super) const PORTS: i32 = 4;

/// Something that can be read, written or both.
type LandlockRule = (PathBuf, BitFlags<AccessFs>);

/// Which interface the kernel has.
pub(super) fn version() -> Result<i32, String> {
    sys::landlock_abi().map_err(|error| match error {
        Errno::NOSYS => "this kernel has no Landlock".to_owned(),
        Errno::OPNOTSUPP => "Landlock is switched off in this kernel".to_owned(),
        other => format!("Landlock does not answer: {other}"),
    })
}

/// What a kernel with this interface lets through.
pub(super) fn gaps(version: i32, files: FileMeans, network: bool) -> Vec<ConfinementGap> {
    let mut gaps = Vec::new();
    if files == FileMeans::LandlockOnly {
        gaps.extend([ConfinementGap::FileAttributes, ConfinementGap::Terminals, ConfinementGap::Ipc]);
    }
    if version < SCOPES {
        gaps.push(ConfinementGap::Signals);
        // Without a network, a namespace or the system call filter sees to these.
        gaps.extend(network.then_some(ConfinementGap::AbstractSockets));
    }
    gaps
}

/// Makes the rules ready for a process that is about to start.
pub(super) fn ruleset(plan: &EnforcementPlan, files: FileMeans) -> Result<OwnedFd, SandboxError> {
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

/// Rules about the network alone, for a process that goes on to make mounts: every port can be connected to but these,
/// and abstract sockets stay within. Rules about ports need [`PORTS`]; they are many, so they are made once and kept.
pub(super) fn network_rules(closed_ports: &[u16]) -> Result<Arc<OwnedFd>, SandboxError> {
    static KEPT: Mutex<Option<(Vec<u16>, Arc<OwnedFd>)>> = Mutex::new(None);
    let mut kept = KEPT.lock();
    if let Some((_, rules)) = kept.as_ref().filter(|(ports, _)| ports == closed_ports) {
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
    Ok(kept.insert((closed_ports.to_vec(), Arc::new(rules))).1.clone())
}

/// What the private directories for devices allow, as far as a kernel knows these rights.
pub(super) fn device_rights(version: i32) -> u64 {
    (write_rights(RootRole::Workspace) & AccessFs::from_all(ABI::from(version))).bits()
}

/// What a private view of processes allows: reading, where the policy lets it.
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
    // Names can be listed everywhere; what is in the home's files cannot be read.
    let mut rules: Vec<_> = whole.iter().map(|path| (path.clone(), AccessFs::ReadDir.into())).collect();
    let parts = whole.iter().flat_map(|path| plan.readable_parts(path));
    let readable = plan.access.hidden.readable.iter().map(|entry| entry.path.clone());
    rules.extend(parts.chain(readable).map(|path| (path, read)));
    rules
}

/// Without links: `/bin` and `/dev/ptmx` often are one.
fn real(path: &str) -> PathBuf {
    Path::new(path).canonicalize().unwrap_or_else(|_| PathBuf::from(path))
}

/// Everything but devices. In a scratch directory a stranger may listen, so sockets there are only one's own.
fn write_rights(role: RootRole) -> BitFlags<AccessFs> {
    let rights = AccessFs::from_all(NEWEST) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
    if role == RootRole::Scratch { rights & !AccessFs::ResolveUnix } else { rights }
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
    fn devices_cannot_be_made_and_scratch_sockets_not_reached() {
        assert!(!write_rights(RootRole::Named).intersects(AccessFs::MakeChar | AccessFs::MakeBlock));
        assert!(write_rights(RootRole::Workspace).contains(AccessFs::ResolveUnix));
        assert!(!write_rights(RootRole::Scratch).contains(AccessFs::ResolveUnix));
    }
}
