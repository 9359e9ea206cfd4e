//! A request body put together from shared pieces.
//!
//! Large pieces (a segment of the history, the instructions) stay where they are; small ones are copied
//! together, because a system call per piece would cost more than the copy.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::{BufMut, Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use serde::Serialize;

/// Pieces from this size on are not copied.
const LARGE: usize = 2048;

/// A finished body. Clones share the bytes, so that a retry costs nothing.
#[derive(Clone, Debug)]
pub(crate) struct RequestBody {
    chunks: Arc<[Bytes]>,
    len: u64,
}

impl RequestBody {
    pub fn builder() -> BodyBuilder {
        BodyBuilder { chunks: Vec::new(), open: BytesMut::new() }
    }

    /// The body as something that can be sent.
    pub fn to_stream(&self) -> BodyStream {
        BodyStream { body: self.clone(), next: 0, left: self.len }
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
    open: BytesMut,
}

impl BodyBuilder {
    /// Adds JSON that is written out already.
    pub fn raw(&mut self, text: &str) -> &mut Self {
        self.open.put_slice(text.as_bytes());
        self
    }

    /// Adds a piece that others share.
    pub fn shared(&mut self, bytes: Bytes) -> &mut Self {
        if bytes.len() < LARGE {
            self.open.put_slice(&bytes);
        } else {
            self.close();
            self.chunks.push(bytes);
        }
        self
    }

    /// Adds a value. Values of our own making always have a JSON form; `null` is only a formality.
    pub fn json<T: Serialize + ?Sized>(&mut self, value: &T) -> &mut Self {
        match serde_json::to_vec(value) {
            Ok(json) => self.shared(json.into()),
            Err(_) => self.raw("null"),
        }
    }

    /// Adds `"key":value`, with a comma in front.
    pub fn member<T: Serialize + ?Sized>(&mut self, key: &str, value: &T) -> &mut Self {
        self.raw(",\"").raw(key).raw("\":").json(value)
    }

    pub fn finish(mut self) -> RequestBody {
        self.close();
        let len = self.chunks.iter().map(|chunk| chunk.len() as u64).sum();
        RequestBody { chunks: self.chunks.into(), len }
    }

    fn close(&mut self) {
        if !self.open.is_empty() {
            self.chunks.push(self.open.split().freeze());
        }
    }
}

/// Sends the chunks one after the other, under a known length.
pub(crate) struct BodyStream {
    body: RequestBody,
    next: usize,
    left: u64,
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
        self.left -= chunk.as_ref().map_or(0, |chunk| chunk.len() as u64);
        Poll::Ready(chunk.map(|chunk| Ok(Frame::data(chunk))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_pieces_keep_their_place_in_memory() {
        let large = Bytes::from(vec![b'x'; LARGE]);
        let mut body = RequestBody::builder();
        body.raw("a").shared(Bytes::from_static(b"b")).shared(large.clone()).raw("c");
        let body = body.finish();
        assert_eq!(body.chunks().len(), 3);
        assert_eq!(body.chunks()[0], "ab");
        assert_eq!(body.chunks()[1].as_ptr(), large.as_ptr());
        assert_eq!(body.len, 3 + LARGE as u64);
    }
}
