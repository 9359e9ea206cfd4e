//! The lock beside a unix socket: `PATH.lock`, held by the server that listens on `PATH`.
//!
//! Without it, two servers that find the socket file of a dead one could both replace it, and one of them would serve a
//! file that no client can find. The lock ends with its process, however that ends. Its content is the process id, for
//! people and monitors.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io::{self, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process,
    sync::mpsc,
    thread,
    time::Duration,
};

use rustix::fs::OFlags;

/// The lock of a socket. Dropping it releases it.
#[derive(Debug)]
pub struct SocketLock {
    path: PathBuf,
    _file: File,
}

/// The outcome of an attempt to take the lock of a socket.
#[derive(Debug)]
pub enum LockAttempt {
    Taken(SocketLock),
    /// Another process holds it.
    Held,
    /// The file system has no locks.
    Unsupported,
}

impl SocketLock {
    /// Takes the lock of a socket if it is free.
    pub fn try_take(socket: &Path) -> io::Result<LockAttempt> {
        let path = lock_path(socket);
        loop {
            let mut file = open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(LockAttempt::Held),
                Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Unsupported => {
                    let _ = std::fs::remove_file(&path);
                    return Ok(LockAttempt::Unsupported);
                }
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // The previous owner may have removed the file between its opening and the lock.
            if file.metadata()?.nlink() > 0 {
                file.set_len(0)?;
                file.write_all(format!("{}\n", process::id()).as_bytes())?;
                return Ok(LockAttempt::Taken(Self { path, _file: file }));
            }
        }
    }
}

impl Drop for SocketLock {
    fn drop(&mut self) {
        // While the lock is held, so that the file is never that of another server.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Waits until no server holds the lock of a socket. Returns false if one still does after `limit`.
pub fn wait_until_unlocked(socket: &Path, limit: Duration) -> bool {
    let Ok(file) = OpenOptions::new().read(true).open(lock_path(socket)) else { return true };
    let (sender, unlocked) = mpsc::channel();
    // After the time limit this thread keeps waiting, until the lock is free or this process ends.
    thread::spawn(move || {
        // An error means that the file system has no locks.
        let _ = file.lock_shared();
        // Releases the lock before the caller tries to take it.
        drop(file);
        let _ = sender.send(());
    });
    unlocked.recv_timeout(limit).is_ok()
}

fn lock_path(socket: &Path) -> PathBuf {
    let mut path = socket.as_os_str().to_owned();
    path.push(".lock");
    path.into()
}

fn open(path: &Path) -> io::Result<File> {
    let no_links = i32::try_from(OFlags::NOFOLLOW.bits()).unwrap_or_default();
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_links)
        .open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_has_one_lock_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        assert!(wait_until_unlocked(&socket, Duration::from_secs(60)));
        let LockAttempt::Taken(first) = SocketLock::try_take(&socket).unwrap() else {
            panic!("the lock is free")
        };
        let content = std::fs::read_to_string(folder.path().join("s.lock")).unwrap();
        assert_eq!(content, format!("{}\n", process::id()));
        assert!(!wait_until_unlocked(&socket, Duration::ZERO));
        assert!(matches!(SocketLock::try_take(&socket).unwrap(), LockAttempt::Held));
        drop(first);
        assert!(wait_until_unlocked(&socket, Duration::from_secs(60)));
        assert!(!folder.path().join("s.lock").exists());
        assert!(matches!(SocketLock::try_take(&socket).unwrap(), LockAttempt::Taken(_)));
    }

    #[test]
    fn a_lock_file_without_an_owner_is_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("s");
        std::fs::write(folder.path().join("s.lock"), "4194305 and more\n").unwrap();
        assert!(wait_until_unlocked(&socket, Duration::from_secs(60)));
        let attempt = SocketLock::try_take(&socket).unwrap();
        assert!(matches!(attempt, LockAttempt::Taken(_)));
        let content = std::fs::read_to_string(folder.path().join("s.lock")).unwrap();
        assert_eq!(content, format!("{}\n", process::id()));
    }
}
