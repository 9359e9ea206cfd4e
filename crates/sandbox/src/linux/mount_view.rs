//! A private view of the file system: a mount namespace in which everything except the writable roots is read-only.
//!
//! Landlock restricts opening, creating and removing files. Mounts do what it cannot: they exclude parts of a root
//! (metadata, the server's home), prevent changes of modes, owners and times, keep folders from being moved, and cover
//! sockets. Shared memory, pseudo-terminals and `/proc` are private mounts.
//!
//! [`MountView::new`] prepares everything. [`MountView::enter`] runs between `fork` and `exec`, where memory must not be
//! allocated, so it makes system calls only. It follows no symbolic link, because a command that is still running could
//! create one at any time.

use std::{
    collections::BTreeMap,
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, mkdirat, openat, openat2, symlinkat},
    io::Errno,
    mount::{
        FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
        OpenTreeFlags, fsconfig_create, fsconfig_set_string, fsmount, fsopen, mount, mount_change,
        move_mount, open_tree,
    },
    process::{chdir, getegid, geteuid},
};

use super::{
    plan::{EnforcementPlan, PlannedMount},
    sys,
};
use crate::{SandboxError, SetupStep, server_places::EntryKind};

/// A private file system of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelDevice {
    path: &'static CStr,
    kind: &'static CStr,
    options: &'static CStr,
}

/// The size keeps a command from filling the machine's memory with files.
const SHARED_MEMORY: KernelDevice =
    KernelDevice { path: c"/dev/shm", kind: c"tmpfs", options: c"mode=1777,size=1g" };
const TERMINALS: KernelDevice =
    KernelDevice { path: c"/dev/pts", kind: c"devpts", options: c"newinstance,ptmxmode=0666,mode=0620" };
/// Mounted read-only, because root may write the kernel's settings even without capabilities.
pub(super) const PROCESSES: KernelDevice = KernelDevice { path: c"/proc", kind: c"proc", options: c"" };

/// The size of the buffer for the working directory: `PATH_MAX`.
const MAX_PATH: usize = 4096;

/// The source of the privilege to create namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespacePrivilege {
    /// The server has `CAP_SYS_ADMIN`.
    Own,
    /// The new process gets it in a user namespace.
    UserNamespace,
}

/// The namespaces that a command does not share with the machine, besides its mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnNamespaces {
    pub network: bool,
    pub processes: bool,
}

/// The prepared mounts of one command.
pub(super) struct MountView {
    /// The namespaces that the process enters by `unshare`.
    unshare_flags: libc::c_int,
    /// The namespaces that the process must be cloned into.
    clone_flags: libc::c_int,
    /// With a user namespace, the lines that map the user and the group to themselves.
    identity: Option<IdentityMap>,
    /// Whether everything outside the mounts becomes read-only.
    read_only: bool,
    mounts: Vec<PreparedMount>,
    /// The private file systems to mount.
    devices: Vec<KernelDevice>,
}

struct IdentityMap {
    user: CString,
    group: CString,
}

struct PreparedMount {
    path: CString,
    mount: PlannedMount,
    /// A copy of the mount, taken before everything becomes read-only and the home is hidden.
    tree: Option<OwnedFd>,
    /// The entries of an empty folder: mount points for other mounts, and links.
    entries: Vec<MountEntry>,
}

enum MountEntry {
    Folder(CString),
    File(CString),
    Link { path: CString, target: CString },
}

impl MountView {
    /// Prepares all mounts of a plan.
    pub(super) fn new(
        plan: &EnforcementPlan,
        privilege: NamespacePrivilege,
        own: OwnNamespaces,
    ) -> Result<Self, SandboxError> {
        let mut view = Self::with_mounts(plan, |_| true, privilege, own)?;
        let processes = own.processes.then_some(PROCESSES);
        let devices = [SHARED_MEMORY, TERMINALS].into_iter().chain(processes);
        view.devices = devices.filter(|device| can_mount_device(device.path, plan)).collect();
        view.unshare_flags |= libc::CLONE_NEWIPC;
        view.read_only = true;
        Ok(view)
    }

    /// Prepares only the covers over sockets, for `bwrap`, which makes the other mounts.
    pub(super) fn covers_only(
        plan: &EnforcementPlan,
        privilege: NamespacePrivilege,
        own_network: bool,
    ) -> Result<Self, SandboxError> {
        let own = OwnNamespaces { network: own_network, processes: false };
        Self::with_mounts(plan, |mount| mount == PlannedMount::Covered, privilege, own)
    }

