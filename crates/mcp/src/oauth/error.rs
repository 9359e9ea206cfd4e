//! What can go wrong while signing in, in words for the person who does.

use thiserror::Error;

/// Why signing in, or renewing it, did not work.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OauthError {
    #[error("timed out waiting for OAuth callback")]
    TimedOut,
    /// The person said no, or the provider did.
    #[error("{}", provider_error(.error, .description))]
    Provider { error: Option<String>, description: Option<String> },
    /// The token endpoint said no.
    #[error("the token was refused: {0}")]
    Refused(String),
    #[error("the server does not say how to sign in")]
    NoMetadata,
    #[error("the server does not let clients register themselves (no registration endpoint)")]
    NoRegistration,
    #[error("the server does not support PKCE with S256")]
    NoPkce,
    /// The answer came from another authorization server than was asked.
    #[error("the answer comes from another issuer: {0}")]
    WrongIssuer(String),
    #[error("{0}")]
    Network(String),
    /// What a server published or answered makes no sense.
    #[error("{0}")]
    Unreadable(String),
    /// Credentials could not be read or kept.
    #[error("{0}")]
    Credentials(String),
}

fn provider_error(error: &Option<String>, description: &Option<String>) -> String {
    match (error, description) {
        (Some(error), Some(description)) => format!("OAuth provider returned `{error}`: {description}"),
        (Some(error), None) => format!("OAuth provider returned `{error}`"),
        (None, Some(description)) => format!("OAuth provider returned an error: {description}"),
        (None, None) => "OAuth provider returned an error".to_owned(),
    }
}
