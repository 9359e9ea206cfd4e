//! A process beside the server that kills what is left of its commands when the server is killed.
//!
//! The parent-death signal ends only the process that was spawned, not what that one started. The guard holds
//! the reading end of a pipe whose writing end only the server has. When the pipe closes, for whatever
//! reason, the server is gone, and the guard kills every group it has been told of and ends. It is forked
//! once, with the first command, and shares the server's memory pages; it has closed everything else.
//!
//! A child announces itself before it executes its program, so no moment is left uncovered. As the spawner
//! works one spawn at a time, at most one group is announced and not yet confirmed. When the server is done
//! with a group it says so *before* it reaps the leader: while the server lives, the guard holds no id that
//! others could have.
//!
//! Everything below [`watch`] runs in a process forked from one with many threads: no allocation, no lock, no
//! panic, only calls that are safe in a signal handler.

use std::{
    io,
    os::fd::{AsRawFd, OwnedFd, RawFd},
    sync::Once,
};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::{spawner::MAX_LIVE, spec::Reach};

const ANNOUNCED_GROUP: i32 = 1;
const ANNOUNCED_SESSION: i32 = 2;
const KEPT_GROUP: i32 = 3;
const KEPT_SESSION: i32 = 4;
const FAILED: i32 = 5;
const GONE: i32 = 6;

/// What is said about one group: what happened, and its id. Small enough that the pipe never splits it.
type Message = [u8; 8];

/// The server's end. The guard ends when this is dropped, or the process that holds it ends.
pub(crate) struct Guard {
    pipe: OwnedFd,
}

impl Guard {
    /// Forks the guard.
    pub(crate) fn start() -> io::Result<Guard> {
        let (read, write) = io::pipe()?;
        // SAFETY: the child calls `watch` alone, which makes only async-signal-safe calls and ends the
        // process.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                watch(read.as_raw_fd());
                unreachable!("the guard leaves by itself")
            }
            _ => Ok(Guard { pipe: write.into() }),
        }
    }

    /// Where a child writes its announcement; see [`announce`].
    pub(crate) fn descriptor(&self) -> RawFd {
        self.pipe.as_raw_fd()
    }

    /// The child that announced itself runs its program.
    pub(crate) fn kept(&self, leader: Pid, reach: Reach) {
        let what = match reach {
            Reach::Group => KEPT_GROUP,
            Reach::Session => KEPT_SESSION,
        };
        self.say(what, leader.as_raw_pid());
    }

    /// The child that announced itself, if any did, never ran its program.
    pub(crate) fn failed(&self) {
        self.say(FAILED, 0);
    }

    /// The group has been killed and its id is about to be given back.
    pub(crate) fn gone(&self, leader: Pid) {
        self.say(GONE, leader.as_raw_pid());
    }

    fn say(&self, what: i32, id: i32) {
        if let Err(error) = rustix::io::retry_on_intr(|| rustix::io::write(&self.pipe, &message(what, id))) {
            // Somebody killed the guard. The parent-death signal still covers the leaders.
            static TOLD: Once = Once::new();
            TOLD.call_once(|| tracing::warn!(%error, "the process guard does not answer"));
        }
    }
}

/// Called by the child between fork and exec, once. A guard that is gone is no reason to fail.
pub(crate) fn announce(guard: RawFd, reach: Reach) {
    let what = match reach {
        Reach::Group => ANNOUNCED_GROUP,
        Reach::Session => ANNOUNCED_SESSION,
    };
    let message = message(what, rustix::process::getpid().as_raw_pid());
    // SAFETY: plain system calls on a descriptor that nobody else in this process uses. The signal of a
    // broken pipe is ignored for the moment of writing; its default is what the program starts with. The
    // descriptor is closed, so that a later step that forks and does not exec cannot hold the pipe open.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        while libc::write(guard, message.as_ptr().cast(), message.len()) == -1
            && io::Error::last_os_error().raw_os_error() == Some(libc::EINTR)
        {}
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::close(guard);
    }
}

fn message(what: i32, id: i32) -> Message {
    let ([a, b, c, d], [e, f, g, h]) = (what.to_ne_bytes(), id.to_ne_bytes());
    [a, b, c, d, e, f, g, h]
}

fn parts(&[a, b, c, d, e, f, g, h]: &Message) -> (i32, i32) {
    (i32::from_ne_bytes([a, b, c, d]), i32::from_ne_bytes([e, f, g, h]))
}

/// Ends the process at once, without the server's exit handlers. In a destructor, so that not even a panic
/// could make the guard go on as a second server.
struct Leave;

impl Drop for Leave {
    fn drop(&mut self) {
        // SAFETY: takes a number and does not return.
        unsafe { libc::_exit(0) }
    }
}

