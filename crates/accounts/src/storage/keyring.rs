//! The desktop's keyring, through the program `secret-tool`.
//!
//! `secret-tool` (part of libsecret) works with every desktop's keyring. A library would add D-Bus to every build for
//! the few users who need it: servers and containers have no keyring. The secret passes through pipes, never through
//! arguments, which other users can see.

use std::{
    env,
    io::{self, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use codicil_config::HomeDirectory;
use sha2::{Digest, Sha256};

use super::{StorageError, parse, render};
use crate::credentials::StoredCredentials;

const PROGRAM: &str = "secret-tool";
const LABEL: &str = "Codicil credentials";
/// Time for `secret-tool`. A locked keyring prompts for a password that the user may not see.
const MAX_TIME: Duration = Duration::from_secs(30);

pub(crate) struct KeyringStorage {
    program: Option<PathBuf>,
    /// Identifies the home, so that homes do not share credentials.
    account: String,
}

impl KeyringStorage {
    pub fn of(home: &HomeDirectory) -> Self {
        let hash = Sha256::digest(home.path().as_os_str().as_encoded_bytes());
        let account = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { program: find(PROGRAM), account }
    }

    /// Returns whether a keyring is available.
    pub fn is_usable(&self) -> bool {
        self.load().is_ok()
    }

    pub fn load(&self) -> Result<Option<StoredCredentials>, StorageError> {
        let output = self.run(&["lookup"], None)?;
        if !output.status.success() {
            // It fails without output when there is no entry.
            return if output.stderr.is_empty() { Ok(None) } else { Err(failed(&output)) };
        }
        if output.stdout.is_empty() {
            return Ok(None);
        }
        parse(Path::new("the keyring's entry"), &output.stdout).map(Some)
    }

    pub fn save(&self, stored: &StoredCredentials) -> Result<(), StorageError> {
        let output = self.run(&["store", "--label", LABEL], Some(&render(stored)))?;
        if output.status.success() { Ok(()) } else { Err(failed(&output)) }
    }

    pub fn remove(&self) -> Result<bool, StorageError> {
        let found = self.load()?.is_some();
        let output = self.run(&["clear"], None)?;
        if output.status.success() || !found { Ok(found) } else { Err(failed(&output)) }
    }

    fn run(&self, arguments: &[&str], input: Option<&str>) -> Result<Output, StorageError> {
        let Some(program) = &self.program else {
            let reason = "cli_auth_credentials_store = \"keyring\" needs the program secret-tool (libsecret), \
                          which is not installed; use \"file\" or \"auto\"";
            return Err(StorageError::Keyring(reason.to_owned()));
        };
        let mut command = Command::new(program);
        command.args(arguments).args(["service", "codicil", "account", &self.account]);
        command.stdin(if input.is_some() { Stdio::piped() } else { Stdio::null() });
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let ran = command.spawn().and_then(|mut child| {
            let written = match (child.stdin.take(), input) {
                (Some(mut pipe), Some(input)) => pipe.write_all(input.as_bytes()),
                _ => Ok(()),
            };
            // A program that fails can exit without reading. Its output says why.
            let output = wait_at_most(MAX_TIME, child)?;
            if output.status.success() { written.map(|()| output) } else { Ok(output) }
        });
        ran.map_err(|error| StorageError::Keyring(format!("cannot use {}: {error}", program.display())))
    }
}

/// Waits for a child with little output, and kills it when it takes too long.
fn wait_at_most(max_time: Duration, mut child: Child) -> io::Result<Output> {
    let deadline = Instant::now() + max_time;
    while child.try_wait()?.is_none() {
        if Instant::now() > deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not answer"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output()
}

fn failed(output: &Output) -> StorageError {
    let stderr = String::from_utf8_lossy(&output.stderr);
    let reason = stderr.trim().lines().next().unwrap_or("secret-tool failed");
    StorageError::Keyring(format!("the keyring cannot be used: {reason}"))
}

/// Finds a program in the `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use parking_lot::Mutex;

    use super::*;

    /// Serialises the tests: a script cannot be run while another test's child process has inherited it open.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// A keyring that is a script with a file.
    fn keyring(folder: &Path, script: &str) -> KeyringStorage {
        let program = folder.join("secret-tool");
        fs::write(&program, format!("#!/bin/sh\ncd {}\n{script}\n", folder.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        KeyringStorage { program: Some(program), account: "test".to_owned() }
    }

    #[test]
    fn credentials_are_stored_read_and_removed() {
        let _guard = ONE_AT_A_TIME.lock();
        let folder = tempfile::tempdir().unwrap();
        let script = "echo \"$@\" >> calls\n\
            case $1 in store) cat > secret;; lookup) cat secret 2>/dev/null || exit 1;; clear) rm -f secret;; esac";
        let keyring = keyring(folder.path(), script);
        assert_eq!(keyring.load().unwrap(), None);
        let key = StoredCredentials::of_key("sk-canary".to_owned().into());
        keyring.save(&key).unwrap();
        assert_eq!(keyring.load().unwrap(), Some(key));
        assert!(keyring.remove().unwrap());
        assert!(!keyring.remove().unwrap());
        let calls = fs::read_to_string(folder.path().join("calls")).unwrap();
        assert!(calls.contains("store --label Codicil credentials service codicil account test"), "{calls}");
        assert!(!calls.contains("canary"), "others can see arguments: {calls}");
    }

    #[test]
    fn errors_name_the_missing_part() {
        let _guard = ONE_AT_A_TIME.lock();
        let folder = tempfile::tempdir().unwrap();
        let broken = keyring(folder.path(), "echo 'Cannot autolaunch D-Bus' >&2; exit 1");
        assert!(!broken.is_usable());
        let error = broken.load().unwrap_err().to_string();
        assert_eq!(error, "the keyring cannot be used: Cannot autolaunch D-Bus");
        // More than a pipe holds, so that writing it fails.
        let long = StoredCredentials::of_key("x".repeat(1 << 20).into());
        let error = broken.save(&long).unwrap_err().to_string();
        assert_eq!(error, "the keyring cannot be used: Cannot autolaunch D-Bus");
        let none = KeyringStorage { program: None, account: "test".to_owned() };
        let error = none.load().unwrap_err().to_string();
        assert!(error.contains("secret-tool") && error.contains("\"file\""), "{error}");
    }

    #[test]
    fn a_keyring_that_hangs_times_out() {
        let _guard = ONE_AT_A_TIME.lock();
        let mut command = Command::new("sleep");
        command.arg("60").stdout(Stdio::piped()).stderr(Stdio::piped());
        let error = wait_at_most(Duration::from_millis(20), command.spawn().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
