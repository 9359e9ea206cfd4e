//! The process group of a child: the only thing the server sends signals to, and only from here.
//!
//! A group id is safe to signal while its leader has not been reaped: the kernel gives the number to nobody
//! else. So the leader stays a zombie until its owner is done with the group; [`Group::reap`] then closes it
//! for good, and later kills do nothing.

#[cfg(target_os = "linux")]
pub(crate) mod session;

use std::sync::{Mutex, PoisonError};

use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid},
};

use crate::{exit::Exit, spec::Reach};

/// A group and session that this crate created by spawning its leader.
pub(crate) struct Group {
    leader: Pid,
    reach: Reach,
    reaped: Mutex<bool>,
}

impl Group {
    /// Takes over a child that called `setsid` before it executed its program.
    pub(crate) fn of_child(leader: Pid, reach: Reach) -> Group {
        Group { leader, reach, reaped: Mutex::new(false) }
    }

    /// The id of the leader, which is also that of the group and of the session.
    pub(crate) fn leader(&self) -> Pid {
        self.leader
    }

    /// Kills every process of the group. Does nothing once the leader has been reaped.
    pub(crate) fn kill(&self) {
        let reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            kill_group(self.leader);
        }
    }

    /// Kills what [`Reach`] says. Only the task that also reaps may call this: looking through the session
    /// takes a while, and its id must stay taken meanwhile.
    pub(crate) fn kill_all(&self) {
        self.kill();
        let reaped = *self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if self.reach == Reach::Session && !reaped {
            #[cfg(target_os = "linux")]
            session::kill_groups(self.leader);
        }
    }

    /// How the leader ended, if it did. It stays a zombie.
    pub(crate) fn peek(&self) -> Option<Exit> {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        match waitid(WaitId::Pid(self.leader), options) {
            Ok(Some(status)) => Some(Exit::from_status(&status)),
            Ok(None) | Err(Errno::INTR) => None,
            // Somebody waited for every child of the program: the id is no longer ours to signal.
            Err(_) => {
                *self.reaped.lock().unwrap_or_else(PoisonError::into_inner) = true;
                Some(Exit::Unknown)
            }
        }
    }

    /// Lets go of the leader, which has ended.
    pub(crate) fn reap(&self) {
        let mut reaped = self.reaped.lock().unwrap_or_else(PoisonError::into_inner);
        if !*reaped {
            *reaped = true;
            let _ = waitid(WaitId::Pid(self.leader), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
    }
}

/// The one call that sends a signal from the server. `kill(-1)` would reach every process of the machine and
/// `kill(0)` the server's own group; hence the assertions.
fn kill_group(group: Pid) {
    check(group.as_raw_pid(), own_group());
    // The group may be empty already, or belong to another user after a set-user-id program.
    let _ = kill_process_group(group, Signal::KILL);
}

fn check(group: i32, own: i32) {
    assert!(group > 1, "a group id must be greater than 1");
    assert!(group != own, "the server's own group is never signalled");
}

/// Through `libc`: where the leader of a group is outside of the process namespace its id reads as 0, which
/// the type for ids in `rustix` cannot hold.
fn own_group() -> i32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::getpgrp() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "greater than 1")]
    fn the_group_of_everybody_is_refused() {
        check(1, 4711);
    }

    #[test]
    #[should_panic(expected = "own group")]
    fn the_own_group_is_refused() {
        check(4711, 4711);
    }
}
