//! The board with all open questions, and the task that keeps it up to date.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use codicil_client::{
    Client, ClientError, IncludeTurns,
    protocol::{
        CodicilRequestAnswer, CodicilRequestAnswerParams, CodicilRequestAnswerResponse, CodicilRequestList,
        CodicilRequestListParams, CodicilWaitingRequest, FileChangeRequestApprovalParams, FileUpdateChange,
        ServerRequest, Thread, ThreadActiveFlag, ThreadId, ThreadItem, ThreadItemsRead,
        ThreadItemsReadParams, ThreadList, ThreadListParams, ThreadResume, ThreadResumeParams, ThreadSortKey,
        ThreadSourceKind, ThreadStatus, ThreadUnsubscribe, ThreadUnsubscribeParams,
    },
    user_thread_sources,
};
use serde_json::{Value, value::to_raw_value};
use tokio::{
    sync::{Notify, watch},
    time::sleep,
};

use super::LiveQuestions;
use crate::{
    live::{ThreadHubs, TurnSettings, thread_title},
    pages::unix_now,
};

/// Questions on the board. Beyond that, the rest appears as others are answered.
const MAX_QUESTIONS: usize = 400;

/// Pages of threads that are looked through for live questions, the last used ones first.
const MAX_THREAD_PAGES: usize = 5;

/// Threads that were not used for this time are looked at only if they are on the first page.
const RECENT_SECONDS: i64 = 24 * 60 * 60;

/// Changes within this time are read once.
const COLLECTING_TIME: Duration = Duration::from_millis(40);

/// How long after a failure the rest of a question is read again.
const RETRY_TIME: Duration = Duration::from_secs(2);

/// A question that waits for a person.
#[derive(Clone, Debug)]
pub struct Question {
    /// The identity of the question in URLs.
    pub key: String,
    pub thread_id: ThreadId,
    pub thread_title: String,
    /// The sandbox of the thread and its directory, if the thread is loaded.
    pub settings: Option<TurnSettings>,
    pub request: ServerRequest,
    /// The edits that a question about file changes is about; `None` if they could not be read.
    pub changes: Option<Vec<FileUpdateChange>>,
    /// Unix seconds.
    pub asked_at: Option<i64>,
    /// When the default answer is given, in Unix seconds.
    pub deadline: Option<i64>,
    source: QuestionSource,
}

impl Question {
    /// Returns whether nothing has to be read again to show the question.
    fn is_complete(&self) -> bool {
        self.changes.is_some() || !matches!(self.request, ServerRequest::FileChangeApproval(_))
    }
}

/// Where a question is answered.
#[derive(Clone, Debug)]
enum QuestionSource {
    /// With `codicil/request/answer`.
    Stored { request: String },
    /// On the connection.
    Live { id: u64 },
}

/// What became of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerOutcome {
    Accepted,
    /// Answered before, with the name of the client that did.
    AnsweredBy(String),
    /// The question is not open.
    Gone,
}

/// The open questions. Cheap to clone.
#[derive(Clone, Debug)]
pub struct QuestionBoard {
    client: Client,
    live: Arc<LiveQuestions>,
    open: watch::Receiver<OpenQuestions>,
    wanted: Arc<Notify>,
}

type OpenQuestions = Arc<Vec<Arc<Question>>>;

impl QuestionBoard {
    /// Returns the open questions, oldest first.
    pub fn open(&self) -> OpenQuestions {
        self.open.borrow().clone()
    }

    pub fn watch(&self) -> watch::Receiver<OpenQuestions> {
        self.open.clone()
    }

    pub fn find(&self, key: &str) -> Option<Arc<Question>> {
        self.open.borrow().iter().find(|question| question.key == key).cloned()
    }

    /// Has the questions read again.
    pub fn refresh(&self) {
        self.wanted.notify_one();
    }

    /// Answers a question with the response of its method.
    pub async fn answer(&self, question: &Question, answer: Value) -> Result<AnswerOutcome, ClientError> {
        let outcome = match &question.source {
            QuestionSource::Live { id } => {
                if self.live.answer(*id, answer) {
                    AnswerOutcome::Accepted
                } else {
                    AnswerOutcome::Gone
                }
            }
            QuestionSource::Stored { request } => {
                let params = CodicilRequestAnswerParams {
                    thread_id: question.thread_id.clone(),
                    request: request.clone(),
                    result: Some(answer),
                    error: None,
                };
                match self.client.call::<CodicilRequestAnswer>(params).await? {
                    CodicilRequestAnswerResponse::Accepted {} => AnswerOutcome::Accepted,
                    CodicilRequestAnswerResponse::AlreadyResolved { by, .. } => AnswerOutcome::AnsweredBy(by),
                }
            }
        };
        self.refresh();
        Ok(outcome)
    }
}

