//! One task per thread that pages show.
//!
//! The hub has the only subscription to its thread, folds the messages into a view, renders each change once and hands
//! the same bytes to every page. Text that arrives in small pieces is collected for a moment, so that the number of
//! events does not depend on the number of deltas.
//!
//! A page that reads too slowly is dropped. Its browser connects again with the id of the last event it has, and gets
//! the events since then, or everything if they are no longer kept.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use codicil_client::{
    Client, ClientError, ClientEvent, EventStream, IncludeTurns, PlacedEvent,
    protocol::{
        CodicilSubscribe, CodicilSubscribeParams, CodicilSubscribeResponse, ServerNotification,
        SubscriptionScope, ThreadId, ThreadResume, ThreadResumeParams, ThreadResumeResponse,
        ThreadUnsubscribe, ThreadUnsubscribeParams,
    },
};
use thiserror::Error;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::{
    page_ops::{PageOp, encode_event},
    thread_view::{ThreadView, ViewChange},
};
use crate::pages::{self, StreamedText};

/// Turns that a hub reads at first. Older ones are read when a person asks for them.
const FIRST_TURNS: u32 = 12;

/// How long text is collected before it is sent.
const COLLECTING_TIME: Duration = Duration::from_millis(50);

/// Events that are kept for browsers that connect again.
const KEPT_EVENTS: usize = 1024;
const KEPT_BYTES: usize = 1 << 20;

/// Events that may wait for one page.
const PAGE_EVENTS: usize = 128;

/// How long a hub without pages stays open, so that a reload finds it.
const IDLE_TIME: Duration = Duration::from_secs(60);

/// The reason why a thread cannot be shown live.
#[derive(Clone, Debug, Error)]
pub enum HubError {
    /// The server refused, with its message.
    #[error("{0}")]
    Refused(String),
    /// The hub ended; another try opens a new one.
    #[error("the thread was closed; reload the page")]
    Closed,
}

impl From<ClientError> for HubError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::ResponseError { error, .. } => Self::Refused(error.message),
            error => Self::Refused(error.to_string()),
        }
    }
}

/// A thread as a page shows it first, and the position from which its events follow.
#[derive(Clone, Debug)]
pub struct ThreadPage {
    pub view: ThreadView,
    pub seq: u64,
}

/// What others ask a hub for.
enum HubCommand {
    Page(HubReply<ThreadPage>),
    Attach { after: Option<u64>, reply: HubReply<mpsc::Receiver<Bytes>> },
}

type HubReply<T> = oneshot::Sender<Result<T, HubError>>;

/// The handle of a hub.
#[derive(Clone, Debug)]
pub struct ThreadHub {
    mailbox: mpsc::Sender<HubCommand>,
}

impl ThreadHub {
    /// Creates a hub and the task that runs it.
    pub fn new(client: Client, thread_id: ThreadId) -> (Self, impl Future<Output = ()> + Send) {
        let (mailbox, commands) = mpsc::channel(64);
        (Self { mailbox }, run(client, thread_id, commands))
    }

    pub async fn page(&self) -> Result<ThreadPage, HubError> {
        let (reply, page) = oneshot::channel();
        self.mailbox.send(HubCommand::Page(reply)).await.map_err(|_| HubError::Closed)?;
        page.await.unwrap_or(Err(HubError::Closed))
    }

    /// Returns the events after a position. Without a position the first event is the whole page.
    pub async fn attach(&self, after: Option<u64>) -> Result<mpsc::Receiver<Bytes>, HubError> {
        let (reply, events) = oneshot::channel();
        self.mailbox.send(HubCommand::Attach { after, reply }).await.map_err(|_| HubError::Closed)?;
        events.await.unwrap_or(Err(HubError::Closed))
    }

    pub fn is_closed(&self) -> bool {
        self.mailbox.is_closed()
    }
}

async fn run(client: Client, thread_id: ThreadId, mut commands: mpsc::Receiver<HubCommand>) {
    let events = client.thread_events(&thread_id);
    match read_thread(&client, &thread_id).await {
        Ok(ThreadPage { view, seq }) => {
            let hub = HubTask {
                client,
                thread_id,
                view,
                seq,
                sent: seq,
                pending: Vec::new(),
                flush_at: None,
                kept: VecDeque::new(),
                kept_bytes: 0,
                floor: seq,
                pages: Vec::new(),
                idle_since: Instant::now(),
            };
            hub.run(events, commands).await;
        }
        Err(error) => {
            let error = HubError::from(error);
            commands.close();
            // Those who asked meanwhile get the reason; their requests may have been cancelled.
            while let Some(command) = commands.recv().await {
                match command {
                    HubCommand::Page(reply) => drop(reply.send(Err(error.clone()))),
                    HubCommand::Attach { reply, .. } => drop(reply.send(Err(error.clone()))),
                }
            }
        }
    }
}

