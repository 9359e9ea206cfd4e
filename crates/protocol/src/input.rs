//! The parts of user input.

use crate::{ImageDetail, wire};

/// A part of user input.
#[wire(open, tag = "type")]
pub enum UserInput {
    Text {
        text: String,
        #[serde(default, rename = "text_elements")]
        text_elements: Vec<TextElement>,
    },
    Image {
        #[serde(flatten)]
        source: ImageSource,
        #[omit]
        #[since("0.166")]
        detail: Option<ImageDetail>,
    },
    /// An image file that the server reads.
    LocalImage {
        path: String,
        #[omit]
        #[since("0.166")]
        detail: Option<ImageDetail>,
    },
    #[since("0.166")]
    Audio {
        /// An `http(s):` or `data:` URL.
        url: String,
    },
    /// An audio file that the server reads.
    #[since("0.166")]
    LocalAudio { path: String },
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

impl UserInput {
    /// Returns an image with this URL.
    pub fn image(url: impl Into<String>) -> Self {
        Self::Image { source: ImageSource::Url { url: url.into() }, detail: None }
    }

    /// Returns an image file.
    pub fn local_image(path: impl Into<String>) -> Self {
        Self::LocalImage { path: path.into(), detail: None }
    }
}

/// Where an image is.
#[wire(untagged)]
#[schemars(inline)]
pub enum ImageSource {
    Url {
        /// An `http(s):` or `data:` URL.
        url: String,
    },
    /// A file that the provider has.
    #[since("0.166")]
    File { file_id: String },
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