/// The task that reads the questions when something has changed.
#[derive(Debug)]
pub struct QuestionBoardTask {
    client: Client,
    /// The connection whose subscriptions bring live questions.
    subscriber: Client,
    hubs: ThreadHubs,
    live: Arc<LiveQuestions>,
    open: watch::Sender<OpenQuestions>,
    wanted: Arc<Notify>,
    /// Threads that were subscribed to for their live questions.
    followed: HashSet<ThreadId>,
}

impl QuestionBoardTask {
    pub fn new(
        client: Client,
        subscriber: Client,
        hubs: ThreadHubs,
        live: Arc<LiveQuestions>,
    ) -> (Self, QuestionBoard) {
        let (open, reader) = watch::channel(OpenQuestions::default());
        let wanted = Arc::new(Notify::new());
        let board = QuestionBoard {
            client: client.clone(),
            live: live.clone(),
            open: reader,
            wanted: wanted.clone(),
        };
        (Self { client, subscriber, hubs, live, open, wanted, followed: HashSet::new() }, board)
    }

    /// Runs until it is dropped.
    pub async fn run(mut self) {
        loop {
            let is_incomplete = self.open.borrow().iter().any(|question| !question.is_complete());
            tokio::select! {
                () = self.wanted.notified() => {}
                () = self.live.changed.notified() => {}
                () = sleep(RETRY_TIME), if is_incomplete => {}
            }
            sleep(COLLECTING_TIME).await;
            match self.read().await {
                Ok(questions) => drop(self.open.send_replace(Arc::new(questions))),
                Err(error) => tracing::debug!("cannot read the open questions: {error}"),
            }
        }
    }

    async fn read(&mut self) -> Result<Vec<Arc<Question>>, ClientError> {
        let before: HashMap<String, Arc<Question>> =
            self.open.borrow().iter().map(|question| (question.key.clone(), question.clone())).collect();
        let mut questions = Vec::new();
        for waiting in self.stored().await? {
            let question = match before.get(&waiting.request) {
                Some(known) if known.is_complete() => known.clone(),
                _ => Arc::new(self.stored_question(waiting).await),
            };
            questions.push(question);
        }
        for (id, request) in self.live.open() {
            let key = format!("live-{id}");
            let question = match before.get(&key) {
                Some(known) => known.clone(),
                None => Arc::new(self.live_question(key, id, request).await),
            };
            questions.push(question);
        }
        questions.retain(|question| !matches!(question.request, ServerRequest::DynamicToolCall(_)));
        questions.sort_by(|a, b| (a.asked_at, &a.key).cmp(&(b.asked_at, &b.key)));
        self.follow_waiting_threads(&questions).await;
        Ok(questions)
    }

