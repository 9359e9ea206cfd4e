//! The generation of the protocol that a connection uses.
//!
//! Additional members and methods are for every client. The generation decides only about notifications and values that
//! an older client does not expect, about behaviour that changed under the same name, and about the announced version.
//! It is chosen, in this order, by
//!
//! 1. `capabilities.extensions["codicil/protocol"]`, with a `protocolVersion`;
//! 2. the version of OpenAI's own clients, or a capability that only later clients send;
//! 3. the first request that uses a method or member which 0.118 does not have, for the rest of the connection;
//! 4. the server's default.

use std::{
    borrow::Cow,
    sync::atomic::{AtomicBool, Ordering},
};

use codicil_protocol::{
    ApprovalsReviewer, AskForApproval, CLIENT_REQUESTS, CommandExecutionStatus, InitializeCapabilities,
    InitializeParams, MethodGenerations, MethodInfo, NegotiatedExtensions, NegotiatedProtocol,
    PROTOCOL_EXTENSION, PatchApplyStatus, ProtocolCapability, ProtocolGeneration, ReasoningEffort,
    ServiceTier, Stability, Thread, ThreadItem, UserInput,
};
use codicil_store::StoredTurn;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

/// The behaviour of connections that do not choose a generation, unless the command line or the configuration does: a
/// client that says nothing about itself may not know later values.
const DEFAULT_GENERATION: ProtocolGeneration = ProtocolGeneration::V118;

/// The generation whose version such connections see. Many clients refuse older servers.
pub const ANNOUNCED_GENERATION: ProtocolGeneration = ProtocolGeneration::V166;

/// Clients of OpenAI, whose version is that of their protocol.
const VERSIONED_CLIENTS: [&str; 2] = ["codex-tui", "codex_python_sdk"];

/// The last minor version of the 0.118 generation.
const LAST_EARLIER_MINOR: u32 = 118;

/// How connections are served that do not choose a generation.
#[derive(Clone, Debug, Default)]
pub struct ProtocolDefaults {
    /// What the command line or the configuration says.
    pub generation: Option<ProtocolGeneration>,
    /// A version that all connections see instead of that of their generation.
    pub announced_version: Option<String>,
}

impl ProtocolDefaults {
    /// Returns the generation of connections without a choice.
    pub fn generation(&self) -> ProtocolGeneration {
        self.generation.unwrap_or(DEFAULT_GENERATION)
    }

    /// Returns the version that connections without a choice see.
    pub fn version(&self) -> &str {
        self.announced_version(None)
    }

    /// Returns the version that a connection sees whose client has this generation; `None` if the client does not say.
    pub fn announced_version(&self, known: Option<ProtocolGeneration>) -> &str {
        let generation = known.or(self.generation).unwrap_or(ANNOUNCED_GENERATION);
        self.announced_version.as_deref().unwrap_or(generation.version())
    }
}

/// A generation that can change while it is read.
#[derive(Debug)]
pub struct AtomicGeneration {
    is_later: AtomicBool,
}

impl AtomicGeneration {
    pub fn new(generation: ProtocolGeneration) -> Self {
        Self { is_later: AtomicBool::new(generation == ProtocolGeneration::V166) }
    }

    pub fn get(&self) -> ProtocolGeneration {
        if self.is_later.load(Ordering::Relaxed) {
            ProtocolGeneration::V166
        } else {
            ProtocolGeneration::V118
        }
    }

    pub fn set(&self, generation: ProtocolGeneration) {
        self.is_later.store(generation == ProtocolGeneration::V166, Ordering::Relaxed);
    }
}

