//! Lenient reading of the JSON that providers send.
//!
//! Servers split a stream wherever a token ends, also between the two UTF-16 halves of one character, and report
//! counts as integers, floats, digits in a string or null. Texts are therefore read as [`WireText`] and joined by a
//! [`TextJoiner`], counts with [`token_count`]. An event that still cannot be read is an error of the stream.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::ModelError;

/// Reads an event.
pub(crate) fn read_event<'a, T: Deserialize<'a>>(data: &'a [u8]) -> Result<T, ModelError> {
    serde_json::from_slice(data).map_err(|error| ModelError::Unreadable(error.to_string()))
}

/// A text whose UTF-16 halves may lack their other half. The bytes are UTF-8, with lone halves in its three-byte form.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct WireText<'a>(#[serde(borrow)] Cow<'a, [u8]>);

impl WireText<'_> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl From<String> for WireText<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text.into_bytes()))
    }
}

impl<'a> From<&'a str> for WireText<'a> {
    fn from(text: &'a str) -> Self {
        Self(Cow::Borrowed(text.as_bytes()))
    }
}

/// Joins the fragments of one text.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextJoiner {
    /// The first half of a character at the end of the last fragment.
    first_half: Option<u16>,
}

impl TextJoiner {
    /// Returns the fragment as text. A half that is never completed becomes U+FFFD.
    pub fn join(&mut self, fragment: WireText<'_>) -> String {
        match (self.first_half, String::from_utf8(fragment.0.into_owned())) {
            (None, Ok(text)) => text,
            (_, Ok(text)) => self.join_halves(text.as_bytes()),
            (_, Err(error)) => self.join_halves(error.as_bytes()),
        }
    }

    /// Returns what replaces a half at the end of the text.
    pub fn finish(&mut self) -> Option<String> {
        self.first_half.take().map(|_| char::REPLACEMENT_CHARACTER.to_string())
    }

    fn join_halves(&mut self, bytes: &[u8]) -> String {
        let mut text = String::with_capacity(bytes.len());
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            if let [0xED, second @ 0xA0..=0xBF, third @ 0x80..=0xBF, tail @ ..] = rest {
                self.add_half(0xD000 | u16::from(second & 0x3F) << 6 | u16::from(third & 0x3F), &mut text);
                rest = tail;
                continue;
            }
            // Characters before the next possible half.
            let more = after.iter().position(|byte| *byte == 0xED).unwrap_or(after.len());
            let (head, tail) =
                rest.split_at_checked(more + 1).unwrap_or((std::slice::from_ref(&first), after));
            text.extend(self.finish());
            text.push_str(&String::from_utf8_lossy(head));
            rest = tail;
        }
        text
    }

    fn add_half(&mut self, half: u16, text: &mut String) {
        if half < 0xDC00 {
            text.extend(self.finish());
            self.first_half = Some(half);
            return;
        }
        let first = self.first_half.take();
        let joined = first.and_then(|first| char::decode_utf16([first, half]).next()?.ok());
        text.push(joined.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
}

/// Returns the JSON with U+FFFD for lone UTF-16 halves and invalid UTF-8; `None` if it has neither.
pub(crate) fn repaired(data: &[u8]) -> Option<Vec<u8>> {
    let text = String::from_utf8_lossy(data);
    let mut repaired = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        repaired.push_str(before);
        let len = match (utf16_unit(escape), escape.get(6..).and_then(utf16_unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                repaired.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            _ => escape.char_indices().nth(2).map_or(escape.len(), |(at, _)| at),
        };
        let (whole, after) = escape.split_at(len);
        repaired.push_str(whole);
        rest = after;
    }
    repaired.push_str(rest);
    (repaired.as_bytes() != data).then(|| repaired.into_bytes())
}

/// Returns the UTF-16 unit of an escape such as `\ud83d` at the start of the text.
fn utf16_unit(text: &str) -> Option<u16> {
    u16::from_str_radix(text.strip_prefix("\\u")?.get(..4)?, 16).ok()
}

/// Reads a number of tokens: an integer, a float, digits in a string. Anything else counts as missing.
pub(crate) fn token_count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    from.deserialize_any(CountVisitor)
}

struct CountVisitor;

