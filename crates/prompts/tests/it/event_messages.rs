//! Messages about events besides the conversation.

use std::time::Duration;

use codicil_prompts::{
    ReviewEnd, approx_tokens, is_context_message, message_text, skill_message, subagent_notification,
    summary_message, turn_aborted_message, user_action_review_message, user_shell_command_message,
};
use codicil_protocol::{CollabAgentState, CollabAgentStatus, ThreadId};
use insta::assert_snapshot;

use crate::show::full;

#[test]
fn event_messages_begin_with_their_tag_and_are_recognised() {
    let state =
        CollabAgentState { status: CollabAgentStatus::Completed, message: Some("done\n\"so\"".to_owned()) };
    let notices = [
        turn_aborted_message(),
        user_shell_command_message(" echo hi ", 3, Duration::from_millis(1234), "hi\n"),
        subagent_notification(&ThreadId::from("thr_1"), Some("Ada"), &state),
        user_action_review_message("changes against 'main'", ReviewEnd::Finished),
        user_action_review_message("current <changes>", ReviewEnd::Interrupted),
        skill_message("mine", "/skills/mine/SKILL.md", "---\nname: mine\n---\nBODY\n"),
        summary_message("  what was done\n"),
    ];
    for notice in &notices {
        assert!(is_context_message(notice), "{notice:?}");
    }
    assert_snapshot!(full(&notices));
}

#[test]
fn long_output_of_a_command_is_truncated() {
    let message = user_shell_command_message("yes", 0, Duration::from_secs(1), &"y\n".repeat(100_000));
    let text = message_text(&message);
    assert!(approx_tokens(&message) < 10_100, "{}", text.len());
    assert!(text.contains("tokens left out"));
    assert!(text.ends_with("y\n</result>\n</user_shell_command>"), "{}", &text[text.len() - 80..]);
}
