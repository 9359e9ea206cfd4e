//! Finding a text in messages: in any case, with no character of special meaning, and with ranges in UTF-16.

use codicil_protocol::{ThreadItem, ThreadSearchTextRange, UserInput};

/// The characters of a long text that are kept before a match.
const CHARS_BEFORE: usize = 49;
/// The characters of a long text that are kept after a match.
const CHARS_AFTER: usize = 96;
/// The trigrams of a text that are looked up at most. More do not exclude many more threads.
pub(crate) const MAX_TRIGRAMS: usize = 24;
/// Marks where a text was cut.
const CUT: &str = "... ";

/// A text to search for, in folded form.
#[derive(Clone, Debug)]
pub(crate) struct SearchTerm {
    folded: Vec<char>,
    /// The text as lowercase ASCII letters, digits and spaces, if it consists of such. JSON writes them as they are.
    plain: Option<Vec<u8>>,
}

/// A match in a message.
#[derive(Clone, Debug, PartialEq)]
pub struct TextMatch {
    pub snippet: String,
    pub range: ThreadSearchTextRange,
}

impl SearchTerm {
    pub fn new(text: &str) -> Self {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b' ';
        let plain = text.bytes().all(is_plain).then(|| text.to_ascii_lowercase().into_bytes());
        Self { folded: text.chars().flat_map(char::to_lowercase).collect(), plain }
    }

    pub fn is_empty(&self) -> bool {
        self.folded.is_empty()
    }

    /// Returns the distinct groups of three characters; none for a shorter text.
    pub fn trigrams(&self) -> Vec<String> {
        let mut trigrams: Vec<String> = self.folded.windows(3).map(|group| group.iter().collect()).collect();
        trigrams.sort_unstable();
        trigrams.dedup();
        trigrams
    }

    /// Returns whether the bytes of JSON could contain the text. False positives are possible.
    pub fn may_be_in(&self, json: &[u8]) -> bool {
        let Some(plain) = &self.plain else { return true };
        let Some((first, rest)) = plain.split_first() else { return true };
        let upper = first.to_ascii_uppercase();
        memchr::memchr2_iter(*first, upper, json).any(|at| {
            let candidate = json.get(at + 1..at + 1 + rest.len());
            candidate.is_some_and(|candidate| candidate.eq_ignore_ascii_case(rest))
        })
    }

    /// Returns the byte ranges of all matches in a text. They do not overlap.
    fn ranges(&self, text: &str) -> Vec<(usize, usize)> {
        let folded: Vec<(char, usize)> = text
            .char_indices()
            .flat_map(|(at, letter)| letter.to_lowercase().map(move |folded| (folded, at)))
            .collect();
        let mut ranges = Vec::new();
        let mut at = 0;
        while let Some(window) = folded.get(at..at + self.folded.len()).filter(|window| !window.is_empty()) {
            if !window.iter().map(|(letter, _)| letter).eq(&self.folded) {
                at += 1;
                continue;
            }
            at += self.folded.len();
            let start = window.first().map_or(0, |(_, start)| *start);
            let end = folded.get(at).map_or(text.len(), |(_, end)| *end);
            ranges.push((start, end));
        }
        ranges
    }

    /// Returns the text around the first match in a text.
    pub fn first_in(&self, text: &str) -> Option<String> {
        let range = self.ranges(text).first().copied()?;
        Some(one_line(&text_match(text, range).snippet).trim().to_owned())
    }

    /// Returns all matches in a text.
    pub fn all_in(&self, text: &str) -> Vec<TextMatch> {
        self.ranges(text).into_iter().map(|range| text_match(text, range)).collect()
    }
}

