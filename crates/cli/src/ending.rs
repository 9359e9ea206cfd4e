//! When a server has to end: signals, and the death of whoever started it.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a person sends with Ctrl-C.
pub const INTERRUPT: &str = "SIGINT";

/// The signals that ask the process to end.
pub struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl EndSignals {
    /// From here on they no longer kill the process. Comes before anything that a client can see.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Returns when the process is asked to end, with the name of the signal.
    pub async fn received(&mut self) -> &'static str {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.hangup.recv() => "SIGHUP",
        };
        tracing::info!("ending: {name}");
        name
    }
}

/// Whoever started this process. Standard input may stay open when it dies, held by a sibling.
///
/// Not the kernel's parent-death signal: that fires when the *thread* that spawned us ends.
pub struct ParentProcess {
    #[cfg(target_os = "linux")]
    process: Option<std::os::fd::OwnedFd>,
}

#[cfg(target_os = "linux")]
impl ParentProcess {
    /// Comes before anything that others can see: who has seen it may end, and then we have another parent.
    pub fn now() -> Self {
        use rustix::process::{PidfdFlags, getppid, pidfd_open};
        Self { process: getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok()) }
    }

    /// Returns when it dies. The thread that watches ends with this process.
    pub async fn gone(self) {
        use rustix::event::{PollFd, PollFlags, poll};
        let (dead, gone) = tokio::sync::oneshot::channel::<()>();
        let watch = std::thread::Builder::new().name("parent".into()).stack_size(64 << 10).spawn(move || {
            let parent = self.process?;
            // Readable means dead; an interrupted wait is simply repeated.
            while !matches!(poll(&mut [PollFd::new(&parent, PollFlags::IN)], None), Ok(1..)) {}
            dead.send(()).ok()
        });
        if watch.is_ok() && gone.await.is_ok() {
            tracing::info!("ending: the parent process is gone");
        } else {
            // Without a parent that can be watched, the end of standard input has to do.
            std::future::pending().await
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl ParentProcess {
    pub fn now() -> Self {
        Self {}
    }

    /// The end of standard input has to do.
    pub async fn gone(self) {
        std::future::pending().await
    }
}
