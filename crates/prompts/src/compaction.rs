//! A history after it was condensed: what the person said, a summary, and fresh context.
//!
//! The model that goes on sees the person's own words, newest first until the room is used up, and for all
//! the rest a note that the model itself wrote when asked with
//! [`COMPACTION_PROMPT`](crate::COMPACTION_PROMPT).

use codicil_protocol::{ContentItem, ResponseItem};

use crate::{
    message::{message, message_text, part_text, text_part, user_text_message},
    tags::is_context_message,
    tokens::approx_tokens,
    truncate::truncate_output,
};

/// How much of the person's words is kept.
const KEPT_USER_TOKENS: u64 = 20_000;

const SUMMARY_PREFIX: &str = include_str!("../text/summary.md");
const NO_SUMMARY: &str = "(The note is empty. Find out from the workspace where things stand.)";
const IMAGE_LEFT_OUT: &str = "[an image, left out]";

/// The messages of a history that the person wrote themselves.
pub fn user_messages<'a>(
    history: impl IntoIterator<Item = &'a ResponseItem>,
) -> impl Iterator<Item = &'a ResponseItem> {
    let is_theirs = |item: &&ResponseItem| {
        matches!(item, ResponseItem::Message { role, .. } if role == "user") && !is_context_message(item)
    };
    history.into_iter().filter(is_theirs)
}

/// The history that replaces the one that was condensed. `user_messages` are those of [`user_messages`],
/// `fresh` is everything that [`messages`](crate::messages) tells a new thread.
///
/// Images are replaced by a note. Of messages that do not fit, the older ones go; the oldest that is kept
/// may be shortened.
pub fn compacted_history<'a>(
    user_messages: impl IntoIterator<Item = &'a ResponseItem>,
    summary: &str,
    fresh: Vec<ResponseItem>,
) -> Vec<ResponseItem> {
    let all: Vec<_> = user_messages.into_iter().map(without_images).collect();
    let mut kept = newest_within(all, KEPT_USER_TOKENS);
    kept.push(summary_message(summary));
    kept.extend(fresh);
    kept
}

/// The message that stands for the part of a history that is gone.
pub fn summary_message(summary: &str) -> ResponseItem {
    let summary = if summary.trim().is_empty() { NO_SUMMARY } else { summary.trim() };
    user_text_message(format!("{SUMMARY_PREFIX}\n{summary}"))
}

/// Whether this is a message of [`summary_message`]. The next summary covers it.
pub fn is_summary_message(item: &ResponseItem) -> bool {
    let ResponseItem::Message { role, content, .. } = item else { return false };
    let begins = |part: &ContentItem| part_text(part).is_some_and(|text| text.starts_with(SUMMARY_PREFIX));
    role == "user" && content.first().is_some_and(begins)
}

fn without_images(item: &ResponseItem) -> ResponseItem {
    let ResponseItem::Message { role, content, .. } = item else { return item.clone() };
    let part = |part: &ContentItem| match part {
        ContentItem::InputImage { .. } => text_part(IMAGE_LEFT_OUT),
        other => other.clone(),
    };
    message(role, content.iter().map(part).collect())
}

fn newest_within(messages: Vec<ResponseItem>, max_tokens: u64) -> Vec<ResponseItem> {
    let mut left = max_tokens;
    let mut kept = Vec::new();
    for item in messages.into_iter().rev() {
        let tokens = approx_tokens(&item);
        if tokens > left {
            kept.extend(shortened(&item, left));
            break;
        }
        left -= tokens;
        kept.push(item);
    }
    kept.reverse();
    kept
}

/// Shorter than this, the beginning and end of a message say nothing.
const WORTH_KEEPING: u64 = 50;

fn shortened(item: &ResponseItem, max_tokens: u64) -> Option<ResponseItem> {
    let shorten = || user_text_message(truncate_output(&message_text(item), max_tokens));
    (max_tokens >= WORTH_KEEPING).then(shorten)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{assistant_message, developer_message};

    fn condensed(history: &[ResponseItem], summary: &str) -> Vec<ResponseItem> {
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
    fn the_persons_words_the_summary_and_fresh_context_remain() {
        let history = [
            developer_message(["rules".to_owned()]),
            user_text_message("<environment_context>\n</environment_context>"),
            user_text_message("first"),
            assistant_message("answer"),
            user_text_message("second"),
            ResponseItem::Other,
            crate::turn_aborted_message(),
        ];
        let after = condensed(&history, " done \n");
        assert_eq!(texts(&after), ["first", "second", "…\ndone", "fresh"]);
        // The next time the old summary gives way to the new one.
        assert_eq!(texts(&condensed(&after, "more")), ["first", "second", "…\nmore", "fresh"]);
        assert_eq!(texts(&condensed(&[], " "))[0], format!("…\n{NO_SUMMARY}"));
    }

    #[test]
    fn the_newest_words_get_the_room() {
        let long = |letter: &str| user_text_message(letter.repeat(36_000));
        let history = [user_text_message("gone"), long("a"), long("b"), long("c"), user_text_message("last")];
        let after = condensed(&history, "s");
        let texts = texts(&after);
        assert_eq!(texts.len(), 6);
        assert!(texts[0].starts_with('a') && texts[0].contains("left out") && texts[0].len() < 9_000);
        assert_eq!(texts[1].len(), 36_000);
        let kept: u64 = after.iter().take(4).map(approx_tokens).sum();
        assert!(kept <= KEPT_USER_TOKENS, "{kept}");
    }

    #[test]
    fn images_become_notes() {
        let image = ContentItem::InputImage { image_url: "data:".to_owned() };
        let history = [message("user", vec![text_part("look "), image])];
        assert_eq!(texts(&condensed(&history, "s"))[0], format!("look {IMAGE_LEFT_OUT}"));
    }
}
