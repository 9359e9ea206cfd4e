//! An incremental parser for server-sent events.
//!
//! Written by hand because this is the hottest loop of a streamed turn: an event that lies in one read is passed
//! on as slices of that read, without a copy or an allocation. The unfinished rest of a read is kept, and no byte
//! is searched twice, so that a megabyte on one line costs no more than a megabyte on many. Only `event` and
//! `data` are read; the `id` and `retry` fields are skipped, since no model provider resumes a stream.

use std::ops::Range;

use memchr::memchr2;

/// An event exceeds the parser's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event has more than {max_bytes} bytes")]
pub struct EventTooLong {
    pub max_bytes: usize,
}

/// Splits the bytes of a stream into events.
pub struct SseParser {
    max_event_bytes: usize,
    /// The unfinished event at the end of the last read.
    pending: Vec<u8>,
    cursor: EventCursor,
    /// The data of an event with several `data` lines.
    joined: Vec<u8>,
}

/// The parser's position within the bytes of the current event.
#[derive(Clone, Default)]
struct EventCursor {
    /// Start of the current line.
    line: usize,
    /// The first byte that has not been searched for a line end.
    scan: usize,
    name: Range<usize>,
    data: Option<Range<usize>>,
    is_joined: bool,
    /// The last line ended with a carriage return. A line feed that follows belongs to the same line end.
    after_return: bool,
}

impl EventCursor {
    #[inline]
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
    /// Creates a parser that fails on an event of more than `max_event_bytes`.
    pub fn new(max_event_bytes: usize) -> Self {
        Self { max_event_bytes, pending: Vec::new(), cursor: EventCursor::default(), joined: Vec::new() }
    }

    /// Calls `on_event` with the name and data of every event that `chunk` completes. Stops at the first error.
    pub fn feed<E, F>(&mut self, chunk: &[u8], mut on_event: F) -> Result<(), E>
    where
        E: From<EventTooLong>,
        F: FnMut(&[u8], &[u8]) -> Result<(), E>,
    {
        let mut rest = chunk;
        // Only the rest of the unfinished event is copied, line by line, never the whole read.
        while !self.pending.is_empty() && !rest.is_empty() {
            let cut = memchr2(b'\n', b'\r', rest).map_or(rest.len(), |at| at + 1);
            let (head, tail) = rest.split_at(cut);
            rest = tail;
            let mut bytes = std::mem::take(&mut self.pending);
            bytes.extend_from_slice(head);
            let done = self.run(&bytes, &mut on_event)?;
            bytes.drain(..done);
            self.pending = bytes;
            self.check_length()?;
        }
        if !rest.is_empty() {
            let done = self.run(rest, &mut on_event)?;
            self.pending.extend_from_slice(rest.get(done..).unwrap_or_default());
            self.check_length()?;
        }
        Ok(())
    }

    /// Calls `on_event` for an event that the end of the stream completes.
    pub fn finish<E, F>(&mut self, on_event: F) -> Result<(), E>
    where
        E: From<EventTooLong>,
        F: FnMut(&[u8], &[u8]) -> Result<(), E>,
    {
        if self.pending.is_empty() { Ok(()) } else { self.feed(b"\n\n", on_event) }
    }

    #[inline]
    fn check_length(&self) -> Result<(), EventTooLong> {
        let max_bytes = self.max_event_bytes;
        if self.pending.len() + self.joined.len() <= max_bytes {
            Ok(())
        } else {
            Err(EventTooLong { max_bytes })
        }
    }

    /// Parses `bytes`, which begin with the current event, and returns how many bytes belong to completed events.
    fn run<E, F>(&mut self, bytes: &[u8], on_event: &mut F) -> Result<usize, E>
    where
        F: FnMut(&[u8], &[u8]) -> Result<(), E>,
    {
        let mut at = std::mem::take(&mut self.cursor);
        let mut event_start = 0;
        loop {
            if at.after_return && at.line < bytes.len() {
                at.after_return = false;
                if bytes.get(at.line) == Some(&b'\n') {
                    // This line feed ends the previous event; the current one begins after it.
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
                self.record_line(bytes, line, &mut at);
                continue;
            }
            event_start = end + 1;
            let name = bytes.get(std::mem::take(&mut at.name)).unwrap_or_default();
            let data = at.data.take();
            if std::mem::take(&mut at.is_joined) {
                on_event(name, &self.joined)?;
                self.joined.clear();
            } else if let Some(data) = data.and_then(|data| bytes.get(data)) {
                on_event(name, data)?;
            }
        }
        at.scan = bytes.len();
        at.shift(event_start);
        self.cursor = at;
        Ok(event_start)
    }

    /// Records one line of an event.
    // Inlined so that it is optimised like the generic callers, which are compiled with the calling crate.
    #[inline]
    fn record_line(&mut self, bytes: &[u8], line: Range<usize>, at: &mut EventCursor) {
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

/// Returns the value of a line of the given field, without the one space that may follow the colon.
#[inline]
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
        let mut on_event = |name: &[u8], data: &[u8]| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            events.push((text(name), text(data)));
            Ok::<_, EventTooLong>(())
        };
        let mut parser = SseParser::new(1 << 20);
        for chunk in chunks {
            parser.feed(chunk, &mut on_event).unwrap();
        }
        parser.finish(&mut on_event).unwrap();
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
    fn events_are_split() {
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
    fn an_error_of_the_callback_stops_the_parser() {
        let error = EventTooLong { max_bytes: 7 };
        let mut calls = 0;
        let result = SseParser::new(100).feed(b"data: 1\n\ndata: 2\n\n", |_, _| {
            calls += 1;
            Err(error)
        });
        assert_eq!(result, Err(error));
        assert_eq!(calls, 1);
    }

    #[test]
    fn an_event_over_the_limit_is_an_error() {
        let ignore = |_: &[u8], _: &[u8]| Ok::<_, EventTooLong>(());
        let error = Err(EventTooLong { max_bytes: 16 });
        assert_eq!(SseParser::new(16).feed(b"data: 0123456789abcdef", ignore), error);
        assert_eq!(SseParser::new(16).feed(&b"data: x\n".repeat(10), ignore), error);
        assert_eq!(SseParser::new(16).feed(&b"data: x\n\n".repeat(10), ignore), Ok(()));
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
