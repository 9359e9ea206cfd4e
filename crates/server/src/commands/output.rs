//! The output of a command: streamed to the client as notifications, or kept for the response.
//!
//! `command/exec/outputDelta` and `process/outputDelta` are written by hand, so that output goes from the pipe into the
//! message in one step, base64 included. A test compares the result with what serde writes.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use codicil_exec::{HeadTail, OutputChunk, OutputSource, ProcessExit, ProcessOutput};
use codicil_protocol::{
    CommandExecOutputDelta, CommandExecResponse, Frame, NotificationMethod, ProcessExitedNotification,
    ProcessOutputDelta,
};

use super::{
    ExecRequest,
    request::{CommandFamily, OutputDelivery},
};
use crate::{
    clients::ConnectedClient,
    limits::{MAX_BUFFERED_BYTES, MAX_NOTIFICATION_BYTES},
};

/// The destination of a command's output.
pub enum OutputSink {
    Response { stdout: KeptOutput, stderr: KeptOutput },
    Client { client: Arc<ConnectedClient>, stdout: StreamedOutput, stderr: StreamedOutput },
}

impl OutputSink {
    pub fn new(request: &ExecRequest, client: &Arc<ConnectedClient>) -> Self {
        match request.delivery {
            OutputDelivery::InResponse => {
                let kept = || KeptOutput::new(request.cap, max_kept_bytes(request.family));
                Self::Response { stdout: kept(), stderr: kept() }
            }
            OutputDelivery::Streamed => {
                let id = request.process_id.as_deref().unwrap_or_default();
                let prefix = |stream| DeltaPrefix::new(request.family, id, stream);
                let streamed = |stream| StreamedOutput::new(prefix(stream), request.cap);
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
                OutputSource::Stdout | OutputSource::Terminal => stdout.push(&bytes),
                OutputSource::Stderr => stderr.push(&bytes),
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

    /// Returns the result, once the command has ended.
    pub fn finish(self, exit: ProcessExit) -> CommandResult {
        let (stdout, stderr) = match self {
            Self::Response { stdout, stderr } => (stdout.finish(), stderr.finish()),
            Self::Client { stdout, stderr, .. } => (stdout.finish(), stderr.finish()),
        };
        CommandResult { exit, stdout, stderr }
    }
}

/// How a command has ended, and what is kept of its output.
#[derive(Debug)]
pub struct CommandResult {
    exit: ProcessExit,
    stdout: FinishedOutput,
    stderr: FinishedOutput,
}

/// A stream that has ended.
#[derive(Debug, PartialEq, Eq)]
struct FinishedOutput {
    /// Empty if the output was streamed.
    text: String,
    cap_reached: bool,
    /// Bytes that were dropped although the client asked for them.
    dropped: u64,
}

impl CommandResult {
    /// Returns the response to `command/exec`.
    pub fn into_response(self) -> CommandExecResponse {
        CommandExecResponse {
            exit_code: self.exit.code(),
            stdout: self.stdout.with_note(),
            stderr: self.stderr.with_note(),
        }
    }

    /// Returns the notification that ends a `process/spawn`. Output never times out: it ends with everything that the
    /// process has started.
    pub fn into_exited(self, process_handle: String) -> ProcessExitedNotification {
        ProcessExitedNotification {
            process_handle,
            exit_code: self.exit.code(),
            output_drain_timed_out: Some(false),
            stdout_cap_reached: self.stdout.cap_reached,
            stdout: self.stdout.text,
            stderr_cap_reached: self.stderr.cap_reached,
            stderr: self.stderr.text,
        }
    }
}

impl FinishedOutput {
    /// Returns the text. The response to `command/exec` has no field for dropped output, so a note at the end of the text
    /// reports it.
    fn with_note(self) -> String {
        let Self { mut text, dropped, .. } = self;
        if dropped > 0 {
            text.push_str(&format!(
                "\n[{dropped} more bytes were dropped: an answer holds at most {} MiB of a stream; \
                 set streamStdoutStderr to get all of it]\n",
                MAX_BUFFERED_BYTES >> 20
            ));
        }
        text
    }
}

/// Returns how much of a stream is kept. A notification that is too long is left out, so two streams have to fit into one, in
/// which a byte takes up to six.
fn max_kept_bytes(family: CommandFamily) -> usize {
    match family {
        CommandFamily::Exec => MAX_BUFFERED_BYTES,
        CommandFamily::Process => MAX_NOTIFICATION_BYTES / 16,
    }
}

/// The beginning of a stream, kept for the response.
pub struct KeptOutput {
    text: HeadTail,
    /// Bytes up to the cap.
    remaining: usize,
    /// Whether the client asked for more than a response can hold.
    is_limited: bool,
}

impl KeptOutput {
    fn new(cap: Option<u64>, max: usize) -> Self {
        let requested = cap.and_then(|cap| usize::try_from(cap).ok()).unwrap_or(usize::MAX);
        let kept = requested.min(max);
        Self { text: HeadTail::split(kept, 0), remaining: kept, is_limited: requested > max }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.remaining = self.remaining.saturating_sub(bytes.len());
        self.text.push(bytes);
    }

    /// Returns the text. Bytes that are not UTF-8 are replaced.
    fn finish(self) -> FinishedOutput {
        let omitted = self.text.omitted();
        let bytes = self.text.into_bytes();
        let has_output = !bytes.is_empty() || omitted > 0;
        let text = String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        FinishedOutput {
            text,
            cap_reached: has_output && self.remaining == 0,
            dropped: if self.is_limited { omitted } else { 0 },
        }
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
        if self.is_capped || !client.wants(self.prefix.method()) {
            return;
        }
        let (bytes, cap) = self.within_cap(bytes);
        client.outbox.push_when_room(&self.prefix.frame(bytes, cap)).await;
    }

    fn finish(self) -> FinishedOutput {
        FinishedOutput { text: String::new(), cap_reached: self.is_capped, dropped: 0 }
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

/// The beginning of every output notification of one stream.
struct DeltaPrefix {
    family: CommandFamily,
    text: Vec<u8>,
}

impl DeltaPrefix {
    fn new(family: CommandFamily, process_id: &str, stream: CommandStream) -> Self {
        let (method, id_member) = match family {
            CommandFamily::Exec => (CommandExecOutputDelta::NAME, "processId"),
            CommandFamily::Process => (ProcessOutputDelta::NAME, "processHandle"),
        };
        let id = serde_json::Value::from(process_id);
        let stream = match stream {
            CommandStream::Stdout => "stdout",
            CommandStream::Stderr => "stderr",
        };
        let text = format!(
            r#"{{"method":"{method}","params":{{"{id_member}":{id},"stream":"{stream}","deltaBase64":""#
        );
        Self { family, text: text.into_bytes() }
    }

    fn method(&self) -> &'static str {
        match self.family {
            CommandFamily::Exec => CommandExecOutputDelta::NAME,
            CommandFamily::Process => ProcessOutputDelta::NAME,
        }
    }

    fn frame(&self, bytes: &[u8], cap: StreamCap) -> Frame {
        let suffix: &[u8] = match cap {
            StreamCap::Open => br#"","capReached":false}}"#,
            StreamCap::Reached => br#"","capReached":true}}"#,
        };
        let encoded_len = base64::encoded_len(bytes.len(), true).unwrap_or_default();
        let mut message = Vec::with_capacity(self.text.len() + encoded_len + suffix.len());
        message.extend_from_slice(&self.text);
        message.resize(self.text.len() + encoded_len, 0);
        let encoded = message.get_mut(self.text.len()..).unwrap_or_default();
        STANDARD.encode_slice(bytes, encoded).expect("the slice has the length of the encoded text");
        message.extend_from_slice(suffix);
        match self.family {
            CommandFamily::Exec => Frame::written::<CommandExecOutputDelta>(message),
            CommandFamily::Process => Frame::written::<ProcessOutputDelta>(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::{
        CommandExecOutputDeltaNotification, CommandExecOutputStream, ProcessOutputDeltaNotification,
        ProcessOutputStream,
    };
    use proptest::prelude::*;

    use super::*;

    fn exec_prefix(id: &str, stream: CommandStream) -> DeltaPrefix {
        DeltaPrefix::new(CommandFamily::Exec, id, stream)
    }

    #[test]
    fn a_cap_is_reached_by_the_last_byte_that_fits() {
        let check = |cap, bytes: &[u8], expected: bool| {
            let mut kept = KeptOutput::new(cap, MAX_BUFFERED_BYTES);
            kept.push(bytes);
            assert_eq!(kept.finish().cap_reached, expected, "{cap:?} {bytes:?}");
        };
        check(Some(4), b"012", false);
        check(Some(4), b"0123", true);
        check(Some(4), b"01234", true);
        check(Some(0), b"0", true);
        check(Some(0), b"", false);
        check(None, b"0", false);
    }

    #[test]
    fn a_stream_ends_where_its_cap_is_reached() {
        let check = |cap, chunks: &[&str], expected: &[(&str, StreamCap)]| {
            let mut output = StreamedOutput::new(exec_prefix("p", CommandStream::Stdout), cap);
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
            let mut kept = KeptOutput::new(cap, MAX_BUFFERED_BYTES);
            kept.push(bytes);
            kept.finish().with_note()
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
            let written = exec_prefix(&id, stream).frame(&bytes, cap);
            prop_assert_eq!(written.bytes(), expected.bytes());
            prop_assert_eq!(written.method(), expected.method());

            let stream_of_process =
                if is_stdout { ProcessOutputStream::Stdout } else { ProcessOutputStream::Stderr };
            let expected = Frame::notification::<ProcessOutputDelta>(&ProcessOutputDeltaNotification {
                process_handle: id.clone(),
                stream: stream_of_process,
                delta_base64: STANDARD.encode(&bytes),
                cap_reached,
            });
            let written = DeltaPrefix::new(CommandFamily::Process, &id, stream).frame(&bytes, cap);
            prop_assert_eq!(written.bytes(), expected.bytes());
            prop_assert_eq!(written.method(), expected.method());
        }
    }
}
