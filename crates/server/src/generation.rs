//! The generation of the protocol that a client belongs to.
//!
//! Members that an older client does not know break no client, so they are sent to all. The generation decides about
//! values of enums: a client that does not know a value rejects the whole message.

use codicil_protocol::{AskForApproval, ClientInfo, InitializeCapabilities, ReasoningEffort, ServiceTier};

/// Clients that have the version of their server in `clientInfo`.
const VERSIONED_CLIENTS: [&str; 2] = ["codex-tui", "codex_python_sdk"];
/// Capabilities that only later clients send.
const LATER_CAPABILITIES: [&str; 4] =
    ["requestAttestation", "mcpServerOpenaiFormElicitation", "explicitGatewayOauth", "extensions"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientGeneration {
    /// A client that is known to be of 0.118 or older.
    Published,
    /// Any other client. It gets all values as they are.
    Unknown,
    /// A client after 0.118.
    Later,
}

impl ClientGeneration {
    /// Recognizes a client by its version, else by its capabilities, else by the version that the server announces.
    pub fn of(client: &ClientInfo, capabilities: &InitializeCapabilities, announced_version: &str) -> Self {
        if VERSIONED_CLIENTS.contains(&client.name.as_str()) {
            return if is_later(&client.version) { Self::Later } else { Self::Published };
        }
        let has_later_capability =
            LATER_CAPABILITIES.iter().any(|name| capabilities.later.contains_key(*name));
        if has_later_capability || is_later(announced_version) { Self::Later } else { Self::Unknown }
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

fn is_later(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()) > (0, 118)
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
        use ClientGeneration::{Later, Published, Unknown};
        check("codex-tui", "0.166.0", json!({}), "0.118.0", Later);
        check("codex-tui", "0.118.0", json!({}), "0.166.0", Published);
        check("codex_python_sdk", "0.163.0-beta.1", json!({}), "0.118.0", Later);
        check("editor", "7.0.0", json!({ "experimentalApi": true }), "0.118.0", Unknown);
        check("editor", "7.0.0", json!({ "requestAttestation": false }), "0.118.0", Later);
        check("editor", "7.0.0", json!({ "extensions": {} }), "0.118.0", Later);
        check("editor", "7.0.0", json!({}), "0.166.0", Later);
    }

    #[test]
    fn values_are_shown_to_clients_that_have_them() {
        use ClientGeneration::{Later, Published, Unknown};
        let max = || ReasoningEffort::Unrecognized("max".to_owned());
        let tier = |name: &str| ServiceTier::Unrecognized(name.to_owned());
        for generation in [Unknown, Later] {
            assert_eq!(generation.shown_effort(max()), max());
            assert_eq!(generation.shown_tier(tier("priority")), Some(tier("priority")));
        }
        assert_eq!(Published.shown_effort(max()), ReasoningEffort::Xhigh);
        assert_eq!(Published.shown_effort(ReasoningEffort::Low), ReasoningEffort::Low);
        assert_eq!(Published.shown_tier(tier("priority")), Some(ServiceTier::Fast));
        assert_eq!(Published.shown_tier(tier("made-up")), None);
        assert_eq!(Unknown.shown_policy(AskForApproval::OnFailure), AskForApproval::OnFailure);
        assert_eq!(Later.shown_policy(AskForApproval::OnFailure), AskForApproval::OnRequest);
    }
}
