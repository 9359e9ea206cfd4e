//! Audio files as data URLs. Reads files and blocks.

use std::{
    fs::File,
    io::{self, Read},
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};

/// The reason why an audio file cannot be sent to the model.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AudioError {
    #[error("{0}")]
    Unreadable(#[from] io::Error),
    #[error("not a file")]
    NotAFile,
    #[error("larger than {} MB", .0 / (1024 * 1024))]
    TooLarge(u64),
    #[error("not a WAV, MP3, FLAC or Ogg file")]
    NotAudio,
}

/// Returns a file as a `data:` URL, and its size.
pub(crate) fn load_audio_within(path: &Path, limit: u64) -> Result<(String, u64), AudioError> {
    // Opening a named pipe would block.
    if !std::fs::metadata(path)?.is_file() {
        return Err(AudioError::NotAFile);
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    let kind = media_type(&bytes).ok_or(AudioError::NotAudio)?;
    let size = bytes.len() as u64;
    if size > limit {
        return Err(AudioError::TooLarge(limit));
    }
    Ok((format!("data:{kind};base64,{}", STANDARD.encode(bytes)), size))
}

/// Returns the media type from the first bytes, because file names can be wrong.
fn media_type(head: &[u8]) -> Option<&'static str> {
    let is_wave = head.starts_with(b"RIFF") && head.get(8..).is_some_and(|rest| rest.starts_with(b"WAVE"));
    // The first eleven bits of an MPEG frame are set; layer III has 01 in the two bits after the version.
    let is_mpeg_frame = matches!(head, [0xff, second, ..] if second & 0xe6 == 0xe2);
    match head {
        _ if is_wave => Some("audio/wav"),
        _ if head.starts_with(b"ID3") || is_mpeg_frame => Some("audio/mpeg"),
        _ if head.starts_with(b"fLaC") => Some("audio/flac"),
        _ if head.starts_with(b"OggS") => Some("audio/ogg"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn audio_is_identified_by_its_first_bytes() {
        let check = |head: &[u8], expected| assert_eq!(media_type(head), expected, "{head:?}");
        check(b"RIFF....WAVEfmt ", Some("audio/wav"));
        check(b"RIFF....WEBP", None);
        check(b"ID3\x04", Some("audio/mpeg"));
        check(b"\xff\xfb\x90", Some("audio/mpeg"));
        check(b"\xff\xf3", Some("audio/mpeg"));
        check(b"\xff\xd8\xff", None);
        check(b"fLaC", Some("audio/flac"));
        check(b"OggS", Some("audio/ogg"));
        check(b"text", None);
        check(b"", None);
    }
}
