//! Sessions of browsers: signed cookies, and the token that every changing request carries.
//!
//! A session is not stored. Its cookie holds its id and its end, signed with a key that outlives the process, so that a
//! browser stays signed in when the console is restarted. Sessions that were signed out are remembered by the process.

use std::{
    collections::VecDeque,
    fs::{File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::watch;

/// How long a browser stays signed in.
pub const SESSION_SECONDS: u64 = 30 * 24 * 60 * 60;

const KEY_BYTES: usize = 32;

/// The key that signs sessions.
#[derive(Clone)]
pub struct SessionKey([u8; KEY_BYTES]);

impl SessionKey {
    /// Creates a key for one process. Sessions end with it.
    pub fn random() -> io::Result<Self> {
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|error| io::Error::other(error.to_string()))?;
        Ok(Self(key))
    }

    /// Reads the key from a file. Creates the file, readable by its owner only, if there is none.
    pub fn at(path: &Path) -> io::Result<Self> {
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                let key = Self::random()?;
                file.write_all(&key.0)?;
                file.sync_all()?;
                Ok(key)
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let mut key = [0; KEY_BYTES];
                File::open(path)?.read_exact(&mut key)?;
                Ok(Self(key))
            }
            Err(error) => Err(error),
        }
    }

    /// Begins a session. Returns it with the value of its cookie.
    pub fn begin(&self) -> io::Result<(Session, String)> {
        let id = random_text()?;
        let ends = now().saturating_add(SESSION_SECONDS);
        let cookie = format!("{id}.{ends}.{}", self.sign(&format!("session {id} {ends}")));
        Ok((self.session(id), cookie))
    }

    /// Returns the session of a cookie, unless it is over or the signature is wrong.
    pub fn read(&self, cookie: &str) -> Option<Session> {
        let mut parts = cookie.splitn(3, '.');
        let (id, ends, signature) = (parts.next()?, parts.next()?, parts.next()?);
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?;
        let mut mac = self.mac();
        mac.update(format!("session {id} {ends}").as_bytes());
        mac.verify_slice(&signature).ok()?;
        (ends.parse::<u64>().ok()? > now()).then(|| self.session(id.to_owned()))
    }

    fn session(&self, id: String) -> Session {
        Session { csrf: self.sign(&format!("csrf {id}")), id }
    }

    fn sign(&self, text: &str) -> String {
        let mut mac = self.mac();
        mac.update(text.as_bytes());
        BASE64_URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())
    }

    fn mac(&self) -> Hmac<Sha256> {
        Hmac::new_from_slice(&self.0).expect("a key may have any length")
    }
}

/// A browser that is signed in.
#[derive(Clone, Debug)]
pub struct Session {
    pub id: String,
    /// The token that every changing request of the session carries.
    pub csrf: String,
}

impl Session {
    /// Returns the token that every changing request of the session carries, for pages outside of this crate.
    pub fn csrf(&self) -> &str {
        &self.csrf
    }
}

/// Sessions that are remembered after they were signed out. Beyond that, the oldest are forgotten.
const MAX_ENDED: usize = 10_000;

/// The sessions that were signed out. Their cookies are still signed, but not accepted any more.
#[derive(Debug)]
pub struct EndedSessions {
    ids: watch::Sender<VecDeque<String>>,
}

impl Default for EndedSessions {
    fn default() -> Self {
        Self { ids: watch::Sender::new(VecDeque::new()) }
    }
}

impl EndedSessions {
    pub fn end(&self, id: String) {
        self.ids.send_modify(|ids| {
            if ids.len() >= MAX_ENDED {
                ids.pop_front();
            }
            ids.push_back(id);
        });
    }

    pub fn has(&self, id: &str) -> bool {
        self.ids.borrow().iter().any(|ended| ended == id)
    }

    /// Waits until a session is signed out. Cancel safe.
    pub async fn wait_for(&self, id: &str) {
        let mut ids = self.ids.subscribe();
        // The sender is `self`, so it is there.
        let _ = ids.wait_for(|ids| ids.iter().any(|ended| ended == id)).await;
    }
}

/// Returns 32 random bytes as text.
pub fn random_text() -> io::Result<String> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_valid_for_its_key_only() {
        let key = SessionKey::random().unwrap();
        let (session, cookie) = key.begin().unwrap();
        assert_eq!(key.read(&cookie).unwrap().csrf, session.csrf);
        assert!(SessionKey::random().unwrap().read(&cookie).is_none());
        let (id, rest) = cookie.split_once('.').unwrap();
        let (ends, signature) = rest.split_once('.').unwrap();
        let later = ends.parse::<u64>().unwrap() + 1;
        for forged in [
            format!("{id}.{later}.{signature}"),
            format!("x{cookie}"),
            format!("{id}.{ends}."),
            String::new(),
        ] {
            assert!(key.read(&forged).is_none(), "{forged}");
        }
    }

    #[tokio::test]
    async fn the_sessions_that_ended_last_are_remembered() {
        let ended = EndedSessions::default();
        (0..=MAX_ENDED).for_each(|number| ended.end(number.to_string()));
        assert!(!ended.has("0") && ended.has("1") && ended.has(&MAX_ENDED.to_string()));
        ended.wait_for("1").await;
    }

    #[test]
    fn a_key_outlives_the_process() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("console.key");
        let (_, cookie) = SessionKey::at(&path).unwrap().begin().unwrap();
        assert!(SessionKey::at(&path).unwrap().read(&cookie).is_some());
    }
}
