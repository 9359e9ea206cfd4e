//! The generation of the protocol that a client speaks.
//!
//! Additional members and methods are for every client. The generation decides only about messages that an older client
//! does not expect.

use codicil_protocol::{InitializeCapabilities, InitializeParams};

/// Clients of OpenAI, whose version is that of their protocol.
const VERSIONED_CLIENTS: [&str; 2] = ["codex-tui", "codex_python_sdk"];

/// The last minor version of the published protocol.
const PUBLISHED_MINOR: u32 = 118;

/// A generation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolGeneration {
    /// The published protocol, that of 0.118.
    Published,
    /// That of later versions.
    Later,
}

impl ProtocolGeneration {
    /// Returns the generation of a client by its name and version, or by a capability that only later clients send.
    pub fn of(params: &InitializeParams) -> Self {
        let client = &params.client_info;
        let is_later_version =
            VERSIONED_CLIENTS.contains(&client.name.as_str()) && is_later_version(&client.version);
        if is_later_version || params.capabilities.as_ref().is_some_and(has_later_capability) {
            Self::Later
        } else {
            Self::Published
        }
    }
}

/// Returns whether a version such as `0.166.0` is later than the published protocol.
fn is_later_version(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(0), Some(minor)) => minor > PUBLISHED_MINOR,
        (Some(_), _) => true,
        _ => false,
    }
}

fn has_later_capability(capabilities: &InitializeCapabilities) -> bool {
    capabilities.request_attestation
        || capabilities.mcp_server_openai_form_elicitation
        || capabilities.explicit_gateway_oauth
        || capabilities.extensions.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn the_client_decides_the_generation() {
        let check = |name: &str, version: &str, capabilities: serde_json::Value, expected| {
            let client = json!({ "name": name, "version": version });
            let params = from_value(json!({ "clientInfo": client, "capabilities": capabilities })).unwrap();
            assert_eq!(ProtocolGeneration::of(&params), expected, "{name} {version} {capabilities}");
        };
        let (published, later) = (ProtocolGeneration::Published, ProtocolGeneration::Later);
        check("codex-tui", "0.166.0", json!(null), later);
        check("codex-tui", "0.119.0-alpha.1", json!(null), later);
        check("codex-tui", "1.0.0", json!(null), later);
        check("codex-tui", "0.118.0", json!(null), published);
        check("codex-tui", "", json!(null), published);
        check("codex_python_sdk", "0.163.1", json!({}), later);
        check("my-editor", "7.0.0", json!({ "experimentalApi": true }), published);
        check("my-editor", "7.0.0", json!({ "requestAttestation": true }), later);
        check("my-editor", "7.0.0", json!({ "mcpServerOpenaiFormElicitation": false }), published);
        check("my-editor", "7.0.0", json!({ "explicitGatewayOauth": true }), later);
        check("my-editor", "7.0.0", json!({ "extensions": {} }), later);
    }
}
