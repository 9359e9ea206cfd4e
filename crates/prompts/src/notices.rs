//! Messages about what happened besides the conversation: aborted turns, commands of the person, agents,
//! reviews, skills. They stand in the person's role, since only that is sure to be read by every model.

use std::time::Duration;

use codicil_protocol::{CollabAgentState, ResponseItem, ThreadId};
use serde_json::json;

use crate::{
    environment::plain,
    message::user_text_message,
    tags,
    truncate::{DEFAULT_OUTPUT_TOKENS, truncate_output},
};

/// Follows the items of a turn that was interrupted.
pub fn turn_aborted_message() -> ResponseItem {
    user_text_message(tags::wrap(tags::TURN_ABORTED, TURN_ABORTED))
}

const TURN_ABORTED: &str = "\
    The person stopped the last turn before it was done. Commands and edits of that turn may have taken \
    effect, in whole or in part, and processes may still run: look before you rely on either. What comes \
    next is what counts now.";

/// A command that the person ran themselves, and what came of it. Long output is shortened.
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
    user_text_message(tags::wrap(tags::USER_SHELL_COMMAND, &text))
}

/// Tells an agent what became of another one that it had spawned.
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
    user_text_message(tags::wrap(tags::SUBAGENT_NOTIFICATION, &report.to_string()))
}

/// How a review ended, for [`user_action_review_message`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReviewEnd {
    Finished,
    Interrupted,
}

/// Tells the thread's own model that the person had something reviewed, named by its label. What came of it
/// follows as an assistant message.
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
        plain(label)
    );
    user_text_message(tags::wrap(tags::USER_ACTION, &text))
}

/// The text of a skill that the person asked for; it follows their message.
pub fn skill_message(name: &str, path: &str, body: &str) -> ResponseItem {
    let text =
        format!("<name>{}</name>\n<path>{}</path>\n{}", plain(name), plain(path), body.trim_matches('\n'));
    user_text_message(tags::wrap(tags::SKILL, &text))
}
