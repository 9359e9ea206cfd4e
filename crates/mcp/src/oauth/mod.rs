//! OAuth logins to servers: the authorization code flow with PKCE and a local callback address, dynamic client
//! registration, and token renewal.
//!
//! The SDK has such a module, too. It rejects metadata whose issuer is not exactly the address where it was found,
//! which many servers of earlier protocol versions get wrong; it does not store the secret of a registered client,
//! so that renewing fails; and it does not support a configured resource. So discovery and registration are
//! implemented here, and the requests for tokens are left to the `oauth2` crate.

mod bearer;
mod challenge;
mod credentials;
mod discovery;
mod error;
mod exchange;
mod file_lock;
mod login;
mod registration;
mod web;

pub(crate) use {
    bearer::{BearerSource, OauthTokens},
    challenge::{AuthChallenge, ChallengeRecord},
    credentials::CredentialsFile,
    discovery::discover,
};
pub use {
    error::OauthError,
    login::{LoginError, LoginOptions, OauthLogin},
};
