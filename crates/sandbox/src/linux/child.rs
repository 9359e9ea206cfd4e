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
    doorstep::ListenerSender,
    landlock,
    plan::{EnforcementPlan, FileMeans},
    seccomp::{self, ProcessRules, SocketRules},
    sys,
    view::{MountView, NamespacePrivilege, OwnNamespaces, PROCESSES, at},
};
use crate::{ResourceLimits, SandboxError, SetupStep, limits};

/// A process that confines itself.
pub(crate) struct ConfinedChild {
    view: Option<MountView>,
    doorstep: Option<ListenerSender>,
    /// Whether it is the first process of a process namespace.
    is_init: bool,
    network_rules: Option<Arc<OwnedFd>>,
    ruleset: OwnedFd,
    device_rights: u64,
    process_rights: u64,
    filter: BpfProgram,
    common: CommonSetup,
}

/// What the machine lets a process do to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespaces {
    pub privilege: NamespacePrivilege,
    /// Whether there can be a process namespace with a view of its processes.
    pub processes: bool,
}

impl ConfinedChild {
    /// Makes everything ready. Without namespaces Landlock works alone.
    pub(crate) fn new(
        plan: &EnforcementPlan,
        landlock_version: i32,
        namespaces: Option<Namespaces>,
        doorstep: Option<ListenerSender>,
        limits: &ResourceLimits,
    ) -> Result<Self, SandboxError> {
        let files = if namespaces.is_some() { FileMeans::Mounted } else { FileMeans::LandlockOnly };
        let network = plan.access.network;
        let own = OwnNamespaces {
            network: plan.proxied || (!network && landlock_version < landlock::SCOPES),
            processes: namespaces.is_some_and(|namespaces| namespaces.processes),
        };
        let view =
            namespaces.map(|namespaces| MountView::new(plan, namespaces.privilege, own)).transpose()?;
        let sockets = match files {
            _ if plan.proxied => SocketRules::Proxied,
            FileMeans::Mounted if network && plan.names_socket() => SocketRules::Network,
            _ if network => SocketRules::NetworkOnly,
            FileMeans::Mounted | FileMeans::LandlockOnly => SocketRules::Pairs,
        };
        let processes = if own.processes { ProcessRules::Own } else { ProcessRules::Shared };
        Ok(Self {
            view,
            doorstep,
            is_init: own.processes,
            network_rules: network_rules(plan, Some(landlock_version))?,
            ruleset: landlock::ruleset(plan, files)?,
            device_rights: landlock::device_rights(landlock_version),
            process_rights: landlock::process_rights(&plan.access.reads, landlock_version),
            filter: compile(sockets, processes)?,
            common: CommonSetup::new(limits),
        })
    }

    /// Namespaces that the process must be born in, as flags of `clone`.
    pub(crate) fn birth_namespaces(&self) -> libc::c_int {
        self.view.as_ref().map_or(0, MountView::birth_namespaces)
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
                    rights => at(SetupStep::Landlock, sys::landlock_allow(ruleset, new.as_fd(), rights)),
                }
            })?;
        }
        if let Some(doorstep) = &self.doorstep {
            doorstep.open()?;
        }
        at(SetupStep::Capabilities, drop_capabilities())?;
        at(SetupStep::Capabilities, set_no_new_privs(true))?;
        if self.is_init {
            become_init()
                .map_err(|error| SetupStep::Namespaces.pack(error.raw_os_error().unwrap_or(libc::EINVAL)))?;
        }
        self.common.apply()?;
        if let Some(rules) = &self.network_rules {
            at(SetupStep::Landlock, sys::landlock_enter(rules.as_fd()))?;
        }
        at(SetupStep::Landlock, sys::landlock_enter(self.ruleset.as_fd()))?;
        seccompiler::apply_filter(&self.filter).map_err(|error| match error {
            seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error) => {
                SetupStep::Seccomp.pack(error.raw_os_error().unwrap_or(libc::EINVAL))
            }
            _ => SetupStep::Seccomp.pack(libc::EINVAL),
        })
    }
}

/// A process that becomes `bwrap`, which does the confining.
pub(crate) struct BubblewrapLauncher {
    covers: Option<MountView>,
    doorstep: Option<ListenerSender>,
    network_rules: Option<Arc<OwnedFd>>,
    filter: OwnedFd,
    common: CommonSetup,
}

impl BubblewrapLauncher {
    /// `bwrap` reads the filter from a file that it inherits. With a privilege for mounts, sockets are covered
    /// before it starts; without one the filter keeps the command away from them.
    pub(crate) fn new(
        plan: &EnforcementPlan,
        privilege: Option<NamespacePrivilege>,
        landlock_version: Option<i32>,
        doorstep: Option<ListenerSender>,
        limits: &ResourceLimits,
    ) -> Result<Self, SandboxError> {
        let covers =
            privilege.map(|privilege| MountView::of_covers(plan, privilege, plan.proxied)).transpose()?;
        let sockets = match covers {
            _ if plan.proxied => SocketRules::Proxied,
            Some(_) if plan.access.network && plan.names_socket() => SocketRules::Network,
            _ if plan.access.network => SocketRules::NetworkOnly,
            Some(_) | None => SocketRules::Pairs,
        };
        let failed = |error: io::Error| SandboxError::prepare("the seccomp filter", error);
        let file = memfd_create(c"seccomp", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut file = std::fs::File::from(file);
        file.write_all(&bytes(&compile(sockets, ProcessRules::Own)?)).map_err(failed)?;
        let network_rules = network_rules(plan, landlock_version)?;
        Ok(Self { covers, doorstep, network_rules, filter: file.into(), common: CommonSetup::new(limits) })
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
                at(SetupStep::Capabilities, drop_capabilities())?;
            }
        }
        self.common.apply()?;
        if let Some(rules) = &self.network_rules {
            at(SetupStep::Capabilities, set_no_new_privs(true))?;
            at(SetupStep::Landlock, sys::landlock_enter(rules.as_fd()))?;
        }
        // The position is shared with the last process that read the file.
        at(SetupStep::Seccomp, seek(&self.filter, SeekFrom::Start(0)))?;
        at(SetupStep::Seccomp, fcntl_setfd(&self.filter, FdFlags::empty()))
    }
}

/// The rules that keep a command with a network away from the server's own ports, and from abstract sockets.
fn network_rules(
    plan: &EnforcementPlan,
    landlock_version: Option<i32>,
) -> Result<Option<Arc<OwnedFd>>, SandboxError> {
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
pub(crate) struct CommonSetup {
    limits: Vec<(Resource, Rlimit)>,
}

impl CommonSetup {
    pub(crate) fn new(limits: &ResourceLimits) -> Self {
        Self { limits: limits.prepare() }
    }

    fn apply(&self) -> io::Result<()> {
        at(SetupStep::Files, sys::close_on_exec())?;
        self.limit()
    }

    /// For a command that is not confined.
    pub(crate) fn limit(&self) -> io::Result<()> {
        at(SetupStep::Limits, limits::set(&self.limits))
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

fn compile(sockets: SocketRules, processes: ProcessRules) -> Result<BpfProgram, SandboxError> {
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
