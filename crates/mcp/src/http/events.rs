//! Streams of server-sent events, with a size limit for each event.
//!
//! The parser is the SDK's, not `codicil_http::SseParser`: the SDK's client trait is defined in the types of its
//! `sse_stream` crate, and it needs the `id` and `retry` fields to resume a stream. That parser has no limit, so
//! the size of an event is counted here, before it.

use std::{future::ready, io};

use bytes::Bytes;
use futures_util::{
    Stream, StreamExt,
    stream::{self, BoxStream},
};
use reqwest::Response;
use rmcp::model::ServerJsonRpcMessage;
use sse_stream::{Error as SseError, Sse, SseStream};

use crate::limits::MESSAGE_BYTES;

/// Returns the events of a response. An event that is too long ends the stream with `replacement` as the last event.
pub(super) fn events(
    response: Response,
    replacement: Option<ServerJsonRpcMessage>,
) -> BoxStream<'static, Result<Sse, SseError>> {
    let replacement = replacement.and_then(|message| serde_json::to_string(&message).ok());
    let events = SseStream::from_bytes_stream(bounded(chunks(response), MESSAGE_BYTES));
    let events = events.scan((false, replacement), |(has_ended, replacement), event| {
        if std::mem::replace(has_ended, event.is_err()) {
            return ready(None);
        }
        let is_too_long = event.as_ref().is_err_and(is_too_long);
        let replacement = replacement.take_if(|_| is_too_long);
        ready(Some(replacement.map_or(event, |data| Ok(Sse::default().data(data)))))
    });
    events.boxed()
}

fn chunks(response: Response) -> impl Stream<Item = io::Result<Bytes>> + Send {
    stream::unfold(Some(response), |response| async {
        let mut response = response?;
        match response.chunk().await {
            Ok(Some(chunk)) => Some((Ok(chunk), Some(response))),
            Ok(None) => None,
            Err(error) => Some((Err(io::Error::other(error.without_url())), None)),
        }
    })
}

/// Fails when more than `max_bytes` arrive without an empty line, which ends an event.
fn bounded(
    chunks: impl Stream<Item = io::Result<Bytes>> + Send,
    max_bytes: usize,
) -> impl Stream<Item = io::Result<Bytes>> + Send {
    let mut event = EventSize::default();
    chunks.map(move |chunk| {
        let chunk = chunk?;
        if event.add(&chunk) > max_bytes {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "an event is too long"));
        }
        Ok(chunk)
    })
}

fn is_too_long(error: &SseError) -> bool {
    let SseError::Body(error) = error else { return false };
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::FileTooLarge)
}

/// The size of the current event.
#[derive(Default)]
struct EventSize {
    size: usize,
    /// The current line is empty so far.
    line_is_empty: bool,
}

impl EventSize {
    /// Counts bytes and returns the largest size that an event has reached within them.
    fn add(&mut self, bytes: &[u8]) -> usize {
        let mut largest = 0;
        for byte in bytes {
            self.size = self.size.saturating_add(1);
            match byte {
                b'\n' | b'\r' if self.line_is_empty => self.size = 0,
                b'\n' => self.line_is_empty = true,
                b'\r' => {}
                _ => self.line_is_empty = false,
            }
            largest = largest.max(self.size);
        }
        largest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_measured_to_its_empty_line() {
        for end in ["\n", "\r\n"] {
            let mut size = EventSize::default();
            let event = format!("data: 12345{end}{end}");
            let largest = size.add(event.repeat(100).as_bytes());
            assert!(largest <= event.len(), "{largest}");
            assert!(size.add(&[b'x'; 1000]) >= 1000);
        }
    }
}
