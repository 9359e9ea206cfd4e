//! What a new process does to itself between `fork` and `exec`.
//!
//! The server has many threads; any of them may hold the allocator's lock at the moment of the fork. So
//! nothing here allocates, and the order is fixed: what needs a privilege comes before it is dropped, and the
//! filter, which would refuse most of it, comes last.

use std::{
    io::{self, Write as _},
    os::fd::{AsFd, AsRawFd, OwnedFd},
    sync::Arc,
};

use codicil_exec::become_init;
use rustix::{
    fs::{MemfdFlags, SeekFrom, memfd_create, seek},
    io::{Errno, FdFlags, fcntl_setfd},
    process::{Resource, Rlimit},
    thread::{
        CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs,
    },
};
use seccompiler::{BpfProgram, sock_filter};

use super::{
    doorstep::Doorstep,
    landlock,
    plan::{Files, Plan},
    seccomp::{self, Processes, Sockets},
    sys,
    view::{OwnNamespaces, PROCESSES, Privilege, View, at},
};
use crate::{Limits, SandboxError, Step, limits};

/// A process that confines itself.
pub(crate) struct Child {
    view: Option<View>,
    doorstep: Option<Doorstep>,
    /// Whether it is the first process of a process namespace.
    is_init: bool,
    network_rules: Option<Arc<OwnedFd>>,
    ruleset: OwnedFd,
    device_rights: u64,
    process_rights: u64,
    filter: BpfProgram,
    common: Common,
}

/// What the machine lets a process do to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespaces {
    pub privilege: Privilege,
    /// Whether there can be a process namespace with a view of its processes.
    pub processes: bool,
}

impl Child {
    /// Makes everything ready. Without namespaces Landlock works alone.
    pub(crate) fn new(
        plan: &Plan,
        landlock_version: i32,
        namespaces: Option<Namespaces>,
        doorstep: Option<Doorstep>,
        limits: &Limits,
    ) -> Result<Self, SandboxError> {
        let files = if namespaces.is_some() { Files::Mounted } else { Files::LandlockOnly };
        let network = plan.access.network;
        let own = OwnNamespaces {
            network: plan.proxied || (!network && landlock_version < landlock::SCOPES),
            processes: namespaces.is_some_and(|namespaces| namespaces.processes),
        };
        let view = namespaces.map(|namespaces| View::new(plan, namespaces.privilege, own)).transpose()?;
        let sockets = match files {
            _ if plan.proxied => Sockets::Proxied,
            Files::Mounted if network && plan.names_socket() => Sockets::Network,
            _ if network => Sockets::NetworkOnly,
            Files::Mounted | Files::LandlockOnly => Sockets::Pairs,
        };
        let processes = if own.processes { Processes::Own } else { Processes::Shared };
        Ok(Self {
            view,
            doorstep,
            is_init: own.processes,
            network_rules: network_rules(plan, Some(landlock_version))?,
            ruleset: landlock::ruleset(plan, files)?,
            device_rights: landlock::device_rights(landlock_version),
            process_rights: landlock::process_rights(&plan.access.reads, landlock_version),
            filter: compile(sockets, processes)?,
            common: Common::new(limits),
        })
    }

    /// Namespaces that the process must be born in, as flags of `clone`.
    pub(crate) fn birth_namespaces(&self) -> libc::c_int {
        self.view.as_ref().map_or(0, View::birth_namespaces)
    }

