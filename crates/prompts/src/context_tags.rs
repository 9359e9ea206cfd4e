//! The tags of messages that the server adds to a history, and recognising such messages.
//!
//! Clients and tests search for these tags at the start of a text, so their names are fixed. Only the tags distinguish the
//! server's messages in the user role from the user's own. A user message that consists of a complete block is therefore
//! treated as one of the server.

use codicil_protocol::{ContentItem, ResponseItem};

use crate::{compaction::is_summary_message, message::part_text};

/// The text between `<` and `>`.
pub(crate) type TagName = &'static str;

pub(crate) const PERMISSIONS: TagName = "permissions instructions";
pub(crate) const COLLABORATION_MODE: TagName = "collaboration_mode";
pub(crate) const PERSONALITY: TagName = "personality_spec";
pub(crate) const MODEL_SWITCH: TagName = "model_switch";
pub(crate) const SKILLS: TagName = "skills_instructions";
pub(crate) const PLUGINS: TagName = "plugins_instructions";
pub(crate) const ENVIRONMENT: TagName = "environment_context";

pub(crate) const SKILL: TagName = "skill";
pub(crate) const TURN_ABORTED: TagName = "turn_aborted";
pub(crate) const USER_SHELL_COMMAND: TagName = "user_shell_command";
pub(crate) const SUBAGENT_NOTIFICATION: TagName = "subagent_notification";
pub(crate) const USER_ACTION: TagName = "user_action";
/// Has attributes after its name.
pub(crate) const INTERNAL_CONTEXT: TagName = "codex_internal_context";

/// The beginning of the part with project instructions, which has a heading instead of a tag.
pub(crate) const AGENTS_MD: &str = "# AGENTS.md instructions";

/// The tags of event messages, which have the user role.
const EVENT_TAGS: [TagName; 5] =
    [SKILL, TURN_ABORTED, USER_SHELL_COMMAND, SUBAGENT_NOTIFICATION, USER_ACTION];

/// Returns `text` between its tags, each on its own line.
pub(crate) fn wrap(tag: TagName, text: &str) -> String {
    format!("<{tag}>\n{}\n</{tag}>", text.trim_end())
}

/// Escapes a value for a line between tags. `&` is kept, because models copy paths literally.
pub(crate) fn escape(value: &str) -> String {
    value.replace('<', "&lt;").replace('>', "&gt;").replace(['\n', '\r'], " ")
}

/// Returns whether the server wrote this message: settings, environment, project instructions, events, summaries. Compaction
/// drops these messages, because they are added again or are covered by the summary.
pub fn is_context_message(item: &ResponseItem) -> bool {
    is_setting_message(item) || is_summary_message(item) || all_parts(item, is_event)
}

/// Returns whether a message describes the current context, as opposed to an event.
pub(crate) fn is_setting_message(item: &ResponseItem) -> bool {
    match item {
        ResponseItem::Message { role, .. } if role == "developer" || role == "system" => true,
        _ => all_parts(item, is_setting),
    }
}

fn is_setting(text: &str) -> bool {
    text.starts_with(AGENTS_MD) || is_block(text, ENVIRONMENT)
}

fn is_event(text: &str) -> bool {
    EVENT_TAGS.iter().any(|tag| is_block(text, tag)) || is_internal(text)
}

/// Returns whether a text is a block with a source, such as the goal.
fn is_internal(text: &str) -> bool {
    let inner = text.trim().strip_prefix('<').and_then(|text| text.strip_prefix(INTERNAL_CONTEXT));
    let inner = inner.filter(|text| text.starts_with(" source=\"")).and_then(|text| text.strip_suffix('>'));
    inner.and_then(|text| text.strip_suffix(INTERNAL_CONTEXT)).is_some_and(|text| text.ends_with("</"))
}

fn all_parts(item: &ResponseItem, is_ours: impl Fn(&str) -> bool) -> bool {
    let ResponseItem::Message { role, content, .. } = item else { return false };
    let part_is_ours = |part: &ContentItem| part_text(part).is_some_and(&is_ours);
    role == "user" && !content.is_empty() && content.iter().all(part_is_ours)
}

fn is_block(text: &str, tag: TagName) -> bool {
    let inner = text.trim().strip_prefix('<').and_then(|text| text.strip_prefix(tag));
    let inner = inner.and_then(|text| text.strip_prefix('>')).and_then(|text| text.strip_suffix('>'));
    inner.and_then(|text| text.strip_suffix(tag)).is_some_and(|text| text.ends_with("</"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{assistant_message, developer_message, message, text_part, user_text_message};

    #[test]
    fn messages_of_the_server_are_distinguished_from_those_of_the_user() {
        let check = |text: &str, expected: bool| {
            assert_eq!(is_context_message(&user_text_message(text)), expected, "{text:?}");
        };
        check("<environment_context>\n  <cwd>/w</cwd>\n</environment_context>", true);
        check("\n<turn_aborted>\nx\n</turn_aborted>\n", true);
        check("# AGENTS.md instructions\n\nx", true);
        check("<skill>\n<name>x</name>\nbody\n</skill>", true);
        check("<user_shell_command>x</user_shell_command>", true);
        check("<subagent_notification>\n{}\n</subagent_notification>", true);
        check("<user_action>\nx\n</user_action>", true);
        check("hello", false);
        check("", false);
        check("<div>x</div>", false);
        check("<skill> is a tag, is it not?", false);
        check("<skill>x</skill> what does this do?", false);
        check("<skills>\n</skills>", false);
        check("<image>", false);
    }

    #[test]
    fn a_message_with_one_part_of_the_user_is_the_users() {
        let block = wrap(SKILL, "x");
        let both = message("user", vec![text_part(block.clone()), text_part("and this")]);
        assert!(!is_context_message(&both));
        assert!(!is_context_message(&message("user", Vec::new())));
        assert!(is_context_message(&developer_message(["anything".to_owned()])));
        assert!(!is_context_message(&assistant_message(block)));
        assert!(!is_context_message(&ResponseItem::Other));
    }
}
