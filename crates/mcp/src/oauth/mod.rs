//! Signing in to servers: the authorization code flow with PKCE, a browser that comes back to a local address,
//! clients that register themselves, and tokens that are renewed.
//!
//! The SDK has such a module too. It refuses metadata whose issuer is not the exact address it was found at,
//! which many servers of earlier protocol versions get wrong; it forgets the secret of a registered client, so
//! that renewing fails; and it has no place for a configured resource. So discovery and registration are here,
//! and the requests for tokens are left to the `oauth2` crate.

mod bearer;
mod challenge;
mod credentials;
mod discovery;
mod error;
mod exchange;
mod file;
mod login;
mod registration;
mod web;

pub(crate) use {
    bearer::{BearerSource, OauthTokens},
    credentials::CredentialsFile,
    discovery::discover,
    login::SignIn,
};
pub use {
    error::OauthError,
    login::{LoginError, LoginOptions, OauthLogin},
};
