//! The system call filter: refuses with `EPERM` the calls that no build or test needs, and allows all others.
//!
//! It is the second line of defence behind namespaces, Landlock and dropped capabilities, and the first one against
//! sockets and against parts of the kernel with many past vulnerabilities. A filter sees numbers, not the memory behind
//! pointers. `clone3` passes its flags through a pointer, so the filter returns `ENOSYS` for it, and libraries fall back
//! to `clone`.
//!
//! `seccompiler` compiles the rules. It supports one error number for all of them, so the few instructions for `clone3`
//! and for x32 are assembled by hand in [`prelude`].

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::{
    BpfProgram, SeccompAction,
    SeccompCmpArgLen::{Dword, Qword},
    SeccompCmpOp::{Eq, MaskedEq, Ne},
    SeccompCondition, SeccompFilter, SeccompRule, TargetArch, sock_filter,
};

/// The sockets that a command may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SocketRules {
    /// The network, and sockets in the file system.
    Network,
    /// The network only.
    NetworkOnly,
    /// The internet protocols, in its own network namespace.
    Proxied,
    /// Socket pairs only: it cannot connect to any other socket.
    Pairs,
}

/// The processes that a command can name in system calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessRules {
    /// Those of its own PID namespace.
    Own,
    /// All processes of the machine.
    Shared,
}

/// System calls refused with any arguments.
const REFUSED: &[c_long] = &[
    // Ways around the filter, or around the rules for files.
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    OPEN_TREE_ATTR,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    // Large and rarely needed parts of the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine as a whole.
    libc::SYS_kexec_load,
    KEXEC_FILE_LOAD,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_nfsservctl,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// Direct access to hardware, which only this architecture has.
#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[c_long] = &[libc::SYS_iopl, libc::SYS_ioperm];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[c_long] = &[];

/// Not in every version of the `libc` crate; the number is the same everywhere.
const OPEN_TREE_ATTR: c_long = 467;
#[cfg(target_arch = "x86_64")]
const KEXEC_FILE_LOAD: c_long = 320;
#[cfg(not(target_arch = "x86_64"))]
const KEXEC_FILE_LOAD: c_long = 294;

/// System calls that set the scheduling of a process. A process names itself with the id 0, which is allowed. A thread
/// that names itself by its own id cannot be distinguished from another process, and is refused with
/// [`ProcessRules::Shared`].
const SCHEDULING: [c_long; 4] = [
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setattr,
    libc::SYS_sched_setaffinity,
];

/// Not in the `libc` crate.
const IOPRIO_WHO_USER: u64 = 3;

/// Every namespace that `clone` can create.
const CLONE_NAMESPACES: [libc::c_int; 7] = [
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];

/// The `ioctl` requests that insert input into a terminal, and so into a shell that runs there.
const TERMINAL_INPUT: [u64; 2] = [0x5412, 0x541c];

/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u64 = 0xf;

/// The first system call number of x32, a second numbering of every call on x86-64 that no program uses.
#[cfg(target_arch = "x86_64")]
const X32: Option<u32> = Some(0x4000_0000);
#[cfg(not(target_arch = "x86_64"))]
const X32: Option<u32> = None;

type FilterRules = BTreeMap<i64, Vec<SeccompRule>>;

/// Compiles the filter. Returns an error on architectures that `seccompiler` does not support.
pub(super) fn compile(sockets: SocketRules, processes: ProcessRules) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let refuse = SeccompAction::Errno(libc::EPERM as u32);
    let filter = rules(sockets, processes)
        .and_then(|rules| SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch))
        .and_then(BpfProgram::try_from);
    let mut program = prelude();
    program.extend(filter.map_err(|error| error.to_string())?);
    Ok(program)
}

fn rules(sockets: SocketRules, processes: ProcessRules) -> Result<FilterRules, seccompiler::BackendError> {
    let always = REFUSED.iter().chain(REFUSED_HERE);
    let mut calls = RefusedCalls(always.map(|number| (*number, Vec::new())).collect());
    for flag in CLONE_NAMESPACES {
        let flag = flag as u32 as u64;
        calls.refuse(libc::SYS_clone, vec![SeccompCondition::new(0, Dword, MaskedEq(flag), flag)?])?;
    }
    for request in TERMINAL_INPUT {
        calls.refuse(libc::SYS_ioctl, vec![SeccompCondition::new(1, Dword, Eq, request)?])?;
    }
    calls.refuse_processes(processes)?;
    calls.refuse_sockets(sockets)?;
    Ok(calls.0)
}