/// Returns the generation that a client chooses or is known to have.
pub fn negotiate(params: &InitializeParams) -> Option<ProtocolGeneration> {
    let capabilities = params.capabilities.as_ref();
    let relayed = capabilities.and_then(|capabilities| capabilities.codicil.as_ref()?.relay.as_ref());
    if let Some(generation) = relayed.and_then(|relayed| generation_of(&relayed.generation)) {
        return Some(generation);
    }
    let requested = capabilities
        .and_then(|capabilities| capabilities.extensions.as_ref()?.get(PROTOCOL_EXTENSION))
        .and_then(|extension| extension.get("protocolVersion"))
        .and_then(Value::as_str);
    if let Some(generation) = requested.and_then(generation_of) {
        return Some(generation);
    }
    let client = &params.client_info;
    if VERSIONED_CLIENTS.contains(&client.name.as_str()) {
        return Some(generation_of(&client.version).unwrap_or(ProtocolGeneration::V118));
    }
    capabilities.is_some_and(has_later_capability).then_some(ProtocolGeneration::V166)
}

/// Returns whether a client asks which generation the connection uses.
pub fn names_protocol(params: &InitializeParams) -> bool {
    let extensions = params.capabilities.as_ref().and_then(|capabilities| capabilities.extensions.as_ref());
    extensions.is_some_and(|extensions| extensions.contains_key(PROTOCOL_EXTENSION))
}

/// Returns the answer to a client that asks which generation the connection uses.
pub fn negotiated_extensions(generation: ProtocolGeneration) -> NegotiatedExtensions {
    let capability = |stability| match stability {
        Stability::Stable => Some(ProtocolCapability::Stable),
        Stability::Experimental => Some(ProtocolCapability::Experimental),
        Stability::Extension => None,
    };
    let is_later = |method: &&MethodInfo| method.generations == MethodGenerations::Since166;
    let served = CLIENT_REQUESTS.iter().filter(is_later).filter(|method| method.is_served);
    let capabilities =
        served.filter_map(|method| Some((method.name.to_owned(), capability(method.stability)?))).collect();
    let protocol_version = generation.version().to_owned();
    NegotiatedExtensions { protocol: NegotiatedProtocol { protocol_version, capabilities } }
}

/// Returns the generation of a version such as `0.166.0`, `0.166` or `0.119.0-alpha.1`; `None` for other texts.
pub fn generation_of(version: &str) -> Option<ProtocolGeneration> {
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten()?, parts.next().flatten()) {
        (0, minor) => {
            let is_later = minor? > LAST_EARLIER_MINOR;
            Some(if is_later { ProtocolGeneration::V166 } else { ProtocolGeneration::V118 })
        }
        _ => Some(ProtocolGeneration::V166),
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

/// Returns whether only clients after 0.118 send a request.
pub fn is_later_request(method: &str) -> bool {
    let is_it = |known: &&MethodInfo| known.name == method;
    CLIENT_REQUESTS.iter().find(is_it).is_some_and(|known| known.generations == MethodGenerations::Since166)
}

/// Shows a thread as clients of a generation know it. Before 0.166, a fork belongs to the session of its source.
pub fn show_thread(generation: ProtocolGeneration, thread: &mut Thread) {
    for turn in &mut thread.turns {
        turn.error = turn.error.take().map(|error| error.of_failed_turn(generation));
    }
    if generation == ProtocolGeneration::V118 {
        let source = thread.forked_from_id.take();
        thread.session_id = thread.parent_thread_id.clone().or(source).or_else(|| Some(thread.id.clone()));
        let earlier = |item: ThreadItem| item.earlier_form().map(Cow::into_owned);
        for turn in &mut thread.turns {
            turn.items = std::mem::take(&mut turn.items).into_iter().filter_map(earlier).collect();
        }
    }
}

/// The texts of which a stored item has one if 0.118 may not have its kind or one of its values.
const LATER_MARKS: [&str; 10] = [
    r#""type":"functionCallOutput""#,
    r#""type":"subAgentActivity""#,
    r#""type":"sleep""#,
    r#""type":"audio""#,
    r#""type":"localAudio""#,
    r#""type":"inputAudio""#,
    r#""type":"collabAgentToolCall""#,
    r#""fileId":"#,
    r#""partial_answer""#,
    r#""text":"""#,
];

/// What a client expects of stored turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryForm {
    pub generation: ProtocolGeneration,
    /// Whether commands and patches that were declined are part of the history. In 0.166 they are not.
    pub has_declined_items: bool,
}