/// The whole life of the guard.
fn watch(pipe: RawFd) {
    let _leave = Leave;
    step_aside(pipe);
    let mut groups = Groups { announced: 0, ids: [0; MAX_LIVE] };
    let mut buffer = [0_u8; 64 * size_of::<Message>()];
    loop {
        // SAFETY: the buffer is valid for its length; the descriptor is ours until the end.
        let count = unsafe { libc::read(pipe, buffer.as_mut_ptr().cast(), buffer.len()) };
        match usize::try_from(count) {
            Ok(0) => break,
            Ok(count) => buffer.as_chunks().0.iter().take(count / size_of::<Message>()).for_each(|message| {
                let (what, id) = parts(message);
                groups.hear(what, id);
            }),
            Err(_) if io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => {}
            Err(_) => break,
        }
    }
    groups.kill();
}

/// Leaves the server's session, directory and open files, and everything that could end or disturb the guard
/// before the server: whoever signals the server's group, or waits for its output to close, must not notice
/// it.
fn step_aside(pipe: RawFd) {
    let _ = rustix::process::setsid();
    let _ = rustix::process::chdir(c"/");
    // SAFETY: plain system calls on local values; closing what the server has open affects this process
    // alone.
    unsafe {
        let mut all = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, std::ptr::null_mut());
        #[cfg(target_os = "linux")]
        {
            libc::prctl(libc::PR_SET_NAME, c"codicil-guard".as_ptr());
            let number = libc::c_long::from(pipe);
            let below = if pipe > 0 { libc::syscall(libc::SYS_close_range, 0, number - 1, 0) } else { 0 };
            if below == 0 && libc::syscall(libc::SYS_close_range, number + 1, libc::c_uint::MAX, 0) == 0 {
                return;
            }
        }
        for other in
            (0..libc::sysconf(libc::_SC_OPEN_MAX).clamp(256, 65_536) as RawFd).filter(|fd| *fd != pipe)
        {
            libc::close(other);
        }
    }
}

/// The groups to kill. A negative id stands for a whole session, 0 for a free place.
struct Groups {
    announced: i32,
    ids: [i32; MAX_LIVE],
}

impl Groups {
    fn hear(&mut self, what: i32, id: i32) {
        match what {
            ANNOUNCED_GROUP => self.announced = id,
            // Ids are positive, so this cannot overflow.
            ANNOUNCED_SESSION => self.announced = id.wrapping_neg(),
            KEPT_GROUP => self.keep(id),
            KEPT_SESSION => self.keep(id.wrapping_neg()),
            GONE => self.replace(|kept| kept.unsigned_abs() == id.unsigned_abs(), 0),
            _ => self.announced = 0,
        }
    }

    fn keep(&mut self, id: i32) {
        self.announced = 0;
        self.replace(|kept| kept == 0, id);
    }

    fn replace(&mut self, old: impl Fn(i32) -> bool, new: i32) {
        if let Some(place) = self.ids.iter_mut().find(|id| old(**id)) {
            *place = new;
        }
    }

    fn kill(&self) {
        self.all().for_each(|id| kill_group(id.wrapping_abs()));
        #[cfg(target_os = "linux")]
        if self.all().any(|id| id < 0) {
            // Twice, for a group that was made while the first look went by it.
            for _ in 0..2 {
                crate::group::session::each_group(|session, group| {
                    let session = session.as_raw_pid().wrapping_neg();
                    if self.all().any(|id| id == session) {
                        kill_group(group.as_raw_pid());
                    }
                });
            }
        }
    }

    fn all(&self) -> impl Iterator<Item = i32> {
        self.ids.iter().copied().chain([self.announced])
    }
}

/// Never signals an id of 1 or less. A panic would be out of place here, so it is a condition.
fn kill_group(id: i32) {
    if id > 1
        && let Some(group) = Pid::from_raw(id)
    {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(messages: &[(i32, i32)]) -> (i32, Vec<i32>) {
        let mut groups = Groups { announced: 0, ids: [0; MAX_LIVE] };
        for (what, id) in messages {
            let (what, id) = parts(&message(*what, *id));
            groups.hear(what, id);
        }
        (groups.announced, groups.ids.iter().copied().filter(|id| *id != 0).collect())
    }

    #[test]
    fn only_living_groups_are_known() {
        let check = |messages: &[(i32, i32)], announced, ids: &[i32]| {
            assert_eq!(known(messages), (announced, ids.to_vec()), "{messages:?}");
        };
        check(&[], 0, &[]);
        check(&[(ANNOUNCED_GROUP, 40)], 40, &[]);
        check(&[(ANNOUNCED_SESSION, 40)], -40, &[]);
        check(&[(ANNOUNCED_GROUP, 40), (FAILED, 0)], 0, &[]);
        check(&[(ANNOUNCED_GROUP, 40), (KEPT_GROUP, 40)], 0, &[40]);
        check(&[(ANNOUNCED_SESSION, 40), (KEPT_SESSION, 40)], 0, &[-40]);
        check(&[(KEPT_GROUP, 40), (KEPT_SESSION, 50), (ANNOUNCED_GROUP, 60)], 60, &[40, -50]);
        check(&[(KEPT_GROUP, 40), (KEPT_SESSION, 50), (GONE, 50)], 0, &[40]);
        check(&[(KEPT_GROUP, 40), (GONE, 40), (KEPT_GROUP, 41)], 0, &[41]);
        check(&[(GONE, 99), (FAILED, 0)], 0, &[]);
    }
}
