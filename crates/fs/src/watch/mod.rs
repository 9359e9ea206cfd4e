//! Watches files for changes.
//!
//! A watch is for one path: a file, a directory with its direct children, or a path that does not exist yet. One thread,
//! started with the first watch, owns all of them. The system watches directories only, each of them once for all watches
//! that need it: a file that is replaced by a rename is a new file, but an entry of the same directory.
//!
//! [`watch_plan`] decides which directories must be watched for a path, [`folders`] watches them, [`mailbox`] collects the
//! reports of the system, and [`actor`] converts them to the changes of watches.
//!
//! Not noticed are changes that the system does not report (to network disks by other machines), and the rename of a
//! directory above the parent while everything below it stays the same.

mod actor;
mod change_listener;
mod folders;
mod mailbox;
mod watch_plan;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::{
    actor::WatchActor,
    change_listener::ChangeListener,
    mailbox::{NewWatch, WatchMailbox},
};

/// Why a path cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// An error of the system, usually its limit on watches.
    #[error("{0}")]
    System(String),
    /// Too many watches are waiting to begin.
    #[error("too many watches are being set up")]
    Busy,
    #[error("file watching has stopped")]
    Closed,
}

impl From<notify::Error> for WatchError {
    fn from(error: notify::Error) -> Self {
        match error.kind {
            notify::ErrorKind::Io(error) => Self::System(error.to_string()),
            // Without the paths, because the client knows the path.
            kind => Self::System(notify::Error::new(kind).to_string()),
        }
    }
}

/// Watches files for all clients. Dropping it ends all watches.
#[derive(Debug, Default)]
pub struct FileWatcher {
    mailbox: Mutex<Option<Arc<WatchMailbox>>>,
}

/// A watched path. Dropping it ends the watch, after which its callback is not called any more.
#[derive(Debug)]
pub struct FileWatch {
    number: u64,
    listener: Arc<ChangeListener>,
    mailbox: Arc<WatchMailbox>,
}

impl FileWatcher {
    /// Watches a path, in its [normal](codicil_protocol::normal_path) form. Changes are reported below that path, even if it contains
    /// links. Changes within a short time are reported together.
    ///
    /// `on_change` is called on the watching thread and must not block. It is not called before [`FileWatch::listen`].
    pub fn watch<F>(
        &self,
        path: &Path,
        on_change: F,
    ) -> impl Future<Output = Result<FileWatch, WatchError>> + Send + use<F>
    where
        F: Fn(Vec<PathBuf>) + Send + 'static,
    {
        let listener = Arc::new(ChangeListener::new(on_change));
        let posted = self.mailbox().and_then(|mailbox| {
            let (reply, begun) = oneshot::channel();
            let number = mailbox.begin(|number| NewWatch {
                number,
                path: path.to_owned(),
                listener: listener.clone(),
                reply,
            })?;
            // From here on, dropping the future ends the watch as well.
            Ok((FileWatch { number, listener, mailbox }, begun))
        });
        async move {
            let (watch, begun) = posted?;
            begun.await.unwrap_or(Err(WatchError::Closed)).map(|()| watch)
        }
    }

    fn mailbox(&self) -> Result<Arc<WatchMailbox>, WatchError> {
        let mut slot = self.mailbox.lock();
        match &*slot {
            Some(mailbox) if !mailbox.is_closed() => Ok(mailbox.clone()),
            _ => Ok(slot.insert(start()?).clone()),
        }
    }
}

/// Starts the watching thread, which ends when the mailbox is closed.
fn start() -> Result<Arc<WatchMailbox>, WatchError> {
    let mailbox = Arc::new(WatchMailbox::default());
    let actor = WatchActor::new(mailbox.clone());
    let thread = thread::Builder::new().name("codicil-watch".to_owned());
    thread.spawn(|| actor.run()).map_err(|error| WatchError::System(error.to_string()))?;
    Ok(mailbox)
}

impl Drop for FileWatcher {
    fn drop(&mut self) {
        if let Some(mailbox) = &*self.mailbox.lock() {
            mailbox.close();
        }
    }
}

impl FileWatch {
    /// Enables the callback, and calls it for the changes since the watch began.
    pub fn listen(&self) {
        self.listener.open();
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.listener.close();
        self.mailbox.end(self.number);
    }
}
