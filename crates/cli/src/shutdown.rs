//! The reasons to shut down: signals, and the exit of the parent process.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signal that Ctrl-C sends.
pub const INTERRUPT: &str = "SIGINT";

/// The signals that ask the process to end.
pub struct EndSignals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl EndSignals {
    /// Installs the handlers, so that the signals no longer kill the process. Called before anything that a
    /// client can observe.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for a signal and returns its name.
    pub async fn received(&mut self) -> &'static str {
        let name = tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => INTERRUPT,
            _ = self.hangup.recv() => "SIGHUP",
        };
        tracing::info!("shutting down: {name}");
        name
    }
}

/// The process that started this one. Standard input may stay open when it exits, held by a sibling.
///
/// This is not the kernel's parent-death signal, which fires when the *thread* that spawned us ends.
pub struct ParentProcess {
    #[cfg(target_os = "linux")]
    process: Option<std::os::fd::OwnedFd>,
}

#[cfg(target_os = "linux")]
impl ParentProcess {
    /// Called before anything that the parent can observe: it may then exit, and this process gets another
    /// parent.
    pub fn current() -> Self {
        use rustix::process::{PidfdFlags, getppid, pidfd_open};
        Self { process: getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok()) }
    }

    /// Waits until the parent exits. The thread that waits ends with this process.
    pub async fn exited(self) {
        use rustix::event::{PollFd, PollFlags, poll};
        let (sender, exited) = tokio::sync::oneshot::channel::<()>();
        let watch = std::thread::Builder::new().name("parent".into()).stack_size(64 << 10).spawn(move || {
            let parent = self.process?;
            // Readable means exited. An interrupted wait is repeated.
            while !matches!(poll(&mut [PollFd::new(&parent, PollFlags::IN)], None), Ok(1..)) {}
            sender.send(()).ok()
        });
        if watch.is_ok() && exited.await.is_ok() {
            tracing::info!("shutting down: the parent process has exited");
        } else {
            // A parent that cannot be watched is noticed by the end of standard input only.
            std::future::pending().await
        }
    }
}

#[cfg(not(target_os = "linux"))]
impl ParentProcess {
    pub fn current() -> Self {
        Self {}
    }

    /// Never returns: on this platform only the end of standard input is noticed.
    pub async fn exited(self) {
        std::future::pending().await
    }
}
