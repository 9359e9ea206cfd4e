//! Plays a reply: executes its steps, waits where they say so, and sends bytes.
//!
//! Without a pace the bytes are sent in large chunks, so that a stream of many deltas is as fast as its
//! reader. Everything before a wait is sent before the wait begins.

use std::{
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use hyper::{
    StatusCode,
    body::{Body, Frame},
};
use serde_json::Value;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};

use super::{
    cuttable_socket::CutHandle,
    dialect::{ReplyEncoder, SseWriter},
    reply::ReplyStream,
    state::{ModelActivity, ModelShared},
    steps::{ReplyEnding, ReplyItem, ReplySection, ReplyStep},
};

/// Size of a chunk, unless a wait comes earlier.
const CHUNK: usize = 64 << 10;

/// How a reply ended. One that hangs never ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlayedReply {
    Ended,
    Cut,
}

pub(super) struct ReplyPlayer {
    shared: Arc<ModelShared>,
    writer: ReplyWriter,
    /// Sends the chunks of a stream; `None` if the client wants a single JSON answer.
    chunk_sender: Option<mpsc::Sender<Bytes>>,
    pace: Option<PlayPace>,
}

struct PlayPace {
    between: Duration,
    next: Option<Instant>,
}

impl ReplyPlayer {
    pub(super) fn new(shared: Arc<ModelShared>, encoder: Box<dyn ReplyEncoder>) -> Self {
        Self { shared, writer: ReplyWriter::new(encoder), chunk_sender: None, pace: None }
    }

    /// Returns the reply as the body of a response. It plays only as fast as the connection reads.
    pub(super) fn into_body(
        mut self,
        stream: Arc<ReplyStream>,
        cut_handle: CutHandle,
        activity: ModelActivity,
    ) -> PlayingReply {
        let (sender, chunks) = mpsc::channel(1);
        self.chunk_sender = Some(sender);
        let play = Box::pin(async move { self.play(&stream).await });
        PlayingReply { play: Some(play), chunks, cut_handle: Some(cut_handle), _activity: activity }
    }

    /// Returns the reply as one JSON answer; `None` if the script cuts the connection.
    pub(super) async fn into_whole(mut self, stream: &ReplyStream) -> Option<(StatusCode, Value)> {
        match self.play(stream).await {
            PlayedReply::Ended => Some(self.writer.encoder.whole(&stream.ending, stream.usage)),
            PlayedReply::Cut => None,
        }
    }

    async fn play(&mut self, stream: &ReplyStream) -> PlayedReply {
        self.writer.encoder.begin(stream.usage, &mut self.writer.out);
        for step in &stream.steps {
            self.step(step).await;
            self.send_full_chunk().await;
        }
        let ending = &stream.ending;
        match ending {
            ReplyEnding::Completed | ReplyEnding::Incomplete(_) => {
                self.writer.close();
                self.writer.encoder.end(ending, stream.usage, &mut self.writer.out);
            }
            // A failure, like a cut, does not close the open item.
            ReplyEnding::Failed { .. } => self.writer.encoder.end(ending, stream.usage, &mut self.writer.out),
            ReplyEnding::Cut | ReplyEnding::Hang => {}
        }
        self.send_chunk().await;
        match ending {
            ReplyEnding::Completed | ReplyEnding::Incomplete(_) | ReplyEnding::Failed { .. } => {
                PlayedReply::Ended
            }
            ReplyEnding::Cut => PlayedReply::Cut,
            ReplyEnding::Hang => std::future::pending().await,
        }
    }

    async fn step(&mut self, step: &ReplyStep) {
        match step {
            ReplyStep::Open(item) => self.writer.open(item),
            ReplyStep::Deltas(section, texts) => self.deltas(*section, texts).await,
            ReplyStep::Close => self.writer.close(),
            ReplyStep::Raw(event) => self.writer.out.raw(event),
            ReplyStep::Gate(name) => {
                self.send_chunk().await;
                self.shared.gates.pass(name).await;
            }
            ReplyStep::Pause(time) => {
                self.send_chunk().await;
                sleep(*time).await;
            }
            ReplyStep::Pace(between) => self.pace = Some(PlayPace { between: *between, next: None }),
        }
    }

