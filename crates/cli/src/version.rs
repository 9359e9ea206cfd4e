//! The versions that the binary reports.
//!
//! Clients gate features on the version of the reference that they find in `--version` and in the user agent,
//! so the version of the protocol comes first, in the reference's form, followed by our own.

use std::{env, sync::LazyLock};

use codicil_config::{ConfigQuery, ConfigStore};
use codicil_protocol::ProtocolGeneration;
use codicil_server::{ANNOUNCED_GENERATION, ProtocolDefaults, generation_of};

/// Overrides the protocol version that clients see, whatever their generation.
const ANNOUNCE_VARIABLE: &str = "CODICIL_ANNOUNCE_VERSION";

/// Returns how connections are served that do not choose a generation: as the command line says, else the configuration,
/// else according to the announced version.
pub fn protocol_defaults(chosen: Option<ProtocolGeneration>, config: &ConfigStore) -> ProtocolDefaults {
    let announced_version = announced();
    let configured = || {
        // A configuration that cannot be read is reported to clients.
        let config = config.load(&ConfigQuery::default()).ok()?;
        config.settings.codicil.protocol
    };
    let announced = || announced_version.as_deref().and_then(generation_of);
    let generation = chosen.or_else(configured).or_else(announced);
    ProtocolDefaults { generation, announced_version }
}

fn announced() -> Option<String> {
    env::var(ANNOUNCE_VARIABLE).ok().filter(|version| !version.is_empty())
}

/// The text of `--version`.
pub static LINE: LazyLock<String> =
    LazyLock::new(|| format!("codex-cli {} (codicil {})", protocol(), env!("CARGO_PKG_VERSION")));

/// Returns the protocol version that clients without a choice see by default.
pub fn protocol() -> String {
    announced().unwrap_or_else(|| ANNOUNCED_GENERATION.version().to_owned())
}
