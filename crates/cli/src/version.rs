//! What the binary says of its version.
//!
//! Clients gate features on the version of the reference that they find in `--version` and in the user
//! agent, so the protocol's version comes first, in the reference's form, and our own behind it.

use std::{env, sync::LazyLock};

use codicil_server::PROTOCOL_VERSION;

/// Lets clients be told of another version than the protocol's own.
pub const ANNOUNCE_VARIABLE: &str = "CODICIL_ANNOUNCE_VERSION";

/// The version of the protocol that clients are told they talk to.
pub fn announced() -> String {
    env::var(ANNOUNCE_VARIABLE)
        .ok()
        .filter(|version| !version.is_empty())
        .unwrap_or_else(|| PROTOCOL_VERSION.to_owned())
}

/// The text of `--version`.
pub static LINE: LazyLock<String> =
    LazyLock::new(|| format!("codex-cli {} (codicil {})", announced(), env!("CARGO_PKG_VERSION")));
