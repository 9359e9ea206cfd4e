//! Processes that the server starts: finding them, and waiting for their end.
//!
//! On other systems than Linux there is neither `/proc` nor a pidfd, and nothing is waited for.

#[cfg(target_os = "linux")]
pub use linux::{marked, until_none_is_marked, until_process_ends};

#[cfg(target_os = "linux")]
mod linux {
    use std::{fs, time::Duration};

    use rustix::{
        event::{PollFd, PollFlags, Timespec, poll},
        process::{Pid, PidfdFlags, pidfd_open},
    };

    const DEADLINE: Duration = Duration::from_secs(20);

    /// Waits until a process has ended, which may be a moment after it was killed.
    pub async fn until_process_ends(pid: u32) {
        let has_ended = tokio::task::spawn_blocking(move || wait(pid)).await.unwrap();
        assert!(has_ended, "process {pid} is still running");
    }

    /// Waits until no process has the mark.
    pub async fn until_none_is_marked(mark: &str) {
        // Asked again, because a process may start another one while the first is being killed.
        while let Some(pid) = marked(mark).first() {
            until_process_ends(*pid).await;
        }
    }

    /// Returns the processes with this value of `COMMAND_MARK` in their environment. Child processes inherit it.
    pub fn marked(mark: &str) -> Vec<u32> {
        let variable = format!("COMMAND_MARK={mark}\0");
        let is_marked = |pid: &u32| {
            let read = |file: &str| fs::read(format!("/proc/{pid}/{file}")).unwrap_or_default();
            let is_zombie = String::from_utf8_lossy(&read("stat")).contains(") Z ");
            read("environ").windows(variable.len()).any(|part| part == variable.as_bytes()) && !is_zombie
        };
        let entries = fs::read_dir("/proc").unwrap();
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter_map(|name| name.parse().ok()).filter(is_marked).collect()
    }

    /// Polls a pidfd, which becomes readable when the process ends. Returns false at the deadline.
    fn wait(pid: u32) -> bool {
        let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
        // Fails if the process is gone already.
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
        let deadline = Timespec::try_from(DEADLINE).unwrap();
        poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], Some(&deadline)).unwrap() == 1
    }
}

#[cfg(not(target_os = "linux"))]
pub async fn until_process_ends(_pid: u32) {}
