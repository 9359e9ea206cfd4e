//! The file with the tokens of all servers, `.credentials.json` in the home. It has the format of the reference
//! implementation, so that both share their logins. Unknown members are kept.

use std::{
    collections::BTreeMap,
    fmt, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use codicil_config::replace_private;
use codicil_protocol::Secret;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{
    error::OauthError,
    exchange::ClientAuth,
    file_lock::{self, FileLock},
    registration::OauthClient,
};

/// Member of the entry that holds how the client authenticates.
pub(super) const AUTH_METHOD: &str = "token_endpoint_auth_method";

/// A token that expires within this time is renewed before it is used.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30);

/// The tokens and the client of a server.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ServerCredentials {
    pub(super) server_name: String,
    pub(super) server_url: String,
    pub(super) client_id: String,
    pub(super) access_token: Secret,
    /// Milliseconds since 1970.
    #[serde(default)]
    pub(super) expires_at: Option<u64>,
    #[serde(default)]
    pub(super) refresh_token: Option<Secret>,
    #[serde(default)]
    pub(super) scopes: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) client_secret: Option<Secret>,
    /// Endpoint that issued the token and renews it, even if the server's metadata changes later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) token_endpoint: Option<String>,
    #[serde(flatten)]
    pub(super) rest: Map<String, Value>,
}

impl fmt::Debug for ServerCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerCredentials")
            .field("server_name", &self.server_name)
            .field("expires_at", &self.expires_at)
            .field("can_be_renewed", &self.refresh_token.is_some())
            .finish_non_exhaustive()
    }
}

impl ServerCredentials {
    pub(super) fn is_fresh(&self) -> bool {
        let soon = now() + RENEWAL_MARGIN;
        self.expires_at.is_none_or(|at| u128::from(at) > soon.as_millis())
    }

    /// Returns whether the credentials can be used, possibly after renewing.
    pub(crate) fn are_usable(&self) -> bool {
        self.is_fresh() || self.refresh_token.is_some()
    }

    /// Returns the client that the tokens were issued to.
    pub(super) fn client(&self) -> OauthClient {
        let auth = self.rest.get(AUTH_METHOD).and_then(Value::as_str).and_then(ClientAuth::from_name);
        let secret = self.client_secret.clone();
        let auth = auth.unwrap_or_else(|| ClientAuth::for_secret(secret.as_ref(), &[]));
        OauthClient { id: self.client_id.clone(), secret, auth }
    }

    fn belong_to(&self, name: &str, url: &str) -> bool {
        self.server_name == name && self.server_url == url
    }
}

