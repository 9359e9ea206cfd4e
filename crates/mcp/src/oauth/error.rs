//! The errors of OAuth logins, worded for the user.

use thiserror::Error;

/// The reason why a login or a renewal failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum OauthError {
    #[error("timed out waiting for OAuth callback")]
    TimedOut,
    /// The user or the provider denied the request.
    #[error("{}", provider_error(.error, .description))]
    Provider { error: Option<String>, description: Option<String> },
    /// The token endpoint returned an error.
    #[error("the token was refused: {0}")]
    Refused(String),
    #[error("the server publishes no OAuth metadata")]
    NoMetadata,
    #[error("the server has no registration endpoint for clients")]
    NoRegistration,
    #[error("the server does not support PKCE with S256")]
    NoPkce,
    /// The response comes from another authorization server.
    #[error("the response comes from another issuer: {0}")]
    WrongIssuer(String),
    #[error("{0}")]
    Network(String),
    /// A document or response of a server is invalid.
    #[error("{0}")]
    Unreadable(String),
    /// Credentials could not be read or stored.
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
