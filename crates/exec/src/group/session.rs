//! The groups inside a session that this crate created, for [`Reach::Session`](crate::Reach).
//!
//! All members of a group are in one session, so a group with one member in ours is ours as a whole.

use std::mem::MaybeUninit;

use rustix::{
    fs::{Mode, OFlags, RawDir, open},
    process::Pid,
};

use super::kill_group;

/// How often the processes are looked through while new groups keep appearing.
const MAX_PASSES: usize = 100;

/// Kills every group of the session but the leader's own. A killed group cannot grow, so the look that
/// finds no new one is the last.
pub(super) fn kill_groups(session: Pid) {
    let mut killed = vec![session];
    for _ in 0..MAX_PASSES {
        let before = killed.len();
        each_group(|of_session, group| {
            if of_session == session && !killed.contains(&group) {
                kill_group(group);
                killed.push(group);
            }
        });
        if killed.len() == before {
            return;
        }
    }
}

/// Calls `found` with session and group of every process. Neither allocates nor locks: the guard calls
/// this in a forked process.
pub(crate) fn each_group(mut found: impl FnMut(Pid, Pid)) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(proc) = open(c"/proc", flags, Mode::empty()) else { return };
    let mut buffer = [MaybeUninit::uninit(); 8192];
    let mut entries = RawDir::new(&proc, &mut buffer);
    while let Some(Ok(entry)) = entries.next() {
        let Some(pid) = parse_pid(entry.file_name().to_bytes()) else { continue };
        if let Some((session, group)) = place(pid) {
            found(session, group);
        }
    }
}

/// Session and group of a process. Those of the kernel's threads, and of what is outside of the process
/// namespace, read as 0.
fn place(pid: Pid) -> Option<(Pid, Pid)> {
    let pid = pid.as_raw_pid();
    // SAFETY: takes and returns plain numbers.
    let (group, session, again) = unsafe { (libc::getpgid(pid), libc::getsid(pid), libc::getpgid(pid)) };
    // Asked twice: the answers then belong to one process, even if the number has changed hands. It may
    // also have ended meanwhile, which reads as -1.
    if group <= 0 || session <= 0 || group != again {
        return None;
    }
    Pid::from_raw(session).zip(Pid::from_raw(group))
}

fn parse_pid(name: &[u8]) -> Option<Pid> {
    let mut number: i32 = 0;
    for &digit in name {
        let digit = digit.is_ascii_digit().then(|| i32::from(digit & 0x0f))?;
        number = number.checked_mul(10)?.checked_add(digit)?;
    }
    Pid::from_raw(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_are_processes() {
        assert_eq!(parse_pid(b"4711"), Pid::from_raw(4711));
        for name in ["", "0", "self", "12a", "99999999999"] {
            assert_eq!(parse_pid(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn a_process_in_a_session_of_its_own_is_found() {
        use std::os::unix::process::CommandExt;

        // Not this process itself: in a container its session may be one from outside.
        let mut command = std::process::Command::new("cat");
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::null());
        // SAFETY: `setsid` may be called between fork and exec.
        unsafe { command.pre_exec(|| rustix::process::setsid().map(drop).map_err(Into::into)) };
        let mut child = command.spawn().unwrap();
        let own = Pid::from_child(&child);
        assert_eq!(place(own), Some((own, own)));
        let mut seen = false;
        each_group(|session, group| seen |= (session, group) == (own, own));
        assert!(seen);
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
