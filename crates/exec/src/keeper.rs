//! What the server does for each child from its spawn until its minder has been reaped.
//!
//! One thread with a small runtime of its own runs a task per child. It belongs to no runtime of the
//! server's: a child must be ended and reaped also when the runtime that asked for it is already gone. The
//! thread lives as long as the process; a task ends with its child.
//!
//! A signal is sent only to a minder (`minder.rs`) that has not been reaped, so its number cannot meanwhile belong to
//! another process. The minder kills the rest.

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

use crate::{exit::ProcessExit, output::register, spawner::LIVE};

/// A child as the server knows it: its minder, and how the command ended.
pub(crate) struct KeptChild {
    minder: Pid,
    end: Signal,
    is_reaped: Mutex<bool>,
    exit: watch::Sender<Option<ProcessExit>>,
    order: watch::Sender<KeeperOrder>,
}

/// What is asked of the keeper. Later orders include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum KeeperOrder {
    Live,
    Terminate,
    Release,
}

impl KeptChild {
    /// `end` is the signal that ends everything.
    pub(crate) fn new(minder: Pid, end: Signal) -> KeptChild {
        KeptChild {
            minder,
            end,
            is_reaped: Mutex::new(false),
            exit: watch::Sender::new(None),
            order: watch::Sender::new(KeeperOrder::Live),
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.minder.as_raw_pid().unsigned_abs()
    }

    /// Kills the command and everything it started. Repeating it does no harm.
    pub(crate) fn terminate(&self) {
        self.order(KeeperOrder::Terminate);
    }

    /// Becomes `Some` when the command has ended.
    pub(crate) fn exit(&self) -> watch::Receiver<Option<ProcessExit>> {
        self.exit.subscribe()
    }

    fn order(&self, new: KeeperOrder) {
        self.end();
        self.order.send_if_modified(|order| {
            let later = new > *order;
            *order = new.max(*order);
            later
        });
    }

    /// Tells the minder to kill everything. Does nothing once the minder has been reaped.
    fn end(&self) {
        let is_reaped = self.is_reaped.lock();
        if !*is_reaped {
            // It may have ended by itself.
            let _ = kill_process(self.minder, self.end);
        }
    }

    async fn ordered(&self, least: KeeperOrder) {
        // The sender is in `self`, so the wait cannot fail.
        let _ = self.order.subscribe().wait_for(|order| *order >= least).await;
    }

    /// Reaps the minder if it has ended.
    fn reap(&self) -> bool {
        let mut is_reaped = self.is_reaped.lock();
        if !*is_reaped {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            // An error means that another part of the program waited for every child: the number is not ours any more.
            *is_reaped = !matches!(waitid(WaitId::Pid(self.minder), options), Ok(None) | Err(Errno::INTR));
        }
        *is_reaped
    }
}

/// Owning a child. Dropped, everything that the child started is killed and what the server holds is given back.
pub(crate) struct ChildLease {
    pub(crate) child: Arc<KeptChild>,
}

impl Drop for ChildLease {
    fn drop(&mut self) {
        self.child.order(KeeperOrder::Release);
    }
}

/// Starts the keeper's thread.
pub(crate) fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("exec-keeper".into()).spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}

/// Keeps one child until it has ended and its owner has let go of it. `report` is where the minder writes how the
/// command ended.
pub(crate) async fn keep(child: Arc<KeptChild>, timeout: Option<Duration>, report: OwnedFd) {
    let exit = until_exit(&child, timeout, report).await;
    child.exit.send_replace(Some(exit));
    // What the command left running lives until the owner lets go, or asks for its end.
    child.ordered(KeeperOrder::Release).await;
    until_reaped(&child).await;
    LIVE.fetch_sub(1, Ordering::Relaxed);
}

async fn until_exit(child: &KeptChild, timeout: Option<Duration>, report: OwnedFd) -> ProcessExit {
    let mut reported = std::pin::pin!(reported(child, report));
    let over = async {
        match timeout {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        exit = &mut reported => exit,
        () = over => {
            child.end();
            reported.await;
            ProcessExit::TimedOut
        }
    }
}

/// Waits for the minder's report. A minder that was told to end leaves without one: everything was killed.
async fn reported(child: &KeptChild, report: OwnedFd) -> ProcessExit {
    let read = |end: &OwnedFd| {
        let mut status = [0; size_of::<i32>()];
        let length = rustix::io::read(end, &mut status)?;
        Ok((length == status.len()).then(|| ProcessExit::from_wait_status(i32::from_ne_bytes(status))))
    };
    let read = match register(report, Interest::READABLE) {
        Ok(report) => AsyncFd::async_io(&report, Interest::READABLE, read).await,
        Err(error) => Err(error),
    };
    match read {
        Ok(exit) => exit.unwrap_or(ProcessExit::Signal(libc::SIGKILL)),
        Err(error) => {
            tracing::error!(%error, "cannot read how a command ended, ending it");
            child.end();
            ProcessExit::Unknown
        }
    }
}

/// Waits for the end of the minder, by its process descriptor where there is one.
async fn until_reaped(child: &KeptChild) {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{PidfdFlags, pidfd_open};

        if let Ok(descriptor) = pidfd_open(child.minder, PidfdFlags::NONBLOCK)
            && let Ok(descriptor) = register(descriptor, Interest::READABLE)
        {
            let _ = descriptor.readable().await;
        }
    }
    reaped_by_signal(child).await
}

/// The same by `SIGCHLD`: for other systems, old kernels, and when descriptors have run out.
async fn reaped_by_signal(child: &KeptChild) {
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
    async fn the_end_is_seen_without_a_process_descriptor() {
        let mut process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let child = KeptChild::new(Pid::from_child(&process), Signal::KILL);
        let waiting = reaped_by_signal(&child);
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
