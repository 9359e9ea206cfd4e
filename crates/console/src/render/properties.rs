//! Properties of everything that renders foreign text: any input gives balanced HTML that has only known elements and
//! attributes.

use proptest::prelude::*;

use super::{
    ansi::{self, OutputLines},
    diff::{self, DiffLayout, DiffView},
    highlight, languages,
    markdown::markdown,
    text::visible,
};

/// Elements that the renderers write, and those among them without an end.
const ELEMENTS: &[&str] = &[
    "a",
    "blockquote",
    "br",
    "code",
    "del",
    "em",
    "h3",
    "h4",
    "h5",
    "h6",
    "header",
    "hr",
    "input",
    "label",
    "li",
    "mark",
    "ol",
    "p",
    "pre",
    "section",
    "span",
    "strong",
    "table",
    "tbody",
    "td",
    "th",
    "thead",
    "tr",
    "ul",
];
const VOID: &[&str] = &["br", "hr", "input"];
const ATTRIBUTES: &[&str] = &[
    "aria-label",
    "aria-pressed",
    "checked",
    "class",
    "colspan",
    "data-change",
    "data-diff-layout",
    "disabled",
    "href",
    "rel",
    "role",
    "scope",
    "start",
    "tabindex",
    "target",
    "title",
    "type",
];

/// Panics unless every tag is known, closed in order, and has only known attributes and allowed addresses.
#[track_caller]
fn assert_safe(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html;
    while let Some(start) = rest.find('<') {
        rest = &rest[start + 1..];
        let end = tag_end(rest).unwrap_or_else(|| panic!("an open tag: {html}"));
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "{html}");
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        assert!(ELEMENTS.contains(&name), "<{name}> in {html}");
        check_attributes(attributes, html);
        if !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "{html}");
    let is_hidden =
        |c: char| c.is_control() && !matches!(c, '\n' | '\t') || ('\u{202A}'..='\u{202E}').contains(&c);
    assert!(!html.contains(is_hidden), "{html:?}");
}

/// Returns where a tag ends: at the first `>` outside of quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut is_quoted = false;
    text.char_indices().find_map(|(at, c)| {
        is_quoted ^= c == '"';
        (c == '>' && !is_quoted).then_some(at)
    })
}

#[track_caller]
fn check_attributes(mut attributes: &str, html: &str) {
    while !attributes.trim().is_empty() {
        attributes = attributes.trim_start();
        let end = attributes.find([' ', '=']).unwrap_or(attributes.len());
        let (name, rest) = attributes.split_at(end);
        assert!(ATTRIBUTES.contains(&name), "{name} in {html}");
        let Some(value) = rest.strip_prefix("=\"") else {
            attributes = rest;
            continue;
        };
        let (value, rest) = value.split_once('"').unwrap();
        assert!(!value.contains(['<', '>']), "{value} in {html}");
        if name == "href" {
            let is_allowed =
                ["http://", "https://", "mailto:", "/d?"].iter().any(|scheme| value.starts_with(scheme));
            assert!(is_allowed, "{value} in {html}");
        }
        attributes = rest;
    }
}

/// Text in which the characters that matter are frequent.
fn hostile() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "<",
        ">",
        "\"",
        "'",
        "&",
        "</code>",
        "<script>",
        "onload=",
        "javascript:",
        "data:",
        "](",
        "[",
        "![",
        "*",
        "_",
        "`",
        "```",
        "\n",
        "\r",
        "\n\n",
        "> ",
        "- ",
        "1. ",
        "|",
        "|-|-|",
        "# ",
        "\x1b[",
        "31m",
        "\x1b]0;",
        "\x07",
        "\u{202e}",
        "\u{200b}",
        "\u{9b}",
        "@@ -1,2 +1,2 @@",
        "--- a/x.rs",
        "+++ b/x.rs",
        "diff --git a/a b/a",
        "+",
        "-",
        " ",
        "/*",
        "*/",
        "//",
        "\\",
        "é",
        "fn",
        "0x1",
        "https://a.b/",
        "<https://a>",
        "&#60;",
    ]);
    let piece = prop_oneof![9 => pieces.prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn text_is_safe(source in hostile()) {
        assert_safe(&visible(&source).into_string());
    }

    #[test]
    fn markdown_is_safe(source in hostile()) {
        assert_safe(&markdown(&source).into_string());
    }

    #[test]
    fn output_is_safe(source in hostile(), first in 0usize..4, last in 0usize..4) {
        assert_safe(&ansi::output(&source, OutputLines::All).html.into_string());
        assert_safe(&ansi::output(&source, OutputLines::Ends { first, last }).html.into_string());
        let _ = ansi::plain(&source);
    }

    #[test]
    fn code_is_safe_and_complete(source in hostile(), index in 0..languages::LANGUAGES.len()) {
        let language = &languages::LANGUAGES[index];
        assert_safe(&highlight::code(&source, Some(language)).into_string());
        let mut highlighter = highlight::Highlighter::new(Some(language));
        for line in source.split('\n') {
            let mut end = 0;
            for (range, _) in highlighter.line(line) {
                prop_assert!(range.start >= end && range.start < range.end);
                prop_assert!(line.get(range.clone()).is_some());
                end = range.end;
            }
        }
    }

    #[test]
    fn diffs_are_safe(source in hostile(), rows in 0usize..10, is_split: bool, file in hostile()) {
        let layout = if is_split { DiffLayout::SideBySide } else { DiffLayout::Unified };
        let text = format!("--- a/x.rs\n+++ b/x.rs\n@@ -1,4 +1,4 @@\n{source}");
        for text in [source, text] {
            for diff in diff::parse(&text) {
                let diff = diff.with_file(&file);
                assert_safe(&diff::view(&diff, DiffView { layout, max_rows: rows, number: 0, address: "/d" }).into_string());
            }
        }
    }
}
