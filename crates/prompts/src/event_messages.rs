//! Messages about events besides the conversation: aborted turns, commands of the user, subagents, reviews, skills. They have
//! the user role, which all models support.

use std::time::Duration;

use codicil_protocol::{CollabAgentState, ResponseItem, ThreadId};
use serde_json::json;

use crate::{
    context_tags,
    message::user_text_message,
    truncate::{DEFAULT_OUTPUT_TOKENS, truncate_output},
};

/// Returns the message that follows the items of an interrupted turn.
pub fn turn_aborted_message() -> ResponseItem {
    user_text_message(context_tags::wrap(context_tags::TURN_ABORTED, TURN_ABORTED))
}

const TURN_ABORTED: &str = "\
    The person stopped the last turn before it was done. Commands and edits of that turn may have taken \
    effect, in whole or in part, and processes may still run: look before you rely on either. What comes \
    next is what counts now.";

/// Returns a message about a command that the user ran. Long output is truncated.
pub fn user_shell_command_message(
    command: &str,
    exit_code: i32,
    duration: Duration,
    output: &str,
) -> ResponseItem {
    let seconds = duration.as_secs_f64();
    let output = truncate_output(output, DEFAULT_OUTPUT_TOKENS);
    let text = format!(
        "<command>\n{}\n</command>\n<result>\nExit code: {exit_code}\nDuration: {seconds:.4} seconds\n\
         Output:\n{}\n</result>",
        command.trim(),
        output.trim_end(),
    );
    user_text_message(context_tags::wrap(context_tags::USER_SHELL_COMMAND, &text))
}

/// Returns a message for an agent about the state of a subagent.
pub fn subagent_notification(
    agent: &ThreadId,
    nickname: Option<&str>,
    state: &CollabAgentState,
) -> ResponseItem {
    let report = json!({
        "agent_id": agent,
        "nickname": nickname,
        "status": state.status,
        "message": state.message,
    });
    user_text_message(context_tags::wrap(context_tags::SUBAGENT_NOTIFICATION, &report.to_string()))
}

/// The end of a review, for [`user_action_review_message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewEnd {
    Finished,
    Interrupted,
}

/// Returns a message for the thread's model about a review that the user requested. The result follows as an assistant
/// message.
pub fn user_action_review_message(label: &str, end: ReviewEnd) -> ResponseItem {
    let result = match end {
        ReviewEnd::Finished => {
            "What it found is the next message. The person may refer to it, or choose what to repair."
        }
        ReviewEnd::Interrupted => "It was stopped before it came to a result.",
    };
    let text = format!(
        "<action>review</action>\n<context>The person had a reviewer look at: {}</context>\n\
         <results>{result}</results>",
        context_tags::escape(label)
    );
    user_text_message(context_tags::wrap(context_tags::USER_ACTION, &text))
}

/// Returns the text of a skill that the user requested. It follows the user's message.
pub fn skill_message(name: &str, path: &str, body: &str) -> ResponseItem {
    let text = format!(
        "<name>{}</name>\n<path>{}</path>\n{}",
        context_tags::escape(name),
        context_tags::escape(path),
        body.trim_matches('\n')
    );
    user_text_message(context_tags::wrap(context_tags::SKILL, &text))
}
