//! Who watches over each child from its spawn until it has been reaped.
//!
//! One thread with a small runtime of its own runs a task per child. It belongs to no runtime of the
//! server's: a child must be ended and reaped also when the runtime that asked for it is already gone. The
//! thread lives as long as the process; a task ends with its child.

use std::{
    future::pending,
    io,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle},
    signal::unix::{SignalKind, signal},
    sync::watch,
    time::sleep,
};

use crate::{exit::Exit, group::Group, guard::Guard, spawner::LIVE};

/// A child as everybody sees it who has to do with it.
pub(crate) struct Child {
    group: Group,
    exit: watch::Sender<Option<Exit>>,
    order: watch::Sender<Order>,
}

/// What is asked of the keeper. Later orders include earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Order {
    Live,
    Terminate,
    Release,
}

impl Child {
    pub(crate) fn new(group: Group) -> Child {
        Child { group, exit: watch::Sender::new(None), order: watch::Sender::new(Order::Live) }
    }

    pub(crate) fn id(&self) -> u32 {
        self.group.leader().as_raw_pid().unsigned_abs()
    }

    /// Kills the group now. Repeating it does no harm.
    pub(crate) fn terminate(&self) {
        self.order(Order::Terminate);
    }

    /// Becomes `Some` when the leader has ended.
    pub(crate) fn exit(&self) -> watch::Receiver<Option<Exit>> {
        self.exit.subscribe()
    }

    fn order(&self, new: Order) {
        // At once from here; the keeper follows up with what takes longer.
        self.group.kill();
        self.order.send_if_modified(|order| {
            let later = new > *order;
            *order = new.max(*order);
            later
        });
    }

    async fn ordered(&self, least: Order) {
        // The sender is in `self`, so the wait cannot fail.
        let _ = self.order.subscribe().wait_for(|order| *order >= least).await;
    }
}

/// Owning a child. Dropped, the group is killed and everything about it given back.
pub(crate) struct Lease {
    pub(crate) child: Arc<Child>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.child.order(Order::Release);
    }
}

/// Starts the keeper's thread.
pub(crate) fn start() -> io::Result<Handle> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let handle = runtime.handle().clone();
    thread::Builder::new().name("exec-keeper".into()).spawn(move || runtime.block_on(pending::<()>()))?;
    Ok(handle)
}

/// Keeps one child until it has ended and its owner has let go of it.
pub(crate) async fn keep(child: Arc<Child>, timeout: Option<Duration>, guard: Arc<Guard>) {
    let exit = until_exit(&child, timeout).await;
    child.exit.send_replace(Some(exit));
    // What the leader left running may be ended before the owner lets go.
    tokio::select! {
        biased;
        () = child.ordered(Order::Release) => {}
        () = child.ordered(Order::Terminate) => {
            child.group.kill_all();
            child.ordered(Order::Release).await;
        }
    }
    child.group.kill_all();
    guard.gone(child.group.leader());
    child.group.reap();
    LIVE.fetch_sub(1, Ordering::Relaxed);
}

async fn until_exit(child: &Child, timeout: Option<Duration>) -> Exit {
    let group = &child.group;
    let over = async {
        match timeout {
            Some(time) => sleep(time).await,
            None => pending().await,
        }
    };
    tokio::select! {
        biased;
        exit = exited(group) => exit,
        () = child.ordered(Order::Terminate) => {
            group.kill_all();
            exited(group).await
        }
        () = over => {
            // It may have ended by itself in the last moment.
            if let Some(exit) = group.peek() {
                return exit;
            }
            group.kill_all();
            exited(group).await;
            Exit::TimedOut
        }
    }
}

/// Waits for the leader's end, by its process descriptor where there is one.
async fn exited(group: &Group) -> Exit {
    #[cfg(target_os = "linux")]
    {
        use crate::output::register;
        use rustix::process::{PidfdFlags, pidfd_open};
        use tokio::io::Interest;

        if let Ok(descriptor) = pidfd_open(group.leader(), PidfdFlags::NONBLOCK)
            && let Ok(descriptor) = register(descriptor, Interest::READABLE)
        {
            let _ = descriptor.readable().await;
        }
    }
    exited_by_signal(group).await
}

/// The same by `SIGCHLD`: for other systems, old kernels, and when descriptors have run out.
async fn exited_by_signal(group: &Group) -> Exit {
    if let Some(exit) = group.peek() {
        return exit;
    }
    let mut signals = signal(SignalKind::child());
    loop {
        if let Some(exit) = group.peek() {
            return exit;
        }
        match &mut signals {
            Ok(signals) => _ = signals.recv().await,
            Err(_) => sleep(Duration::from_millis(20)).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use rustix::process::Pid;

    use super::*;
    use crate::spec::Reach;

    #[tokio::test]
    async fn the_end_is_seen_without_a_process_descriptor() {
        let mut process = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let group = Group::of_child(Pid::from_child(&process), Reach::Group);
        let waiting = exited_by_signal(&group);
        tokio::pin!(waiting);
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("it still runs"),
            () = tokio::task::yield_now() => drop(process.stdin.take()),
        }

        assert_eq!(waiting.await, Exit::Code(0));
        assert!(process.wait().unwrap().success(), "the status was left for others");
    }
}