    /// From here on the process, and whatever it starts, is confined. Makes system calls on what was prepared, and
    /// does not allocate.
    pub(crate) fn confine(&mut self) -> io::Result<()> {
        if let Some(view) = &mut self.view {
            let (ruleset, device_rights, process_rights) =
                (self.ruleset.as_fd(), self.device_rights, self.process_rights);
            view.enter(|device, new| {
                let rights = if device == PROCESSES { process_rights } else { device_rights };
                match rights {
                    0 => Ok(()),
                    rights => at(Step::Landlock, sys::landlock_allow(ruleset, new.as_fd(), rights)),
                }
            })?;
        }
        if let Some(doorstep) = &self.doorstep {
            doorstep.open()?;
        }
        at(Step::Capabilities, drop_capabilities())?;
        at(Step::Capabilities, set_no_new_privs(true))?;
        if self.is_init {
            become_init()
                .map_err(|error| Step::Namespaces.pack(error.raw_os_error().unwrap_or(libc::EINVAL)))?;
        }
        self.common.apply()?;
        if let Some(rules) = &self.network_rules {
            at(Step::Landlock, sys::landlock_enter(rules.as_fd()))?;
        }
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
    network_rules: Option<Arc<OwnedFd>>,
    filter: OwnedFd,
    common: Common,
}

impl Launcher {
    /// `bwrap` reads the filter from a file that it inherits. With a privilege for mounts, sockets are covered
    /// before it starts; without one the filter keeps the command away from them.
    pub(crate) fn new(
        plan: &Plan,
        privilege: Option<Privilege>,
        landlock_version: Option<i32>,
        doorstep: Option<Doorstep>,
        limits: &Limits,
    ) -> Result<Self, SandboxError> {
        let covers = privilege.map(|privilege| View::of_covers(plan, privilege, plan.proxied)).transpose()?;
        let sockets = match covers {
            _ if plan.proxied => Sockets::Proxied,
            Some(_) if plan.access.network && plan.names_socket() => Sockets::Network,
            _ if plan.access.network => Sockets::NetworkOnly,
            Some(_) | None => Sockets::Pairs,
        };
        let failed = |error: io::Error| SandboxError::prepare("the seccomp filter", error);
        let file = memfd_create(c"seccomp", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut file = std::fs::File::from(file);
        file.write_all(&bytes(&compile(sockets, Processes::Own)?)).map_err(failed)?;
        let network_rules = network_rules(plan, landlock_version)?;
        Ok(Self { covers, doorstep, network_rules, filter: file.into(), common: Common::new(limits) })
    }

    pub(crate) fn filter_number(&self) -> i32 {
        self.filter.as_raw_fd()
    }

    /// What the process does before it becomes `bwrap`. Makes system calls on what was prepared, and does not
    /// allocate. The filter's file stays open as long as the command can start processes.
    pub(crate) fn prepare(&mut self) -> io::Result<()> {
        if let Some(covers) = &mut self.covers {
            covers.enter(|_, _| Ok(()))?;
            if let Some(doorstep) = &self.doorstep {
                doorstep.open()?;
            }
            // An ordinary user's bwrap is alarmed by capabilities, and makes a namespace of its own.
            if covers.lends_capabilities() {
                at(Step::Capabilities, drop_capabilities())?;
            }
        }
        self.common.apply()?;
        if let Some(rules) = &self.network_rules {
            at(Step::Capabilities, set_no_new_privs(true))?;
            at(Step::Landlock, sys::landlock_enter(rules.as_fd()))?;
        }
        // The position is shared with the last process that read the file.
        at(Step::Seccomp, seek(&self.filter, SeekFrom::Start(0)))?;
        at(Step::Seccomp, fcntl_setfd(&self.filter, FdFlags::empty()))
    }
}

/// The rules that keep a command with a network away from the server's own ports, and from abstract sockets.
fn network_rules(plan: &Plan, landlock_version: Option<i32>) -> Result<Option<Arc<OwnedFd>>, SandboxError> {
    let ports = &plan.access.hidden.ports;
    if !plan.access.network {
        return Ok(None);
    }
    match landlock_version {
        Some(version) if version >= landlock::SCOPES => landlock::network_rules(ports).map(Some),
        Some(version) if version >= landlock::PORTS && !ports.is_empty() => {
            landlock::network_rules(ports).map(Some)
        }
        _ if ports.is_empty() => Ok(None),
        _ => {
            let why = "a command with a network could reach the server's own port, which this kernel cannot prevent; \
                       start the server with a token for its clients, or commands without a network";
            Err(SandboxError::Unavailable(why.to_owned()))
        }
    }
}

/// What both have in common, and a command that is not confined.
pub(crate) struct Common {
    limits: Vec<(Resource, Rlimit)>,
}

impl Common {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: limits.prepare() }
    }

    fn apply(&self) -> io::Result<()> {
        at(Step::Files, sys::close_on_exec())?;
        self.limit()
    }

    /// For a command that is not confined.
    pub(crate) fn limit(&self) -> io::Result<()> {
        at(Step::Limits, limits::set(&self.limits))
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

fn compile(sockets: Sockets, processes: Processes) -> Result<BpfProgram, SandboxError> {
    seccomp::compile(sockets, processes)
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
