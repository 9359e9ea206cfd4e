//! The versions that the binary reports.
//!
//! Clients gate features on the version of the reference that they find in `--version` and in the user agent,
//! so the version of the protocol comes first, in the reference's form, followed by our own.

use std::{env, sync::LazyLock};

use codicil_server::PROTOCOL_VERSION;

/// Overrides the protocol version that clients see.
pub const ANNOUNCE_VARIABLE: &str = "CODICIL_ANNOUNCE_VERSION";

/// Returns the protocol version that clients see.
pub fn announced() -> String {
    env::var(ANNOUNCE_VARIABLE)
        .ok()
        .filter(|version| !version.is_empty())
        .unwrap_or_else(|| PROTOCOL_VERSION.to_owned())
}

/// The text of `--version`.
pub static LINE: LazyLock<String> =
    LazyLock::new(|| format!("codex-cli {} (codicil {})", announced(), env!("CARGO_PKG_VERSION")));
