//! Messages as lines over byte streams.

use std::{collections::VecDeque, io};

use bytes::{Bytes, BytesMut};
use codicil_protocol::{LineSplitter, SplitLine};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::{MessageSink, MessageSource, TransportLink, join_lines, push_line};
use crate::{error::DisconnectCause, options::ClientLimits};

const READ_BYTES: usize = 64 << 10;

pub fn link(
    reader: Box<dyn AsyncRead + Send + Unpin>,
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    limits: &ClientLimits,
) -> TransportLink {
    let lines = LineSplitter::new(limits.message_bytes);
    let reader =
        LineReader { reader, buffer: BytesMut::new(), lines, ready: VecDeque::new(), is_finished: false };
    TransportLink {
        source: MessageSource::Lines(reader),
        sink: MessageSink::Lines(LineWriter { writer, buffer: Vec::new() }),
    }
}

pub struct LineReader {
    reader: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    lines: LineSplitter,
    ready: VecDeque<Bytes>,
    is_finished: bool,
}

impl LineReader {
    pub async fn fill(&mut self) -> Result<(), DisconnectCause> {
        while self.ready.is_empty() {
            if self.is_finished {
                return Err(DisconnectCause::ClosedByServer(String::new()));
            }
            self.buffer.reserve(READ_BYTES);
            let count = self.reader.read_buf(&mut self.buffer).await;
            if count.map_err(|error| DisconnectCause::Failed(error.to_string()))? == 0 {
                self.is_finished = true;
                if let Some(last) = self.lines.finish() {
                    push_line(SplitLine::Whole(last), &mut self.ready);
                }
            }
            let chunk = self.buffer.split().freeze();
            self.lines.feed_shared(&chunk, |line| push_line(line, &mut self.ready));
        }
        Ok(())
    }

    pub fn take(&mut self) -> Option<Bytes> {
        self.ready.pop_front()
    }
}

pub struct LineWriter {
    writer: Box<dyn AsyncWrite + Send + Unpin>,
    buffer: Vec<u8>,
}

impl LineWriter {
    pub async fn send(&mut self, batch: &mut Vec<Bytes>) -> io::Result<()> {
        join_lines(batch, &mut self.buffer);
        self.writer.write_all(&self.buffer).await?;
        self.writer.flush().await
    }

    pub async fn close(mut self) {
        // The server may be gone already.
        let _ = self.writer.shutdown().await;
    }
}
