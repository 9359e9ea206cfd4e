//! What a new process does to itself between `fork` and `exec`.
//!
//! The server has many threads; any of them may hold the allocator's lock at the moment of the fork. So
//! nothing here allocates, and the order is fixed: what needs a privilege comes before it is dropped, and the
//! filter, which would refuse most of it, comes last.

use std::{
    io::{self, Write as _},
    os::{
        fd::{AsFd, AsRawFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::Command,
};

use rustix::{
    fs::{MemfdFlags, SeekFrom, memfd_create, seek},
    io::{Errno, FdFlags, fcntl_setfd},
    process::{Pid, Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal},
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
    },
};
use seccompiler::{BpfProgram, sock_filter};

use super::{
    doorstep::Doorstep,
    landlock,
    plan::{Files, Plan},
    seccomp::{self, Sockets},
    sys,
    view::{Privilege, View, at},
};
use crate::{Limits, SandboxError, Step, limits};

/// A process that confines itself.
pub(crate) struct Child {
    view: Option<View>,
    doorstep: Option<Doorstep>,
    ruleset: OwnedFd,
    device_rights: u64,
    filter: BpfProgram,
    common: Common,
}

impl Child {
    /// Makes everything ready. `privilege` is that for mounts; without one Landlock works alone.
    pub(crate) fn new(
        plan: &Plan,
        landlock_version: i32,
        privilege: Option<Privilege>,
        doorstep: Option<Doorstep>,
        common: Common,
    ) -> Result<Self, SandboxError> {
        let files = if privilege.is_some() { Files::Mounted } else { Files::LandlockOnly };
        let network = plan.access.network;
        let own_network = plan.proxied || (!network && landlock_version < landlock::SCOPES);
        let view = privilege.map(|privilege| View::new(plan, privilege, own_network)).transpose()?;
        let sockets = match files {
            _ if plan.proxied => Sockets::Proxied,
            _ if network => Sockets::Network,
            Files::LandlockOnly if landlock_version < landlock::UNIX_SOCKETS => Sockets::Pairs,
            Files::LandlockOnly | Files::Mounted => Sockets::Local,
        };
        Ok(Self {
            view,
            doorstep,
            ruleset: landlock::ruleset(plan, files)?,
            device_rights: landlock::device_rights(landlock_version),
            filter: compile(sockets)?,
            common,
        })
    }

    /// From here on whatever `command` starts is confined.
    pub(crate) fn attach(mut self, command: &mut Command) {
        // SAFETY: `confine` makes system calls on what was prepared, and does not allocate.
        unsafe { command.pre_exec(move || self.confine()) };
    }

    fn confine(&mut self) -> io::Result<()> {
        if let Some(view) = &mut self.view {
            let (ruleset, rights) = (self.ruleset.as_fd(), self.device_rights);
            view.enter(|new| at(Step::Landlock, sys::landlock_allow(ruleset, new.as_fd(), rights)))?;
        }
        if let Some(doorstep) = &self.doorstep {
            doorstep.open()?;
        }
        at(Step::Capabilities, drop_capabilities())?;
        at(Step::Capabilities, set_no_new_privs(true))?;
        self.common.apply()?;
        at(Step::Landlock, sys::landlock_enter(self.ruleset.as_fd()))?;
        seccompiler::apply_filter(&self.filter).map_err(|error| match error {
            seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error) => {
                Step::Seccomp.pack(error.raw_os_error().unwrap_or(libc::EINVAL))
            }
            _ => Step::Seccomp.pack(libc::EINVAL),
        })
    }
}

/// A process that becomes `bwrap`, which does the confining.
pub(crate) struct Launcher {
    covers: Option<View>,
    doorstep: Option<Doorstep>,
    filter: OwnedFd,
    common: Common,
}

