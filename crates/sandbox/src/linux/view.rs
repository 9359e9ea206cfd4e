//! A private view of the file system: a mount namespace in which all but the writable roots is read-only.
//!
//! Landlock decides about opening, creating and removing. Mounts do what it cannot: they subtract (metadata
//! inside a root, the server's home), they hold against changes of modes, owners and times, they keep folders in their
//! place, and they cover sockets. Shared memory, pseudo-terminals and the view of processes are private ones.
//!
//! Everything is made ready by [`View::new`]; [`View::enter`] runs between `fork` and `exec`, where memory
//! must not be allocated, and so makes system calls only. No path is followed through a link: a command that
//! still runs could put one there in the meantime.

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

/// The size keeps a command from filling the machine's memory through it.
const SHARED_MEMORY: KernelDevice =
    KernelDevice { path: c"/dev/shm", kind: c"tmpfs", options: c"mode=1777,size=1g" };
const TERMINALS: KernelDevice =
    KernelDevice { path: c"/dev/pts", kind: c"devpts", options: c"newinstance,ptmxmode=0666,mode=0620" };
/// Read-only: the kernel's settings belong to root by name, whatever its capabilities.
pub(super) const PROCESSES: KernelDevice = KernelDevice { path: c"/proc", kind: c"proc", options: c"" };

/// Longer paths cannot be made by ordinary means.
const LONGEST_PATH: usize = 4096;

/// Where the privilege for namespaces comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespacePrivilege {
    /// The server has it (`CAP_SYS_ADMIN`).
    Own,
    /// A user namespace, in which it has it.
    UserNamespace,
}

/// What a command does not share with the rest of the machine, besides its mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnNamespaces {
    pub network: bool,
    pub processes: bool,
}

/// The mounts of one command, ready to be made.
pub(super) struct MountView {
    flags: libc::c_int,
    /// Namespaces that the process must be born in.
    birth: libc::c_int,
    /// The lines that map the user and the group to themselves.
    identity: Option<(CString, CString)>,
    /// Whether everything else becomes read-only.
    read_only: bool,
    mounts: Vec<PreparedMount>,
    /// Which private file systems have a place to go.
    devices: Vec<KernelDevice>,
}

/// One mount with what it needs.
struct PreparedMount {
    path: CString,
    mount: PlannedMount,
    /// The tree as it is before everything becomes read-only and the home disappears.
    tree: Option<OwnedFd>,
    /// What is put into an empty folder: places for other mounts, and links.
    entries: Vec<MountEntry>,
}

enum MountEntry {
    Folder(CString),
    File(CString),
    Link { path: CString, target: CString },
}

impl MountView {
    /// All of the plan.
    pub(super) fn new(
        plan: &EnforcementPlan,
        privilege: NamespacePrivilege,
        own: OwnNamespaces,
    ) -> Result<Self, SandboxError> {
        let mut view = Self::with_mounts(plan, |_| true, privilege, own)?;
        let processes = own.processes.then_some(PROCESSES);
        let devices = [SHARED_MEMORY, TERMINALS].into_iter().chain(processes);
        view.devices = devices.filter(|device| is_free(device.path, plan)).collect();
        view.flags |= libc::CLONE_NEWIPC;
        view.read_only = true;
        Ok(view)
    }

    /// Only the covers over sockets, for a program that does the rest.
    pub(super) fn of_covers(
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
                if *mount == PlannedMount::Hidden { entries(path, plan, &all)? } else { Vec::new() };
            mounts.push(PreparedMount { path: c_path(path)?, mount: *mount, tree: None, entries });
        }
        let network = if own.network { libc::CLONE_NEWNET } else { 0 };
        let mut view = Self {
            flags: libc::CLONE_NEWNS | network,
            birth: if own.processes { libc::CLONE_NEWPID } else { 0 },
            identity: None,
            read_only: false,
            mounts,
            devices: Vec::new(),
        };
        if privilege == NamespacePrivilege::UserNamespace {
            // The namespace of processes must belong to the namespace of users.
            let flags = if own.processes { &mut view.birth } else { &mut view.flags };
            *flags |= libc::CLONE_NEWUSER;
            let line = |id: u32| CString::new(format!("{id} {id} 1")).map_err(invalid);
            view.identity = Some((line(geteuid().as_raw())?, line(getegid().as_raw())?));
        }
        Ok(view)
    }

    /// Namespaces that the process must be born in, as flags of `clone`.
    pub(super) fn birth_namespaces(&self) -> libc::c_int {
        self.birth
    }

    /// Moves this process into the view, and calls `allow` for each file system that is new in it.
    pub(super) fn enter(
        &mut self,
        mut allow: impl FnMut(KernelDevice, &OwnedFd) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut buffer = [0; LONGEST_PATH];
        let cwd = at(SetupStep::WorkingDirectory, sys::current_directory(&mut buffer))?;
        at(SetupStep::Namespaces, sys::unshare(self.flags))?;
        at(SetupStep::Namespaces, self.keep_identity())?;
        at(SetupStep::View, mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC))?;
        at(SetupStep::WritableRoot, self.clone_trees())?;
        if self.read_only {
            at(SetupStep::View, sys::make_read_only(CWD.as_raw_fd(), c"/"))?;
        }
        for device in &self.devices {
            let read_only = if *device == PROCESSES { MountFlags::RDONLY } else { MountFlags::empty() };
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC | read_only;
            at(
                SetupStep::Devices,
                mount(device.kind, device.path, device.kind, flags, Some(device.options)),
            )?;
            allow(*device, &at(SetupStep::Devices, open(device.path))?)?;
        }
        self.mount_all()?;
        // The directory that the process stands in is still the one of the old view.
        at(SetupStep::WorkingDirectory, chdir(cwd))
    }

    /// Whether the process owns its capabilities to a namespace that it made.
    pub(super) fn lends_capabilities(&self) -> bool {
        self.identity.is_some()
    }

    /// Files keep their owner in a user namespace. Groups must be given up before the kernel allows it.
    fn keep_identity(&self) -> rustix::io::Result<()> {
        let Some((user, group)) = &self.identity else { return Ok(()) };
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
                PlannedMount::Writable => at(SetupStep::WritableRoot, attach(tree.take(), path))?,
                PlannedMount::Readable => at(SetupStep::Home, attach(tree.take(), path))?,
                PlannedMount::ReadOnly => {
                    at(SetupStep::Metadata, read_only_tree(path).and_then(|tree| attach(tree, path)))?;
                }
                PlannedMount::Covered => at(SetupStep::Sockets, cover(path))?,
                PlannedMount::Hidden => {
                    at(SetupStep::Home, empty_folder(entries).and_then(|tree| attach(Some(tree), path)))?;
                }
            }
        }
        Ok(())
    }
}

