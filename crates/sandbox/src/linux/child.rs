//! The steps by which a new process confines itself between `fork` and `exec`.
//!
//! The server has many threads, and any of them may hold the allocator's lock at the time of the fork. So the steps do
//! not allocate. Their order is fixed: what needs a privilege comes before it is dropped, and the system call filter,
//! which refuses most of the steps, comes last.

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
    landlock,
    listener_sender::ListenerSender,
    mount_view::{MountView, NamespacePrivilege, OwnNamespaces, PROCESSES, in_step},
    plan::{EnforcementPlan, FileMeans},
    seccomp::{self, ProcessRules, SocketRules},
    sys,
};
use crate::{ResourceLimits, SandboxError, SetupStep, limits};

/// A child that confines itself with Landlock and seccomp, and namespaces if there are any.
pub(crate) struct ConfinedChild {
    view: Option<MountView>,
    listener_sender: Option<ListenerSender>,
    /// Whether it is the first process of a PID namespace.
    is_init: bool,
    network_rules: Option<Arc<OwnedFd>>,
    ruleset: OwnedFd,
    device_rights: u64,
    process_rights: u64,
    filter: BpfProgram,
    common: CommonSetup,
}

/// The namespaces that the machine allows a new process to create.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespaces {
    pub privilege: NamespacePrivilege,
    /// Whether a PID namespace with its own `/proc` is allowed.
    pub processes: bool,
}

impl ConfinedChild {
    /// Prepares the steps. Without namespaces, files are confined by Landlock alone.
    pub(crate) fn new(
        plan: &EnforcementPlan,
        landlock_version: i32,
        namespaces: Option<Namespaces>,
        listener_sender: Option<ListenerSender>,
        limits: &ResourceLimits,
    ) -> Result<Self, SandboxError> {
        let files = if namespaces.is_some() { FileMeans::Mounted } else { FileMeans::LandlockOnly };
        let network = plan.access.network;
        let own = OwnNamespaces {
            network: plan.proxy.is_some() || (!network && landlock_version < landlock::SCOPES),
            processes: namespaces.is_some_and(|namespaces| namespaces.processes),
        };
        let view =
            namespaces.map(|namespaces| MountView::new(plan, namespaces.privilege, own)).transpose()?;
        let sockets = match files {
            _ if plan.proxy.is_some() => SocketRules::Proxied,
            FileMeans::Mounted if network && plan.has_socket_root() => SocketRules::Network,
            _ if network => SocketRules::NetworkOnly,
            FileMeans::Mounted | FileMeans::LandlockOnly => SocketRules::Pairs,
        };
        let processes = if own.processes { ProcessRules::Own } else { ProcessRules::Shared };
        Ok(Self {
            view,
            listener_sender,
            is_init: own.processes,
            network_rules: network_rules(plan, Some(landlock_version))?,
            ruleset: landlock::ruleset(plan, files)?,
            device_rights: landlock::device_rights(landlock_version),
            process_rights: landlock::process_rights(&plan.access.reads, landlock_version),
            filter: compile(sockets, processes)?,
            common: CommonSetup::new(limits),
        })
    }

    /// Returns the namespaces that the process must be cloned into, as flags of `clone`.
    pub(crate) fn clone_flags(&self) -> libc::c_int {
        self.view.as_ref().map_or(0, MountView::clone_flags)
    }

    /// Confines the calling process and every process it starts. Makes system calls on what was prepared, and does not
    /// allocate.
    pub(crate) fn confine(&mut self) -> io::Result<()> {
        if let Some(view) = &mut self.view {
            let ruleset = self.ruleset.as_fd();
            let device_rights = self.device_rights;
            let process_rights = self.process_rights;
            view.enter(|device, mounted| {
                let rights = if device == PROCESSES { process_rights } else { device_rights };
                match rights {
                    0 => Ok(()),
                    rights => {
                        in_step(SetupStep::Landlock, sys::landlock_allow(ruleset, mounted.as_fd(), rights))
                    }
                }
            })?;
        }
        if let Some(listener_sender) = &self.listener_sender {
            listener_sender.open()?;
        }
        in_step(SetupStep::Capabilities, drop_capabilities())?;
        in_step(SetupStep::Capabilities, set_no_new_privs(true))?;
        if self.is_init {
            become_init()
                .map_err(|error| SetupStep::Namespaces.pack(error.raw_os_error().unwrap_or(libc::EINVAL)))?;
        }
        self.common.apply()?;
        if let Some(rules) = &self.network_rules {
            in_step(SetupStep::Landlock, sys::landlock_enter(rules.as_fd()))?;
        }
        in_step(SetupStep::Landlock, sys::landlock_enter(self.ruleset.as_fd()))?;
        seccompiler::apply_filter(&self.filter).map_err(|error| match error {
            seccompiler::Error::Seccomp(error) | seccompiler::Error::Prctl(error) => {
                SetupStep::Seccomp.pack(error.raw_os_error().unwrap_or(libc::EINVAL))
            }
            _ => SetupStep::Seccomp.pack(libc::EINVAL),
        })
    }
}

