//! Accounts: who is signed in, how people sign in, and what requests carry.
//!
//! Start with [`Accounts`]. It is the [`Auth`](codicil_model::Auth) of the model's providers and answers
//! `account/*`. Credentials come from one of three places, in this order: tokens that a client supplies
//! (kept in memory only, renewed by asking that client), the variable `CODEX_API_KEY`, and what is
//! stored (`storage`) of an earlier sign-in: a key, or tokens that the issuer (`issuer`) renews.
//!
//! Secrets are in types that do not show them, and no error repeats what was sent or stored.

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
