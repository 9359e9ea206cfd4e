//! The generation of the protocol that a client belongs to.
//!
//! Members that an older client does not know break no client, so they are sent to all. The generation decides about
//! values that were removed later: a client that does not know the value rejects the whole message.

use codicil_protocol::{AskForApproval, ClientInfo, InitializeCapabilities};

/// Clients that have the version of their server in `clientInfo`.
const VERSIONED_CLIENTS: [&str; 2] = ["codex-tui", "codex_python_sdk"];
/// Capabilities that only later clients send.
const LATER_CAPABILITIES: [&str; 4] =
    ["requestAttestation", "mcpServerOpenaiFormElicitation", "explicitGatewayOauth", "extensions"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientGeneration {
    /// Up to 0.118.
    Published,
    /// After 0.118.
    Later,
}

impl ClientGeneration {
    /// Recognizes a client by its version, else by its capabilities, else by the version that the server announces.
    pub fn of(client: &ClientInfo, capabilities: &InitializeCapabilities, announced_version: &str) -> Self {
        if VERSIONED_CLIENTS.contains(&client.name.as_str()) {
            return Self::of_version(&client.version);
        }
        if LATER_CAPABILITIES.iter().any(|name| capabilities.later.contains_key(*name)) {
            return Self::Later;
        }
        Self::of_version(announced_version)
    }

    fn of_version(version: &str) -> Self {
        let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or_default());
        let major_minor = (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default());
        if major_minor > (0, 118) { Self::Later } else { Self::Published }
    }

    /// Returns the approval policy that the client is shown. Later clients do not have `on-failure`; `on-request` is
    /// what their own servers make of it.
    pub fn shown_policy(self, policy: AskForApproval) -> AskForApproval {
        match (self, policy) {
            (Self::Later, AskForApproval::OnFailure) => AskForApproval::OnRequest,
            (_, policy) => policy,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn clients_are_recognized_by_version_capabilities_and_announced_version() {
        let check = |name: &str, version: &str, capabilities, announced: &str, expected| {
            let client = ClientInfo { name: name.into(), title: None, version: version.into() };
            let capabilities = serde_json::from_value(capabilities).unwrap();
            let found = ClientGeneration::of(&client, &capabilities, announced);
            assert_eq!(found, expected, "{name} {version} {announced}");
        };
        use ClientGeneration::{Later, Published};
        check("codex-tui", "0.166.0", json!({}), "0.118.0", Later);
        check("codex-tui", "0.118.0", json!({}), "0.166.0", Published);
        check("codex_python_sdk", "0.163.0-beta.1", json!({}), "0.118.0", Later);
        check("editor", "7.0.0", json!({ "experimentalApi": true }), "0.118.0", Published);
        check("editor", "7.0.0", json!({ "requestAttestation": false }), "0.118.0", Later);
        check("editor", "7.0.0", json!({ "extensions": {} }), "0.118.0", Later);
        check("editor", "7.0.0", json!({}), "0.166.0", Later);
    }
}