/// What the empty folder in the place of the home holds: the places of mounts in it, and links that may be read.
fn entries(
    home: &Path,
    plan: &EnforcementPlan,
    mounts: &BTreeMap<PathBuf, PlannedMount>,
) -> Result<Vec<MountEntry>, SandboxError> {
    let mut entries = Vec::new();
    let inside = mounts.keys().filter_map(|path| Some((path, path.strip_prefix(home).ok()?)));
    for (path, below) in inside.filter(|(_, below)| *below != Path::new("")) {
        for folder in below
            .ancestors()
            .skip(1)
            .filter(|folder| *folder != Path::new(""))
            .collect::<Vec<_>>()
            .iter()
            .rev()
        {
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

/// A new file system that holds nothing but places for other mounts, and is read-only.
fn empty_folder(entries: &[MountEntry]) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_set_string(context.as_fd(), c"mode", c"0555")?;
    fsconfig_set_string(context.as_fd(), c"size", c"64k")?;
    fsconfig_create(context.as_fd())?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let folder = fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    for entry in entries {
        let made = match entry {
            MountEntry::Folder(path) => mkdirat(&folder, path, Mode::from_raw_mode(0o755)),
            MountEntry::File(path) => {
                let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
                openat(&folder, path, flags, Mode::from_raw_mode(0o444)).map(drop)
            }
            MountEntry::Link { path, target } => symlinkat(target, &folder, path),
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
    }
    sys::make_read_only(folder.as_raw_fd(), c"")?;
    Ok(folder)
}

/// Whether a private file system can go there: there is a directory, and no root in it.
fn is_free(path: &CStr, plan: &EnforcementPlan) -> bool {
    let Ok(path) = path.to_str().map(Path::new) else { return false };
    let is_directory = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    is_directory && !plan.access.roots.iter().any(|root| root.path.starts_with(path))
}

fn read_only_tree(path: &CStr) -> rustix::io::Result<Option<OwnedFd>> {
    let Some(tree) = clone_tree(path)? else { return Ok(None) };
    sys::make_read_only(tree.as_raw_fd(), c"")?;
    Ok(Some(tree))
}

/// A file that is no socket takes its place: connecting is refused, as if nobody listened.
fn cover(path: &CStr) -> rustix::io::Result<()> {
    match clone_tree(c"/dev/null").and_then(|null| attach(null, path)) {
        // Out of reach for us is out of reach for the command.
        Err(Errno::ACCESS | Errno::LOOP | Errno::NOTDIR) => Ok(()),
        other => other,
    }
}

/// A copy of what is mounted at a path and below, not yet attached anywhere. `None` if nothing is there.
fn clone_tree(path: &CStr) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    match open(path) {
        Ok(place) => open_tree(place, c"", flags).map(Some),
        Err(Errno::NOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn attach(tree: Option<OwnedFd>, path: &CStr) -> rustix::io::Result<()> {
    let Some(tree) = tree else { return Ok(()) };
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    match open(path) {
        Ok(place) => move_mount(tree, c"", place, c"", flags),
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

pub(super) fn at<T>(step: SetupStep, result: rustix::io::Result<T>) -> io::Result<T> {
    result.map_err(|error| step.pack(error.raw_os_error()))
}

fn c_path(path: &Path) -> Result<CString, SandboxError> {
    CString::new(path.as_os_str().as_bytes()).map_err(invalid)
}

fn invalid(error: std::ffi::NulError) -> SandboxError {
    SandboxError::prepare("a path", io::Error::from(error))
}