/// Loads a thread, subscribes to it and reads its end.
async fn read_thread(client: &Client, thread_id: &ThreadId) -> Result<ThreadPage, ClientError> {
    let params = ThreadResumeParams { exclude_turns: true, ..ThreadResumeParams::new(thread_id.clone()) };
    let resumed = client.call::<ThreadResume>(params).await?;
    let params = CodicilSubscribeParams {
        thread_id: thread_id.clone(),
        after: None,
        scope: SubscriptionScope::Thread,
        turns: Some(FIRST_TURNS),
    };
    match client.call::<CodicilSubscribe>(params).await {
        Ok(CodicilSubscribeResponse::Snapshot { at, thread, older_turns, open, .. }) => {
            let view = ThreadView::new(*thread, older_turns.is_some(), open).with_settings(&resumed);
            Ok(ThreadPage { view, seq: at.value() })
        }
        // An ephemeral thread has no snapshots. Its turns are in memory.
        Ok(CodicilSubscribeResponse::Replay { .. }) | Err(ClientError::ResponseError { .. }) => {
            let thread = client.read_thread(thread_id, IncludeTurns::Yes).await?;
            let seq = resumed.seq.map_or(0, |seq| seq.value());
            Ok(ThreadPage { view: ThreadView::new(thread, false, Vec::new()).with_settings(&resumed), seq })
        }
        Err(error) => Err(error),
    }
}

struct HubTask {
    client: Client,
    thread_id: ThreadId,
    view: ThreadView,
    /// The position of the view.
    seq: u64,
    /// The position of what was sent to pages: that of the view, unless text is pending.
    sent: u64,
    /// Text that was not sent yet.
    pending: Vec<PendingText>,
    flush_at: Option<Instant>,
    kept: VecDeque<KeptEvent>,
    kept_bytes: usize,
    /// The position before the oldest kept event.
    floor: u64,
    pages: Vec<mpsc::Sender<Bytes>>,
    idle_since: Instant,
}

/// Text for an element.
struct PendingText {
    id: String,
    text: String,
    kind: StreamedText,
}

/// An event that pages have received: the messages after one position and up to another.
struct KeptEvent {
    from: u64,
    seq: u64,
    bytes: Bytes,
}

/// What a hub waits for.
enum HubEvent {
    Message(Option<PlacedEvent>),
    Command(Option<HubCommand>),
    Flush,
    Idle,
}

impl HubTask {
    async fn run(mut self, mut events: EventStream, mut commands: mpsc::Receiver<HubCommand>) {
        loop {
            let flush_at = self.flush_at;
            let idle_at = self.idle_since + IDLE_TIME;
            let event = tokio::select! {
                message = events.next_placed() => HubEvent::Message(message),
                command = commands.recv() => HubEvent::Command(command),
                () = sleep_until(flush_at.unwrap_or(idle_at)), if flush_at.is_some() => HubEvent::Flush,
                () = sleep_until(idle_at), if self.pages.is_empty() => HubEvent::Idle,
            };
            match event {
                // The next page reads it as it is stored.
                HubEvent::Message(Some(message)) if is_closing(&message) => {
                    self.send(&pages::closed_ops(), self.seq);
                    return;
                }
                HubEvent::Message(Some(message)) => self.on_message(message).await,
                HubEvent::Command(Some(command)) => self.on_command(command),
                HubEvent::Flush => self.flush(),
                HubEvent::Idle if self.view.running_turn().is_some() => self.idle_since = Instant::now(),
                HubEvent::Message(None) | HubEvent::Command(None) | HubEvent::Idle => break,
            }
        }
        let params = ThreadUnsubscribeParams { thread_id: self.thread_id.clone() };
        if let Err(error) = self.client.call::<ThreadUnsubscribe>(params).await {
            tracing::debug!("cannot unsubscribe from {}: {error}", self.thread_id);
        }
    }

    async fn on_message(&mut self, PlacedEvent { event, seq }: PlacedEvent) {
        match event {
            ClientEvent::Notification(message) => self.on_notification(message, seq),
            // Something was removed, or too much was missed: the thread is read again.
            ClientEvent::Snapshot(_) | ClientEvent::Missed(_) => self.start_over().await,
        }
    }

    fn on_notification(&mut self, message: ServerNotification, seq: Option<u64>) {
        if seq.is_some_and(|seq| seq <= self.seq) {
            return;
        }
        let before = self.seq;
        let change = self.view.apply(message);
        self.seq = seq.unwrap_or(before);
        if let ViewChange::Text { turn, item, part, text } = change {
            let kind = StreamedText::of(self.view.turn(&turn).and_then(|turn| turn.item(&item)));
            return self.collect(PendingText { id: pages::text_element_id(&turn, &item, part), text, kind });
        }
        let ops = pages::change_ops(&self.view, &change);
        if !ops.is_empty() {
            self.flush_until(before);
            self.send(&ops, self.seq);
        } else if self.pending.is_empty() {
            self.sent = self.seq;
        }
    }

