//! The parts of user input.

use crate::wire;

/// A part of user input.
#[wire(open, tag = "type")]
pub enum UserInput {
    Text {
        text: String,
        #[serde(default, rename = "text_elements")]
        text_elements: Vec<TextElement>,
    },
    Image {
        /// An `http(s):` or `data:` URL.
        url: String,
    },
    /// An image file that the server reads.
    LocalImage { path: String },
    /// The skill that a `$name` in the text refers to.
    Skill {
        name: String,
        /// The path of its `SKILL.md`.
        path: String,
    },
    /// The app or plugin that a `$name` or `@name` in the text refers to.
    Mention {
        name: String,
        /// `app://ID` or `plugin://NAME@MARKETPLACE`.
        path: String,
    },
}

/// A range of text that a client displays differently, such as a mention. The server only stores it.
#[wire]
pub struct TextElement {
    pub byte_range: ByteRange,
    /// The text to display instead.
    pub placeholder: Option<String>,
}

/// A range of UTF-8 bytes; `end` is exclusive.
#[wire]
pub struct ByteRange {
    pub start: u64,
    pub end: u64,
}
