//! Accounts: the signed-in account, the ways to sign in, and the credentials of requests.
//!
//! Start with [`Accounts`]. It implements [`AccountAuth`](codicil_model::AccountAuth) for the model providers and
//! serves `account/*`. Credentials come from one of three sources, in order of precedence: tokens that a client
//! supplies (kept in memory, renewed by that client), the variable `CODEX_API_KEY`, and the stored credentials
//! (`storage`) of an earlier login: an API key, or tokens that the issuer (`issuer`) renews.
//!
//! Secrets have types whose debug output hides them, and no error repeats what was sent or stored.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod accounts;
mod auth;
mod error;
mod external;
mod login;
mod rate_limits;
mod refresh;
mod settings;
mod signed_in;

mod claims;
mod credentials;
mod http;
mod issuer;
mod storage;

pub use {
    accounts::{Accounts, TokenUpdate},
    claims::TokenError,
    error::{AccountError, RateLimitsError},
    external::{ExternalTokens, TokenSource},
    http::HttpError,
    issuer::{IssuerError, RefreshError},
    login::{LoginAttempt, LoginError, LoginInvitation},
    signed_in::SignedIn,
    storage::StorageError,
};
