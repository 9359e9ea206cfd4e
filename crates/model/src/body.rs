//! Request bodies assembled from shared pieces.
//!
//! Large pieces (a segment of the history, the instructions) are not copied. Small ones are copied together, because
//! a system call per piece would cost more than the copy.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;

/// Smaller bodies are not worth compressing.
const MIN_COMPRESSED_LEN: u64 = 16 * 1024;

/// Pieces of at least this size are not copied.
const MIN_SHARED_LEN: usize = 2048;

/// A finished body. Clones share the bytes, so a retry copies nothing.
#[derive(Clone, Debug)]
pub(crate) struct RequestBody {
    chunks: Arc<[Bytes]>,
    len: u64,
    encoding: BodyEncoding,
}

/// The `content-encoding` of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyEncoding {
    Plain,
    Zstd,
}

impl RequestBody {
    pub fn builder() -> BodyBuilder {
        BodyBuilder { chunks: Vec::new(), unfinished: BytesMut::new() }
    }

    pub fn encoding(&self) -> BodyEncoding {
        self.encoding
    }

    /// Returns the body compressed with zstd, or as it is if it is small.
    pub async fn compressed(self) -> Self {
        if self.len < MIN_COMPRESSED_LEN {
            return self;
        }
        let plain = self.chunks.concat();
        // Takes milliseconds for a long history.
        let compress = move || compress_to_vec(plain.as_slice(), CompressionLevel::Fastest);
        match tokio::task::spawn_blocking(compress).await {
            Ok(bytes) => {
                Self { len: bytes.len() as u64, chunks: [bytes.into()].into(), encoding: BodyEncoding::Zstd }
            }
            Err(_) => self,
        }
    }

    /// Returns the body in the form that the HTTP client sends.
    pub fn to_stream(&self) -> BodyStream {
        BodyStream { body: self.clone(), next: 0, remaining: self.len }
    }

    #[cfg(test)]
    pub fn chunks(&self) -> &[Bytes] {
        &self.chunks
    }

    #[cfg(test)]
    pub fn to_json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.chunks.concat()).expect("a body is JSON")
    }
}

pub(crate) struct BodyBuilder {
    chunks: Vec<Bytes>,
    /// Small pieces that are not in a chunk yet.
    unfinished: BytesMut,
}

impl BodyBuilder {
    /// Adds JSON text.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.unfinished.put_slice(text.as_bytes());
        self
    }

    /// Adds a piece without copying it if it is large.
    pub fn shared(&mut self, bytes: Bytes) -> &mut Self {
        if bytes.len() < MIN_SHARED_LEN {
            self.unfinished.put_slice(&bytes);
        } else {
            self.finish_chunk();
            self.chunks.push(bytes);
        }
        self
    }

    /// Adds a value as JSON. `null` stands in for a value that cannot be serialised, which does not occur.
    pub fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> &mut Self {
        match serde_json::to_vec(value) {
            Ok(json) => self.shared(json.into()),
            Err(_) => self.raw("null"),
        }
    }

    /// Adds `,"key":value`.
    pub fn member<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> &mut Self {
        self.raw(",\"").raw(key).raw("\":").json(value)
    }

    pub fn finish(mut self) -> RequestBody {
        self.finish_chunk();
        let len = self.chunks.iter().map(|chunk| chunk.len() as u64).sum();
        RequestBody { chunks: self.chunks.into(), len, encoding: BodyEncoding::Plain }
    }

    fn finish_chunk(&mut self) {
        if !self.unfinished.is_empty() {
            self.chunks.push(self.unfinished.split().freeze());
        }
    }
}

/// Yields the chunks in order; the total length is known.
pub(crate) struct BodyStream {
    body: RequestBody,
    next: usize,
    remaining: u64,
}

impl http_body::Body for BodyStream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let chunk = self.body.chunks.get(self.next).cloned();
        self.next += 1;
        self.remaining -= chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.remaining == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.remaining)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn large_bodies_are_compressed() {
        let mut small = RequestBody::builder();
        small.raw("{}");
        assert_eq!(small.finish().compressed().await.encoding(), BodyEncoding::Plain);

        let text = "The quick brown fox. ".repeat(5000);
        let mut large = RequestBody::builder();
        large.json(&text);
        let plain = large.finish();
        let compressed = plain.clone().compressed().await;
        assert_eq!(compressed.encoding(), BodyEncoding::Zstd);
        assert!(compressed.len < plain.len / 10);
        let packed = compressed.chunks.concat();
        let mut unpacked = Vec::new();
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(packed.as_slice()).unwrap();
        std::io::Read::read_to_end(&mut decoder, &mut unpacked).unwrap();
        assert_eq!(unpacked, plain.chunks.concat());
    }

    #[test]
    fn large_pieces_are_not_copied() {
        let large = Bytes::from(vec![b'x'; MIN_SHARED_LEN]);
        let mut body = RequestBody::builder();
        body.raw("a").shared(Bytes::from_static(b"b")).shared(large.clone()).raw("c");
        let body = body.finish();
        assert_eq!(body.chunks().len(), 3);
        assert_eq!(body.chunks()[0], "ab");
        assert_eq!(body.chunks()[1].as_ptr(), large.as_ptr());
        assert_eq!(body.len, 3 + MIN_SHARED_LEN as u64);
    }
}
