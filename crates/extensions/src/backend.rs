//! Requests to the ChatGPT backend: its address, the account's headers, and limits for time and size.

use std::{collections::BTreeMap, time::Duration};

use codicil_http::{BodyError, ClientError, http_client, read_body};
use reqwest::{Method, RequestBuilder, Response, Url};

use crate::account::ChatgptAccount;

/// The header that names the account of a request.
const ACCOUNT_HEADER: &str = "chatgpt-account-id";

const DEFAULT_BASE: &str = "https://chatgpt.com/backend-api";

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Time from the request to the last byte of its response.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(20);
const MAX_RESPONSE_BYTES: usize = 16 << 20;

/// The reason why a request to the backend failed. Contains no part of the request's headers or body.
#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    #[error("invalid address: {0}")]
    Address(String),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("{0}")]
    Http(#[from] reqwest::Error),
    #[error("the backend answered with status {0}")]
    Status(u16),
    #[error("the response is too large")]
    TooLarge,
    #[error("unexpected response: {0}")]
    InvalidResponse(String),
    /// The MCP server of the apps cannot be used.
    #[error("{0}")]
    Apps(String),
}

/// A client of the backend, for one account or signed out.
pub(crate) struct ChatgptBackend {
    base: String,
    account: Option<ChatgptAccount>,
}

impl ChatgptBackend {
    /// Creates a client. `base` is the setting `chatgpt_base_url`.
    pub fn new(base: Option<&str>, account: Option<ChatgptAccount>) -> Self {
        let base = base.map(str::trim).filter(|base| !base.is_empty()).unwrap_or(DEFAULT_BASE);
        let base = base.trim_end_matches('/');
        let is_bare_host = ["https://chatgpt.com", "https://chat.openai.com"].contains(&base);
        let base = if is_bare_host { format!("{base}/backend-api") } else { base.to_owned() };
        Self { base, account }
    }

    pub fn account(&self) -> Option<&ChatgptAccount> {
        self.account.as_ref()
    }

    /// Returns the headers of requests besides the token.
    pub fn headers(&self) -> BTreeMap<String, String> {
        let account_id = self.account.as_ref().and_then(|account| account.account_id.clone());
        account_id.map(|id| (ACCOUNT_HEADER.to_owned(), id)).into_iter().collect()
    }

    /// Returns the address of a path.
    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// Returns the path of the MCP server that serves the apps.
    pub fn apps_path(&self) -> &'static str {
        match &self.base {
            base if base.contains("/backend-api") => "/wham/apps",
            base if base.contains("/api/codex") => "/apps",
            _ => "/api/codex/apps",
        }
    }

    /// Builds a request with the account's headers, if there is an account.
    pub async fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, BackendError> {
        let address = self.url(path);
        let mut url: Url = address.parse().map_err(|_| BackendError::Address(address))?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let client = http_client(&url, CONNECT_TIMEOUT).await?;
        let request = client.request(method, url).timeout(REQUEST_TIMEOUT);
        let Some(account) = &self.account else { return Ok(request) };
        let request = request.bearer_auth(account.access_token.reveal());
        Ok(self.headers().iter().fold(request, |request, (name, value)| request.header(name, value)))
    }
}

/// Sends a request and returns its response. A status other than success is an error.
pub(crate) async fn send(request: RequestBuilder) -> Result<Response, BackendError> {
    let response = request.send().await.map_err(reqwest::Error::without_url)?;
    let status = response.status();
    if status.is_success() { Ok(response) } else { Err(BackendError::Status(status.as_u16())) }
}

/// Reads the body of a response within the size limit.
pub(crate) async fn read_response(response: Response) -> Result<Vec<u8>, BackendError> {
    read_body(response, MAX_RESPONSE_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge => BackendError::TooLarge,
        BodyError::Transport(error) => BackendError::Http(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_apps_path_depends_on_the_kind_of_backend() {
        let check = |base: Option<&str>, expected: &str| {
            let backend = ChatgptBackend::new(base, None);
            assert_eq!(backend.url(backend.apps_path()), expected);
        };
        check(None, "https://chatgpt.com/backend-api/wham/apps");
        check(Some("https://chatgpt.com/"), "https://chatgpt.com/backend-api/wham/apps");
        check(Some("http://127.0.0.1:9/backend-api/"), "http://127.0.0.1:9/backend-api/wham/apps");
        check(Some("https://x/api/codex"), "https://x/api/codex/apps");
        check(Some("https://x"), "https://x/api/codex/apps");
    }
}
