//! Waiting for files and for processes that are not children of the test.

use std::{os::fd::OwnedFd, path::Path, thread};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::inotify,
    process::{Pid, PidfdFlags, pidfd_open},
};
use tokio::sync::oneshot;

/// Waits until a path exists. Its directory must exist.
pub async fn for_path(path: &Path) {
    let mut events = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
    let watched = inotify::WatchFlags::CREATE | inotify::WatchFlags::MOVED_TO;
    inotify::add_watch(&events, path.parent().unwrap(), watched).unwrap();
    // The first look comes after the watch has begun, so that no creation is missed.
    while path.symlink_metadata().is_err() {
        events = until_readable(events).await;
        rustix::io::read(&events, &mut [0; 4096]).unwrap();
    }
}

/// Waits until a process has ended. One that does not exist has ended.
pub async fn for_exit(pid: i32) {
    // The descriptor of a process becomes readable when it ends.
    if let Ok(process) = pidfd_open(Pid::from_raw(pid).unwrap(), PidfdFlags::empty()) {
        until_readable(process).await;
    }
}

/// Waits in a thread, which ends with the test process if the descriptor never becomes readable.
async fn until_readable(descriptor: OwnedFd) -> OwnedFd {
    let (sender, readable) = oneshot::channel();
    thread::spawn(move || {
        while !matches!(poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None), Ok(1..)) {}
        sender.send(descriptor)
    });
    readable.await.expect("the thread sends the descriptor back")
}
