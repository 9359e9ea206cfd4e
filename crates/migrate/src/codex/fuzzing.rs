//! Entry points of the fuzz targets in `fuzz/`.

use super::{convert::RolloutConverter, head::RolloutHead, rollout::RolloutLine};

/// Converts the lines of a rollout. The first one may be anything; then a valid one is used instead.
pub fn convert_lines(text: &str) {
    const HEAD: &str = r#"{"timestamp":"2026-01-01T00:00:00Z","type":"session_meta","payload":{"id":"01984de2-8f74-7c91-a3b2-5c5e937cf318","timestamp":"2026-01-01T00:00:00Z","cwd":"/w"}}"#;
    let first = text.lines().next().unwrap_or_default();
    let Ok(head) = RolloutHead::parse(first).or_else(|_| RolloutHead::parse(HEAD)) else { return };
    let mut converter = RolloutConverter::new(&head);
    converter.begin();
    for line in text.lines().filter_map(RolloutLine::parse) {
        converter.entry(line.entry);
    }
}
