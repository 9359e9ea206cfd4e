//! Requests to the ChatGPT backend: one place for its address, the account's headers and all bounds.

use std::time::Duration;

use codicil_model::{ModelError, http_client};
use reqwest::{Method, RequestBuilder, Response, Url};

use super::account::ChatgptAccount;

const DEFAULT_BASE: &str = "https://chatgpt.com/backend-api";

const CONNECT_TIME: Duration = Duration::from_secs(5);
/// From the first byte sent to the last one received.
const REQUEST_TIME: Duration = Duration::from_secs(20);
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// Why the backend gave no answer. Never holds what was sent.
#[derive(Debug, thiserror::Error)]
pub enum AppsError {
    #[error("{0} is not an address")]
    Address(String),
    #[error(transparent)]
    Client(#[from] ModelError),
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    #[error("the backend answered with status {0}")]
    Status(u16),
    #[error("the answer is too large")]
    TooLarge,
    #[error("the answer makes no sense: {0}")]
    Answer(String),
}

/// The backend, for one account.
pub(super) struct AppsBackend {
    base: String,
    account: ChatgptAccount,
}

impl AppsBackend {
    /// `base` is `chatgpt_base_url` of the configuration.
    pub fn new(base: Option<&str>, account: ChatgptAccount) -> Self {
        let base = base.map(str::trim).filter(|base| !base.is_empty()).unwrap_or(DEFAULT_BASE);
        let base = base.trim_end_matches('/');
        let is_bare = ["https://chatgpt.com", "https://chat.openai.com"].contains(&base);
        let base = if is_bare { format!("{base}/backend-api") } else { base.to_owned() };
        Self { base, account }
    }

    pub fn account(&self) -> &ChatgptAccount {
        &self.account
    }

    /// Where apps are served over MCP.
    pub fn apps_path(&self) -> &'static str {
        match &self.base {
            base if base.contains("/backend-api") => "/wham/apps",
            base if base.contains("/api/codex") => "/apps",
            _ => "/api/codex/apps",
        }
    }

    /// A request with the account's headers, to be completed and sent.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, AppsError> {
        let address = format!("{}{path}", self.base);
        let mut url: Url = address.parse().map_err(|_| AppsError::Address(address))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let client = http_client(&url, CONNECT_TIME).await?;
        let request = client.request(method, url).timeout(REQUEST_TIME);
        let request = request.bearer_auth(self.account.access_token.expose());
        Ok(match &self.account.account_id {
            Some(id) => request.header("chatgpt-account-id", id),
            None => request,
        })
    }
}

/// Sends a request that must succeed.
pub(super) async fn send(request: RequestBuilder) -> Result<Response, AppsError> {
    let answer = request.send().await.map_err(reqwest::Error::without_url)?;
    match answer.status() {
        status if status.is_success() => Ok(answer),
        status => Err(AppsError::Status(status.as_u16())),
    }
}

/// The body of an answer, within bounds.
pub(super) async fn body(mut answer: Response) -> Result<Vec<u8>, AppsError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(reqwest::Error::without_url)? {
        if bytes.len() + chunk.len() > MAX_ANSWER_BYTES {
            return Err(AppsError::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use codicil_model::SecretText;

    use super::*;

    #[test]
    fn apps_are_where_the_backend_has_them() {
        let check = |base: Option<&str>, expected: &str| {
            let account =
                ChatgptAccount { access_token: SecretText::new("t"), account_id: None, is_workspace: false };
            let backend = AppsBackend::new(base, account);
            assert_eq!(format!("{}{}", backend.base, backend.apps_path()), expected);
        };
        check(None, "https://chatgpt.com/backend-api/wham/apps");
        check(Some("https://chatgpt.com/"), "https://chatgpt.com/backend-api/wham/apps");
        check(Some("http://127.0.0.1:9/backend-api/"), "http://127.0.0.1:9/backend-api/wham/apps");
        check(Some("https://x/api/codex"), "https://x/api/codex/apps");
        check(Some("https://x"), "https://x/api/codex/apps");
    }
}