/// The refused system calls, each with the conditions under which it is refused.
struct RefusedCalls(FilterRules);

impl RefusedCalls {
    /// Refuses a system call if all of the conditions hold.
    fn refuse(
        &mut self,
        number: c_long,
        conditions: Vec<SeccompCondition>,
    ) -> Result<(), seccompiler::BackendError> {
        self.0.entry(number).or_default().push(SeccompRule::new(conditions)?);
        Ok(())
    }

    /// Refuses changes to other processes. A process names itself with the id 0.
    fn refuse_processes(&mut self, processes: ProcessRules) -> Result<(), seccompiler::BackendError> {
        let another = SeccompCondition::new(0, Dword, Ne, 0)?;
        self.refuse(libc::SYS_prlimit64, vec![another, SeccompCondition::new(2, Qword, Ne, 0)?])?;
        // Priorities by process id, or of all processes of the user.
        for (number, user) in
            [(libc::SYS_setpriority, libc::PRIO_USER as u64), (libc::SYS_ioprio_set, IOPRIO_WHO_USER)]
        {
            self.refuse(number, vec![SeccompCondition::new(1, Dword, Ne, 0)?])?;
            self.refuse(number, vec![SeccompCondition::new(0, Dword, Eq, user)?])?;
        }
        if processes == ProcessRules::Shared {
            for number in SCHEDULING {
                self.refuse(number, vec![SeccompCondition::new(0, Dword, Ne, 0)?])?;
            }
        }
        Ok(())
    }

    fn refuse_sockets(&mut self, sockets: SocketRules) -> Result<(), seccompiler::BackendError> {
        self.refuse(libc::SYS_socket, other_families(sockets)?)?;
        self.refuse(libc::SYS_socketpair, other_families(SocketRules::Pairs)?)?;
        // Multipath TCP and TCP fast open connect without Landlock's check of the port.
        let multipath = SeccompCondition::new(2, Dword, Eq, libc::IPPROTO_MPTCP as u64)?;
        self.refuse(libc::SYS_socket, vec![multipath])?;
        for (number, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
            let fast_open = libc::MSG_FASTOPEN as u64;
            self.refuse(number, vec![SeccompCondition::new(flags, Dword, MaskedEq(fast_open), fast_open)?])?;
        }
        // Sockets of both kinds send to any address without `connect`, even one of a socket pair.
        for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW] {
            let condition = || SeccompCondition::new(1, Dword, MaskedEq(SOCKET_TYPE), kind as u64);
            if sockets == SocketRules::Pairs {
                self.refuse(libc::SYS_socket, vec![condition()?])?;
            }
            if sockets != SocketRules::Network {
                self.refuse(libc::SYS_socketpair, vec![condition()?])?;
            }
        }
        if sockets == SocketRules::Pairs {
            self.0.insert(libc::SYS_connect, Vec::new());
        }
        Ok(())
    }
}

/// Returns conditions that hold for sockets of all families that are not allowed.
fn other_families(sockets: SocketRules) -> Result<Vec<SeccompCondition>, seccompiler::BackendError> {
    let allowed: &[libc::c_int] = match sockets {
        SocketRules::Network => &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        SocketRules::NetworkOnly => &[libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK],
        SocketRules::Proxied => &[libc::AF_INET, libc::AF_INET6],
        SocketRules::Pairs => &[libc::AF_UNIX],
    };
    allowed.iter().map(|family| SeccompCondition::new(0, Dword, Ne, *family as u64)).collect()
}

/// Returns the instructions before the compiled rules. Jumps are relative, so the compiled rules need no change.
fn prelude() -> BpfProgram {
    let instruction = |code: u32, jt, jf, k| sock_filter { code: code as u16, jt, jf, k };
    let load_number = instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0);
    let return_error = |errno: libc::c_int| {
        instruction(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32)
    };
    let mut program = vec![load_number];
    if let Some(first) = X32 {
        program.extend([
            instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0, 1, first),
            return_error(libc::EPERM),
        ]);
    }
    let clone3 = libc::SYS_clone3 as u32;
    program.extend([
        instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, clone3),
        return_error(libc::ENOSYS),
    ]);
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_within_the_kernels_size_limit() {
        for sockets in
            [SocketRules::Network, SocketRules::NetworkOnly, SocketRules::Proxied, SocketRules::Pairs]
        {
            for processes in [ProcessRules::Own, ProcessRules::Shared] {
                let length = compile(sockets, processes).unwrap().len();
                assert!((100..4096).contains(&length), "{sockets:?} {processes:?}: {length}");
            }
        }
    }
}
