//! Server-sent events, cut out of the bytes as they arrive.
//!
//! Written by hand because this is the hottest loop of a streamed turn: an event that lies whole in one
//! read is handed on as slices of that read, without a copy or an allocation. What a read leaves
//! unfinished is kept, and no byte is searched twice, so a megabyte on one line costs no more than a
//! megabyte on many.

use std::{borrow::Cow, ops::Range};

use memchr::memchr2;
use serde::Deserialize;

use crate::{
    ModelError,
    ceilings::{MAX_EVENT_BYTES, event_too_long},
};

#[derive(Default)]
pub(crate) struct SseParser {
    /// The unfinished event at the end of the last read.
    pending: Vec<u8>,
    cursor: EventCursor,
    /// The data of an event with several data lines.
    joined: Vec<u8>,
}

/// Where the parser stands within the bytes of the current event.
#[derive(Clone, Default)]
struct EventCursor {
    /// Where the current line starts.
    line: usize,
    /// The first byte that has not been searched for a line end.
    scan: usize,
    name: Range<usize>,
    data: Option<Range<usize>>,
    is_joined: bool,
    /// The last line ended in a carriage return; a line feed right after belongs to it.
    after_return: bool,
}

impl EventCursor {
    fn shift(&mut self, by: usize) {
        self.line -= by;
        self.scan -= by;
        self.name = self.name.start.saturating_sub(by)..self.name.end.saturating_sub(by);
        if let Some(data) = &mut self.data {
            *data = data.start.saturating_sub(by)..data.end.saturating_sub(by);
        }
    }
}

impl SseParser {
    /// Calls `each` with name and data of every event that `chunk` completes. Stops at its first error.
    pub fn feed<F>(&mut self, chunk: &[u8], mut each: F) -> Result<(), ModelError>
    where
        F: FnMut(&[u8], &[u8]) -> Result<(), ModelError>,
    {
        let mut rest = chunk;
        // Only the end of the unfinished event is copied to its beginning, never the whole read.
        while !self.pending.is_empty() && !rest.is_empty() {
            let cut = memchr2(b'\n', b'\r', rest).map_or(rest.len(), |at| at + 1);
            let (head, tail) = rest.split_at(cut);
            rest = tail;
            let mut bytes = std::mem::take(&mut self.pending);
            bytes.extend_from_slice(head);
            let done = self.run(&bytes, &mut each)?;
            bytes.drain(..done);
            self.pending = bytes;
            self.check_length()?;
        }
        if !rest.is_empty() {
            let done = self.run(rest, &mut each)?;
            self.pending.extend_from_slice(rest.get(done..).unwrap_or_default());
            self.check_length()?;
        }
        Ok(())
    }

    /// Calls `each` for an event that the end of the stream completes.
    pub fn finish<F>(&mut self, each: F) -> Result<(), ModelError>
    where
        F: FnMut(&[u8], &[u8]) -> Result<(), ModelError>,
    {
        if self.pending.is_empty() { Ok(()) } else { self.feed(b"\n\n", each) }
    }

    fn check_length(&self) -> Result<(), ModelError> {
        if self.pending.len() + self.joined.len() <= MAX_EVENT_BYTES { Ok(()) } else { Err(event_too_long()) }
    }

    /// Goes through `bytes`, which begin with the current event, and returns how many are done with.
    fn run<F>(&mut self, bytes: &[u8], each: &mut F) -> Result<usize, ModelError>
    where
        F: FnMut(&[u8], &[u8]) -> Result<(), ModelError>,
    {
        let mut at = std::mem::take(&mut self.cursor);
        let mut event_start = 0;
        loop {
            if at.after_return && at.line < bytes.len() {
                at.after_return = false;
                if bytes.get(at.line) == Some(&b'\n') {
                    // Nothing but the line end of the event before may lie between two events.
                    if event_start == at.line {
                        event_start += 1;
                    }
                    at.line += 1;
                    at.scan = at.line;
                }
            }
            let unseen = bytes.get(at.scan..).unwrap_or_default();
            let Some(found) = memchr2(b'\n', b'\r', unseen) else { break };
            let end = at.scan + found;
            at.after_return = bytes.get(end) == Some(&b'\r');
            let line = at.line..end;
            at.line = end + 1;
            at.scan = end + 1;
            if !line.is_empty() {
                self.field(bytes, line, &mut at);
                continue;
            }
            event_start = end + 1;
            let name = bytes.get(std::mem::take(&mut at.name)).unwrap_or_default();
            let data = at.data.take();
            if std::mem::take(&mut at.is_joined) {
                each(name, &self.joined)?;
                self.joined.clear();
            } else if let Some(data) = data.and_then(|data| bytes.get(data)) {
                each(name, data)?;
            }
        }
        at.scan = bytes.len();
        at.shift(event_start);
        self.cursor = at;
        Ok(event_start)
    }