    fn with_mounts(
        plan: &EnforcementPlan,
        wanted: impl Fn(PlannedMount) -> bool,
        privilege: NamespacePrivilege,
        own: OwnNamespaces,
    ) -> Result<Self, SandboxError> {
        let all = plan.mounts();
        let mut mounts = Vec::new();
        for (path, mount) in all.iter().filter(|(_, mount)| wanted(**mount)) {
            let entries =
                if *mount == PlannedMount::Hidden { home_entries(path, plan, &all)? } else { Vec::new() };
            mounts.push(PreparedMount { path: c_path(path)?, mount: *mount, tree: None, entries });
        }
        let network = if own.network { libc::CLONE_NEWNET } else { 0 };
        let mut view = Self {
            unshare_flags: libc::CLONE_NEWNS | network,
            clone_flags: if own.processes { libc::CLONE_NEWPID } else { 0 },
            identity: None,
            read_only: false,
            mounts,
            devices: Vec::new(),
        };
        if privilege == NamespacePrivilege::UserNamespace {
            // The PID namespace must belong to the user namespace, so both are created by the same call.
            let flags = if own.processes { &mut view.clone_flags } else { &mut view.unshare_flags };
            *flags |= libc::CLONE_NEWUSER;
            let line = |id: u32| CString::new(format!("{id} {id} 1")).map_err(invalid);
            let user = line(geteuid().as_raw())?;
            let group = line(getegid().as_raw())?;
            view.identity = Some(IdentityMap { user, group });
        }
        Ok(view)
    }

    /// Returns the namespaces that the process must be cloned into, as flags of `clone`.
    pub(super) fn clone_flags(&self) -> libc::c_int {
        self.clone_flags
    }

    /// Moves this process into the view, and calls `allow` for each file system that is newly mounted.
    pub(super) fn enter(
        &mut self,
        mut allow: impl FnMut(KernelDevice, &OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = [0; MAX_PATH];
        let cwd = in_step(SetupStep::WorkingDirectory, sys::current_directory(&mut buffer))?;
        in_step(SetupStep::Namespaces, sys::unshare(self.unshare_flags))?;
        in_step(SetupStep::Namespaces, self.map_identity())?;
        in_step(
            SetupStep::View,
            mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC),
        )?;
        in_step(SetupStep::WritableRoot, self.clone_trees())?;
        if self.read_only {
            in_step(SetupStep::View, sys::make_read_only(CWD.as_raw_fd(), c"/"))?;
        }
        for device in &self.devices {
            let read_only = if *device == PROCESSES { MountFlags::RDONLY } else { MountFlags::empty() };
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC | read_only;
            in_step(
                SetupStep::Devices,
                mount(device.kind, device.path, device.kind, flags, Some(device.options)),
            )?;
            allow(*device, &in_step(SetupStep::Devices, open(device.path))?)?;
        }
        self.mount_all()?;
        // The working directory of the process still refers to the old mounts.
        in_step(SetupStep::WorkingDirectory, chdir(cwd))
    }

    /// Returns whether the process has capabilities in a user namespace that it created.
    pub(super) fn has_namespace_capabilities(&self) -> bool {
        self.identity.is_some()
    }

    /// Maps the user and the group to themselves in a user namespace, so that files keep their owner. The kernel demands
    /// that `setgroups` is disabled first.
    fn map_identity(&self) -> rustix::io::Result<()> {
        let Some(IdentityMap { user, group }) = &self.identity else { return Ok(()) };
        write(c"/proc/self/setgroups", c"deny")?;
        write(c"/proc/self/uid_map", user)?;
        write(c"/proc/self/gid_map", group)
    }

    fn clone_trees(&mut self) -> rustix::io::Result<()> {
        for prepared in &mut self.mounts {
            prepared.tree = match prepared.mount {
                PlannedMount::Writable => clone_tree(&prepared.path)?,
                PlannedMount::Readable => read_only_tree(&prepared.path)?,
                PlannedMount::ReadOnly | PlannedMount::Covered | PlannedMount::Hidden => None,
            }
        }
        Ok(())
    }

