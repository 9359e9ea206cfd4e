//! Foreign text never becomes a script or an event handler.
#![no_main]

use codicil_console::render::{
    ansi::{self, OutputLines},
    diff,
    markdown::markdown,
    text::visible,
};
use libfuzzer_sys::fuzz_target;

fn assert_harmless(html: &str) {
    // Quotes and brackets of text are escaped, so these can only stand in markup.
    for tag in ["<script", "<iframe", "<object", "<style", "<img", "<svg"] {
        assert!(!html.contains(tag), "{tag} in {html}");
    }
    assert!(!html.contains("href=\"javascript:"), "{html}");
    assert!(!html.contains("href=\"data:"), "{html}");
}

fuzz_target!(|text: &str| {
    assert_harmless(&markdown(text).into_string());
    assert_harmless(&visible(text).into_string());
    assert_harmless(&ansi::output(text, OutputLines::All).html.into_string());
    let _ = diff::parse(text);
});
