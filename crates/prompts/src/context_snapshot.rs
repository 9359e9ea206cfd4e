//! The context of a thread, and the messages that inform the model about it.
//!
//! A thread keeps the [`ContextSnapshot`] of its last turn. The next turn compares it with the current context and sends the
//! differences before the user's input. A thread without a snapshot, or with a compacted history, sends everything.

use codicil_protocol::{AskForApproval, CollaborationMode, Personality, ResponseItem, SandboxPolicy};
use serde::{Deserialize, Serialize};

use crate::{
    context_tags,
    instructions::{mode_text, tone},
    message::{developer_message, message, text_part},
    permissions::permissions_text,
};

/// The context as the model of a thread last received it. Stored with the thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextSnapshot {
    /// The slug of the model.
    pub model: String,
    /// Whether the thread uses the machine of the server.
    #[serde(default = "uses_environment", skip_serializing_if = "bool::clone")]
    pub has_environment: bool,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    /// The sandbox policy, including writable directories and network access.
    pub sandbox_policy: SandboxPolicy,
    /// Whether sandboxed commands reach hosts through a proxy, whatever the network access of the policy.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hosts_by_proxy: bool,
    /// The personality in effect, see [`effective_personality`](crate::effective_personality).
    #[serde(default)]
    pub personality: Option<Personality>,
    /// The collaboration mode with its own instructions, if any.
    #[serde(default)]
    pub collaboration_mode: Option<CollaborationMode>,
    /// The name of the user's shell: `bash`, `zsh`.
    pub shell: String,
    /// The date, such as `2026-11-15`.
    pub current_date: String,
    /// The time zone, such as `Europe/Berlin`.
    pub timezone: String,
    /// The [`fingerprint`] of the project instructions; `None` if there are none.
    #[serde(default)]
    pub agents_md: Option<String>,
    /// The [`fingerprint`] of the developer instructions; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub developer_instructions: Option<String>,
}

fn uses_environment() -> bool {
    true
}

/// Texts that are too long to be stored in a [`ContextSnapshot`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ContextTexts<'a> {
    /// The `developerInstructions` of the thread, sent again after a change.
    pub developer_instructions: Option<&'a str>,
    /// The list of skills without its tags, sent once.
    pub skills: Option<&'a str>,
    /// The list of plugins without its tags, sent once.
    pub plugins: Option<&'a str>,
    /// The project instructions from [`ProjectDocs::text`](crate::ProjectDocs::text), sent again after a change.
    pub agents_md: Option<&'a str>,
}

/// Returns the messages to send before the next input: the whole context if `before` is `None`, otherwise the differences. At
/// most one developer and one user message.
pub fn context_messages(
    before: Option<&ContextSnapshot>,
    now: &ContextSnapshot,
    extras: &ContextTexts<'_>,
) -> Vec<ResponseItem> {
    if before == Some(now) {
        return Vec::new();
    }
    let (developer, user) = match before {
        None => (all_instructions(now, extras), whole_environment(now, extras)),
        Some(before) => (changed_instructions(before, now, extras), changed_environment(before, now, extras)),
    };
    let developer = (!developer.is_empty()).then(|| developer_message(developer));
    let user = (!user.is_empty()).then(|| message("user", user.into_iter().map(text_part).collect()));
    developer.into_iter().chain(user).collect()
}

/// Returns a short hash of a text, which is the same in all versions and on all machines.
pub fn fingerprint(text: &str) -> String {
    // FNV-1a: collisions do no harm here, and the hashers of std are not stable across versions.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

fn all_instructions(now: &ContextSnapshot, extras: &ContextTexts<'_>) -> Vec<String> {
    let tagged = |tag, text| given(text).map(|text| context_tags::wrap(tag, &text));
    let parts = [
        Some(permissions_text(now)),
        given(extras.developer_instructions),
        now.collaboration_mode.as_ref().and_then(mode_text),
        tagged(context_tags::SKILLS, extras.skills),
        tagged(context_tags::PLUGINS, extras.plugins),
    ];
    parts.into_iter().flatten().collect()
}

fn whole_environment(now: &ContextSnapshot, extras: &ContextTexts<'_>) -> Vec<String> {
    extras.agents_md.map(str::to_owned).into_iter().chain([environment_text(now)]).collect()
}

fn given(text: Option<&str>) -> Option<String> {
    text.filter(|text| !text.trim().is_empty()).map(str::to_owned)
}

fn changed_instructions(
    before: &ContextSnapshot,
    now: &ContextSnapshot,
    extras: &ContextTexts<'_>,
) -> Vec<String> {
    let parts = [
        (before.model != now.model).then(|| model_switch_text(before, now)),
        changed(permissions_text(before), permissions_text(now)),
        given(extras.developer_instructions)
            .filter(|_| before.developer_instructions != now.developer_instructions),
        (changed(before.collaboration_mode.as_ref(), now.collaboration_mode.as_ref()).flatten())
            .and_then(mode_text),
        // Another model has its own default personality; only a choice of the user is sent.
        (changed(before.personality, now.personality).flatten())
            .filter(|_| before.model == now.model)
            .and_then(personality_text),
    ];
    parts.into_iter().flatten().collect()
}

fn changed_environment(
    before: &ContextSnapshot,
    now: &ContextSnapshot,
    extras: &ContextTexts<'_>,
) -> Vec<String> {
    let project_docs = (before.agents_md != now.agents_md).then(|| match extras.agents_md {
        Some(text) => text.to_owned(),
        None => format!("{}\n\n{NO_RULES}", context_tags::AGENTS_MD),
    });
    let environment = changed(environment_text(before), environment_text(now));
    project_docs.into_iter().chain(environment).collect()
}

/// Returns the `<environment_context>` block.
fn environment_text(snapshot: &ContextSnapshot) -> String {
    let members = [
        ("cwd", &snapshot.cwd, snapshot.has_environment),
        ("shell", &snapshot.shell, snapshot.has_environment),
        ("current_date", &snapshot.current_date, true),
        ("timezone", &snapshot.timezone, true),
    ];
    let members = members.iter().filter(|(_, _, is_known)| *is_known);
    let line = |(name, value, _): &(&str, &String, bool)| {
        format!("  <{name}>{}</{name}>", context_tags::escape(value))
    };
    context_tags::wrap(context_tags::ENVIRONMENT, &members.map(line).collect::<Vec<_>>().join("\n"))
}

const NO_RULES: &str =
    "The rules given earlier under this heading no longer apply: the working directory has none.";

fn changed<T: PartialEq>(before: T, now: T) -> Option<T> {
    (before != now).then_some(now)
}

fn model_switch_text(before: &ContextSnapshot, now: &ContextSnapshot) -> String {
    let text = format!(
        "From here on you are {}; what was answered before came from {}. All instructions and decisions so \
         far still hold. Tools may differ: use those you have now, whatever the history shows.",
        now.model, before.model
    );
    context_tags::wrap(context_tags::MODEL_SWITCH, &text)
}

fn personality_text(personality: Personality) -> Option<String> {
    let text =
        format!("The person chose another tone. It replaces the one you had.\n\n{}", tone(personality)?);
    Some(context_tags::wrap(context_tags::PERSONALITY, &text))
}

#[cfg(test)]
mod tests {
    use super::fingerprint;

    #[test]
    fn fingerprints_are_those_of_fnv_1a() {
        assert_eq!(fingerprint(""), "cbf29ce484222325");
        assert_eq!(fingerprint("a"), "af63dc4c8601ec8c");
        assert_eq!(fingerprint("foobar"), "85944171f73967e8");
    }
}
