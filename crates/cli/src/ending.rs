//! When a server has to end: signals, and the death of whoever started it.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What a person sends with Ctrl-C.
pub const INTERRUPT: &str = "SIGINT";

/// The signals that ask the process to end.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Signals {
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

/// Returns when the parent process dies. Standard input may stay open then, held by a sibling.
///
/// Not the kernel's parent-death signal: that fires when the *thread* that spawned us ends. The watching
/// thread ends with the process.
#[cfg(target_os = "linux")]
pub async fn orphaned() {
    use rustix::{
        event::{PollFd, PollFlags, poll},
        process::{PidfdFlags, getppid, pidfd_open},
    };

    let (dead, gone) = tokio::sync::oneshot::channel::<()>();
    // At once: a thread may start late, and find another parent.
    let parent = getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok());
    let watch = std::thread::Builder::new().name("parent".into()).stack_size(64 << 10).spawn(move || {
        let parent = parent?;
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

#[cfg(not(target_os = "linux"))]
pub async fn orphaned() {
    // The end of standard input has to do.
    std::future::pending().await
}
