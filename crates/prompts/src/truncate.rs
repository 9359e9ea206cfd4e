//! Truncating tool output: a note replaces the middle.

use std::borrow::Cow;

use crate::tokens::{BYTES_PER_TOKEN, text_tokens};

/// The default limit for the output of a tool.
pub const DEFAULT_OUTPUT_TOKENS: u64 = 10_000;

/// Replaces the middle of a text by a note if it takes more than `max_tokens`. The result with the note takes at most
/// `max_tokens`, unless the note alone takes more.
pub fn truncate_output(text: &str, max_tokens: u64) -> Cow<'_, str> {
    let max_bytes = usize::try_from(max_tokens).unwrap_or(usize::MAX).saturating_mul(BYTES_PER_TOKEN);
    if text.len() <= max_bytes {
        return Cow::Borrowed(text);
    }
    // The length of the note depends on the number in it, which is at most that of the whole text.
    let room = max_bytes.saturating_sub(note(text_tokens(text)).len());
    let head = line_end_before(text, room / 2);
    let tail = line_start_after(text, text.len() - (room - head.len()));
    let left_out = text.len() - head.len() - tail.len();
    Cow::Owned(format!("{head}{}{tail}", note(left_out.div_ceil(BYTES_PER_TOKEN) as u64)))
}

fn note(tokens: u64) -> String {
    format!("\n[… about {tokens} tokens left out …]\n")
}

/// The distance by which a cut can be moved to a line end.
const LINE_REACH: usize = 200;

/// Returns at most the first `bytes` of the text, preferably whole lines, without the last line end.
fn line_end_before(text: &str, bytes: usize) -> &str {
    let head = text.get(..text.floor_char_boundary(bytes)).unwrap_or_default();
    match head.rfind('\n') {
        Some(end) if head.len() - end <= LINE_REACH => head.get(..end).unwrap_or(head),
        _ => head,
    }
}

/// Returns the text from `from` or a little later on, preferably whole lines.
fn line_start_after(text: &str, from: usize) -> &str {
    let (before, tail) = text.split_at(text.ceil_char_boundary(from));
    match tail.find('\n') {
        _ if before.ends_with('\n') => tail,
        Some(end) if end < LINE_REACH && end + 1 < tail.len() => tail.get(end + 1..).unwrap_or(tail),
        _ => tail,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn short_output_stays_as_it_is() {
        assert!(matches!(truncate_output("12345678", 2), Cow::Borrowed("12345678")));
        assert!(matches!(truncate_output("", 0), Cow::Borrowed("")));
    }

    #[test]
    fn the_middle_is_left_out() {
        let lines: String = (1..=40).map(|line| format!("line {line}\n")).collect();
        assert_eq!(
            truncate_output(&lines, 25),
            "line 1\nline 2\nline 3\nline 4\n[… about 63 tokens left out …]\n\
             line 37\nline 38\nline 39\nline 40\n"
        );
        let one_line = "x".repeat(1000);
        let cut = truncate_output(&one_line, 100);
        assert!(
            cut.starts_with("xxx")
                && cut.ends_with("xxx")
                && cut.contains("\n[… about 160 tokens left out …]\n"),
            "{cut}"
        );
    }

    proptest! {
        #[test]
        fn the_result_fits_and_keeps_both_ends(text in "[a-zé€\n]{0,2000}", max_tokens in 20_u64..600) {
            let cut = truncate_output(&text, max_tokens);
            prop_assert!(text_tokens(&cut) <= max_tokens);
            if text_tokens(&text) > max_tokens {
                let (head, tail) = cut.split_once("\n[… about ").unwrap();
                let tail = tail.split_once("…]\n").unwrap().1;
                prop_assert!(text.starts_with(head) && text.ends_with(tail));
            } else {
                prop_assert_eq!(cut.as_ref(), text.as_str());
            }
        }
    }
}
