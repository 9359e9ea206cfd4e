//! Plays a reply: walks through its steps, waits where they say so, and hands out bytes.
//!
//! Without a pace the bytes leave in large chunks, so that a stream of many deltas runs at the speed of
//! its reader. Whatever was said before a wait is handed out before the wait begins.

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
    dialect::{ReplyEncoder, SseWriter},
    line::CutHandle,
    reply::ReplyStream,
    state::{ModelActivity, ModelShared},
    steps::{ReplyEnding, ReplyItem, ReplySection, ReplyStep},
};

/// How much is gathered before it is handed out, unless a wait comes first.
const CHUNK: usize = 64 << 10;

/// How a reply was played to its end; one that hangs never gets there.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlayedReply {
    Ended,
    Cut,
}

pub(super) struct ReplyPlayer {
    shared: Arc<ModelShared>,
    pen: ReplyWriter,
    /// Nobody listens to the stream when the client wants the answer as a whole.
    listener: Option<mpsc::Sender<Bytes>>,
    pace: Option<PlayPace>,
}

struct PlayPace {
    between: Duration,
    next: Option<Instant>,
}

impl ReplyPlayer {
    pub(super) fn new(shared: Arc<ModelShared>, encoder: Box<dyn ReplyEncoder>) -> Self {
        Self { shared, pen: ReplyWriter::new(encoder), listener: None, pace: None }
    }

    /// The reply as the body of an answer. It plays as the connection asks for more, and no further.
    pub(super) fn into_body(
        mut self,
        stream: Arc<ReplyStream>,
        scissors: CutHandle,
        activity: ModelActivity,
    ) -> PlayingReply {
        let (sender, chunks) = mpsc::channel(1);
        self.listener = Some(sender);
        let play = Box::pin(async move { self.play(&stream).await });
        PlayingReply { play: Some(play), chunks, scissors: Some(scissors), _activity: activity }
    }

    /// The reply as one JSON answer; `None` when the script cuts the connection.
    pub(super) async fn into_whole(mut self, stream: &ReplyStream) -> Option<(StatusCode, Value)> {
        match self.play(stream).await {
            PlayedReply::Ended => Some(self.pen.encoder.whole(&stream.ending, stream.usage)),
            PlayedReply::Cut => None,
        }
    }

    async fn play(&mut self, stream: &ReplyStream) -> PlayedReply {
        self.pen.encoder.begin(stream.usage, &mut self.pen.out);
        for step in &stream.steps {
            self.step(step).await;
            self.hand_out_if_much().await;
        }
        let ending = &stream.ending;
        match ending {
            ReplyEnding::Completed | ReplyEnding::Incomplete(_) => {
                self.pen.close();
                self.pen.encoder.end(ending, stream.usage, &mut self.pen.out);
            }
            // A failure, like a cut, comes in the middle of whatever was being said.
            ReplyEnding::Failed { .. } => self.pen.encoder.end(ending, stream.usage, &mut self.pen.out),
            ReplyEnding::Cut | ReplyEnding::Hang => {}
        }
        self.hand_out().await;
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
            ReplyStep::Open(item) => self.pen.open(item),
            ReplyStep::Deltas(section, texts) => self.deltas(*section, texts).await,
            ReplyStep::Close => self.pen.close(),
            ReplyStep::Raw(event) => self.pen.out.raw(event),
            ReplyStep::Gate(name) => {
                self.hand_out().await;
                self.shared.gates.pass(name).await;
            }
            ReplyStep::Pause(time) => {
                self.hand_out().await;
                sleep(*time).await;
            }
            ReplyStep::Pace(between) => self.pace = Some(PlayPace { between: *between, next: None }),
        }
    }

    async fn deltas(&mut self, section: ReplySection, texts: &[String]) {
        self.pen.enter(section);
        for text in texts {
            self.keep_pace().await;
            self.pen.delta(section, text);
            self.hand_out_if_much().await;
        }
    }

    async fn keep_pace(&mut self) {
        let Some(PlayPace { between, next }) = &mut self.pace else { return };
        let now = Instant::now();
        let due = next.unwrap_or(now);
        *next = Some(due + *between);
        if due > now {
            self.hand_out().await;
            sleep_until(due).await;
        }
    }

    async fn hand_out_if_much(&mut self) {
        if self.pen.out.len() >= CHUNK {
            self.hand_out().await;
        }
    }

    async fn hand_out(&mut self) {
        let bytes = self.pen.out.take();
        let Some(listener) = self.listener.as_ref().filter(|_| !bytes.is_empty()) else { return };
        // The other end is in the same body as this future: it cannot be gone while this runs.
        let _ = listener.send(bytes.into()).await;
    }
}

/// Writes a reply down in its dialect, and sees to it that items and sections are closed in order.
struct ReplyWriter {
    encoder: Box<dyn ReplyEncoder>,
    out: SseWriter,
    item_is_open: bool,
    section: Option<ReplySection>,
    /// What the open section has said.
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

/// A reply being played. It runs inside the connection's own task, so it ends with the connection.
pub(super) struct PlayingReply {
    play: Option<Pin<Box<dyn Future<Output = PlayedReply> + Send>>>,
    chunks: mpsc::Receiver<Bytes>,
    /// Taken away when the reply has come to a proper end.
    scissors: Option<CutHandle>,
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
            // Drops the sender, so that the chunks come to an end.
            this.play = None;
            this.scissors = this.scissors.take().filter(|_| played == PlayedReply::Cut);
        }
        match this.chunks.poll_recv(cx) {
            Poll::Ready(Some(bytes)) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
            Poll::Ready(None) => match &this.scissors {
                // Nothing wakes this task again, and nothing has to: the flush that follows ends it.
                Some(scissors) => {
                    scissors.cut();
                    Poll::Pending
                }
                None => Poll::Ready(None),
            },
            Poll::Pending => Poll::Pending,
        }
    }
}
