//! Escapes text for HTML and makes characters visible that would hide or reorder what a person reads.
//!
//! A command can look harmless while it is not: bidi controls reorder it on the screen, and zero-width
//! characters hide in it. These characters are replaced by their code point in a marked element. Letters of right-to-left
//! scripts stay as they are; the stylesheet isolates their direction.

use std::fmt::Write;

use maud::{Markup, PreEscaped};

/// Returns text as HTML, with hidden characters marked.
pub fn visible(text: &str) -> Markup {
    let mut html = String::with_capacity(text.len() + text.len() / 16);
    push_visible(&mut html, text);
    PreEscaped(html)
}

/// Appends text as HTML, with hidden characters marked.
pub fn push_visible(html: &mut String, text: &str) {
    let mut previous = None;
    for c in text.chars() {
        if is_hidden(c, previous) {
            push_marked(html, c);
        } else {
            push_escaped_char(html, c);
        }
        previous = Some(c);
    }
}

/// Returns text for a place without markup, such as a title or an accessible name: hidden characters become `[U+202E]`. The
/// result is not escaped.
pub fn visible_plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut previous = None;
    for c in text.chars() {
        if is_hidden(c, previous) {
            let _ = write!(plain, "[U+{:04X}]", u32::from(c));
        } else {
            plain.push(c);
        }
        previous = Some(c);
    }
    plain
}

/// Returns text for a part of a path or a query, with all special characters encoded.
pub fn url_part(text: &str) -> String {
    let mut part = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            part.push(char::from(byte));
        } else {
            let _ = write!(part, "%{byte:02X}");
        }
    }
    part
}

/// Appends text with the five special characters of HTML escaped, for content and for quoted attributes.
pub fn push_escaped(html: &mut String, text: &str) {
    for c in text.chars() {
        push_escaped_char(html, c);
    }
}

pub(super) fn push_escaped_char(html: &mut String, c: char) {
    match c {
        '&' => html.push_str("&amp;"),
        '<' => html.push_str("&lt;"),
        '>' => html.push_str("&gt;"),
        '"' => html.push_str("&quot;"),
        '\'' => html.push_str("&#39;"),
        c => html.push(c),
    }
}

/// Returns the longest prefix of at most `max_bytes` that ends between characters.
pub fn prefix(text: &str, max_bytes: usize) -> &str {
    text.get(..text.floor_char_boundary(max_bytes)).unwrap_or(text)
}

/// Appends the code point of a hidden character as an element of its own.
fn push_marked(html: &mut String, c: char) {
    let name = name_of(c);
    let point = u32::from(c);
    let _ = match name {
        Some(name) => write!(html, r#"<span class="hidden-char" title="{name}">U+{point:04X}</span>"#),
        None => write!(html, r#"<span class="hidden-char">U+{point:04X}</span>"#),
    };
}

/// Returns whether a character is invisible or changes the order of others. `previous` is the character before it: joiners
/// are part of emoji and of some scripts, but have no meaning after ASCII.
pub(super) fn is_hidden(c: char, previous: Option<char>) -> bool {
    match c {
        '\t' | '\n' => false,
        '\u{200C}' | '\u{200D}' => previous.is_none_or(|previous| previous.is_ascii()),
        c if c.is_control() => true,
        '\u{00AD}'
        | '\u{034F}'
        | '\u{061C}'
        | '\u{115F}'..='\u{1160}'
        | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180E}'
        | '\u{200B}'
        | '\u{200E}'..='\u{200F}'
        | '\u{2028}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}'
        | '\u{3164}'
        | '\u{FEFF}'
        | '\u{FFA0}'
        | '\u{FFF9}'..='\u{FFFB}'
        | '\u{1D173}'..='\u{1D17A}'
        | '\u{E0000}'..='\u{E0FFF}' => true,
        _ => false,
    }
}

/// Returns the name of the hidden characters that attacks use most.
fn name_of(c: char) -> Option<&'static str> {
    Some(match c {
        '\0' => "null",
        '\u{7}' => "bell",
        '\u{8}' => "backspace",
        '\r' => "carriage return",
        '\u{1B}' => "escape",
        '\u{7F}' => "delete",
        '\u{00AD}' => "soft hyphen",
        '\u{061C}' => "Arabic letter mark",
        '\u{200B}' => "zero width space",
        '\u{200C}' => "zero width non-joiner",
        '\u{200D}' => "zero width joiner",
        '\u{200E}' => "left-to-right mark",
        '\u{200F}' => "right-to-left mark",
        '\u{2028}' => "line separator",
        '\u{2029}' => "paragraph separator",
        '\u{202A}' => "left-to-right embedding",
        '\u{202B}' => "right-to-left embedding",
        '\u{202C}' => "pop directional formatting",
        '\u{202D}' => "left-to-right override",
        '\u{202E}' => "right-to-left override",
        '\u{2060}' => "word joiner",
        '\u{2066}' => "left-to-right isolate",
        '\u{2067}' => "right-to-left isolate",
        '\u{2068}' => "first strong isolate",
        '\u{2069}' => "pop directional isolate",
        '\u{FEFF}' => "byte order mark",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, html: &str, plain: &str) {
        assert_eq!(visible(text).into_string(), html);
        assert_eq!(visible_plain(text), plain);
    }

    #[test]
    fn text_is_escaped_and_hidden_characters_are_shown() {
        check("a\tb\nc", "a\tb\nc", "a\tb\nc");
        check("<b>&\"'", "&lt;b&gt;&amp;&quot;&#39;", "<b>&\"'");
        check(
            "a\u{202E}b",
            r#"a<span class="hidden-char" title="right-to-left override">U+202E</span>b"#,
            "a[U+202E]b",
        );
        check("\u{0}", r#"<span class="hidden-char" title="null">U+0000</span>"#, "[U+0000]");
        check("\u{9B}31m", r#"<span class="hidden-char">U+009B</span>31m"#, "[U+009B]31m");
        check("\u{E0041}", r#"<span class="hidden-char">U+E0041</span>"#, "[U+E0041]");
    }

    #[test]
    fn joiners_are_part_of_emoji_and_scripts_but_not_of_commands() {
        check("👩\u{200D}🚀", "👩\u{200D}🚀", "👩\u{200D}🚀");
        check("می\u{200C}خواهم", "می\u{200C}خواهم", "می\u{200C}خواهم");
        assert_eq!(visible_plain("rm\u{200D} x"), "rm[U+200D] x");
        assert_eq!(visible_plain("\u{200C}"), "[U+200C]");
    }

    #[test]
    fn a_prefix_ends_between_characters() {
        assert_eq!(prefix("añb", 2), "a");
        assert_eq!(prefix("añb", 3), "añ");
        assert_eq!(prefix("añb", 30), "añb");
    }
}