/// Shows stored turns in the form that a client expects.
pub fn show_turns(form: HistoryForm, turns: &mut [StoredTurn]) {
    for turn in turns {
        turn.error = turn.error.take().map(|error| error.of_failed_turn(form.generation));
        if form.generation == ProtocolGeneration::V118 {
            turn.items = std::mem::take(&mut turn.items).into_iter().filter_map(earlier_json).collect();
        } else if !form.has_declined_items {
            turn.retain_items(|item| !is_declined(item));
        }
    }
}

/// Returns whether a stored item is a command or a patch that was declined.
fn is_declined(item: &RawValue) -> bool {
    use CommandExecutionStatus as Command;
    use PatchApplyStatus as Patch;
    if !item.get().contains(r#""status":"declined""#) {
        return false;
    }
    matches!(
        serde_json::from_str(item.get()),
        Ok(ThreadItem::CommandExecution { status: Command::Declined, .. }
            | ThreadItem::FileChange { status: Patch::Declined, .. })
    )
}

/// Returns a stored item in the form of the 0.118 generation; `None` for a kind that it does not have.
fn earlier_json(item: Box<RawValue>) -> Option<Box<RawValue>> {
    if !LATER_MARKS.iter().any(|mark| item.get().contains(mark)) {
        return Some(item);
    }
    let Ok(mut read) = serde_json::from_str::<ThreadItem>(item.get()) else { return Some(item) };
    let is_shortened = drop_empty_text(&mut read);
    match read.earlier_form()? {
        Cow::Borrowed(_) if !is_shortened => Some(item),
        earlier => to_raw_value(&*earlier).ok(),
    }
}

/// Drops the empty text of a user message: 0.118 announces it and does not store it. Returns whether there was one.
fn drop_empty_text(item: &mut ThreadItem) -> bool {
    let ThreadItem::UserMessage { content, .. } = item else { return false };
    let all = content.len();
    content.retain(|input| !matches!(input, UserInput::Text { text, .. } if text.is_empty()));
    content.len() < all
}

/// Returns the approval policy that a client is shown. Later clients do not have `on-failure`; `on-request` is what their
/// own servers make of it.
pub fn shown_policy(generation: ProtocolGeneration, policy: AskForApproval) -> AskForApproval {
    match (generation, policy) {
        (ProtocolGeneration::V166, AskForApproval::OnFailure) => AskForApproval::OnRequest,
        (_, policy) => policy,
    }
}

/// Returns the reviewer that a client is shown. `auto_review` is the later name of `guardian_subagent`.
pub fn shown_reviewer(generation: ProtocolGeneration, reviewer: ApprovalsReviewer) -> ApprovalsReviewer {
    match generation {
        ProtocolGeneration::V118 => reviewer,
        ProtocolGeneration::V166 => reviewer.into_later(),
    }
}

/// Returns the effort that a client is shown: the highest that it has, for one that it does not have.
pub fn shown_effort(generation: ProtocolGeneration, effort: ReasoningEffort) -> ReasoningEffort {
    match (generation, effort) {
        (ProtocolGeneration::V118, ReasoningEffort::Unrecognized(_)) => ReasoningEffort::Xhigh,
        (_, effort) => effort,
    }
}

