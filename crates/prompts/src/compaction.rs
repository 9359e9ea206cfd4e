//! Compacted histories: the user's messages, a summary, and fresh context.
//!
//! The user's messages are kept up to a limit, the newest first. The summary, which the model wrote in response to
//! [`COMPACTION_PROMPT`](crate::COMPACTION_PROMPT), replaces everything else.

use codicil_protocol::{ContentItem, ResponseItem};

use crate::{
    context_tags::is_context_message,
    message::{message, message_text, part_text, text_part, user_text_message},
    tokens::approx_tokens,
    truncate::truncate_output,
};

/// The limit for the user's messages.
const KEPT_USER_TOKENS: u64 = 20_000;

const SUMMARY_PREFIX: &str = include_str!("../text/summary.md");
const NO_SUMMARY: &str = "(The note is empty. Find out from the workspace where things stand.)";
const IMAGE_LEFT_OUT: &str = "[an image, left out]";
const AUDIO_LEFT_OUT: &str = "[audio, left out]";

/// Returns the messages of a history that the user wrote.
pub fn user_messages<'a>(
    history: impl IntoIterator<Item = &'a ResponseItem>,
) -> impl Iterator<Item = &'a ResponseItem> {
    let is_by_user = |item: &&ResponseItem| {
        matches!(item, ResponseItem::Message { role, .. } if role == "user") && !is_context_message(item)
    };
    history.into_iter().filter(is_by_user)
}

/// Returns the compacted history. `user_messages` are those of [`user_messages`]; `fresh` are the
/// [`context_messages`](crate::context_messages) of a new thread.
///
/// Images and audio are replaced by a note. If the messages exceed the limit, older ones are dropped, and the oldest remaining one may
/// be truncated.
pub fn compacted_history<'a>(
    user_messages: impl IntoIterator<Item = &'a ResponseItem>,
    summary: &str,
    fresh: Vec<ResponseItem>,
) -> Vec<ResponseItem> {
    let all: Vec<_> = user_messages.into_iter().map(without_media).collect();
    let mut kept = newest_within(all, KEPT_USER_TOKENS);
    kept.push(summary_message(summary));
    kept.extend(fresh);
    kept
}

/// Returns the message with the summary of the removed history.
pub fn summary_message(summary: &str) -> ResponseItem {
    let summary = if summary.trim().is_empty() { NO_SUMMARY } else { summary.trim() };
    user_text_message(format!("{SUMMARY_PREFIX}\n{summary}"))
}

/// Returns whether a message was created by [`summary_message`]. The next summary replaces it.
pub fn is_summary_message(item: &ResponseItem) -> bool {
    let ResponseItem::Message { role, content, .. } = item else { return false };
    let is_summary =
        |part: &ContentItem| part_text(part).is_some_and(|text| text.starts_with(SUMMARY_PREFIX));
    role == "user" && content.first().is_some_and(is_summary)
}

fn without_media(item: &ResponseItem) -> ResponseItem {
    let ResponseItem::Message { role, content, .. } = item else { return item.clone() };
    let part = |part: &ContentItem| match part {
        ContentItem::InputImage { .. } => text_part(IMAGE_LEFT_OUT),
        ContentItem::InputAudio { .. } => text_part(AUDIO_LEFT_OUT),
        other => other.clone(),
    };
    message(role, content.iter().map(part).collect())
}

fn newest_within(messages: Vec<ResponseItem>, max_tokens: u64) -> Vec<ResponseItem> {
    let mut remaining = max_tokens;
    let mut kept = Vec::new();
    for item in messages.into_iter().rev() {
        let tokens = approx_tokens(&item);
        if tokens > remaining {
            kept.extend(shortened(&item, remaining));
            break;
        }
        remaining -= tokens;
        kept.push(item);
    }
    kept.reverse();
    kept
}

/// The minimum size of a truncated message.
const WORTH_KEEPING: u64 = 50;

fn shortened(item: &ResponseItem, max_tokens: u64) -> Option<ResponseItem> {
    let shorten = || user_text_message(truncate_output(&message_text(item), max_tokens));
    (max_tokens >= WORTH_KEEPING).then(shorten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{assistant_message, developer_message};

    fn compacted(history: &[ResponseItem], summary: &str) -> Vec<ResponseItem> {
        let fresh = vec![developer_message(["fresh".to_owned()])];
        compacted_history(user_messages(history), summary, fresh)
    }

    fn texts(history: &[ResponseItem]) -> Vec<String> {
        let short = |text: String| {
            if text.starts_with(SUMMARY_PREFIX) { text.replace(SUMMARY_PREFIX, "…") } else { text }
        };
        history.iter().map(message_text).map(short).collect()
    }

    #[test]
    fn user_messages_the_summary_and_fresh_context_remain() {
        let history = [
            developer_message(["rules".to_owned()]),
            user_text_message("<environment_context>\n</environment_context>"),
            user_text_message("first"),
            assistant_message("answer"),
            user_text_message("second"),
            ResponseItem::Other,
            crate::turn_aborted_message(),
        ];
        let after = compacted(&history, " done \n");
        assert_eq!(texts(&after), ["first", "second", "…\ndone", "fresh"]);
        // The next compaction replaces the summary.
        assert_eq!(texts(&compacted(&after, "more")), ["first", "second", "…\nmore", "fresh"]);
        assert_eq!(texts(&compacted(&[], " "))[0], format!("…\n{NO_SUMMARY}"));
    }

    #[test]
    fn the_newest_messages_are_kept() {
        let long = |letter: &str| user_text_message(letter.repeat(36_000));
        let history = [user_text_message("gone"), long("a"), long("b"), long("c"), user_text_message("last")];
        let after = compacted(&history, "s");
        let texts = texts(&after);
        assert_eq!(texts.len(), 6);
        assert!(texts[0].starts_with('a') && texts[0].contains("left out") && texts[0].len() < 9_000);
        assert_eq!(texts[1].len(), 36_000);
        let kept: u64 = after.iter().take(4).map(approx_tokens).sum();
        assert!(kept <= KEPT_USER_TOKENS, "{kept}");
    }

    #[test]
    fn images_become_notes() {
        let image = ContentItem::image("data:", None);
        let history = [message("user", vec![text_part("look "), image])];
        assert_eq!(texts(&compacted(&history, "s"))[0], format!("look {IMAGE_LEFT_OUT}"));
    }
}
