//! Where the output of a command goes: to the client as it comes, or into the answer.

use std::sync::Arc;

use codicil_exec::{HeadTail, OutputChunk, OutputSource, ProcessExit, ProcessOutput};
use codicil_protocol::{CommandExecOutputDelta, CommandExecResponse, NotificationMethod};

use super::{
    ExecRequest,
    delta::{CommandStream, DeltaHead, StreamCap},
    request::OutputDelivery,
};
use crate::{clients::ConnectedClient, limits::MAX_BUFFERED_BYTES};

/// Takes the output of one command.
pub enum OutputSink {
    Answer { stdout: KeptOutput, stderr: KeptOutput },
    Client { client: Arc<ConnectedClient>, stdout: StreamedOutput, stderr: StreamedOutput },
}

impl OutputSink {
    pub fn new(request: &ExecRequest, client: &Arc<ConnectedClient>) -> Self {
        match request.delivery {
            OutputDelivery::InAnswer => {
                Self::Answer { stdout: KeptOutput::new(request.cap), stderr: KeptOutput::new(request.cap) }
            }
            OutputDelivery::AsItComes => {
                let id = request.process_id.as_deref().unwrap_or_default();
                let told = |stream| StreamedOutput::new(DeltaHead::new(id, stream), request.cap);
                Self::Client {
                    client: client.clone(),
                    stdout: told(CommandStream::Stdout),
                    stderr: told(CommandStream::Stderr),
                }
            }
        }
    }

    /// Takes everything up to the end of the command. A client that reads slowly holds the command up; what
    /// is beyond a cap is read and dropped, so that it is not held up for nothing.
    pub async fn fill(&mut self, output: &mut ProcessOutput) {
        while let Some(chunk) = output.next().await {
            self.take(chunk).await;
        }
    }

    async fn take(&mut self, OutputChunk { source, bytes }: OutputChunk) {
        match self {
            Self::Answer { stdout, stderr } => match source {
                OutputSource::Stdout | OutputSource::Terminal => stdout.text.push(&bytes),
                OutputSource::Stderr => stderr.text.push(&bytes),
            },
            Self::Client { client, stdout, stderr } => {
                let stream = match source {
                    OutputSource::Stdout | OutputSource::Terminal => stdout,
                    OutputSource::Stderr => stderr,
                };
                stream.tell(client, &bytes).await;
            }
        }
    }

    /// The answer, once the command has ended.
    pub fn finish(self, exit: ProcessExit) -> CommandExecResponse {
        let (stdout, stderr) = match self {
            Self::Answer { stdout, stderr } => (stdout.finish(), stderr.finish()),
            Self::Client { .. } => Default::default(),
        };
        CommandExecResponse { exit_code: exit.code(), stdout, stderr }
    }
}

/// The beginning of a stream, for the answer.
pub struct KeptOutput {
    text: HeadTail,
    /// What the client asked for is more than an answer can hold.
    is_cut_short: bool,
}

impl KeptOutput {
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
pub struct StreamedOutput {
    head: DeltaHead,
    /// How much of the cap is left. `None`: there is none.
    left: Option<u64>,
    is_over: bool,
}

impl StreamedOutput {
    fn new(head: DeltaHead, cap: Option<u64>) -> Self {
        Self { head, left: cap, is_over: false }
    }

    async fn tell(&mut self, client: &ConnectedClient, bytes: &[u8]) {
        if self.is_over || !client.wants(CommandExecOutputDelta::NAME) {
            return;
        }
        let (bytes, cap) = self.within_cap(bytes);
        client.outbox.push_when_room(&self.head.frame(bytes, cap)).await;
    }

    /// The chunk that reaches the cap is the last one.
    fn within_cap<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], StreamCap) {
        let Some(left) = &mut self.left else { return (bytes, StreamCap::Open) };
        let length = usize::try_from(*left).map_or(bytes.len(), |left| left.min(bytes.len()));
        *left -= length as u64;
        self.is_over = *left == 0;
        let cap = if self.is_over { StreamCap::Reached } else { StreamCap::Open };
        (bytes.get(..length).unwrap_or_default(), cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_ends_where_its_cap_is_reached() {
        let check = |cap, chunks: &[&str], expected: &[(&str, StreamCap)]| {
            let mut told = StreamedOutput::new(DeltaHead::new("p", CommandStream::Stdout), cap);
            let mut said = Vec::new();
            for chunk in chunks {
                if !told.is_over {
                    said.push(told.within_cap(chunk.as_bytes()));
                }
            }
            let expected: Vec<_> = expected.iter().map(|(text, cap)| (text.as_bytes(), *cap)).collect();
            assert_eq!(said, expected, "{cap:?} {chunks:?}");
        };
        check(None, &["abc", "def"], &[("abc", StreamCap::Open), ("def", StreamCap::Open)]);
        check(Some(9), &["abc", "def"], &[("abc", StreamCap::Open), ("def", StreamCap::Open)]);
        check(Some(4), &["abc", "def", "ghi"], &[("abc", StreamCap::Open), ("d", StreamCap::Reached)]);
        check(Some(3), &["abc", "def"], &[("abc", StreamCap::Reached)]);
        check(Some(0), &["abc", "def"], &[("", StreamCap::Reached)]);
    }

    #[test]
    fn an_answer_says_what_it_had_to_leave_out() {
        let kept = |cap, bytes: &[u8]| {
            let mut kept = KeptOutput::new(cap);
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
