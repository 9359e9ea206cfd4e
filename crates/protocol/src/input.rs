//! What a person puts into a turn, part by part.

use crate::wire;

/// One part of what a person puts into a turn.
#[wire(open, tag = "type")]
pub enum UserInput {
    Text {
        text: String,
        #[serde(default, rename = "text_elements")]
        text_elements: Vec<TextElement>,
    },
    Image {
        /// A web address or a `data:` URL.
        url: String,
    },
    /// An image that the server reads from its own disk.
    LocalImage { path: String },
    /// The skill meant by a `$name` in the text, so that nobody has to guess.
    Skill {
        name: String,
        /// Of its `SKILL.md`.
        path: String,
    },
    /// The app or plugin meant by a `$name` or `@name` in the text.
    Mention {
        name: String,
        /// `app://ID` or `plugin://NAME@MARKETPLACE`.
        path: String,
    },
}

/// A stretch of text that a client shows in its own way, such as a mention; kept for the client.
#[wire]
pub struct TextElement {
    pub byte_range: ByteRange,
    /// What to show there instead.
    pub placeholder: Option<String>,
}

/// Where a [`TextElement`] is, in bytes of the text as UTF-8; `end` is the first byte after it.
#[wire]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}
