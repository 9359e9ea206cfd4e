//! Response bodies read up to a limit, so that a server cannot fill this process's memory.

use std::time::Duration;

use http_body_util::BodyExt;
use reqwest::{Body, Response};
use tokio::time::timeout;

/// The reason why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub enum BodyError {
    /// The body, or its announced length, exceeds the limit.
    #[error("the response is too large")]
    TooLarge,
    /// The connection failed. The error holds no URL.
    #[error("{0}")]
    Transport(reqwest::Error),
}

/// Reads a whole body of at most `max_bytes`.
pub async fn read_body(mut response: Response, max_bytes: usize) -> Result<Vec<u8>, BodyError> {
    let announced = response.content_length().unwrap_or_default();
    if usize::try_from(announced).is_ok_and(|announced| announced > max_bytes) {
        return Err(BodyError::TooLarge);
    }
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|error| BodyError::Transport(error.without_url()))?
    {
        if body.len().saturating_add(chunk.len()) > max_bytes {
            return Err(BodyError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Reads the first `max_bytes` of a body as text, or less if it takes longer than `max_time`. For the bodies of
/// error responses, where part of an explanation is better than none.
pub async fn read_text_prefix(mut body: Body, max_bytes: usize, max_time: Duration) -> String {
    let mut bytes = Vec::new();
    let reading = async {
        while bytes.len() < max_bytes
            && let Some(Ok(frame)) = body.frame().await
        {
            if let Ok(data) = frame.into_data() {
                let room = max_bytes - bytes.len();
                bytes.extend_from_slice(data.get(..room).unwrap_or(&data));
            }
        }
    };
    // What arrived before the deadline is kept.
    let _ = timeout(max_time, reading).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(body: &'static str) -> Response {
        http::Response::new(body).into()
    }

    #[tokio::test]
    async fn a_body_over_the_limit_is_refused() {
        assert_eq!(read_body(response("12345"), 5).await.unwrap(), b"12345");
        assert!(matches!(read_body(response("123456"), 5).await, Err(BodyError::TooLarge)));
        assert_eq!(read_body(response(""), 0).await.unwrap(), b"");
    }

    #[tokio::test]
    async fn a_prefix_ends_at_the_limit() {
        let prefix = |max| read_text_prefix(Body::from("12345"), max, Duration::from_secs(10));
        assert_eq!(prefix(3).await, "123");
        assert_eq!(prefix(9).await, "12345");
    }
}
