//! Separates inline reasoning from the text of a message.
//!
//! Servers without a reasoning parser pass on what the model writes: `<think>…</think>`, then the message. Only the
//! beginning of a message is searched, so that a message about these tags stays as it is. A tag may be split anywhere.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A part of a message.
#[derive(Debug, PartialEq)]
pub(super) enum ThinkPiece {
    Reasoning(String),
    Text(String),
}

/// Splits the text of one message.
#[derive(Default)]
pub(super) struct ThinkSplitter {
    place: ThinkPlace,
    /// Text that may be the beginning of a tag.
    held: String,
}

#[derive(Default, PartialEq, Eq)]
enum ThinkPlace {
    #[default]
    Start,
    /// Within reasoning of which nothing but space has arrived.
    BlankReasoning,
    Reasoning,
    /// After reasoning. The space before the message is not part of it.
    AfterReasoning,
    Text,
}

impl ThinkSplitter {
    /// Splits the next text. Returns the pieces that are certain.
    pub fn feed(&mut self, text: String) -> Vec<ThinkPiece> {
        let mut pieces = Vec::new();
        if self.place == ThinkPlace::Text {
            pieces.push(ThinkPiece::Text(text));
            return pieces;
        }
        self.held.push_str(&text);
        while self.take_piece(&mut pieces) {}
        pieces
    }

    /// Returns the text that turned out not to be a tag.
    pub fn finish(&mut self) -> Option<ThinkPiece> {
        let held = std::mem::take(&mut self.held);
        let piece = match self.place {
            ThinkPlace::Start | ThinkPlace::Text => ThinkPiece::Text(held),
            ThinkPlace::AfterReasoning => ThinkPiece::Text(held.trim_start().to_owned()),
            ThinkPlace::BlankReasoning | ThinkPlace::Reasoning => ThinkPiece::Reasoning(held),
        };
        let (ThinkPiece::Text(text) | ThinkPiece::Reasoning(text)) = &piece;
        (!text.trim().is_empty()).then_some(piece)
    }

    /// Takes one step. Returns whether another one may follow.
    fn take_piece(&mut self, pieces: &mut Vec<ThinkPiece>) -> bool {
        match self.place {
            ThinkPlace::Start | ThinkPlace::AfterReasoning => self.take_start(pieces),
            ThinkPlace::BlankReasoning | ThinkPlace::Reasoning => self.take_reasoning(pieces),
            ThinkPlace::Text => false,
        }
    }

    fn take_start(&mut self, pieces: &mut Vec<ThinkPiece>) -> bool {
        let trimmed = self.held.trim_start();
        if let Some(rest) = trimmed.strip_prefix(OPEN) {
            self.held = rest.to_owned();
            self.place = ThinkPlace::BlankReasoning;
            return true;
        }
        if !OPEN.starts_with(trimmed) {
            let text = if self.place == ThinkPlace::Start { &self.held } else { trimmed };
            pieces.push(ThinkPiece::Text(text.to_owned()));
            self.held.clear();
            self.place = ThinkPlace::Text;
        }
        false
    }

    fn take_reasoning(&mut self, pieces: &mut Vec<ThinkPiece>) -> bool {
        if self.place == ThinkPlace::BlankReasoning {
            self.held.drain(..self.held.len() - self.held.trim_start().len());
        }
        let end = self.held.find(CLOSE);
        let certain = end.unwrap_or_else(|| self.held.len() - open_tag_len(&self.held));
        let rest = self.held.split_off(certain);
        let reasoning = std::mem::replace(&mut self.held, rest);
        if !reasoning.is_empty() {
            self.place = ThinkPlace::Reasoning;
            pieces.push(ThinkPiece::Reasoning(reasoning));
        }
        if end.is_some() {
            self.held.drain(..CLOSE.len());
            self.place = ThinkPlace::AfterReasoning;
        }
        end.is_some()
    }
}

/// Returns the length of the longest end of `text` that begins a closing tag.
fn open_tag_len(text: &str) -> usize {
    (1..CLOSE.len()).rev().find(|len| CLOSE.get(..*len).is_some_and(|tag| text.ends_with(tag))).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the reasoning and the text of a message that arrives in these fragments.
    fn split<'a>(fragments: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let mut splitter = ThinkSplitter::default();
        let (mut reasoning, mut text) = (String::new(), String::new());
        let mut pieces: Vec<_> =
            fragments.into_iter().flat_map(|fragment| splitter.feed(fragment.to_owned())).collect();
        pieces.extend(splitter.finish());
        for piece in pieces {
            match piece {
                ThinkPiece::Reasoning(piece) => reasoning.push_str(&piece),
                ThinkPiece::Text(piece) => text.push_str(&piece),
            }
        }
        (reasoning, text)
    }

    #[track_caller]
    fn check(message: &str, reasoning: &str, text: &str) {
        let expected = (reasoning.to_owned(), text.to_owned());
        assert_eq!(split([message]), expected, "{message:?} at once");
        let mut ends = message.char_indices().map(|(at, _)| at).skip(1).chain([message.len()]);
        let mut start = 0;
        let single = std::iter::from_fn(|| {
            let end = ends.next()?;
            Some(&message[std::mem::replace(&mut start, end)..end])
        });
        assert_eq!(split(single), expected, "{message:?} by character");
    }

    #[test]
    fn reasoning_is_separated() {
        check("Hello", "", "Hello");
        check("  Hello", "", "  Hello");
        check("<think>Hm.</think>Hello", "Hm.", "Hello");
        check("\n<think>\nHm.\n</think>\n\nHello\n", "Hm.\n", "Hello\n");
        check("<think>\n\n</think>\n\nHello", "", "Hello");
        check("<think>a < b </ c</think>Hello", "a < b </ c", "Hello");
        check("<think>one</think>\n<think>two</think>Hello", "onetwo", "Hello");
        check("<think>never closed </thin", "never closed </thin", "");
        check("<thin", "", "<thin");
        check("<thinker>", "", "<thinker>");
        check("Use <think>tags</think>", "", "Use <think>tags</think>");
        check("", "", "");
    }

    proptest! {
        #[test]
        fn no_character_is_lost(text in "(<think>|</think>|a|<| |\\n){0,12}", cuts in prop::collection::vec(0usize..80, 0..5)) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            prop_assert_eq!(split(cuts.windows(2).map(|cut| &text[cut[0]..cut[1]])), split([text.as_str()]));
        }
    }
}
