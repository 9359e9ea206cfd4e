//! Tests of decoding, encoding and the published schema.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

/// Compares with a file of `tests/snapshots`.
macro_rules! snapshot {
    ($name:literal, $text:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.bind(|| insta::assert_snapshot!($name, $text));
    }};
}

mod envelope;
mod examples;
mod frames;
mod newer_peers;
mod patch;
mod schema;
mod spellings;
mod tables;
mod wire;
