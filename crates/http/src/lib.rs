//! HTTP as every crate of the workspace uses it.
//!
//! - [`http_client`] returns the shared clients with this program's TLS, proxy and redirect rules.
//! - [`read_body`] and [`read_text_prefix`] read response bodies up to a limit.
//! - [`Backoff`] computes the delay before a retry. Which failures are retried is the caller's decision.
//! - [`SseParser`] splits a byte stream into server-sent events.
//! - [`CallbackListener`] receives the browser at the end of an OAuth authorization code flow.
//!
//! The crate knows no provider, no account and no MCP server. Of the other crates it uses only
//! [`codicil_protocol::Secret`].

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod address;
mod backoff;
mod body;
mod callback;
mod client;
mod sse;

pub use {
    address::{is_loopback, root_cause, without_secrets},
    backoff::Backoff,
    body::{BodyError, read_body, read_text_prefix},
    callback::{CallbackListener, CallbackOutcome, CallbackPage, CallbackPort, CallbackVisit, StateCheck},
    client::{ClientError, RedirectPolicy, http_client, http_client_with},
    sse::{EventTooLong, SseParser},
};

#[cfg(test)]
mod tests {
    /// Every crate that speaks HTTP depends on this one, so it must stay below them.
    #[test]
    fn the_only_dependency_within_the_workspace_is_the_protocol() {
        let manifest = include_str!("../Cargo.toml");
        let own: Vec<&str> = manifest.lines().filter(|line| line.starts_with("codicil-")).collect();
        assert_eq!(own, ["codicil-protocol.workspace = true"]);
    }
}
