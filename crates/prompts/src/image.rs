//! Image files as data URLs, for models to look at.
//!
//! Images are sent as they are: what is not one of the four formats that providers take, or is too large,
//! is refused with a reason. This reads files and blocks: call it where blocking is allowed.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};

/// The largest image file that is read; providers refuse larger ones.
pub const MAX_IMAGE_BYTES: u64 = 20 * 1024 * 1024;

/// Why an image cannot be shown to the model.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("not a file")]
    NotAFile,
    #[error("larger than {} MB", .0 / (1024 * 1024))]
    TooLarge(u64),
    /// Its message holds other images, which leave no room for it.
    #[error("the images of this message are too large together")]
    TooLargeTogether,
    #[error("not a PNG, JPEG, GIF or WebP image")]
    NotAnImage,
}

/// Reads an image file of at most [`MAX_IMAGE_BYTES`] and gives it as a `data:` URL.
pub fn read_image(file: File) -> Result<String, ImageError> {
    read_image_within(file, MAX_IMAGE_BYTES).map(|(url, _)| url)
}

/// The URL, and how large the file is.
pub(crate) fn load_image_within(path: &Path, limit: u64) -> Result<(String, u64), ImageError> {
    // Opening a pipe would wait for its other end.
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

/// How many bytes it takes to recognise an image.
const SIGNATURE: u64 = 12;

/// What an image is by its first bytes; names of files lie.
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
    fn images_are_known_by_their_first_bytes() {
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
    fn what_is_refused_says_why() {
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