/// A child that becomes `bwrap`, which does the confining.
pub(crate) struct BubblewrapLauncher {
    covers: Option<MountView>,
    listener_sender: Option<ListenerSender>,
    network_rules: Option<Arc<OwnedFd>>,
    filter: OwnedFd,
    common: CommonSetup,
}

impl BubblewrapLauncher {
    /// Prepares the steps. `bwrap` reads the filter from a file that it inherits. With a privilege for mounts, sockets
    /// are covered before it starts; without one, the filter refuses sockets in the file system.
    pub(crate) fn new(
        plan: &EnforcementPlan,
        privilege: Option<NamespacePrivilege>,
        landlock_version: Option<i32>,
        listener_sender: Option<ListenerSender>,
        limits: &ResourceLimits,
    ) -> Result<Self, SandboxError> {
        let covers = privilege
            .map(|privilege| MountView::covers_only(plan, privilege, plan.proxy.is_some()))
            .transpose()?;
        let sockets = match covers {
            _ if plan.proxy.is_some() => SocketRules::Proxied,
            Some(_) if plan.access.network && plan.has_socket_root() => SocketRules::Network,
            _ if plan.access.network => SocketRules::NetworkOnly,
            Some(_) | None => SocketRules::Pairs,
        };
        let failed = |error: io::Error| SandboxError::prepare("the seccomp filter", error);
        let file = memfd_create(c"seccomp", MemfdFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let mut file = std::fs::File::from(file);
        file.write_all(&filter_bytes(&compile(sockets, ProcessRules::Own)?)).map_err(failed)?;
        let network_rules = network_rules(plan, landlock_version)?;
        Ok(Self {
            covers,
            listener_sender,
            network_rules,
            filter: file.into(),
            common: CommonSetup::new(limits),
        })
    }

    pub(crate) fn filter_number(&self) -> i32 {
        self.filter.as_raw_fd()
    }

    /// Runs the steps before the process becomes `bwrap`. Makes system calls on what was prepared, and does not allocate.
    pub(crate) fn prepare(&mut self) -> io::Result<()> {
        if let Some(covers) = &mut self.covers {
            covers.enter(|_, _| Ok(()))?;
            if let Some(listener_sender) = &self.listener_sender {
                listener_sender.open()?;
            }
            // A `bwrap` that is not setuid refuses to run with capabilities, and creates its own user namespace.
            if covers.has_namespace_capabilities() {
                in_step(SetupStep::Capabilities, drop_capabilities())?;
            }
        }
        self.common.apply()?;
        if let Some(rules) = &self.network_rules {
            in_step(SetupStep::Capabilities, set_no_new_privs(true))?;
            in_step(SetupStep::Landlock, sys::landlock_enter(rules.as_fd()))?;
        }
        // The file position is shared with the previous process that read the file.
        in_step(SetupStep::Seccomp, seek(&self.filter, SeekFrom::Start(0)))?;
        in_step(SetupStep::Seccomp, fcntl_setfd(&self.filter, FdFlags::empty()))
    }
}

/// Returns the rules that keep a command with a network from connecting to the server's ports and to abstract sockets.
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

/// The steps that every command has in common, including an unconfined one.
pub(crate) struct CommonSetup {
    limits: Vec<(Resource, Rlimit)>,
}

impl CommonSetup {
    pub(crate) fn new(limits: &ResourceLimits) -> Self {
        Self { limits: limits.prepare() }
    }

    fn apply(&self) -> io::Result<()> {
        in_step(SetupStep::Files, sys::close_on_exec())?;
        self.limit()
    }

    /// Sets the resource limits, which is all that is done to an unconfined command.
    pub(crate) fn limit(&self) -> io::Result<()> {
        in_step(SetupStep::Limits, limits::set(&self.limits))
    }
}

/// Drops all capabilities for good. Without them, file permissions apply to root as well.
fn drop_capabilities() -> rustix::io::Result<()> {
    match sys::lock_capabilities() {
        // An ordinary user has no capabilities, and `no_new_privs` prevents regaining them.
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

/// Returns the filter in the kernel's binary format.
fn filter_bytes(filter: &[sock_filter]) -> Vec<u8> {
    let instruction = |instruction: &sock_filter| {
        let [code_low, code_high] = instruction.code.to_ne_bytes();
        let [a, b, c, d] = instruction.k.to_ne_bytes();
        [code_low, code_high, instruction.jt, instruction.jf, a, b, c, d]
    };
    filter.iter().flat_map(instruction).collect()
}
