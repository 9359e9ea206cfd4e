//! The desktop's keyring, through the system's own program for it.
//!
//! `secret-tool` (part of libsecret) speaks to whatever keyring the desktop has. A library for the same
//! would bring D-Bus into every build, for the few who can use it: servers and containers have no keyring.
//! The secret goes through pipes, never through arguments, which others can see.

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
/// A locked keyring asks its person for a password; nobody may be there.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct KeyringStorage {
    program: Option<PathBuf>,
    /// Tells the credentials of one home from those of another.
    account: String,
}

impl KeyringStorage {
    pub fn of(home: &HomeDirectory) -> Self {
        let hash = Sha256::digest(home.path().as_os_str().as_encoded_bytes());
        let account = hash.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
        Self { program: find(PROGRAM), account }
    }

    /// Whether a keyring answers.
    pub fn is_usable(&self) -> bool {
        self.load().is_ok()
    }

    pub fn load(&self) -> Result<Option<StoredCredentials>, StorageError> {
        let output = self.run(&["lookup"], None)?;
        match output.status.success() {
            true if output.stdout.is_empty() => Ok(None),
            true => parse(Path::new("the keyring's entry"), &output.stdout).map(Some),
            // Nothing found: it fails without a word.
            false if output.stderr.is_empty() => Ok(None),
            false => Err(failed(&output)),
        }
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
            if let (Some(mut pipe), Some(input)) = (child.stdin.take(), input) {
                pipe.write_all(input.as_bytes())?;
            }
            within(PATIENCE, child)
        });
        ran.map_err(|error| StorageError::Keyring(format!("cannot use {}: {error}", program.display())))
    }
}

/// Waits for a child that says little, and ends it when it takes too long.
fn within(patience: Duration, mut child: Child) -> io::Result<Output> {
    let deadline = Instant::now() + patience;
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
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().next().unwrap_or("secret-tool failed");
    StorageError::Keyring(format!("the keyring cannot be used: {said}"))
}

/// A program in the `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|candidate| candidate.is_file())
}

#[cfg(all(test, unix))]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use parking_lot::Mutex;

    use super::*;

    /// A script that is being written cannot be run, and a child that starts meanwhile holds it open.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

    /// A keyring that is a file beside a script.
    fn keyring(folder: &Path, script: &str) -> KeyringStorage {
        let program = folder.join("secret-tool");
        fs::write(&program, format!("#!/bin/sh\ncd {}\n{script}\n", folder.display())).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o700)).unwrap();
        KeyringStorage { program: Some(program), account: "test".to_owned() }
    }

    #[test]
    fn credentials_go_to_the_keyring_and_come_back() {
        let _alone = ONE_AT_A_TIME.lock();
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
    fn what_is_missing_is_said() {
        let _alone = ONE_AT_A_TIME.lock();
        let folder = tempfile::tempdir().unwrap();
        let broken = keyring(folder.path(), "echo 'Cannot autolaunch D-Bus' >&2; exit 1");
        assert!(!broken.is_usable());
        let said = broken.load().unwrap_err().to_string();
        assert_eq!(said, "the keyring cannot be used: Cannot autolaunch D-Bus");
        let none = KeyringStorage { program: None, account: "test".to_owned() };
        let said = none.load().unwrap_err().to_string();
        assert!(said.contains("secret-tool") && said.contains("\"file\""), "{said}");
    }

    #[test]
    fn a_keyring_that_hangs_is_given_up() {
        let _alone = ONE_AT_A_TIME.lock();
        let mut command = Command::new("sleep");
        command.arg("60").stdout(Stdio::piped()).stderr(Stdio::piped());
        let error = within(Duration::from_millis(20), command.spawn().unwrap()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
