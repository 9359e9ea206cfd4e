//! The transport of a child process: messages as lines on its standard streams.

use std::{collections::VecDeque, future::Future, path::PathBuf, sync::Arc};

use bytes::Bytes;
use codicil_exec::{
    InputSource, OutputSource, Process, ProcessEnvironment, ProcessExit, ProcessInput, ProcessSpec,
    SpawnError,
};
use codicil_protocol::{LineSplitter, SplitLine};
use rmcp::{
    RoleClient,
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::Transport,
};
use thiserror::Error;
use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};
use tokio_util::task::AbortOnDropHandle;

use super::{environment, stderr::StderrLog};
use crate::{
    call_registry::CallRegistry,
    config::StdioConfig,
    limits::{EXIT_TIME, MESSAGE_BYTES, QUEUED_MESSAGES},
    wire,
};

/// The reason why a message was not sent.
#[derive(Debug, Error)]
pub(crate) enum StdioError {
    #[error("the server does not read its input")]
    Full,
    #[error("the server has ended")]
    Closed,
    #[error("the message cannot be encoded: {0}")]
    Encode(#[from] serde_json::Error),
}

/// A child process as a transport. Dropping it kills the process with its whole session.
pub(crate) struct StdioTransport {
    server: String,
    process: Process,
    /// `None` after the input was closed.
    input: Option<mpsc::Sender<Vec<u8>>>,
    writer: AbortOnDropHandle<()>,
    lines: LineSplitter,
    received: VecDeque<ServerJsonRpcMessage>,
    decoder: wire::MessageDecoder,
    stderr: StderrLog,
    registry: Arc<CallRegistry>,
}

impl StdioTransport {
    /// Starts the process. Nothing is sent yet.
    pub(crate) async fn spawn(
        server: &str,
        config: &StdioConfig,
        own_environment: &ProcessEnvironment,
        registry: Arc<CallRegistry>,
    ) -> Result<StdioTransport, SpawnError> {
        let argv = std::iter::once(&config.command).chain(&config.args);
        let cwd = config.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
        let mut spec = ProcessSpec::new(argv, cwd, environment::of(config, own_environment));
        spec.stdin = InputSource::Piped;
        let mut process = Process::spawn(spec).await?;
        let (input, messages) = mpsc::channel(QUEUED_MESSAGES);
        let stdin = process.stdin.take();
        Ok(StdioTransport {
            server: server.to_owned(),
            process,
            input: Some(input),
            writer: AbortOnDropHandle::new(tokio::spawn(write(stdin, messages))),
            lines: LineSplitter::new(MESSAGE_BYTES),
            received: VecDeque::new(),
            decoder: wire::MessageDecoder::default(),
            stderr: StderrLog::new(server, registry.clone()),
            registry,
        })
    }

    /// Queues a message. Not done in the returned future, since the futures of several messages run in any order.
    fn queue(&mut self, message: &ClientJsonRpcMessage) -> Result<(), StdioError> {
        self.decoder.note_sent(message);
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let input = self.input.as_ref().ok_or(StdioError::Closed)?;
        input.try_send(line).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => StdioError::Full,
            mpsc::error::TrySendError::Closed(_) => StdioError::Closed,
        })
    }

    fn on_stdout(&mut self, chunk: &Bytes) {
        let Self { lines, decoder, received, server, .. } = self;
        lines.feed_shared(chunk, |line| match line {
            SplitLine::Whole(line) if line.trim_ascii().is_empty() => {}
            SplitLine::Whole(line) => match decoder.decode(&line) {
                Ok(messages) => received.extend(messages),
                Err(error) => {
                    tracing::debug!(server, %error, "skipped a line that is not a message");
                }
            },
            SplitLine::TooLong { head, .. } => {
                tracing::warn!(server, "skipped a message of more than {MESSAGE_BYTES} bytes");
                received.extend(wire::too_long(&head));
            }
        });
    }

    /// Discards the output until the process has exited.
    async fn wait_for_exit(&mut self) -> ProcessExit {
        while let Some(chunk) = self.process.output.next().await {
            if chunk.source == OutputSource::Stderr {
                self.stderr.push(&chunk.bytes);
            }
        }
        self.process.exit().await
    }
}

impl Transport<RoleClient> for StdioTransport {
    type Error = StdioError;

    fn send(
        &mut self,
        item: ClientJsonRpcMessage,
    ) -> impl Future<Output = Result<(), StdioError>> + Send + 'static {
        let queued = self.queue(&item);
        async move { queued }
    }

    async fn receive(&mut self) -> Option<ServerJsonRpcMessage> {
        loop {
            if let Some(message) = self.received.pop_front() {
                return Some(message);
            }
            match self.process.output.next().await {
                Some(chunk) if chunk.source == OutputSource::Stderr => self.stderr.push(&chunk.bytes),
                Some(chunk) => self.on_stdout(&chunk.bytes),
                None => {
                    self.registry.close(describe(self.process.exit().await));
                    return None;
                }
            }
        }
    }

    /// Closes the input, which asks a server to exit, and waits a moment. Remaining processes are killed on drop.
    async fn close(&mut self) -> Result<(), StdioError> {
        let until = Instant::now() + EXIT_TIME;
        self.input = None;
        let _ = timeout_at(until, &mut self.writer).await;
        self.writer.abort();
        let _ = timeout_at(until, self.wait_for_exit()).await;
        self.process.terminate();
        Ok(())
    }
}

/// Writes messages until the queue is closed or the process stops reading; then closes the input.
async fn write(stdin: Option<ProcessInput>, mut messages: mpsc::Receiver<Vec<u8>>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(message) = messages.recv().await {
        if stdin.write(&message).await.is_err() {
            return;
        }
    }
}

fn describe(exit: ProcessExit) -> String {
    match exit {
        ProcessExit::Code(code) => format!("the server exited with code {code}"),
        ProcessExit::Signal(signal) => format!("the server was ended by signal {signal}"),
        ProcessExit::TimedOut | ProcessExit::Unknown => "the server has ended".to_owned(),
    }
}
