//! One task per thread that pages show.
//!
//! The hub has the only subscription to its thread, folds the messages into a view, renders each change once and hands
//! the same bytes to every page. Text that arrives in small pieces is collected for a moment, so that the number of
//! events does not depend on the number of deltas.

use std::time::Duration;

use codicil_client::{
    Client, ClientError, ClientEvent, EventStream, IncludeTurns, PlacedEvent,
    protocol::{
        CodicilSubscribe, CodicilSubscribeParams, CodicilSubscribeResponse, CodicilUsageRead,
        CodicilUsageReadParams, ServerNotification, ThreadId, ThreadResume, ThreadResumeParams,
        ThreadResumeResponse, ThreadTokenUsage, ThreadUnsubscribe, ThreadUnsubscribeParams,
    },
};
use thiserror::Error;
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, sleep_until},
};

use super::{
    page_events::{PageEvents, PageReceiver},
    page_ops::PageOp,
    thread_view::{OlderItems, ThreadView, ViewChange},
};
use crate::pages::{self, StreamedText};

/// Items that a hub reads at first. Older ones are read when a person asks for them.
const FIRST_ITEMS: u32 = 120;

/// How long text is collected before it is sent.
const COLLECTING_TIME: Duration = Duration::from_millis(50);

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
    Attach { after: Option<u64>, reply: HubReply<PageReceiver> },
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
    pub async fn attach(&self, after: Option<u64>) -> Result<PageReceiver, HubError> {
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
                pending: Vec::new(),
                flush_at: None,
                events: PageEvents::new(seq),
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
    let params =
        CodicilSubscribeParams { items: Some(FIRST_ITEMS), ..CodicilSubscribeParams::new(thread_id.clone()) };
    match client.call::<CodicilSubscribe>(params).await {
        Ok(CodicilSubscribeResponse::Snapshot { at, thread, older_items, plans, open, .. }) => {
            let older = older_items.map_or(OlderItems::None, OlderItems::At);
            let mut view = ThreadView::new(*thread, older, open).with_settings(&resumed);
            plans.into_iter().flatten().for_each(|plan| view.set_plan(plan));
            view.usage = stored_usage(client, thread_id).await;
            Ok(ThreadPage { view, seq: at.value() })
        }
        // An ephemeral thread has no snapshots. Its turns are in memory.
        Ok(CodicilSubscribeResponse::Replay { .. }) | Err(ClientError::ResponseError { .. }) => {
            let thread = client.read_thread(thread_id, IncludeTurns::Yes).await?;
            let seq = resumed.seq.map_or(0, |seq| seq.value());
            Ok(ThreadPage {
                view: ThreadView::new(thread, OlderItems::None, Vec::new()).with_settings(&resumed),
                seq,
            })
        }
        Err(error) => Err(error),
    }
}

/// Returns the tokens that a thread has used so far. A page is shown without them if the server cannot tell.
async fn stored_usage(client: &Client, thread_id: &ThreadId) -> Option<ThreadTokenUsage> {
    let params = CodicilUsageReadParams { thread_ids: vec![thread_id.clone()], since: None };
    match client.call::<CodicilUsageRead>(params).await {
        Ok(read) => read.data.into_iter().next().map(|read| read.usage),
        Err(error) => {
            tracing::debug!("cannot read the tokens of {thread_id}: {error}");
            None
        }
    }
}

struct HubTask {
    client: Client,
    thread_id: ThreadId,
    view: ThreadView,
    /// The position of the view.
    seq: u64,
    /// Text that was not sent yet.
    pending: Vec<PendingText>,
    flush_at: Option<Instant>,
    /// What was sent to pages. Its position is that of the view, unless text is pending.
    events: PageEvents,
    idle_since: Instant,
}

/// Text for an element.
struct PendingText {
    id: String,
    text: String,
    kind: StreamedText,
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
                () = sleep_until(idle_at), if !self.events.has_pages() => HubEvent::Idle,
            };
            match event {
                // The next page reads it as it is stored.
                HubEvent::Message(Some(message)) if is_closing(&message) => {
                    self.events.send(self.seq, &pages::closed_ops());
                    return;
                }
                HubEvent::Message(Some(message)) => {
                    if let Err(error) = self.on_message(message).await {
                        tracing::debug!("cannot read {} again: {error}", self.thread_id);
                        // What the view has missed is not known. The pages connect again, to a new hub.
                        self.events.disconnect();
                        break;
                    }
                }
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

    /// Applies a message. An error ends the hub.
    async fn on_message(&mut self, PlacedEvent { event, seq }: PlacedEvent) -> Result<(), ClientError> {
        match event {
            ClientEvent::Notification(message) => self.on_notification(message, seq),
            // Something was removed, or too much was missed: the thread is read again.
            ClientEvent::Snapshot(_) | ClientEvent::Missed(_) => self.start_over().await?,
        }
        Ok(())
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
            self.events.skip_to(self.seq);
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

    fn send(&mut self, ops: &[PageOp], seq: u64) {
        self.events.send(seq, ops);
        if !self.events.has_pages() {
            self.idle_since = Instant::now();
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
                // Without a receiver the stream ends, and the browser connects again without a position.
                if let Some(events) = self.events.attach(after, || pages::reset_ops(&self.view)) {
                    let _ = reply.send(Ok(events));
                }
            }
        }
    }

    /// Reads the thread again and replaces what pages show.
    async fn start_over(&mut self) -> Result<(), ClientError> {
        let ThreadPage { view, seq } = read_thread(&self.client, &self.thread_id).await?;
        let usage = self.view.usage.take();
        self.view = ThreadView { usage: view.usage.clone().or(usage), ..view };
        self.seq = seq;
        self.pending.clear();
        self.flush_at = None;
        self.events.start_over(seq, &pages::reset_ops(&self.view));
        Ok(())
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