    fn mount_all(&mut self) -> io::Result<()> {
        for PreparedMount { path, mount, tree, entries } in &mut self.mounts {
            match mount {
                PlannedMount::Writable => in_step(SetupStep::WritableRoot, attach(tree.take(), path))?,
                PlannedMount::Readable => in_step(SetupStep::Home, attach(tree.take(), path))?,
                PlannedMount::ReadOnly => {
                    in_step(SetupStep::Metadata, read_only_tree(path).and_then(|tree| attach(tree, path)))?;
                }
                PlannedMount::Covered => in_step(SetupStep::Sockets, cover(path))?,
                PlannedMount::Hidden => {
                    in_step(
                        SetupStep::Home,
                        empty_folder(entries).and_then(|tree| attach(Some(tree), path)),
                    )?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the entries of the empty folder that replaces the home: the mount points in it, and the readable links.
fn home_entries(
    home: &Path,
    plan: &EnforcementPlan,
    mounts: &BTreeMap<PathBuf, PlannedMount>,
) -> Result<Vec<MountEntry>, SandboxError> {
    let mut entries = Vec::new();
    let inside = mounts.keys().filter_map(|path| Some((path, path.strip_prefix(home).ok()?)));
    for (path, below) in inside.filter(|(_, below)| *below != Path::new("")) {
        let parents: Vec<_> = below.ancestors().skip(1).filter(|folder| *folder != Path::new("")).collect();
        for folder in parents.into_iter().rev() {
            entries.push(MountEntry::Folder(c_path(folder)?));
        }
        let entry = c_path(below)?;
        entries.push(if path.is_dir() { MountEntry::Folder(entry) } else { MountEntry::File(entry) });
    }
    for entry in &plan.access.hidden.readable {
        if let (EntryKind::Link(target), Ok(below)) = (&entry.kind, entry.path.strip_prefix(home)) {
            entries.push(MountEntry::Link { path: c_path(below)?, target: c_path(target)? });
        }
    }
    Ok(entries)
}

/// Returns a new read-only file system that contains only mount points and links.
fn empty_folder(entries: &[MountEntry]) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"mode", c"0555")?;
    fsconfig_set_string(context.as_fd(), c"size", c"64k")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let folder = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    for entry in entries {
        let created = match entry {
            MountEntry::Folder(path) => mkdirat(&folder, path, Mode::from_raw_mode(0o755)),
            MountEntry::File(path) => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                openat(&folder, path, flags, Mode::from_raw_mode(0o444)).map(drop)
            }
            MountEntry::Link { path, target } => symlinkat(target, &folder, path),
        };
        match created {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    sys::make_read_only(folder.as_raw_fd(), c"")?;
    Ok(folder)
}

/// Returns whether a private file system can be mounted at a path: a directory that contains no writable root.
fn can_mount_device(path: &CStr, plan: &EnforcementPlan) -> bool {
    let Ok(path) = path.to_str().map(Path::new) else { return false };
    let is_directory = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    is_directory && !plan.access.roots.iter().any(|root| root.path.starts_with(path))
}

fn read_only_tree(path: &CStr) -> rustix::io::Result<Option<OwnedFd>> {
    let Some(tree) = clone_tree(path)? else { return Ok(None) };
    sys::make_read_only(tree.as_raw_fd(), c"")?;
    Ok(Some(tree))
}

/// Mounts `/dev/null` over a socket, so that connections to it are refused.
fn cover(path: &CStr) -> rustix::io::Result<()> {
    match clone_tree(c"/dev/null").and_then(|null| attach(null, path)) {
        // What this process cannot access, the command cannot either.
        Err(Errno::ACCESS | Errno::LOOP | Errno::NOTDIR) => Ok(()),
        other => other,
    }
}

/// Returns a detached copy of the mounts at a path and below, or `None` if the path does not exist.
fn clone_tree(path: &CStr) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    match open(path) {
        Ok(file) => open_tree(file, c"", flags).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Attaches a detached mount at a path. Does nothing if there is no mount or the path does not exist.
fn attach(tree: Option<OwnedFd>, path: &CStr) -> rustix::io::Result<()> {
    let Some(tree) = tree else { return Ok(()) };
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    match open(path) {
        Ok(target) => move_mount(tree, c"", target, c"", flags),
        Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error),
    }
}

fn open(path: &CStr) -> rustix::io::Result<OwnedFd> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
}

fn write(path: &CStr, text: &CStr) -> rustix::io::Result<()> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(file, text.to_bytes()).map(|_| ())
}

/// Packs the step into an error.
pub(super) fn in_step<T>(step: SetupStep, result: rustix::io::Result<T>) -> io::Result<T> {
    result.map_err(|error| step.pack(error.raw_os_error()))
}

fn c_path(path: &Path) -> Result<CString, SandboxError> {
    CString::new(path.as_os_str().as_bytes()).map_err(invalid)
}

fn invalid(error: std::ffi::NulError) -> SandboxError {
    SandboxError::prepare("a path", io::Error::from(error))
}
