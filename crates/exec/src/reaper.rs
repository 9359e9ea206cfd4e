//! The reaper: the thread that waits for the exit of each command and reaps its minder.
//!
//! It has its own small runtime with a task for each child, because a child must be ended and reaped even if the runtime
//! that spawned it is gone. The thread lives as long as the server; a task ends with its child.
//!
//! Only minders (`minder.rs`) are signalled, and only before they are reaped, so that a process id cannot belong to
//! another process. The minder kills the other processes of the command.

use std::{
    future::pending,
    io,
    os::fd::OwnedFd,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use parking_lot::Mutex;
use rustix::{
    io::Errno,
    process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::{Builder, Handle},
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::sleep,
};

use crate::{exit::ProcessExit, output::register, spawner::LIVE_COMMANDS};

/// The server's view of a child: its minder, and how the command ended.
pub(crate) struct MindedChild {
    minder: Pid,
    end_signal: Signal,
    is_reaped: Mutex<bool>,
    exit: watch::Sender<Option<ProcessExit>>,
    request: watch::Sender<OwnerRequest>,
}

/// The owner's request for a child. Later variants include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum OwnerRequest {
    Run,
    Terminate,
    /// The owner has dropped the child.
    Release,
}

impl MindedChild {
    /// Returns the child of this minder. `end_signal` makes the minder kill everything and exit.
    pub(crate) fn new(minder: Pid, end_signal: Signal) -> MindedChild {
        MindedChild {
            minder,
            end_signal,
            is_reaped: Mutex::new(false),
            exit: watch::Sender::new(None),
            request: watch::Sender::new(OwnerRequest::Run),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.minder.as_raw_pid().unsigned_abs()
    }

    /// Kills the command and everything it started. May be called repeatedly.
    pub(crate) fn terminate(&self) {
        self.request(OwnerRequest::Terminate);
    }

    /// Returns a receiver that holds `Some` once the command has ended.
    pub(crate) fn exit(&self) -> watch::Receiver<Option<ProcessExit>> {
        self.exit.subscribe()
    }

    fn request(&self, new: OwnerRequest) {
        self.signal_end();
        self.request.send_if_modified(|request| {
            let is_later = new > *request;
            *request = new.max(*request);
            is_later
        });
    }

    /// Signals the minder to kill everything. Has no effect once the minder has been reaped.
    fn signal_end(&self) {
        let is_reaped = self.is_reaped.lock();
        if !*is_reaped {
            // Fails if the minder has exited, which does not matter here.
            let _ = kill_process(self.minder, self.end_signal);
        }
    }

    async fn wait_for_request(&self, least: OwnerRequest) {
        // The sender is in `self`, so the wait cannot fail.
        let _ = self.request.subscribe().wait_for(|request| *request >= least).await;
    }

    /// Reaps the minder if it has exited. Returns whether it has been reaped.
    fn reap(&self) -> bool {
        let mut is_reaped = self.is_reaped.lock();
        if !*is_reaped {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            // An error means that another part of the program has reaped the minder: its id may belong to another
            // process now.
            *is_reaped = !matches!(waitid(WaitId::Pid(self.minder), options), Ok(None) | Err(Errno::INTR));
        }
        *is_reaped
    }
}

/// The ownership of a child. Dropping it kills the command and everything it started, and lets the reaper reap the
/// minder.
pub(crate) struct ChildLease {
    pub(crate) child: Arc<MindedChild>,
}

impl Drop for ChildLease {
    fn drop(&mut self) {
        self.child.request(OwnerRequest::Release);
    }
}

/// Starts the reaper's thread and returns its runtime.
pub(crate) fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("exec-reaper".into()).spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}

/// Waits until the command has ended, its owner has dropped it, and the minder is reaped. The minder writes
/// the command's status to the other end of `status_pipe`.
pub(crate) async fn watch_child(child: Arc<MindedChild>, timeout: Option<Duration>, status_pipe: OwnedFd) {
    let exit = wait_for_exit(&child, timeout, status_pipe).await;
    child.exit.send_replace(Some(exit));
    // Processes that the command left running live until the owner drops or terminates the child.
    child.wait_for_request(OwnerRequest::Release).await;
    wait_until_reaped(&child).await;
    LIVE_COMMANDS.fetch_sub(1, Ordering::Relaxed);
}

async fn wait_for_exit(child: &MindedChild, timeout: Option<Duration>, status_pipe: OwnedFd) -> ProcessExit {
    let mut exit = std::pin::pin!(read_status(child, status_pipe));
    let expired = async {
        match timeout {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        exit = &mut exit => exit,
        () = expired => {
            child.signal_end();
            exit.await;
            ProcessExit::TimedOut
        }
    }
}

/// Waits for the status that the minder writes. A minder that is signalled to end writes none: the command was killed.
async fn read_status(child: &MindedChild, status_pipe: OwnedFd) -> ProcessExit {
    let read = |end: &OwnedFd| {
        let mut status = [0; size_of::<i32>()];
        let length = rustix::io::read(end, &mut status)?;
        Ok((length == status.len()).then(|| ProcessExit::from_wait_status(i32::from_ne_bytes(status))))
    };
    let status = match register(status_pipe, Interest::READABLE) {
        Ok(pipe) => AsyncFd::async_io(&pipe, Interest::READABLE, read).await,
        Err(error) => Err(error),
    };
    match status {
        Ok(exit) => exit.unwrap_or(ProcessExit::Signal(libc::SIGKILL)),
        Err(error) => {
            tracing::error!(%error, "failed to read the status of a command, killing it");
            child.signal_end();
            ProcessExit::Unknown
        }
    }
}

/// Waits until the minder has exited, through a process descriptor where the system has them, and reaps it.
async fn wait_until_reaped(child: &MindedChild) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{PidfdFlags, pidfd_open};

        if let Ok(descriptor) = pidfd_open(child.minder, PidfdFlags::NONBLOCK)
            && let Ok(descriptor) = register(descriptor, Interest::READABLE)
        {
            let _ = descriptor.readable().await;
        }
    }
    reap_on_sigchld(child).await
}

/// Reaps the minder once `SIGCHLD` reports its exit: for other systems, old kernels, and if no descriptor is free.
async fn reap_on_sigchld(child: &MindedChild) {
    if child.reap() {
        return;
    }
    let mut signals = signal(SignalKind::child());
    while !child.reap() {
        match &mut signals {
            Ok(signals) => _ = signals.recv().await,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[tokio::test]
    async fn an_exit_is_noticed_without_a_process_descriptor() {
        let mut process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let child = MindedChild::new(Pid::from_child(&process), Signal::KILL);
        let waiting = reap_on_sigchld(&child);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            () = &mut waiting => panic!("it still runs"),
            () = tokio::task::yield_now() => drop(process.stdin.take()),
        }

        waiting.await;
        assert!(process.wait().is_err(), "it was reaped");
    }
}