impl<'de> Visitor<'de> for CountVisitor {
    type Value = Option<i64>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number of tokens")
    }

    fn visit_i64<E>(self, count: i64) -> Result<Self::Value, E> {
        Ok(Some(count))
    }

    fn visit_u64<E>(self, count: u64) -> Result<Self::Value, E> {
        Ok(Some(i64::try_from(count).unwrap_or(i64::MAX)))
    }

    fn visit_f64<E>(self, count: f64) -> Result<Self::Value, E> {
        Ok(Some(count as i64))
    }

    fn visit_str<E>(self, digits: &str) -> Result<Self::Value, E> {
        Ok(digits.trim().parse::<f64>().ok().map(|count| count as i64))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Joins fragments given as JSON strings.
    fn joined(fragments: &[&str]) -> String {
        let mut joiner = TextJoiner::default();
        let mut text = String::new();
        for fragment in fragments {
            let fragment: WireText<'_> = serde_json::from_str(fragment).unwrap();
            text.push_str(&joiner.join(fragment));
        }
        text.extend(joiner.finish());
        text
    }

    #[test]
    fn halves_of_a_character_are_joined() {
        let check =
            |fragments: &[&str], expected: &str| assert_eq!(joined(fragments), expected, "{fragments:?}");
        check(&[r#""plain""#, r#"" text""#], "plain text");
        check(&[r#""a \ud83d\ude00 b""#], "a \u{1f600} b");
        check(&[r#""a \ud83d""#, r#""\ude00 b""#], "a \u{1f600} b");
        check(&[r#""\ud83d""#, r#""""#, r#""\ude00""#], "\u{1f600}");
        check(&[r#""a\ud83d""#, r#""b""#], "a\u{fffd}b");
        check(&[r#""a\ud83d""#], "a\u{fffd}");
        check(&[r#""\ude00b""#], "\u{fffd}b");
        check(&[r#""\ud83d""#, r#""\ud83d""#, r#""\ude00""#], "\u{fffd}\u{1f600}");
        check(&[r#""한\ud83d""#, r#""\ude00국 힣""#], "한\u{1f600}국 힣");
    }

    #[test]
    fn json_with_lone_halves_is_repaired() {
        let check = |json: &str, expected: Option<&str>| {
            let repaired = repaired(json.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap());
            assert_eq!(repaired.as_deref(), expected, "{json}");
        };
        check(r#"{"a": "b\n\u00e9 \ud83d\ude00"}"#, None);
        check(r#"["\ud83d"]"#, Some(r#"["\ufffd"]"#));
        check(r#"["\ud83d\n\ude00"]"#, Some(r#"["\ufffd\n\ufffd"]"#));
        // An escaped backslash begins no escape.
        check(r#"["\\ud83d"]"#, None);
        check(r#"["\\\ud83d"]"#, Some(r#"["\\\ufffd"]"#));
        check("[\"\\", None);
        check("[\"\\u12", None);
        assert_eq!(repaired(b"[\"\xff\"]").unwrap(), "[\"\u{fffd}\"]".as_bytes());
    }

    #[test]
    fn counts_are_read_in_every_form() {
        #[derive(Deserialize)]
        struct Counted {
            #[serde(default, deserialize_with = "token_count")]
            n: Option<i64>,
        }
        let check = |json: &str, expected: Option<i64>| {
            assert_eq!(serde_json::from_str::<Counted>(json).unwrap().n, expected, "{json}");
        };
        check("{}", None);
        check(r#"{"n": null}"#, None);
        check(r#"{"n": 12}"#, Some(12));
        check(r#"{"n": 12.0}"#, Some(12));
        check(r#"{"n": 1.5e3}"#, Some(1500));
        check(r#"{"n": "12"}"#, Some(12));
        check(r#"{"n": "many"}"#, None);
        check(r#"{"n": [1, {"a": 2}]}"#, None);
        check(r#"{"n": {"a": [1]}}"#, None);
        check(r#"{"n": 18446744073709551615}"#, Some(i64::MAX));
    }

    proptest! {
        #[test]
        fn a_text_split_between_any_two_utf16_units_is_the_same(
            text in "\\PC{0,12}",
            cuts in prop::collection::vec(0usize..24, 0..6),
        ) {
            let units: Vec<u16> = text.encode_utf16().collect();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(units.len())).collect();
            cuts.extend([0, units.len()]);
            cuts.sort_unstable();
            let escaped = |units: &[u16]| {
                format!("\"{}\"", units.iter().map(|unit| format!("\\u{unit:04x}")).collect::<String>())
            };
            let fragments: Vec<String> = cuts.windows(2).map(|cut| escaped(&units[cut[0]..cut[1]])).collect();
            let fragments: Vec<&str> = fragments.iter().map(String::as_str).collect();
            prop_assert_eq!(joined(&fragments), text);
        }

        #[test]
        fn repaired_json_has_no_lone_half(bytes in prop::collection::vec(prop::sample::select(br#"\ud83de00n" "#.to_vec()), 0..40)) {
            let repaired_bytes = repaired(&bytes).unwrap_or_else(|| bytes.clone());
            prop_assert_eq!(repaired(&repaired_bytes), None);
        }
    }
}