    async fn deltas(&mut self, section: ReplySection, texts: &[String]) {
        self.writer.enter(section);
        for text in texts {
            self.keep_pace().await;
            self.writer.delta(section, text);
            self.send_full_chunk().await;
        }
    }

    async fn keep_pace(&mut self) {
        let Some(PlayPace { between, next }) = &mut self.pace else { return };
        let now = Instant::now();
        let due = next.unwrap_or(now);
        *next = Some(due + *between);
        if due > now {
            self.send_chunk().await;
            sleep_until(due).await;
        }
    }

    async fn send_full_chunk(&mut self) {
        if self.writer.out.len() >= CHUNK {
            self.send_chunk().await;
        }
    }

    async fn send_chunk(&mut self) {
        let bytes = self.writer.out.take();
        let Some(chunk_sender) = self.chunk_sender.as_ref().filter(|_| !bytes.is_empty()) else { return };
        // The receiver is in the same body as this future, so it exists while this runs.
        let _ = chunk_sender.send(bytes.into()).await;
    }
}

/// Encodes a reply in its dialect, and closes items and sections in order.
struct ReplyWriter {
    encoder: Box<dyn ReplyEncoder>,
    out: SseWriter,
    item_is_open: bool,
    section: Option<ReplySection>,
    /// The text of the open section.
    text: String,
}

impl ReplyWriter {
    fn new(encoder: Box<dyn ReplyEncoder>) -> Self {
        Self { encoder, out: SseWriter::default(), item_is_open: false, section: None, text: String::new() }
    }

    fn open(&mut self, item: &ReplyItem) {
        self.close();
        self.item_is_open = true;
        self.encoder.open_item(item, &mut self.out);
    }

    fn enter(&mut self, section: ReplySection) {
        if self.section != Some(section) {
            self.leave();
            self.section = Some(section);
            self.encoder.open_section(section, &mut self.out);
        }
    }

    fn delta(&mut self, section: ReplySection, text: &str) {
        self.text.push_str(text);
        self.encoder.delta(section, text, &mut self.out);
    }

    fn leave(&mut self) {
        if let Some(section) = self.section.take() {
            let text = std::mem::take(&mut self.text);
            self.encoder.close_section(section, text, &mut self.out);
        }
    }

    fn close(&mut self) {
        self.leave();
        if std::mem::take(&mut self.item_is_open) {
            self.encoder.close_item(&mut self.out);
        }
    }
}

/// A reply that is being played. It runs in the task of the connection, so it ends with the connection.
pub(super) struct PlayingReply {
    play: Option<Pin<Box<dyn Future<Output = PlayedReply> + Send>>>,
    chunks: mpsc::Receiver<Bytes>,
    /// Removed when the reply has ended properly.
    cut_handle: Option<CutHandle>,
    _activity: ModelActivity,
}

impl Body for PlayingReply {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let this = &mut *self;
        if this.chunks.is_empty()
            && let Some(play) = &mut this.play
            && let Poll::Ready(played) = play.as_mut().poll(cx)
        {
            // Drops the sender, which ends the chunks.
            this.play = None;
            this.cut_handle = this.cut_handle.take().filter(|_| played == PlayedReply::Cut);
        }
        match this.chunks.poll_recv(cx) {
            Poll::Ready(Some(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(None) => match &this.cut_handle {
                // Nothing needs to wake this task again: the flush that follows fails and ends it.
                Some(cut_handle) => {
                    cut_handle.cut();
                    Poll::Pending
                }
                None => Poll::Ready(None),
            },
            Poll::Pending => Poll::Pending,
        }
    }
}
