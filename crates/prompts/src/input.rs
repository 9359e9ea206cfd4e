//! User input as a message for the model.
//!
//! Skills and mentions are not part of the message: the caller resolves them and adds separate messages, see
//! [`skill_message`](crate::skill_message).

use std::path::Path;

use codicil_protocol::{ContentImage, ContentItem, ImageDetail, ImageSource, ResponseItem, UserInput};

use crate::{
    audio::load_audio_within,
    image::{ImageError, MAX_IMAGE_BYTES, load_image_within},
    message::{message, text_part},
};

/// The maximum size of all image and audio files of a message; providers reject larger requests.
pub const MAX_MESSAGE_IMAGE_BYTES: u64 = 40 * 1024 * 1024;

/// Returns the message for the model; `None` if the input has no content of its own, such as a single skill.
///
/// An image that cannot be read is replaced by a note. Relative paths are resolved against `cwd`. Blocks if the input contains
/// image files, see [`reads_files`].
pub fn user_message(input: &[UserInput], cwd: &Path) -> Option<ResponseItem> {
    let mut parts =
        InputParts { cwd, content: Vec::new(), images: 0, remaining_bytes: MAX_MESSAGE_IMAGE_BYTES };
    input.iter().for_each(|input| parts.add(input));
    (!parts.content.is_empty()).then(|| message("user", parts.content))
}

/// Returns whether [`user_message`] reads files for this input.
pub fn reads_files(input: &[UserInput]) -> bool {
    input.iter().any(|input| matches!(input, UserInput::LocalImage { .. } | UserInput::LocalAudio { .. }))
}

struct InputParts<'a> {
    cwd: &'a Path,
    content: Vec<ContentItem>,
    /// The number of images of both kinds so far.
    images: usize,
    /// The remaining size for image files.
    remaining_bytes: u64,
}

impl InputParts<'_> {
    fn add(&mut self, input: &UserInput) {
        match input {
            UserInput::Text { text, .. } => self.content.push(text_part(text)),
            UserInput::Image { source, detail } => {
                self.images += 1;
                let source = match source.clone() {
                    ImageSource::Url { url } => ContentImage::Url { image_url: url },
                    ImageSource::File { file_id } => ContentImage::File { file_id },
                };
                self.push_image("<image>".to_owned(), source, detail.clone());
            }
            UserInput::LocalImage { path, detail } => {
                self.images += 1;
                self.add_file(path, detail.clone());
            }
            UserInput::Audio { url } => self.content.push(ContentItem::InputAudio { audio_url: url.clone() }),
            UserInput::LocalAudio { path } => self.add_audio_file(path),
            UserInput::Skill { .. } | UserInput::Mention { .. } | UserInput::Unrecognized(_) => {}
        }
    }

    fn add_file(&mut self, path: &str, detail: Option<ImageDetail>) {
        let number = self.images;
        match self.load(path) {
            Ok(image_url) => {
                let source = ContentImage::Url { image_url };
                self.push_image(format!("<image name=[Image #{number}]>"), source, detail);
            }
            Err(reason) => {
                let note = format!("[Image #{number} cannot be shown: {path}: {reason}]");
                self.content.push(text_part(note));
            }
        }
    }

    fn add_audio_file(&mut self, path: &str) {
        let limit = MAX_IMAGE_BYTES.min(self.remaining_bytes);
        self.content.push(match load_audio_within(&self.cwd.join(path), limit) {
            Ok((audio_url, size)) => {
                self.remaining_bytes -= size;
                ContentItem::InputAudio { audio_url }
            }
            Err(reason) => text_part(format!("[Audio cannot be heard: {path}: {reason}]")),
        });
    }

    fn load(&mut self, path: &str) -> Result<String, ImageError> {
        let limit = MAX_IMAGE_BYTES.min(self.remaining_bytes);
        let (url, size) = load_image_within(&self.cwd.join(path), limit).map_err(|error| match error {
            ImageError::TooLarge(_) if limit < MAX_IMAGE_BYTES => ImageError::TooLargeTogether,
            other => other,
        })?;
        self.remaining_bytes -= size;
        Ok(url)
    }

    fn push_image(&mut self, opening: String, source: ContentImage, detail: Option<ImageDetail>) {
        self.content.extend([
            text_part(opening),
            ContentItem::InputImage { source, detail },
            text_part("</image>"),
        ]);
    }
}
