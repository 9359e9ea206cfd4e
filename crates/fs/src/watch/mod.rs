//! Telling when files change.
//!
//! A watch is for one path: a file, a directory with its direct children, or something that is not there
//! yet. One thread, started with the first watch, owns all of them. The system is asked to watch
//! directories only, each of them once however many watches need it: a file that is replaced by renaming is
//! a new file, but an entry of the same directory.
//!
//! [`place`] decides which directories have to be watched for a path, [`folders`] keeps track of those that
//! are, [`mailbox`] takes what happens, and [`actor`] turns it into what watchers are told.
//!
//! Not seen are changes that inotify and its like do not report (of network disks by other machines), and a
//! directory further up than the parent that is renamed while everything below stays as it is.

mod actor;
mod ear;
mod folders;
mod mailbox;
mod place;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use self::{
    actor::WatchActor,
    ear::ChangeListener,
    mailbox::{NewWatch, WatchMailbox},
};

/// Why a path cannot be watched.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// The system's own words; its limit on watches is the usual reason.
    #[error("{0}")]
    System(String),
    /// Too many watches are waiting to begin.
    #[error("too many watches are being set up")]
    Busy,
    #[error("files are not watched any more")]
    Closed,
}

impl From<notify::Error> for WatchError {
    fn from(error: notify::Error) -> Self {
        match error.kind {
            notify::ErrorKind::Io(error) => Self::System(error.to_string()),
            // Without the paths: the client knows what it asked for.
            kind => Self::System(notify::Error::new(kind).to_string()),
        }
    }
}

/// Watches files for everybody. Dropping it ends all watches.
#[derive(Debug, Default)]
pub struct FileWatcher {
    mailbox: Mutex<Option<Arc<WatchMailbox>>>,
}

/// One path that is being watched, until this is dropped. Nothing is told from then on.
#[derive(Debug)]
pub struct FileWatch {
    number: u64,
    ear: Arc<ChangeListener>,
    mailbox: Arc<WatchMailbox>,
}

impl FileWatcher {
    /// Begins to watch a path, in its [normal](crate::normal) form. What changes is told in terms of that
    /// path, links or not; several changes within a moment are told at once.
    ///
    /// `tell` is called from the watching thread and must not wait. Nothing is told before
    /// [`FileWatch::listen`].
    pub fn watch<F>(
        &self,
        path: &Path,
        tell: F,
    ) -> impl Future<Output = Result<FileWatch, WatchError>> + Send + use<F>
    where
        F: Fn(Vec<PathBuf>) + Send + 'static,
    {
        let ear = Arc::new(ChangeListener::new(tell));
        let posted = self.mailbox().and_then(|mailbox| {
            let (reply, begun) = oneshot::channel();
            let number = mailbox.begin(|number| NewWatch {
                number,
                path: path.to_owned(),
                ear: ear.clone(),
                reply,
            })?;
            // From here on the watch ends with this, also when nobody waits for it any more.
            Ok((FileWatch { number, ear, mailbox }, begun))
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

/// The thread ends when the mailbox is closed.
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
    /// Lets changes through, beginning with those since the watch began.
    pub fn listen(&self) {
        self.ear.open();
    }
}

impl Drop for FileWatch {
    fn drop(&mut self) {
        self.ear.close();
        self.mailbox.end(self.number);
    }
}