impl Launcher {
    /// `bwrap` reads the filter from a file that it inherits. With a privilege for mounts, sockets are covered
    /// before it starts; without one, and without a network, the filter keeps the command away from them.
    pub(crate) fn new(
        plan: &Plan,
        privilege: Option<Privilege>,
        doorstep: Option<Doorstep>,
        common: Common,
    ) -> Result<Self, SandboxError> {
        let covers = privilege.map(|privilege| View::of_covers(plan, privilege, plan.proxied)).transpose()?;
        let sockets = match covers {
            _ if plan.proxied => Sockets::Proxied,
            _ if plan.access.network => Sockets::Network,
            Some(_) => Sockets::Local,
            None => Sockets::Pairs,
        };
        let failed = |error: io::Error| SandboxError::prepare("the seccomp filter", error);
        let file = memfd_create(c"seccomp", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut file = std::fs::File::from(file);
        file.write_all(&bytes(&compile(sockets)?)).map_err(failed)?;
        Ok(Self { covers, doorstep, filter: file.into(), common })
    }

    pub(crate) fn filter_number(&self) -> i32 {
        self.filter.as_raw_fd()
    }

    /// The filter's file stays open as long as the command can start processes.
    pub(crate) fn attach(mut self, command: &mut Command) {
        // SAFETY: `prepare` makes system calls on what was prepared, and does not allocate.
        unsafe { command.pre_exec(move || self.prepare()) };
    }

    fn prepare(&mut self) -> io::Result<()> {
        if let Some(covers) = &mut self.covers {
            covers.enter(|_| Ok(()))?;
            if let Some(doorstep) = &self.doorstep {
                doorstep.open()?;
            }
            // An ordinary user's bwrap is alarmed by capabilities, and makes a namespace of its own.
            if covers.lends_capabilities() {
                at(Step::Capabilities, drop_capabilities())?;
            }
        }
        self.common.apply()?;
        // The position is shared with the last process that read the file.
        at(Step::Seccomp, seek(&self.filter, SeekFrom::Start(0)))?;
        at(Step::Seccomp, fcntl_setfd(&self.filter, FdFlags::empty()))
    }
}

/// What both have in common.
pub(crate) struct Common {
    limits: Vec<(Resource, Rlimit)>,
    /// The process to die with.
    parent: Option<Pid>,
}

impl Common {
    pub(crate) fn new(limits: &Limits, dies_with_parent: bool) -> Self {
        Self { limits: limits.prepare(), parent: dies_with_parent.then(getpid) }
    }

    /// For a command that is not confined.
    pub(crate) fn attach(self, command: &mut Command) {
        if self.limits.is_empty() && self.parent.is_none() {
            return;
        }
        // SAFETY: only system calls.
        unsafe { command.pre_exec(move || self.bind()) };
    }

    fn apply(&self) -> io::Result<()> {
        at(Step::Files, sys::close_on_exec())?;
        self.bind()
    }

    fn bind(&self) -> io::Result<()> {
        at(Step::Limits, limits::set(&self.limits))?;
        let Some(parent) = self.parent else { return Ok(()) };
        at(Step::Parent, set_parent_process_death_signal(Some(Signal::KILL)))?;
        // It may have died before it was listened for.
        if getppid() == Some(parent) { Ok(()) } else { Err(Step::Parent.pack(libc::ESRCH)) }
    }
}

/// As root, files are as safe as they are for anybody: without capabilities their permissions count again.
fn drop_capabilities() -> rustix::io::Result<()> {
    match sys::forget_capabilities() {
        // An ordinary user has none, and `no_new_privs` keeps it so.
        Ok(()) | Err(Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })
}

fn compile(sockets: Sockets) -> Result<BpfProgram, SandboxError> {
    seccomp::compile(sockets)
        .map_err(|error| SandboxError::Unavailable(format!("no seccomp filter: {error}")))
}

/// The filter as the kernel reads it.
fn bytes(filter: &[sock_filter]) -> Vec<u8> {
    let line = |line: &sock_filter| {
        let [code_low, code_high] = line.code.to_ne_bytes();
        let [a, b, c, d] = line.k.to_ne_bytes();
        [code_low, code_high, line.jt, line.jf, a, b, c, d]
    };
    filter.iter().flat_map(line).collect()
}
