//! A private view of the file system: a mount namespace in which all but the writable roots is read-only.
//!
//! Landlock decides about opening, creating and removing. Mounts do what it cannot: they subtract (metadata
//! inside a root), they hold against changes of modes, owners and times, and they cover sockets. Shared memory
//! and pseudo-terminals are private ones.
//!
//! Everything is made ready by [`View::new`]; [`View::enter`] runs between `fork` and `exec`, where memory
//! must not be allocated, and so makes system calls only. No path is followed through a link: a command that
//! still runs could put one there in the meantime.

use std::{
    ffi::{CStr, CString},
    io,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::Path,
};

use rustix::{
    fs::{CWD, Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
    mount::{
        MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, mount, mount_change, move_mount,
        open_tree,
    },
    process::{chdir, getegid, geteuid},
};

use super::{
    plan::{Mount, Plan},
    sys,
};
use crate::{SandboxError, Step};

/// Private memory file systems. The size keeps a command from filling the machine's memory through one.
const SHARED_MEMORY: (&CStr, &CStr, &CStr) = (c"/dev/shm", c"tmpfs", c"mode=1777,size=1g");
const TERMINALS: (&CStr, &CStr, &CStr) = (c"/dev/pts", c"devpts", c"newinstance,ptmxmode=0666,mode=0620");

/// Longer paths cannot be made by ordinary means.
const LONGEST_PATH: usize = 4096;

/// Where the privilege for namespaces comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Privilege {
    /// The server has it (`CAP_SYS_ADMIN`).
    Own,
    /// A user namespace, in which it has it.
    UserNamespace,
}

/// The mounts of one command, ready to be made.
pub(super) struct View {
    flags: libc::c_int,
    /// The lines that map the user and the group to themselves.
    identity: Option<(CString, CString)>,
    /// Whether everything else becomes read-only.
    read_only: bool,
    mounts: Vec<(CString, Mount)>,
    /// The roots as they are before everything becomes read-only; one place for each mount.
    clones: Vec<Option<OwnedFd>>,
    /// Which private file systems have a place to go.
    devices: Vec<(&'static CStr, &'static CStr, &'static CStr)>,
}

impl View {
    /// All of the plan.
    pub(super) fn new(plan: &Plan, privilege: Privilege, own_network: bool) -> Result<Self, SandboxError> {
        let network = if own_network { libc::CLONE_NEWNET } else { 0 };
        let devices =
            [SHARED_MEMORY, TERMINALS].into_iter().filter(|(path, ..)| is_free(path, plan)).collect();
        let view = Self::with_mounts(plan.mounts(), privilege)?;
        Ok(Self { flags: view.flags | libc::CLONE_NEWIPC | network, read_only: true, devices, ..view })
    }

    /// Only the covers over sockets, for a program that does the rest.
    pub(super) fn of_covers(
        plan: &Plan,
        privilege: Privilege,
        own_network: bool,
    ) -> Result<Self, SandboxError> {
        let network = if own_network { libc::CLONE_NEWNET } else { 0 };
        let mounts = plan.mounts().into_iter().filter(|(_, mount)| *mount == Mount::Covered);
        let view = Self::with_mounts(mounts.collect(), privilege)?;
        Ok(Self { flags: view.flags | network, ..view })
    }

    fn with_mounts(mounts: Vec<(&Path, Mount)>, privilege: Privilege) -> Result<Self, SandboxError> {
        let mounts = mounts.into_iter().map(|(path, mount)| Ok((c_path(path)?, mount)));
        let mounts = mounts.collect::<Result<Vec<_>, SandboxError>>()?;
        let clones = mounts.iter().map(|_| None).collect();
        let mut view = Self {
            flags: libc::CLONE_NEWNS,
            identity: None,
            read_only: false,
            mounts,
            clones,
            devices: Vec::new(),
        };
        if privilege == Privilege::UserNamespace {
            view.flags |= libc::CLONE_NEWUSER;
            let line = |id: u32| CString::new(format!("{id} {id} 1")).map_err(invalid);
            view.identity = Some((line(geteuid().as_raw())?, line(getegid().as_raw())?));
        }
        Ok(view)
    }

    /// Moves this process into the view, and calls `allow` for each directory that is new in it.
    pub(super) fn enter(&mut self, mut allow: impl FnMut(&OwnedFd) -> io::Result<()>) -> io::Result<()> {
        let mut buffer = [0; LONGEST_PATH];
        let cwd = at(Step::WorkingDirectory, sys::current_directory(&mut buffer))?;
        at(Step::Namespaces, sys::unshare(self.flags))?;
        at(Step::Namespaces, self.keep_identity())?;
        at(Step::View, mount_change(c"/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC))?;
        at(Step::WritableRoot, self.clone_roots())?;
        if self.read_only {
            at(Step::View, sys::make_read_only(CWD.as_raw_fd(), c"/"))?;
        }
        for (path, kind, options) in &self.devices {
            let flags = MountFlags::NOSUID | MountFlags::NOEXEC;
            at(Step::Devices, mount(*kind, *path, *kind, flags, Some(*options)))?;
            allow(&at(Step::Devices, open(path))?)?;
        }
        self.mount_all()?;
        // The directory that the process stands in is still the one of the old view.
        at(Step::WorkingDirectory, chdir(cwd))
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

    fn clone_roots(&mut self) -> rustix::io::Result<()> {
        for ((path, mount), place) in self.mounts.iter().zip(&mut self.clones) {
            if *mount == Mount::Writable {
                *place = clone_tree(path)?;
            }
        }
        Ok(())
    }

    fn mount_all(&mut self) -> io::Result<()> {
        for ((path, mount), place) in self.mounts.iter().zip(&mut self.clones) {
            match mount {
                Mount::Writable => at(Step::WritableRoot, attach(place.take(), path))?,
                Mount::ReadOnly => at(Step::Metadata, protect(path))?,
                Mount::Covered => at(Step::Sockets, cover(path))?,
            }
        }
        Ok(())
    }
}

/// Whether a private file system can go there: there is a directory, and no root in it.
fn is_free(path: &CStr, plan: &Plan) -> bool {
    let Ok(path) = path.to_str().map(Path::new) else { return false };
    let is_directory = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    is_directory && !plan.access.roots.iter().any(|root| root.path.starts_with(path))
}

fn protect(path: &CStr) -> rustix::io::Result<()> {
    let Some(tree) = clone_tree(path)? else { return Ok(()) };
    sys::make_read_only(tree.as_raw_fd(), c"")?;
    attach(Some(tree), path)
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

pub(super) fn at<T>(step: Step, result: rustix::io::Result<T>) -> io::Result<T> {
    result.map_err(|error| step.pack(error.raw_os_error()))
}

fn c_path(path: &Path) -> Result<CString, SandboxError> {
    CString::new(path.as_os_str().as_bytes()).map_err(invalid)
}

fn invalid(error: std::ffi::NulError) -> SandboxError {
    SandboxError::prepare("a path", io::Error::from(error))
}
