//! User input as a message for the model.
//!
//! Skills and mentions are not part of the message: the caller resolves them and adds separate messages, see
//! [`skill_message`](crate::skill_message).

use std::path::Path;

use codicil_protocol::{ContentItem, ImageDetail, ImageSource, ResponseItem, UserInput};

use crate::{
    image::{ImageError, MAX_IMAGE_BYTES, load_image_within},
    message::{message, text_part},
};

/// The maximum size of all image files of a message; providers reject larger requests.
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
    input.iter().any(|input| matches!(input, UserInput::LocalImage { .. }))
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
            UserInput::Image { source: ImageSource::Url { url }, detail } => {
                self.images += 1;
                self.push_image("<image>".to_owned(), url.clone(), detail.clone());
            }
            UserInput::LocalImage { path, detail } => {
                self.images += 1;
                self.add_file(path, detail.clone());
            }
            // Audio and files of the provider are refused before a turn takes them.
            UserInput::Image { .. }
            | UserInput::Audio { .. }
            | UserInput::LocalAudio { .. }
            | UserInput::Skill { .. }
            | UserInput::Mention { .. }
            | UserInput::Unrecognized(_) => {}
        }
    }

    fn add_file(&mut self, path: &str, detail: Option<ImageDetail>) {
        let number = self.images;
        match self.load(path) {
            Ok(url) => self.push_image(format!("<image name=[Image #{number}]>"), url, detail),
            Err(reason) => {
                let note = format!("[Image #{number} cannot be shown: {path}: {reason}]");
                self.content.push(text_part(note));
            }
        }
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

    fn push_image(&mut self, opening: String, image_url: String, detail: Option<ImageDetail>) {
        self.content.extend([
            text_part(opening),
            ContentItem::InputImage { image_url, detail },
            text_part("</image>"),
        ]);
    }
}