/// Cuts the text around a match, as one line.
fn text_match(text: &str, (start, end): (usize, usize)) -> TextMatch {
    let before = one_line(text.get(..start).unwrap_or_default());
    let matched = one_line(text.get(start..end).unwrap_or_default());
    let matched = matched.as_str();
    let after = one_line(text.get(end..).unwrap_or_default());
    let kept_before = match before.char_indices().rev().nth(CHARS_BEFORE) {
        Some((at, letter)) => format!("{CUT}{}", before.get(at + letter.len_utf8()..).unwrap_or_default()),
        None => before,
    };
    let kept_after = match after.char_indices().nth(CHARS_AFTER) {
        Some((at, _)) => format!("{} {}", after.get(..at).unwrap_or_default(), CUT.trim_end()),
        None => after,
    };
    let units = |text: &str| u32::try_from(text.encode_utf16().count()).unwrap_or(u32::MAX);
    let start = units(&kept_before);
    let range = ThreadSearchTextRange { start, end: start.saturating_add(units(matched)) };
    TextMatch { snippet: format!("{kept_before}{matched}{kept_after}"), range }
}

/// Replaces each sequence of white space by one space.
fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut is_space = false;
    for letter in text.chars() {
        if !letter.is_whitespace() {
            line.push(letter);
        } else if !is_space {
            line.push(' ');
        }
        is_space = letter.is_whitespace();
    }
    line
}

/// Returns the text of a user or agent message; `None` for other items.
pub(crate) fn message_text(item: &ThreadItem) -> Option<String> {
    match item {
        ThreadItem::AgentMessage { text, .. } => Some(text.clone()),
        ThreadItem::UserMessage { content, .. } => {
            let texts = content.iter().filter_map(|input| match input {
                UserInput::Text { text, .. } => Some(text.as_str()),
                _ => None,
            });
            Some(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(text: &str, term: &str) -> Vec<(u32, u32)> {
        let found = SearchTerm::new(term).all_in(text);
        found.into_iter().map(|found| (found.range.start, found.range.end)).collect()
    }

    #[test]
    fn matches_ignore_case_and_count_in_utf16() {
        assert_eq!(ranges("A needle, Needle and NEEDLE.", "needle"), [(2, 8), (10, 16), (21, 27)]);
        assert_eq!(ranges("🎉 Größe GRÖSSE", "größe"), [(3, 8)]);
        assert_eq!(ranges("100% of a_b", "% o"), [(3, 6)]);
        assert_eq!(ranges("100% of a_b", "A_B"), [(8, 11)]);
        assert_eq!(ranges("aaaa", "aa"), [(0, 2), (2, 4)]);
        assert_eq!(ranges("x", "yes"), []);
        assert_eq!(ranges("İstanbul", "stan"), [(1, 5)]);
    }

    #[test]
    fn long_texts_are_cut_around_the_match() {
        let text = format!("{}needle{}", "a".repeat(200), "b".repeat(200));
        let found = SearchTerm::new("needle").all_in(&text).remove(0);
        assert_eq!(found.snippet, format!("... {}needle{} ...", "a".repeat(49), "b".repeat(96)));
        assert_eq!((found.range.start, found.range.end), (53, 59));
    }

    #[test]
    fn a_snippet_is_one_line() {
        let found = SearchTerm::new("y needle").all_in("x\n\ny needle\tz").remove(0);
        assert_eq!(found.snippet, "x y needle z");
        assert_eq!((found.range.start, found.range.end), (2, 10));
        let spaced = format!("needle{}", " x".repeat(200));
        let expected = format!("needle{} ...", " x".repeat(48));
        assert_eq!(SearchTerm::new("needle").first_in(&spaced), Some(expected));
    }

    #[test]
    fn json_is_excluded_only_if_it_cannot_contain_the_text() {
        let check = |term: &str, json: &str| SearchTerm::new(term).may_be_in(json.as_bytes());
        assert!(check("needle", r#"{"text":"a NeeDle"}"#));
        assert!(!check("needle", r#"{"text":"a need"}"#));
        assert!(check("\"quoted\"", "{}") && check("größe", "{}"));
    }
}