    /// Takes note of one line of an event.
    fn field(&mut self, bytes: &[u8], line: Range<usize>, at: &mut EventCursor) {
        let text = bytes.get(line.clone()).unwrap_or_default();
        if let Some(value) = value_of(text, b"data:") {
            let value = line.end - value.len()..line.end;
            match at.data.clone() {
                None => at.data = Some(value),
                Some(first) => {
                    if !at.is_joined {
                        self.joined.clear();
                        self.joined.extend_from_slice(bytes.get(first).unwrap_or_default());
                        at.is_joined = true;
                    }
                    self.joined.push(b'\n');
                    self.joined.extend_from_slice(bytes.get(value).unwrap_or_default());
                }
            }
        } else if let Some(value) = value_of(text, b"event:") {
            at.name = line.end - value.len()..line.end;
        }
    }
}

/// An event's name. Some gateways drop the `event:` lines; then the data's `type` says the same.
pub(crate) fn event_name<'a>(name: &'a [u8], data: &'a [u8]) -> Cow<'a, [u8]> {
    #[derive(Deserialize)]
    struct TypedEvent<'a> {
        #[serde(rename = "type", borrow)]
        name: Cow<'a, str>,
    }

    if !name.is_empty() {
        return Cow::Borrowed(name);
    }
    match serde_json::from_slice::<TypedEvent<'_>>(data).map(|typed| typed.name) {
        Ok(Cow::Borrowed(name)) => Cow::Borrowed(name.as_bytes()),
        Ok(Cow::Owned(name)) => Cow::Owned(name.into_bytes()),
        Err(_) => Cow::Borrowed(b""),
    }
}

/// The value of a line of the given field, without the one space that may follow the colon.
fn value_of<'a>(line: &'a [u8], field: &[u8]) -> Option<&'a [u8]> {
    let value = line.strip_prefix(field)?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Events = Vec<(String, String)>;

    fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Events {
        let mut events = Events::new();
        let mut each = |name: &[u8], data: &[u8]| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            events.push((text(name), text(data)));
            Ok(())
        };
        let mut parser = SseParser::default();
        for chunk in chunks {
            parser.feed(chunk, &mut each).unwrap();
        }
        parser.finish(&mut each).unwrap();
        events
    }

    #[track_caller]
    fn check(text: &str, expected: &[(&str, &str)]) {
        let expected: Events =
            expected.iter().map(|(name, data)| ((*name).to_owned(), (*data).to_owned())).collect();
        assert_eq!(parse([text.as_bytes()]), expected, "{text:?} at once");
        assert_eq!(parse(text.as_bytes().chunks(1)), expected, "{text:?} byte by byte");
    }

    #[test]
    fn events_are_cut_out() {
        check("event: a\ndata: 1\n\ndata: 2\n\n", &[("a", "1"), ("", "2")]);
        check("data:no space\n\n", &[("", "no space")]);
        check("data:  two spaces\n\n", &[("", " two spaces")]);
        check("event: a\r\ndata: 1\r\n\r\nevent: b\r\ndata: 2\r\n\r\n", &[("a", "1"), ("b", "2")]);
        check("event: a\rdata: 1\r\rdata: 2\r\r", &[("a", "1"), ("", "2")]);
        check("data: 1\ndata: 2\ndata:\n\n", &[("", "1\n2\n")]);
        check(": keep-alive\n\n: again\ndata: 1\nid: 7\nretry: 5\n\n", &[("", "1")]);
        check("event: nothing\n\ndata: 1\n\n", &[("", "1")]);
        check("\n\n\ndata: 1\n\n\n\n", &[("", "1")]);
        check("data: the end is missing", &[("", "the end is missing")]);
        check("data: 1\n\ndata: 2\n", &[("", "1"), ("", "2")]);
        check("", &[]);
    }

    #[test]
    fn an_error_stops_the_stream() {
        let mut seen = 0;
        let result = SseParser::default().feed(b"data: 1\n\ndata: 2\n\n", |_, _| {
            seen += 1;
            Err(ModelError::ContextWindowExceeded)
        });
        assert_eq!((result, seen), (Err(ModelError::ContextWindowExceeded), 1));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_events(
            lines in prop::collection::vec("(data: ?|event: ?|: |id: |)[a-z{}\" ]{0,12}", 0..40),
            ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r\n", "\r", "\n\n", "\r\n\r\n"]), 40),
            cuts in prop::collection::vec(0.0..1.0f64, 0..30),
        ) {
            let text: String = lines.iter().zip(&ends).flat_map(|(line, end)| [line.as_str(), end]).collect();
            let bytes = text.as_bytes();
            let mut cuts: Vec<_> = cuts.iter().map(|cut| (cut * bytes.len() as f64) as usize).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]);
            prop_assert_eq!(parse(pieces), parse([bytes]));
        }
    }
}