/// Returns the service tier that a client is shown. `priority` is the later name of `fast`.
pub fn shown_tier(generation: ProtocolGeneration, tier: ServiceTier) -> Option<ServiceTier> {
    match (generation, tier) {
        (ProtocolGeneration::V118, ServiceTier::Unrecognized(name)) => {
            (name == "priority").then_some(ServiceTier::Fast)
        }
        (ProtocolGeneration::V118, ServiceTier::Default) => None,
        (ProtocolGeneration::V166, ServiceTier::Fast) => {
            Some(ServiceTier::Unrecognized("priority".to_owned()))
        }
        (_, tier) => Some(tier),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json};

    use super::*;

    #[test]
    fn a_generation_is_chosen_by_extension_version_capability_and_default() {
        use ProtocolGeneration::{V118, V166};
        let check = |name: &str, version: &str, capabilities: Value, default, expected| {
            let client = json!({ "name": name, "version": version });
            let params = from_value(json!({ "clientInfo": client, "capabilities": capabilities })).unwrap();
            let found = negotiate(&params).unwrap_or(default);
            assert_eq!(found, expected, "{name} {version} {capabilities} {default}");
        };
        let asks_for =
            |version: &str| json!({ "extensions": { "codicil/protocol": { "protocolVersion": version } } });
        check("editor", "7.0.0", asks_for("0.118"), V166, V118);
        check("editor", "7.0.0", asks_for("0.166.0"), V118, V166);
        check("codex-tui", "0.166.0", asks_for("0.118.0"), V166, V118);
        check("codex-tui", "0.118.0", asks_for("0.166"), V118, V166);
        check("codex-tui", "0.118.0", asks_for("newest"), V166, V118);
        check("editor", "7.0.0", json!({ "extensions": { "codicil/protocol": {} } }), V118, V166);
        check("codex-tui", "0.166.0", json!(null), V118, V166);
        check("codex-tui", "0.119.0-alpha.1", json!(null), V118, V166);
        check("codex-tui", "1.0.0", json!(null), V118, V166);
        check("codex-tui", "0.118.0", json!(null), V166, V118);
        check("codex-tui", "", json!(null), V118, V118);
        check("codex_python_sdk", "0.163.0-beta.1", json!({}), V118, V166);
        check("editor", "7.0.0", json!({ "experimentalApi": true }), V118, V118);
        check("editor", "7.0.0", json!({ "requestAttestation": true }), V118, V166);
        check("editor", "7.0.0", json!({ "mcpServerOpenaiFormElicitation": false }), V118, V118);
        check("editor", "7.0.0", json!({ "explicitGatewayOauth": true }), V118, V166);
        check("editor", "7.0.0", json!({ "extensions": {} }), V118, V166);
        check("editor", "7.0.0", json!({}), V166, V166);
    }

    #[test]
    fn clients_that_say_nothing_see_the_latest_version() {
        use ProtocolGeneration::{V118, V166};
        let check = |generation, announced: Option<&str>, known, expected: &str| {
            let defaults = ProtocolDefaults { generation, announced_version: announced.map(str::to_owned) };
            assert_eq!(defaults.announced_version(known), expected, "{defaults:?} {known:?}");
        };
        check(None, None, None, "0.166.0");
        check(None, None, Some(V118), "0.118.0");
        check(Some(V118), None, None, "0.118.0");
        check(Some(V118), None, Some(V166), "0.166.0");
        check(None, Some("0.163.0"), Some(V118), "0.163.0");
        assert_eq!(ProtocolDefaults::default().generation(), V118);
    }

    #[test]
    fn a_reviewer_has_the_name_of_the_generation() {
        use ProtocolGeneration::{V118, V166};
        let check = |generation, name: &str, expected: &str| {
            let reviewer: ApprovalsReviewer = from_value(json!(name)).unwrap();
            assert_eq!(json!(shown_reviewer(generation, reviewer)), json!(expected), "{generation} {name}");
        };
        check(V118, "auto_review", "guardian_subagent");
        check(V118, "user", "user");
        check(V166, "guardian_subagent", "auto_review");
        check(V166, "auto_review", "auto_review");
        check(V166, "user", "user");
    }

    #[test]
    fn a_version_names_a_generation() {
        use ProtocolGeneration::{V118, V166};
        let check = |version: &str, expected| assert_eq!(generation_of(version), expected, "{version}");
        check("0.118.0", Some(V118));
        check("0.99", Some(V118));
        check("0.119.0", Some(V166));
        check("0.166", Some(V166));
        check("1.0.0", Some(V166));
        check("0", None);
        check("latest", None);
        check("", None);
    }
}