/// Returns the time, in milliseconds since 1970, at which `lifetime` from now ends.
pub(super) fn expires_at(lifetime: Duration) -> u64 {
    u64::try_from(now().saturating_add(lifetime).as_millis()).unwrap_or(u64::MAX)
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The credentials file.
#[derive(Clone, Debug)]
pub(crate) struct CredentialsFile {
    path: PathBuf,
}

type CredentialEntries = BTreeMap<String, Value>;

impl CredentialsFile {
    pub(crate) fn in_home(home: &Path) -> CredentialsFile {
        CredentialsFile { path: home.join(".credentials.json") }
    }

    /// Returns the credentials of a server. A file that cannot be read is an error.
    pub(crate) async fn get(&self, name: &str, url: &str) -> Result<Option<ServerCredentials>, OauthError> {
        let entries = self.entries().await?;
        Ok(find(&entries, name, url).map(|(_, credentials)| credentials))
    }

    /// Waits for the right to change the file.
    pub(super) async fn lock(&self) -> Result<FileLock, OauthError> {
        FileLock::acquire(&self.path).await.map_err(|error| unusable(&error))
    }

    /// Adds or replaces the credentials of a server. Other entries stay unchanged.
    pub(super) async fn put(&self, credentials: ServerCredentials, _: &FileLock) -> Result<(), OauthError> {
        let mut entries = self.entries().await?;
        let found = find(&entries, &credentials.server_name, &credentials.server_url);
        let key =
            found.map_or_else(|| key(&credentials.server_name, &credentials.server_url), |(key, _)| key);
        let entry = serde_json::to_value(credentials).map_err(|error| unusable(&error.into()))?;
        entries.insert(key, entry);
        self.write(entries).await
    }

    pub(super) async fn remove(&self, name: &str, url: &str, _: &FileLock) -> Result<(), OauthError> {
        let mut entries = self.entries().await?;
        let Some((key, _)) = find(&entries, name, url) else { return Ok(()) };
        entries.remove(&key);
        self.write(entries).await
    }

    async fn entries(&self) -> Result<CredentialEntries, OauthError> {
        let path = self.path.clone();
        let text = blocking(move || file_lock::read(&path)).await?;
        if text.trim().is_empty() {
            return Ok(CredentialEntries::new());
        }
        // The parser's own error could quote a token.
        serde_json::from_str(&text)
            .map_err(|_| OauthError::Credentials(format!("{} is not valid JSON", self.path.display())))
    }

    async fn write(&self, entries: CredentialEntries) -> Result<(), OauthError> {
        let path = self.path.clone();
        let text = serde_json::to_string_pretty(&entries).map_err(|error| unusable(&error.into()))?;
        blocking(move || replace_private(&path, text.as_bytes())).await
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, OauthError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result.map_err(|error| unusable(&error)),
        Err(error) => Err(OauthError::Credentials(format!("cannot read or store credentials: {error}"))),
    }
}

fn unusable(error: &io::Error) -> OauthError {
    OauthError::Credentials(format!("cannot read or store credentials: {error}"))
}

/// Finds an entry by its content. The key depends on the program that wrote it.
fn find(entries: &CredentialEntries, name: &str, url: &str) -> Option<(String, ServerCredentials)> {
    entries.iter().find_map(|(key, entry)| {
        let credentials = ServerCredentials::deserialize(entry).ok()?;
        credentials.belong_to(name, url).then(|| (key.clone(), credentials))
    })
}

fn key(name: &str, url: &str) -> String {
    let digest = Sha256::digest(url);
    let digits: String = digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{name}|{digits}")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use serde_json::json;

    use super::*;

    fn credentials(name: &str, token: &str) -> ServerCredentials {
        let value = json!({ "server_name": name, "server_url": "http://x/mcp", "client_id": "c", "access_token": token });
        serde_json::from_value(value).unwrap()
    }

    async fn put(file: &CredentialsFile, name: &str, token: &str) {
        let lock = file.lock().await.unwrap();
        file.put(credentials(name, token), &lock).await.unwrap();
    }

    #[tokio::test]
    async fn stored_credentials_are_found_and_private() {
        let home = tempfile::tempdir().unwrap();
        let file = CredentialsFile::in_home(&home.path().join("new"));
        assert!(file.get("a", "http://x/mcp").await.unwrap().is_none());
        put(&file, "a", "one").await;
        put(&file, "b", "two").await;
        put(&file, "a", "three").await;
        let found = file.get("a", "http://x/mcp").await.unwrap().unwrap();
        assert_eq!(found.access_token.reveal(), "three");
        assert!(file.get("a", "http://y/mcp").await.unwrap().is_none());
        assert_eq!(std::fs::metadata(&file.path).unwrap().permissions().mode() & 0o777, 0o600);

        let lock = file.lock().await.unwrap();
        file.remove("a", "http://x/mcp", &lock).await.unwrap();
        assert!(file.get("a", "http://x/mcp").await.unwrap().is_none());
        assert!(file.get("b", "http://x/mcp").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn unknown_entries_and_members_are_kept() {
        let home = tempfile::tempdir().unwrap();
        let file = CredentialsFile::in_home(home.path());
        let text = json!({
            "theirs|0011": { "server_name": "theirs", "server_url": "http://x/mcp", "client_id": "c",
                "access_token": "old", "expires_at": 1, "refresh_token": "r", "scopes": ["s"], "later": 7 },
            "odd": [1, 2],
        });
        std::fs::write(&file.path, text.to_string()).unwrap();
        let mut theirs = file.get("theirs", "http://x/mcp").await.unwrap().unwrap();
        assert!(!theirs.is_fresh() && theirs.are_usable());
        theirs.access_token = Secret::from("new".to_owned());
        let lock = file.lock().await.unwrap();
        file.put(theirs, &lock).await.unwrap();
        let text: Value = serde_json::from_str(&std::fs::read_to_string(&file.path).unwrap()).unwrap();
        assert_eq!(text["theirs|0011"]["access_token"], "new");
        assert_eq!(text["theirs|0011"]["later"], 7);
        assert_eq!(text["odd"], json!([1, 2]));
    }

    #[tokio::test]
    async fn a_broken_file_is_not_overwritten() {
        let home = tempfile::tempdir().unwrap();
        let file = CredentialsFile::in_home(home.path());
        std::fs::write(&file.path, "{ \"s3cret\": ").unwrap();
        let lock = file.lock().await.unwrap();
        let error = file.put(credentials("a", "t"), &lock).await.unwrap_err();
        assert!(error.to_string().ends_with("is not valid JSON"), "{error}");
        assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "{ \"s3cret\": ");
    }

    #[tokio::test]
    async fn concurrent_writers_lose_no_entry() {
        let home = tempfile::tempdir().unwrap();
        let file = CredentialsFile::in_home(home.path());
        let names: Vec<String> = (0..16).map(|i| format!("server{i}")).collect();
        let writers = names.iter().map(|name| put(&file, name, "t"));
        futures_util::future::join_all(writers).await;
        for name in &names {
            assert!(file.get(name, "http://x/mcp").await.unwrap().is_some(), "{name}");
        }
    }

    #[test]
    fn debug_shows_no_token() {
        let shown = format!("{:?}", credentials("a", "s3cret"));
        assert!(!shown.contains("s3cret"), "{shown}");
    }
}