    async fn stored(&self) -> Result<Vec<CodicilWaitingRequest>, ClientError> {
        let mut found = Vec::new();
        let mut cursor = None;
        while found.len() < MAX_QUESTIONS {
            let params = CodicilRequestListParams { cursor: cursor.take(), ..Default::default() };
            let page = self.client.call::<CodicilRequestList>(params).await?;
            found.extend(page.data);
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }

    async fn stored_question(&self, waiting: CodicilWaitingRequest) -> Question {
        let CodicilWaitingRequest { thread_id, request: key, method, params, asked_at, deadline, .. } =
            waiting;
        let params = to_raw_value(&params).ok();
        let request = ServerRequest::decode(&method, params.as_deref());
        let changes = match &request {
            ServerRequest::FileChangeApproval(params) => self.changes(params).await,
            _ => None,
        };
        let (thread_title, settings) = self.about_thread(&thread_id, &request).await;
        let source = QuestionSource::Stored { request: key.clone() };
        Question {
            key,
            thread_id,
            thread_title,
            settings,
            request,
            changes,
            asked_at: Some(asked_at),
            deadline,
            source,
        }
    }

    async fn live_question(&self, key: String, id: u64, request: ServerRequest) -> Question {
        let thread_id = match &request {
            ServerRequest::CommandExecutionApproval(params) => params.thread_id.clone(),
            ServerRequest::McpServerElicitation(params) => params.thread_id.clone(),
            _ => ThreadId::from(""),
        };
        let (thread_title, settings) = self.about_thread(&thread_id, &request).await;
        let source = QuestionSource::Live { id };
        let asked_at = Some(unix_now());
        Question {
            key,
            thread_id,
            thread_title,
            settings,
            request,
            changes: None,
            asked_at,
            deadline: None,
            source,
        }
    }

    /// Returns the name of a question's thread and, for a command, its settings. A thread that is not loaded stays so.
    async fn about_thread(
        &self,
        thread_id: &ThreadId,
        request: &ServerRequest,
    ) -> (String, Option<TurnSettings>) {
        let Ok(thread) = self.client.read_thread(thread_id, IncludeTurns::No).await else {
            return (thread_id.to_string(), None);
        };
        let is_command = matches!(request, ServerRequest::CommandExecutionApproval(_));
        let settings = if is_command && thread.status != ThreadStatus::NotLoaded {
            self.hubs.page(thread_id).await.ok().map(|page| page.view.settings)
        } else {
            None
        };
        (thread_title(&thread).to_owned(), settings)
    }

    /// Returns the edits of an item that waits for approval; `None` if they cannot be read.
    async fn changes(&self, asked: &FileChangeRequestApprovalParams) -> Option<Vec<FileUpdateChange>> {
        let params = ThreadItemsReadParams {
            thread_id: asked.thread_id.clone(),
            turn_id: asked.turn_id.clone(),
            item_ids: vec![asked.item_id.clone()],
        };
        let read = self.client.call::<ThreadItemsRead>(params).await;
        let read =
            read.inspect_err(|error| tracing::debug!("cannot read the changes of a question: {error}"));
        match read.ok()?.data.into_iter().next()?.item {
            ThreadItem::FileChange { changes, .. } => Some(changes),
            _ => None,
        }
    }

    /// Subscribes to threads that wait for an answer to a question that is not on the board: only a subscriber can answer it.
    async fn follow_waiting_threads(&mut self, questions: &[Arc<Question>]) {
        let threads = match self.active_threads().await {
            Ok(threads) => threads,
            Err(error) => return tracing::debug!("cannot look for live questions: {error}"),
        };
        self.leave_idle_threads(&threads).await;
        for thread_id in threads.into_iter().filter(is_waiting).map(|thread| thread.id) {
            let is_shown = questions.iter().any(|question| question.thread_id == thread_id);
            if !is_shown && !self.followed.contains(&thread_id) {
                self.follow(thread_id).await;
            }
        }
    }

    /// Returns the threads that were used last, also subagents, up to those that were not used for a day.
    async fn active_threads(&self) -> Result<Vec<Thread>, ClientError> {
        let mut found: Vec<Thread> = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_THREAD_PAGES {
            let params = ThreadListParams {
                cursor: cursor.take(),
                limit: Some(100),
                sort_key: Some(ThreadSortKey::UpdatedAt),
                source_kinds: Some(all_thread_sources()),
                ..Default::default()
            };
            let page = self.client.call::<ThreadList>(params).await?;
            found.extend(page.data);
            cursor = page.next_cursor;
            let is_recent = found.last().is_some_and(|last| last.updated_at > unix_now() - RECENT_SECONDS);
            if cursor.is_none() || !is_recent {
                break;
            }
        }
        Ok(found)
    }

    async fn follow(&mut self, thread_id: ThreadId) {
        let params = ThreadResumeParams { exclude_turns: true, ..ThreadResumeParams::new(thread_id.clone()) };
        match self.subscriber.call::<ThreadResume>(params).await {
            Ok(_) => drop(self.followed.insert(thread_id)),
            Err(error) => tracing::debug!("cannot follow a waiting thread: {error}"),
        }
    }

    /// Ends the subscriptions to followed threads that have nothing to do, except those that pages show. Of a thread that is
    /// not in the list, the state is not known.
    async fn leave_idle_threads(&mut self, threads: &[Thread]) {
        let is_idle = |id: &ThreadId| {
            let thread = threads.iter().find(|thread| thread.id == *id);
            thread.is_some_and(|thread| !matches!(thread.status, ThreadStatus::Active { .. }))
        };
        for thread_id in self.followed.extract_if(|id| is_idle(id)).collect::<Vec<_>>() {
            if !self.hubs.has(&thread_id)
                && let Err(error) =
                    self.subscriber.call::<ThreadUnsubscribe>(ThreadUnsubscribeParams { thread_id }).await
            {
                tracing::debug!("cannot leave a thread: {error}");
            }
        }
    }
}

/// Returns the sources of all threads, also of subagents.
pub fn all_thread_sources() -> Vec<ThreadSourceKind> {
    user_thread_sources().into_iter().chain([ThreadSourceKind::SubAgent]).collect()
}

fn is_waiting(thread: &Thread) -> bool {
    let is_wait = |flag: &ThreadActiveFlag| {
        matches!(flag, ThreadActiveFlag::WaitingOnApproval | ThreadActiveFlag::WaitingOnUserInput)
    };
    matches!(&thread.status, ThreadStatus::Active { active_flags } if active_flags.iter().any(is_wait))
}
