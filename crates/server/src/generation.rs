//! The generation of the protocol that a client speaks.
//!
//! Additional members and methods are for every client. The generation decides only about messages that an older client
//! does not expect, and about values of enums: a client that does not know a value rejects the whole message.

use codicil_protocol::{
    AskForApproval, InitializeCapabilities, InitializeParams, ReasoningEffort, ServiceTier,
};

/// Clients of OpenAI, whose version is that of their protocol.
const VERSIONED_CLIENTS: [&str; 2] = ["codex-tui", "codex_python_sdk"];

/// The last minor version of the published protocol.
const PUBLISHED_MINOR: u32 = 118;

/// A generation of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolGeneration {
    /// A client that is known to be of 0.118 or older.
    Published,
    /// Any other client. It gets all values as they are.
    Unknown,
    /// A client after 0.118.
    Later,
}

impl ProtocolGeneration {
    /// Recognizes a client by its version, else by a capability that only later clients send, else by the version that
    /// the server announces.
    pub fn of(params: &InitializeParams, announced_version: &str) -> Self {
        let client = &params.client_info;
        if VERSIONED_CLIENTS.contains(&client.name.as_str()) {
            return if is_later_version(&client.version) { Self::Later } else { Self::Published };
        }
        let has_later_capability = params.capabilities.as_ref().is_some_and(has_later_capability);
        if has_later_capability || is_later_version(announced_version) { Self::Later } else { Self::Unknown }
    }

    /// Returns the approval policy that the client is shown. Later clients do not have `on-failure`; `on-request` is
    /// what their own servers make of it.
    pub fn shown_policy(self, policy: AskForApproval) -> AskForApproval {
        match (self, policy) {
            (Self::Later, AskForApproval::OnFailure) => AskForApproval::OnRequest,
            (_, policy) => policy,
        }
    }

    /// Returns the effort that the client is shown: the highest that it has, for one that it does not have.
    pub fn shown_effort(self, effort: ReasoningEffort) -> ReasoningEffort {
        match (self, effort) {
            (Self::Published, ReasoningEffort::Unrecognized(_)) => ReasoningEffort::Xhigh,
            (_, effort) => effort,
        }
    }

    /// Returns the service tier that the client is shown. `priority` is the later name of `fast`.
    pub fn shown_tier(self, tier: ServiceTier) -> Option<ServiceTier> {
        match (self, tier) {
            (Self::Published, ServiceTier::Unrecognized(name)) => {
                (name == "priority").then_some(ServiceTier::Fast)
            }
            (_, tier) => Some(tier),
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
    let flags = [
        capabilities.request_attestation,
        capabilities.mcp_server_openai_form_elicitation,
        capabilities.explicit_gateway_oauth,
    ];
    flags.contains(&Some(true)) || capabilities.extensions.is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn clients_are_recognized_by_version_capabilities_and_announced_version() {
        use ProtocolGeneration::{Later, Published, Unknown};
        let check =
            |name: &str, version: &str, capabilities: serde_json::Value, announced: &str, expected| {
                let client = json!({ "name": name, "version": version });
                let params =
                    from_value(json!({ "clientInfo": client, "capabilities": capabilities })).unwrap();
                let found = ProtocolGeneration::of(&params, announced);
                assert_eq!(found, expected, "{name} {version} {capabilities} {announced}");
            };
        check("codex-tui", "0.166.0", json!(null), "0.118.0", Later);
        check("codex-tui", "0.119.0-alpha.1", json!(null), "0.118.0", Later);
        check("codex-tui", "1.0.0", json!(null), "0.118.0", Later);
        check("codex-tui", "0.118.0", json!(null), "0.166.0", Published);
        check("codex-tui", "", json!(null), "0.118.0", Published);
        check("codex_python_sdk", "0.163.0-beta.1", json!({}), "0.118.0", Later);
        check("editor", "7.0.0", json!({ "experimentalApi": true }), "0.118.0", Unknown);
        check("editor", "7.0.0", json!({ "requestAttestation": true }), "0.118.0", Later);
        check("editor", "7.0.0", json!({ "mcpServerOpenaiFormElicitation": false }), "0.118.0", Unknown);
        check("editor", "7.0.0", json!({ "explicitGatewayOauth": true }), "0.118.0", Later);
        check("editor", "7.0.0", json!({ "extensions": {} }), "0.118.0", Later);
        check("editor", "7.0.0", json!({}), "0.166.0", Later);
    }
}
