//! Image files as data URLs.
//!
//! Images are not converted: files that are too large or not in one of the four formats that providers accept are rejected.
//! Reads files and blocks.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};

/// The maximum size of an image file; providers reject larger ones.
pub const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;

/// The reason why an image cannot be sent to the model.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("not a file")]
    NotAFile,
    #[error("larger than {} MB", .0 / (1024 * 1024))]
    TooLarge(u64),
    /// The image exceeds the limit together with the other images of the message.
    #[error("the images of this message are too large together")]
    TooLargeTogether,
    #[error("not a PNG, JPEG, GIF or WebP image")]
    NotAnImage,
}

/// Reads an image file of at most [`MAX_IMAGE_BYTES`] and returns it as a `data:` URL.
pub fn read_image(file: File) -> Result<String, ImageError> {
    read_image_within(file, MAX_IMAGE_BYTES).map(|(url, _)| url)
}

/// Returns the URL and the size of the file.
pub(crate) fn load_image_within(path: &Path, limit: u64) -> Result<(String, u64), ImageError> {
    // Opening a named pipe would block.
    if !std::fs::metadata(path)?.is_file() {
        return Err(ImageError::NotAFile);
    }
    read_image_within(File::open(path)?, limit)
}

fn read_image_within(mut file: File, limit: u64) -> Result<(String, u64), ImageError> {
    if !file.metadata()?.is_file() {
        return Err(ImageError::NotAFile);
    }
    let mut head = Vec::new();
    file.by_ref().take(SIGNATURE).read_to_end(&mut head)?;
    let kind = media_type(&head).ok_or(ImageError::NotAnImage)?;
    let mut bytes = head;
    file.take((limit + 1).saturating_sub(SIGNATURE)).read_to_end(&mut bytes)?;
    let size = bytes.len() as u64;
    if size > limit {
        return Err(ImageError::TooLarge(limit));
    }
    Ok((format!("data:{kind};base64,{}", STANDARD.encode(bytes)), size))
}

/// The number of bytes that identify an image format.
const SIGNATURE: u64 = 12;

/// Returns the media type from the first bytes, because file names can be wrong.
fn media_type(head: &[u8]) -> Option<&'static str> {
    let is_webp = head.starts_with(b"RIFF") && head.get(8..).is_some_and(|rest| rest.starts_with(b"WEBP"));
    match head {
        _ if head.starts_with(b"\x89PNG\r\n\x1a\n") => Some("image/png"),
        _ if head.starts_with(b"\xff\xd8\xff") => Some("image/jpeg"),
        _ if head.starts_with(b"GIF87a") || head.starts_with(b"GIF89a") => Some("image/gif"),
        _ if is_webp => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_identified_by_their_first_bytes() {
        let check = |head: &[u8], expected| assert_eq!(media_type(head), expected, "{head:?}");
        check(b"\x89PNG\r\n\x1a\n....", Some("image/png"));
        check(b"\xff\xd8\xff\xe0........", Some("image/jpeg"));
        check(b"GIF87a......", Some("image/gif"));
        check(b"GIF89a", Some("image/gif"));
        check(b"RIFF....WEBP", Some("image/webp"));
        check(b"RIFF....WAVE", None);
        check(b"RIFF", None);
        check(b"<svg", None);
        check(b"", None);
    }

    #[test]
    fn an_image_becomes_a_data_url() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, b"GIF89a and more").unwrap();
        assert_eq!(
            read_image(File::open(&path).unwrap()).unwrap(),
            format!("data:image/gif;base64,{}", STANDARD.encode("GIF89a and more"))
        );
        assert_eq!(
            load_image_within(&path, 15).unwrap(),
            (read_image(File::open(&path).unwrap()).unwrap(), 15)
        );
    }

    #[test]
    fn rejected_images_have_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.gif");
        std::fs::write(&path, b"GIF89a and more").unwrap();
        let reason = |path: &Path, limit| load_image_within(path, limit).unwrap_err().to_string();
        assert_eq!(reason(&path, 14), "larger than 0 MB");
        assert_eq!(reason(&path, 5), "larger than 0 MB");
        assert_eq!(ImageError::TooLarge(MAX_IMAGE_BYTES).to_string(), "larger than 20 MB");
        std::fs::write(&path, b"words").unwrap();
        assert_eq!(reason(&path, 100), "not a PNG, JPEG, GIF or WebP image");
        assert_eq!(reason(folder.path(), 100), "not a file");
        assert!(reason(&folder.path().join("none"), 100).contains("No such file"));
    }
}
