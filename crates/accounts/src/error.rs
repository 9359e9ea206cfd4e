//! The errors of account requests, in the wording that clients expect.

use codicil_config::ConfigError;

use crate::{claims::TokenError, http::HttpError, issuer::IssuerError, storage::StorageError};

#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    #[error(
        "External auth is active. Use account/login/start (chatgptAuthTokens) to update it or account/logout to clear it."
    )]
    ExternalActive,
    #[error("API key login is disabled. Use ChatGPT login instead.")]
    KeysDisabled,
    #[error("ChatGPT login is disabled. Use API key login instead.")]
    ChatgptDisabled,
    #[error("External ChatGPT auth is disabled. Use API key login instead.")]
    ExternalDisabled,
    #[error("External auth must use workspace {expected}, but received {given:?}.")]
    OtherWorkspace { expected: String, given: String },
    #[error("failed to set external auth: {0}")]
    Token(#[from] TokenError),
    #[error("invalid login id: {0}")]
    LoginId(String),
    #[error("failed to start login server: {0}")]
    Callback(std::io::Error),
    #[error("failed to start login server: {0}")]
    Issuer(IssuerError),
    #[error("failed to request device code: {0}")]
    DeviceCode(IssuerError),
    #[error("failed to save api key: {0}")]
    Save(StorageError),
    #[error("logout failed: {0}")]
    SignOut(StorageError),
    #[error("email and plan type are required for chatgpt authentication")]
    NoEmail,
    #[error("codex account authentication required to read rate limits")]
    NotSignedIn,
    #[error("chatgpt authentication required to read rate limits")]
    NotChatgpt,
    #[error("failed to fetch codex rate limits: {0}")]
    RateLimits(RateLimitsError),
    #[error("{0}")]
    Config(#[from] ConfigError),
}

/// The reason why rate limits could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RateLimitsError {
    #[error("{0}")]
    Http(#[from] HttpError),
    #[error("the backend answered with status {0}")]
    Status(u16),
    #[error("the backend answered something else than rate limits")]
    Malformed,
    #[error("{0}")]
    Refresh(String),
}
