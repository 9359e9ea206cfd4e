//! The output of a command: streamed to the client as notifications, or kept for the response.
//!
//! `command/exec/outputDelta` is written by hand, so that output goes from the pipe into the message in one step,
//! base64 included. A test compares the result with what serde writes.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use codicil_exec::{HeadTail, OutputChunk, OutputSource, ProcessExit, ProcessOutput};
use codicil_protocol::{CommandExecOutputDelta, CommandExecResponse, Frame, NotificationMethod};

use super::{ExecRequest, request::OutputDelivery};
use crate::{clients::ConnectedClient, limits::MAX_BUFFERED_BYTES};

/// The destination of a command's output.
pub enum OutputSink {
    Response { stdout: KeptOutput, stderr: KeptOutput },
    Client { client: Arc<ConnectedClient>, stdout: StreamedOutput, stderr: StreamedOutput },
}

impl OutputSink {
    pub fn new(request: &ExecRequest, client: &Arc<ConnectedClient>) -> Self {
        match request.delivery {
            OutputDelivery::InResponse => {
                Self::Response { stdout: KeptOutput::new(request.cap), stderr: KeptOutput::new(request.cap) }
            }
            OutputDelivery::Streamed => {
                let id = request.process_id.as_deref().unwrap_or_default();
                let streamed = |stream| StreamedOutput::new(DeltaPrefix::new(id, stream), request.cap);
                Self::Client {
                    client: client.clone(),
                    stdout: streamed(CommandStream::Stdout),
                    stderr: streamed(CommandStream::Stderr),
                }
            }
        }
    }

    /// Takes all output up to the end of the command. A client that reads slowly slows the command down. Output
    /// beyond a cap is read and dropped, so that the command can go on.
    pub async fn fill(&mut self, output: &mut ProcessOutput) {
        while let Some(chunk) = output.next().await {
            self.take(chunk).await;
        }
    }

    async fn take(&mut self, OutputChunk { source, bytes }: OutputChunk) {
        match self {
            Self::Response { stdout, stderr } => match source {
                OutputSource::Stdout | OutputSource::Terminal => stdout.text.push(&bytes),
                OutputSource::Stderr => stderr.text.push(&bytes),
            },
            Self::Client { client, stdout, stderr } => {
                let stream = match source {
                    OutputSource::Stdout | OutputSource::Terminal => stdout,
                    OutputSource::Stderr => stderr,
                };
                stream.send(client, &bytes).await;
            }
        }
    }

    /// Returns the response, once the command has ended.
    pub fn finish(self, exit: ProcessExit) -> CommandExecResponse {
        let (stdout, stderr) = match self {
            Self::Response { stdout, stderr } => (stdout.finish(), stderr.finish()),
            Self::Client { .. } => Default::default(),
        };
        CommandExecResponse { exit_code: exit.code(), stdout, stderr }
    }
}

/// The beginning of a stream, kept for the response.
pub struct KeptOutput {
    text: HeadTail,
    /// Whether the client asked for more than a response can hold.
    is_limited: bool,
}

impl KeptOutput {
    fn new(cap: Option<u64>) -> Self {
        let requested = cap.and_then(|cap| usize::try_from(cap).ok()).unwrap_or(usize::MAX);
        Self {
            text: HeadTail::split(requested.min(MAX_BUFFERED_BYTES), 0),
            is_limited: requested > MAX_BUFFERED_BYTES,
        }
    }

    /// Returns the text. Bytes that are not UTF-8 are replaced. The response has no field for dropped output, so a
    /// note at the end of the text reports it.
    fn finish(self) -> String {
        let omitted = self.text.omitted();
        let text = String::from_utf8(self.text.into_bytes());
        let mut text = text.unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        if self.is_limited && omitted > 0 {
            text.push_str(&format!(
                "\n[{omitted} more bytes were dropped: an answer holds at most {} MiB of a stream; \
                 set streamStdoutStderr to get all of it]\n",
                MAX_BUFFERED_BYTES >> 20
            ));
        }
        text
    }
}

/// A stream that is sent to the client as notifications.
pub struct StreamedOutput {
    prefix: DeltaPrefix,
    /// Bytes up to the cap; `None` without a cap.
    remaining: Option<u64>,
    is_capped: bool,
}

impl StreamedOutput {
    fn new(prefix: DeltaPrefix, cap: Option<u64>) -> Self {
        Self { prefix, remaining: cap, is_capped: false }
    }

    async fn send(&mut self, client: &ConnectedClient, bytes: &[u8]) {
        if self.is_capped || !client.wants(CommandExecOutputDelta::NAME) {
            return;
        }
        let (bytes, cap) = self.within_cap(bytes);
        client.outbox.push_when_room(&self.prefix.frame(bytes, cap)).await;
    }