    /// Adds text to what is sent next.
    fn collect(&mut self, next: PendingText) {
        match self.pending.last_mut() {
            Some(last) if last.id == next.id => last.text.push_str(&next.text),
            _ => self.pending.push(next),
        }
        self.flush_at.get_or_insert_with(|| Instant::now() + COLLECTING_TIME);
    }

    fn flush(&mut self) {
        self.flush_until(self.seq);
    }

    fn flush_until(&mut self, seq: u64) {
        self.flush_at = None;
        if !self.pending.is_empty() {
            let pending = std::mem::take(&mut self.pending);
            let ops: Vec<PageOp> = pending
                .into_iter()
                .map(|PendingText { id, text, kind }| PageOp::Text { id, text: kind.shown(&text) })
                .collect();
            self.send(&ops, seq);
        }
    }

    /// Sends operations to all pages, and keeps them for browsers that connect again.
    fn send(&mut self, ops: &[PageOp], seq: u64) {
        let bytes = encode_event(Some(seq), ops);
        let from = std::mem::replace(&mut self.sent, seq);
        self.pages.retain(|page| page.try_send(bytes.clone()).is_ok());
        if self.pages.is_empty() {
            self.idle_since = Instant::now();
        }
        self.kept_bytes += bytes.len();
        self.kept.push_back(KeptEvent { from, seq, bytes });
        while self.kept.len() > KEPT_EVENTS || self.kept_bytes > KEPT_BYTES {
            let Some(oldest) = self.kept.pop_front() else { break };
            self.kept_bytes -= oldest.bytes.len();
            self.floor = oldest.seq;
        }
    }

    fn on_command(&mut self, command: HubCommand) {
        // What a page gets includes the collected text.
        self.flush();
        match command {
            HubCommand::Page(reply) => {
                self.idle_since = Instant::now();
                // The request may have been cancelled.
                let _ = reply.send(Ok(ThreadPage { view: self.view.clone(), seq: self.seq }));
            }
            HubCommand::Attach { after, reply } => {
                let (page, events) = mpsc::channel(PAGE_EVENTS);
                if self.catch_up(after, &page) && reply.send(Ok(events)).is_ok() {
                    self.pages.retain(|page| !page.is_closed());
                    self.pages.push(page);
                }
            }
        }
    }

    /// Queues what a page has missed. Returns false if it does not fit, which ends the page's connection.
    fn catch_up(&self, after: Option<u64>, page: &mpsc::Sender<Bytes>) -> bool {
        let Some(after) = after.filter(|after| self.can_continue(*after)) else {
            return page.try_send(self.whole_page()).is_ok();
        };
        let missed: Vec<&KeptEvent> = self.kept.iter().filter(|event| event.seq > after).collect();
        if missed.len() >= PAGE_EVENTS / 2 {
            return page.try_send(self.whole_page()).is_ok();
        }
        missed.into_iter().all(|event| page.try_send(event.bytes.clone()).is_ok())
    }

    /// Returns whether a page at this position lacks whole events, all of which are kept. A page of another process may
    /// have a part of an event.
    fn can_continue(&self, after: u64) -> bool {
        let is_within = |event: &KeptEvent| event.from < after && after < event.seq;
        after >= self.floor && after <= self.seq && !self.kept.iter().any(is_within)
    }

    fn whole_page(&self) -> Bytes {
        encode_event(Some(self.seq), &pages::reset_ops(&self.view))
    }

    /// Reads the thread again and replaces what pages show.
    async fn start_over(&mut self) {
        match read_thread(&self.client, &self.thread_id).await {
            Ok(ThreadPage { view, seq }) => {
                let usage = self.view.usage.take();
                self.view = ThreadView { usage: view.usage.clone().or(usage), ..view };
                self.seq = seq;
                self.sent = seq;
                self.pending.clear();
                self.flush_at = None;
                self.kept.clear();
                self.kept_bytes = 0;
                let ops = pages::reset_ops(&self.view);
                let bytes = encode_event(Some(seq), &ops);
                self.pages.retain(|page| page.try_send(bytes.clone()).is_ok());
                self.floor = seq;
            }
            Err(error) => {
                tracing::debug!("cannot read {} again: {error}", self.thread_id);
                // The pages connect again, to a new hub.
                self.pages.clear();
            }
        }
    }
}

/// Returns whether a message says that the thread was archived or deleted.
fn is_closing(message: &PlacedEvent) -> bool {
    use ServerNotification as N;
    matches!(message.event, ClientEvent::Notification(N::ThreadArchived(_) | N::ThreadDeleted(_)))
}

impl ThreadView {
    fn with_settings(mut self, opened: &ThreadResumeResponse) -> Self {
        self.settings = opened.into();
        self
    }
}
