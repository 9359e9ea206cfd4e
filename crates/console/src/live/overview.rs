//! What every page shows: the list of threads and the open questions.
//!
//! A task follows the messages that are sent to all clients, on a connection of its own without subscriptions. It renders
//! the list once per change for all pages. Pages hold the last state only, so a slow browser costs nothing.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use codicil_client::{
    Client, ClientEvent, EventStream,
    protocol::{
        McpServerStatusUpdatedNotification, ServerNotification, Thread, ThreadList, ThreadListParams,
        ThreadSortKey,
    },
    user_thread_sources,
};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use super::page_ops::{PageOp, encode_event};
use crate::{pages, questions::QuestionBoard};

/// Threads in the list of every page.
const LISTED_THREADS: u32 = 40;

/// Changes within this time are rendered once.
const COLLECTING_TIME: Duration = Duration::from_millis(120);

/// MCP servers whose errors are remembered.
const MAX_MCP_ERRORS: usize = 200;

/// How often the ages of threads are refreshed.
const REFRESH_TIME: Duration = Duration::from_secs(60);

/// The last state of what every page shows, as events. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Overview {
    threads: watch::Receiver<Arc<ThreadsOverview>>,
    questions: watch::Receiver<Bytes>,
    mcp_errors: McpErrors,
}

/// The MCP servers that could not be started, with the reasons.
type McpErrors = Arc<Mutex<BTreeMap<String, String>>>;

/// The threads that were used last.
#[derive(Debug, Default)]
pub struct ThreadsOverview {
    pub threads: Vec<Thread>,
    event: Bytes,
}

impl Overview {
    pub fn threads(&self) -> Arc<ThreadsOverview> {
        self.threads.borrow().clone()
    }

    /// Returns why an MCP server could not be started the last time.
    pub fn mcp_error(&self, server: &str) -> Option<String> {
        self.mcp_errors.lock().get(server).cloned()
    }

    /// Returns a reader of the events, which begins with the current state.
    pub fn reader(&self) -> OverviewReader {
        let mut reader = OverviewReader { threads: self.threads.clone(), questions: self.questions.clone() };
        reader.threads.mark_changed();
        reader.questions.mark_changed();
        reader
    }
}

/// The events of one page.
#[derive(Debug)]
pub struct OverviewReader {
    threads: watch::Receiver<Arc<ThreadsOverview>>,
    questions: watch::Receiver<Bytes>,
}

impl OverviewReader {
    /// Waits for a change. Returns `None` when the console ends. Cancel safe.
    pub async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            changed = self.threads.changed() => {
                changed.ok()?;
                Some(self.threads.borrow_and_update().event.clone())
            }
            changed = self.questions.changed() => {
                changed.ok()?;
                Some(self.questions.borrow_and_update().clone())
            }
        }
    }
}

/// The task that keeps the overview up to date.
#[derive(Debug)]
pub struct OverviewTask {
    client: Client,
    events: EventStream,
    board: QuestionBoard,
    threads: watch::Sender<Arc<ThreadsOverview>>,
    questions: watch::Sender<Bytes>,
    mcp_errors: McpErrors,
}

impl OverviewTask {
    pub fn new(client: Client, events: EventStream, board: QuestionBoard) -> (Self, Overview) {
        let (threads, threads_reader) = watch::channel(Arc::default());
        let (questions, questions_reader) = watch::channel(Bytes::new());
        let mcp_errors = McpErrors::default();
        let overview =
            Overview { threads: threads_reader, questions: questions_reader, mcp_errors: mcp_errors.clone() };
        (Self { client, events, board, threads, questions, mcp_errors }, overview)
    }

    /// Runs until the connection is given up.
    pub async fn run(mut self) {
        let mut questions = self.board.watch();
        let mut connections = self.client.connections();
        self.show_threads().await;
        self.show_questions();
        self.board.refresh();
        loop {
            let refresh_at = Instant::now() + REFRESH_TIME;
            tokio::select! {
                event = self.events.next() => match event {
                    Some(ClientEvent::Notification(ServerNotification::McpServerStartupStatusUpdated(started))) => {
                        self.note_mcp_server(started);
                    }
                    Some(event) if concerns_threads(&event) => self.on_threads_changed().await,
                    Some(_) => {}
                    None => return,
                },
                changed = questions.changed() => match changed {
                    Ok(()) => self.show_questions(),
                    Err(_) => return,
                },
                Ok(()) = connections.changed() => self.on_threads_changed().await,
                () = sleep_until(refresh_at) => self.show_threads().await,
            }
        }
    }

    fn note_mcp_server(&self, started: McpServerStatusUpdatedNotification) {
        let mut errors = self.mcp_errors.lock();
        match started.error {
            Some(error) if errors.len() < MAX_MCP_ERRORS => drop(errors.insert(started.name, error)),
            _ => drop(errors.remove(&started.name)),
        }
    }

    async fn on_threads_changed(&mut self) {
        self.board.refresh();
        sleep(COLLECTING_TIME).await;
        self.show_threads().await;
    }

    async fn show_threads(&mut self) {
        let params = ThreadListParams {
            limit: Some(LISTED_THREADS),
            sort_key: Some(ThreadSortKey::UpdatedAt),
            source_kinds: Some(user_thread_sources()),
            ..Default::default()
        };
        match self.client.call::<ThreadList>(params).await {
            Ok(page) => {
                let ops = [PageOp::sync(pages::THREAD_LIST_ID, pages::thread_links(&page.data))];
                let overview = ThreadsOverview { event: encode_event(None, &ops), threads: page.data };
                self.threads.send_replace(Arc::new(overview));
            }
            Err(error) => tracing::debug!("cannot list the threads: {error}"),
        }
    }

    fn show_questions(&mut self) {
        let open = self.board.open();
        let ops = [
            PageOp::sync(pages::QUESTIONS_ID, pages::question_cards(&open, None)),
            PageOp::Count { questions: open.len() },
        ];
        self.questions.send_replace(encode_event(None, &ops));
    }
}

/// Returns whether a message may change the list of threads or the open questions.
fn concerns_threads(event: &ClientEvent) -> bool {
    use ServerNotification as N;
    match event {
        ClientEvent::Notification(
            N::ThreadStarted(_)
            | N::ThreadStatusChanged(_)
            | N::ThreadArchived(_)
            | N::ThreadUnarchived(_)
            | N::ThreadClosed(_)
            | N::ThreadDeleted(_)
            | N::ThreadNameUpdated(_),
        ) => true,
        ClientEvent::Notification(_) => false,
        ClientEvent::Missed(_) | ClientEvent::Snapshot(_) => true,
    }
}