    /// Cuts a chunk at the cap. The chunk that reaches the cap is the last one.
    fn within_cap<'a>(&mut self, bytes: &'a [u8]) -> (&'a [u8], StreamCap) {
        let Some(remaining) = &mut self.remaining else { return (bytes, StreamCap::Open) };
        let length = usize::try_from(*remaining).map_or(bytes.len(), |remaining| remaining.min(bytes.len()));
        *remaining -= length as u64;
        self.is_capped = *remaining == 0;
        let cap = if self.is_capped { StreamCap::Reached } else { StreamCap::Open };
        (bytes.get(..length).unwrap_or_default(), cap)
    }
}

/// A stream of a command. The output of a terminal is `Stdout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandStream {
    Stdout,
    Stderr,
}

/// Whether more of a stream may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StreamCap {
    Open,
    Reached,
}

/// The beginning of every `command/exec/outputDelta` of one stream.
struct DeltaPrefix(Vec<u8>);

impl DeltaPrefix {
    fn new(process_id: &str, stream: CommandStream) -> Self {
        let method = CommandExecOutputDelta::NAME;
        let id = serde_json::Value::from(process_id);
        let stream = match stream {
            CommandStream::Stdout => "stdout",
            CommandStream::Stderr => "stderr",
        };
        let prefix = format!(
            r#"{{"method":"{method}","params":{{"processId":{id},"stream":"{stream}","deltaBase64":""#
        );
        Self(prefix.into_bytes())
    }

    fn frame(&self, bytes: &[u8], cap: StreamCap) -> Frame {
        let suffix: &[u8] = match cap {
            StreamCap::Open => br#"","capReached":false}}"#,
            StreamCap::Reached => br#"","capReached":true}}"#,
        };
        let encoded_len = base64::encoded_len(bytes.len(), true).unwrap_or_default();
        let mut message = Vec::with_capacity(self.0.len() + encoded_len + suffix.len());
        message.extend_from_slice(&self.0);
        message.resize(self.0.len() + encoded_len, 0);
        let encoded = message.get_mut(self.0.len()..).unwrap_or_default();
        STANDARD.encode_slice(bytes, encoded).expect("the slice has the length of the encoded text");
        message.extend_from_slice(suffix);
        Frame::written::<CommandExecOutputDelta>(message)
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{CommandExecOutputDeltaNotification, CommandExecOutputStream};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_stream_ends_where_its_cap_is_reached() {
        let check = |cap, chunks: &[&str], expected: &[(&str, StreamCap)]| {
            let mut output = StreamedOutput::new(DeltaPrefix::new("p", CommandStream::Stdout), cap);
            let mut sent = Vec::new();
            for chunk in chunks {
                if !output.is_capped {
                    sent.push(output.within_cap(chunk.as_bytes()));
                }
            }
            let expected: Vec<_> = expected.iter().map(|(text, cap)| (text.as_bytes(), *cap)).collect();
            assert_eq!(sent, expected, "{cap:?} {chunks:?}");
        };
        check(None, &["abc", "def"], &[("abc", StreamCap::Open), ("def", StreamCap::Open)]);
        check(Some(9), &["abc", "def"], &[("abc", StreamCap::Open), ("def", StreamCap::Open)]);
        check(Some(4), &["abc", "def", "ghi"], &[("abc", StreamCap::Open), ("d", StreamCap::Reached)]);
        check(Some(3), &["abc", "def"], &[("abc", StreamCap::Reached)]);
        check(Some(0), &["abc", "def"], &[("", StreamCap::Reached)]);
    }

    #[test]
    fn the_response_reports_dropped_output() {
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

    proptest! {
        #[test]
        fn a_delta_is_what_serde_writes(id in ".*", bytes: Vec<u8>, is_stdout: bool, cap_reached: bool) {
            let (stream, wire_stream) = if is_stdout {
                (CommandStream::Stdout, CommandExecOutputStream::Stdout)
            } else {
                (CommandStream::Stderr, CommandExecOutputStream::Stderr)
            };
            let cap = if cap_reached { StreamCap::Reached } else { StreamCap::Open };
            let expected = Frame::notification::<CommandExecOutputDelta>(&CommandExecOutputDeltaNotification {
                process_id: id.clone(),
                stream: wire_stream,
                delta_base64: STANDARD.encode(&bytes),
                cap_reached,
            });
            let written = DeltaPrefix::new(&id, stream).frame(&bytes, cap);
            prop_assert_eq!(written.bytes(), expected.bytes());
            prop_assert_eq!(written.method(), expected.method());
        }
    }
}
