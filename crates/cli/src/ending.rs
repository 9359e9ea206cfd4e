//! When a server has to end: signals, and the death of whoever started it.

use tokio::signal::unix::{SignalKind, signal};

/// Returns when the process is asked to end.
pub async fn signalled() -> std::io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = terminate.recv() => tracing::info!("ending: SIGTERM"),
        _ = interrupt.recv() => tracing::info!("ending: SIGINT"),
        _ = hangup.recv() => tracing::info!("ending: SIGHUP"),
    }
    Ok(())
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
    let watch = std::thread::Builder::new().name("parent".into()).stack_size(64 << 10).spawn(move || {
        let parent = getppid().and_then(|parent| pidfd_open(parent, PidfdFlags::empty()).ok())?;
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
