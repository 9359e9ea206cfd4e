//! Bodies of answers, read up to a ceiling.

use reqwest::Response;

/// A body, or `None` if it is longer than that.
pub(crate) async fn read_within(
    mut response: Response,
    most: usize,
) -> Result<Option<Vec<u8>>, reqwest::Error> {
    let announced = response.content_length().unwrap_or_default();
    if usize::try_from(announced).is_ok_and(|announced| announced > most) {
        return Ok(None);
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len().saturating_add(chunk.len()) > most {
            return Ok(None);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Some(body))
}
