//! What a model knows of its surroundings, and the messages that bring it up to date.
//!
//! A thread keeps the [`ContextSnapshot`] of its last turn. The next turn compares it with how things are now and
//! tells the difference, in front of the person's input; a thread without one is told everything. After a
//! history was condensed everything is told again.

use codicil_protocol::{AskForApproval, CollaborationMode, Personality, ResponseItem, SandboxPolicy};
use serde::{Deserialize, Serialize};

use crate::{
    environment::environment_text,
    instructions::{mode_text, tone},
    message::{developer_message, message, text_part},
    permissions::permissions_text,
    tags,
};

/// The settings as the model of a thread was told them. Stored with the thread.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ContextSnapshot {
    /// The slug of the model.
    pub model: String,
    pub cwd: String,
    pub approval_policy: AskForApproval,
    /// Says also which directories can be written and whether there is a network.
    pub sandbox_policy: SandboxPolicy,
    /// Whether commands in a sandbox reach hosts through a proxy, whatever the policy says of the network.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hosts_by_proxy: bool,
    /// The tone in effect, see [`effective_personality`](crate::effective_personality).
    #[serde(default)]
    pub personality: Option<Personality>,
    /// With its own instructions, if it has some.
    #[serde(default)]
    pub collaboration_mode: Option<CollaborationMode>,
    /// The name of the person's shell: `bash`, `zsh`.
    pub shell: String,
    /// As in `2026-11-15`.
    pub current_date: String,
    /// As in `Europe/Berlin`.
    pub timezone: String,
    /// Of the rules in force, see [`fingerprint`]; `None` when there are none.
    #[serde(default)]
    pub agents_md: Option<String>,
}

/// Texts that are too long to be kept in a [`ContextSnapshot`].
#[derive(Clone, Copy, Debug, Default)]
pub struct ContextTexts<'a> {
    /// `developerInstructions` of the thread, told once and word for word.
    pub developer_instructions: Option<&'a str>,
    /// The list of skills, without its tags; told once.
    pub skills: Option<&'a str>,
    /// The list of plugins, without its tags; told once.
    pub plugins: Option<&'a str>,
    /// What [`ProjectDocs::text`](crate::ProjectDocs::text) gives. Told again when it changed.
    pub agents_md: Option<&'a str>,
}

/// What has to be told before the next input: everything when `before` is `None`, else what changed. At
/// most a developer and a user message, often nothing.
pub fn messages(
    before: Option<&ContextSnapshot>,
    now: &ContextSnapshot,
    extras: &ContextTexts<'_>,
) -> Vec<ResponseItem> {
    if before == Some(now) {
        return Vec::new();
    }
    let (developer, user) = match before {
        None => (all_rules(now, extras), all_surroundings(now, extras)),
        Some(before) => (changed_rules(before, now), changed_surroundings(before, now, extras)),
    };
    let developer = (!developer.is_empty()).then(|| developer_message(developer));
    let user = (!user.is_empty()).then(|| message("user", user.into_iter().map(text_part).collect()));
    developer.into_iter().chain(user).collect()
}

/// A short mark of a text, the same for the same text in every version and on every machine.
pub fn fingerprint(text: &str) -> String {
    // FNV-1a. Nobody gains by a collision here, and std's hashers promise no stability.
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, step))
}

fn all_rules(now: &ContextSnapshot, extras: &ContextTexts<'_>) -> Vec<String> {
    let given = |text: Option<&str>| text.filter(|text| !text.trim().is_empty()).map(str::to_owned);
    let tagged = |tag, text| given(text).map(|text| tags::wrap(tag, &text));
    let parts = [
        Some(permissions_text(now)),
        given(extras.developer_instructions),
        now.collaboration_mode.as_ref().and_then(mode_text),
        tagged(tags::SKILLS, extras.skills),
        tagged(tags::PLUGINS, extras.plugins),
    ];
    parts.into_iter().flatten().collect()
}

fn all_surroundings(now: &ContextSnapshot, extras: &ContextTexts<'_>) -> Vec<String> {
    extras.agents_md.map(str::to_owned).into_iter().chain([environment_text(now)]).collect()
}

fn changed_rules(before: &ContextSnapshot, now: &ContextSnapshot) -> Vec<String> {
    let parts = [
        (before.model != now.model).then(|| model_switch_text(before, now)),
        changed(permissions_text(before), permissions_text(now)),
        (changed(before.collaboration_mode.as_ref(), now.collaboration_mode.as_ref()).flatten())
            .and_then(mode_text),
        // Another model has a tone of its own; only a choice of the person is told.
        (changed(before.personality, now.personality).flatten())
            .filter(|_| before.model == now.model)
            .and_then(personality_text),
    ];
    parts.into_iter().flatten().collect()
}

fn changed_surroundings(
    before: &ContextSnapshot,
    now: &ContextSnapshot,
    extras: &ContextTexts<'_>,
) -> Vec<String> {
    let rules = (before.agents_md != now.agents_md).then(|| match extras.agents_md {
        Some(text) => text.to_owned(),
        None => format!("{}\n\n{NO_RULES}", tags::AGENTS_MD),
    });
    let environment = changed(environment_text(before), environment_text(now));
    rules.into_iter().chain(environment).collect()
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
    tags::wrap(tags::MODEL_SWITCH, &text)
}

fn personality_text(personality: Personality) -> Option<String> {
    let text =
        format!("The person chose another tone. It replaces the one you had.\n\n{}", tone(personality)?);
    Some(tags::wrap(tags::PERSONALITY, &text))
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
