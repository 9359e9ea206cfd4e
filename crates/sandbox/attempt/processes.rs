//! Attempts to influence or inspect processes outside.

use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt,
};

use crate::{
    context::{call, check, number, path},
    table::{Attempt, Class::*},
};

/// Opens a terminal without waiting for it and without making it the controlling terminal.
const TERMINAL: i32 = libc::O_NOCTTY | libc::O_NONBLOCK;

pub const ATTEMPTS: &[Attempt] = &[
    // SAFETY (each): plain numbers.
    ("signal", Denied, |s| check(unsafe { libc::kill(s.victim(), libc::SIGCONT) }).map(drop)),
    ("signal-server", Denied, |s| check(unsafe { libc::kill(s.server(), libc::SIGCONT) }).map(drop)),
    ("signal-thread", Denied, |s| {
        let victim = s.victim() as usize;
        call(libc::SYS_tgkill, &[victim, victim, libc::SIGCONT as usize]).map(drop)
    }),
    ("signal-by-descriptor", Denied, |s| {
        let descriptor = call(libc::SYS_pidfd_open, &[s.victim() as usize])?;
        call(libc::SYS_pidfd_send_signal, &[descriptor as usize, libc::SIGCONT as usize]).map(drop)
    }),
    ("signal-with-a-value", Denied, |s| {
        // SAFETY: a plain number and a union of a number and a pointer that is not dereferenced.
        let value = libc::sigval { sival_ptr: std::ptr::null_mut() };
        check(unsafe { libc::sigqueue(s.victim(), libc::SIGCONT, value) }).map(drop)
    }),
    ("priority-of-another", Denied, |s| {
        // SAFETY: plain numbers.
        check(unsafe { libc::setpriority(libc::PRIO_PROCESS, s.victim() as libc::id_t, 19) }).map(drop)
    }),
    // All processes of a user that does not exist, so that none is changed.
    ("priority-of-all-processes", Filtered, |_| {
        call(libc::SYS_setpriority, &[libc::PRIO_USER as usize, usize::MAX, 0]).map(drop)
    }),
    ("processors-of-another", Denied, |s| {
        let mut set = [0u64; 16];
        let size = size_of_val(&set);
        let number = s.victim() as usize;
        // Sets the processors that it uses already, so that nothing changes.
        call(libc::SYS_sched_getaffinity, &[number, size, set.as_mut_ptr() as usize])?;
        call(libc::SYS_sched_setaffinity, &[number, size, set.as_ptr() as usize]).map(drop)
    }),
    ("memory-segment-of-another", Denied, |_| {
        // SAFETY: a plain number; the kernel chooses the place.
        let address = unsafe { libc::shmat(number("ATTEMPT_SEGMENT"), std::ptr::null(), 0) };
        if address as isize == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }),
    ("read-terminal-of-another", Denied, |_| {
        OpenOptions::new().read(true).custom_flags(TERMINAL).open(path("ATTEMPT_TERMINAL")).map(drop)
    }),
    ("write-terminal-of-another", Denied, |_| {
        OpenOptions::new().write(true).custom_flags(TERMINAL).open(path("ATTEMPT_TERMINAL")).map(drop)
    }),
    ("memory-through-proc", Forbidden, |s| {
        OpenOptions::new().read(true).write(true).open(format!("/proc/{}/mem", s.victim())).map(drop)
    }),
    ("environment-of-another", Denied, |s| fs::read(format!("/proc/{}/environ", s.victim())).map(drop)),
    ("environment-of-the-server", Denied, |s| fs::read(format!("/proc/{}/environ", s.server())).map(drop)),
    ("limits-of-another", Denied, |s| {
        let limit = libc::rlimit { rlim_cur: 64, rlim_max: 64 };
        // SAFETY: the new limit outlives the call, the old one is not requested.
        check(unsafe { libc::prlimit(s.victim(), libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) })
            .map(drop)
    }),
    ("trace", Filtered, |s| {
        call(libc::SYS_ptrace, &[libc::PTRACE_SEIZE as usize, s.victim() as usize]).map(drop)
    }),
    ("trace-me", Filtered, |_| call(libc::SYS_ptrace, &[libc::PTRACE_TRACEME as usize]).map(drop)),
    ("memory-of-another", Filtered, |s| call(libc::SYS_process_vm_readv, &[s.victim() as usize]).map(drop)),
    ("write-memory-of-another", Filtered, |s| {
        call(libc::SYS_process_vm_writev, &[s.victim() as usize]).map(drop)
    }),
    ("compare-processes", Filtered, |s| call(libc::SYS_kcmp, &[1, s.victim() as usize]).map(drop)),
    ("descriptor-of-another", Filtered, |_| call(libc::SYS_pidfd_getfd, &[0, 0]).map(drop)),
    ("become-another-user", Forbidden, |_| {
        // SAFETY: plain numbers.
        check(unsafe { libc::setresuid(4711, 4711, 4711) }).map(drop)
    }),
    ("change-groups", Forbidden, |_| {
        let groups: [libc::gid_t; 1] = [4711];
        // SAFETY: the array has the length given.
        check(unsafe { libc::setgroups(1, groups.as_ptr()) }).map(drop)
    }),
    ("type-into-the-terminal", Filtered, |_| {
        // SAFETY: TIOCSTI reads one byte.
        check(unsafe { libc::ioctl(0, libc::TIOCSTI, b"x".as_ptr()) }).map(drop)
    }),
    ("no-privileges", Allowed, |_| {
        let status = fs::read_to_string("/proc/self/status")?;
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let none = Some("0000000000000000");
        let capabilities =
            ["CapInh:", "CapPrm:", "CapEff:", "CapAmb:"].into_iter().all(|name| field(name) == none);
        // An ordinary user cannot shrink the bounding set, and cannot use it.
        // SAFETY: no arguments.
        let bounding = field("CapBnd:") == none || unsafe { libc::geteuid() } != 0;
        let is_restricted = field("NoNewPrivs:") == Some("1") && field("Seccomp:") == Some("2");
        if capabilities && bounding && is_restricted { Ok(()) } else { Err(io::Error::other(status)) }
    }),
];
