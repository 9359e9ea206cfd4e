//! Where the output of a command goes: to the client as it comes, or into the answer.

use std::sync::Arc;

use codicil_exec::{Chunk, Exit, HeadTail, Output, Source};
use codicil_protocol::{CommandExecOutputDelta, CommandExecResponse, Notice};

use super::{
    Request,
    delta::{Cap, Head, Stream},
    request::Delivery,
};
use crate::{clients::Client, limits::MAX_BUFFERED_BYTES};

/// Takes the output of one command.
pub enum Sink {
    Answer { stdout: Kept, stderr: Kept },
    Client { client: Arc<Client>, stdout: Told, stderr: Told },
}

impl Sink {
    pub fn new(request: &Request, client: &Arc<Client>) -> Self {
        match request.delivery {
            Delivery::InAnswer => {
                Self::Answer { stdout: Kept::new(request.cap), stderr: Kept::new(request.cap) }
            }
            Delivery::AsItComes => {
                let id = request.process_id.as_deref().unwrap_or_default();
                let told = |stream| Told::new(Head::new(id, stream), request.cap);
                Self::Client {
                    client: client.clone(),
                    stdout: told(Stream::Stdout),
                    stderr: told(Stream::Stderr),
                }
            }
        }
    }

    /// Takes everything up to the end of the command. A client that reads slowly holds the command up; what
    /// is beyond a cap is read and dropped, so that it is not held up for nothing.
    pub async fn fill(&mut self, output: &mut Output) {
        while let Some(chunk) = output.next().await {
            self.take(chunk).await;
        }
    }

    async fn take(&mut self, Chunk { source, bytes }: Chunk) {
        match self {
            Self::Answer { stdout, stderr } => match source {
                Source::Stdout | Source::Terminal => stdout.text.push(&bytes),
                Source::Stderr => stderr.text.push(&bytes),
            },
            Self::Client { client, stdout, stderr } => {
                let stream = match source {
                    Source::Stdout | Source::Terminal => stdout,
                    Source::Stderr => stderr,
                };
                stream.tell(client, &bytes).await;
            }
        }
    }

    /// The answer, once the command has ended.
    pub fn finish(self, exit: Exit) -> CommandExecResponse {
        let (stdout, stderr) = match self {
            Self::Answer { stdout, stderr } => (stdout.finish(), stderr.finish()),
            Self::Client { .. } => Default::default(),
        };
        CommandExecResponse { exit_code: exit.code(), stdout, stderr }
    }
}

/// The beginning of a stream, for the answer.
pub struct Kept {
    text: HeadTail,
    /// What the client asked for is more than an answer can hold.
    is_cut_short: bool,
}

impl Kept {
    fn new(cap: Option<u64>) -> Self {
        let asked = cap.and_then(|cap| usize::try_from(cap).ok()).unwrap_or(usize::MAX);
        Self {
            text: HeadTail::split(asked.min(MAX_BUFFERED_BYTES), 0),
            is_cut_short: asked > MAX_BUFFERED_BYTES,
        }
    }

    /// Bytes that are not UTF-8 are replaced. Beyond the ceiling the text says so itself: the answer has no
    /// other place for it.
    fn finish(self) -> String {
        let omitted = self.text.omitted();
        let text = String::from_utf8(self.text.into_bytes());
        let mut text = text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        if self.is_cut_short && omitted > 0 {
            text.push_str(&format!(
                "\n[{omitted} more bytes were dropped: an answer holds at most {} MiB of a stream; \
                 set streamStdoutStderr to get all of it]\n",
                MAX_BUFFERED_BYTES >> 20
            ));
        }
        text
    }
}

/// A stream that the client is told of as it comes.
pub struct Told {
    head: Head,
    /// How much of the cap is left. `None`: there is none.
    left: Option<u64>,
    is_over: bool,
}

impl Told {
    fn new(head: Head, cap: Option<u64>) -> Self {
        Self { head, left: cap, is_over: false }
    }

    async fn tell(&mut self, client: &Client, bytes: &[u8]) {
        if self.is_over || !client.wants(CommandExecOutputDelta::NAME) {
            return;
        }
        let (bytes, cap) = self.within_cap(bytes);
        client.outbox.push_when_room(&self.head.frame(bytes, cap)).await;
    }

    /// The chunk that reaches the cap is the last one.
    fn within_cap<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], Cap) {
        let Some(left) = &mut self.left else { return (bytes, Cap::Open) };
        let length = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
        *left -= length as u64;
        self.is_over = *left == 0;
        let cap = if self.is_over { Cap::Reached } else { Cap::Open };
        (bytes.get(..length).unwrap_or_default(), cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_where_its_cap_is_reached() {
        let check = |cap, chunks: &[&str], expected: &[(&str, Cap)]| {
            let mut told = Told::new(Head::new("p", Stream::Stdout), cap);
            let mut said = Vec::new();
            for chunk in chunks {
                if !told.is_over {
                    said.push(told.within_cap(chunk.as_bytes()));
                }
            }
            let expected: Vec<_> = expected.iter().map(|(text, cap)| (text.as_bytes(), *cap)).collect();
            assert_eq!(said, expected, "{cap:?} {chunks:?}");
        };
        check(None, &["abc", "def"], &[("abc", Cap::Open), ("def", Cap::Open)]);
        check(Some(9), &["abc", "def"], &[("abc", Cap::Open), ("def", Cap::Open)]);
        check(Some(4), &["abc", "def", "ghi"], &[("abc", Cap::Open), ("d", Cap::Reached)]);
        check(Some(3), &["abc", "def"], &[("abc", Cap::Reached)]);
        check(Some(0), &["abc", "def"], &[("", Cap::Reached)]);
    }

    #[test]
    fn an_answer_says_what_it_had_to_leave_out() {
        let kept = |cap, bytes: &[u8]| {
            let mut kept = Kept::new(cap);
            kept.text.push(bytes);
            kept.finish()
        };
        assert_eq!(kept(Some(4), b"0123456789"), "0123");
        assert_eq!(kept(Some(0), b"0123456789"), "");
        assert_eq!(kept(None, b"a\xffb"), "a\u{fffd}b");
        let long = vec![b'x'; MAX_BUFFERED_BYTES + 3];
        for cap in [None, Some(u64::MAX), Some(MAX_BUFFERED_BYTES as u64 + 1)] {
            let text = kept(cap, &long);
            let (head, note) = text.split_at(MAX_BUFFERED_BYTES);
            assert!(head.bytes().all(|byte| byte == b'x'));
            assert!(
                note.starts_with("\n[3 more bytes were dropped: an answer holds at most 32 MiB"),
                "{note}"
            );
        }
        assert_eq!(kept(Some(MAX_BUFFERED_BYTES as u64), &long).len(), MAX_BUFFERED_BYTES);
    }
}
