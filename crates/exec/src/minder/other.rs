//! Systems without parent-death signals and without reparenting to a subreaper: the minder waits for the end of the
//! server through `kqueue`, and kills the command's process group. Processes that leave that group are not reached.

use std::{
    io,
    sync::atomic::{AtomicI32, Ordering},
};

pub(super) const NEW_PID_NAMESPACE: libc::c_int = 0;

/// The id of the command, which leads its process group.
static CHILD: AtomicI32 = AtomicI32::new(0);

pub(super) fn fork(_: libc::c_int) -> io::Result<i32> {
    // SAFETY: the child only makes system calls and then executes.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => {
            CHILD.store(pid, Ordering::Relaxed);
            Ok(pid)
        }
    }
}

pub(super) fn fork_until_exec(namespaces: libc::c_int) -> io::Result<()> {
    match fork(namespaces)? {
        0 => Ok(()),
        child => super::run_minder_of(child.into()),
    }
}

/// Does nothing: `next_signal` waits for the end of the parent. A command whose minder is killed is not ended.
pub(super) fn end_with_parent(_: libc::c_int) -> io::Result<()> {
    Ok(())
}

pub(super) fn adopt_orphans() {}

pub(super) fn next_signal() -> libc::c_int {
    // SAFETY: structures of plain numbers, on the stack, for calls that read and fill them in.
    unsafe {
        let queue = libc::kqueue();
        let mut changes: [libc::kevent; 4] = std::mem::zeroed();
        let signals = [libc::SIGCHLD, super::END_SIGNAL_NUMBER, libc::SIGTERM];
        for (change, signal) in changes.iter_mut().zip(signals) {
            change.ident = signal as libc::uintptr_t;
            change.filter = libc::EVFILT_SIGNAL;
            change.flags = libc::EV_ADD;
        }
        changes[3].ident = libc::getppid() as libc::uintptr_t;
        changes[3].filter = libc::EVFILT_PROC;
        changes[3].flags = libc::EV_ADD;
        changes[3].fflags = libc::NOTE_EXIT;
        let mut event: libc::kevent = std::mem::zeroed();
        let mut pending = std::mem::zeroed();
        libc::sigpending(&mut pending);
        let already_pending = signals.into_iter().find(|signal| libc::sigismember(&pending, *signal) == 1);
        let seen = already_pending.unwrap_or_else(|| {
            libc::kevent(queue, changes.as_ptr(), 4, &mut event, 1, std::ptr::null());
            if event.filter == libc::EVFILT_PROC {
                super::END_SIGNAL_NUMBER
            } else {
                event.ident as libc::c_int
            }
        });
        libc::close(queue);
        let mut seen_set = std::mem::zeroed();
        libc::sigemptyset(&mut seen_set);
        libc::sigaddset(&mut seen_set, seen);
        libc::sigpending(&mut pending);
        let mut taken = 0;
        if libc::sigismember(&pending, seen) == 1 {
            libc::sigwait(&seen_set, &mut taken);
        }
        seen
    }
}

pub(super) fn for_each_child(mut found: impl FnMut(i32)) {
    let child = CHILD.load(Ordering::Relaxed);
    if child > 1 {
        // SAFETY: takes numbers; the group is that of a child that has not been reaped.
        unsafe { libc::killpg(child, libc::SIGKILL) };
        found(child);
    }
}
