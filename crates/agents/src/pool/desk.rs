//! Questions of servers, on their way to the product and back.
//!
//! A server asks about a thread. If a turn of that thread is being followed, the question becomes a message of
//! its reply and waits for [`Pool::decide`](super::Pool::decide) or [`Pool::answer`](super::Pool::answer).
//! Where nobody follows, or nobody answers in time, the answer is no.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use codicil_client::{
    Answer, Approval, Approve, Decision, Decline, Handler, NoAnswer, ask,
    protocol::{
        CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, FileChangeApprovalDecision,
        FileChangeRequestApprovalParams, McpServerElicitationRequestParams,
        McpServerElicitationRequestResponse, PermissionsRequestApprovalParams,
        PermissionsRequestApprovalResponse, ThreadId, ToolRequestUserInputAnswer, ToolRequestUserInputParams,
        ToolRequestUserInputResponse,
    },
};
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    counters::Counters,
    message::{Asked, QuestionId, StreamMessage},
};

/// Questions of one turn that wait to be shown.
const MAX_UNSHOWN: usize = 256;

/// What the person said, by the ids of the questions.
pub(super) type Answers = BTreeMap<String, Vec<String>>;

/// All questions of a pool that wait for an answer.
#[derive(Debug)]
pub(super) struct Questions {
    next: AtomicU64,
    open: Mutex<HashMap<QuestionId, Open>>,
    counters: Arc<Counters>,
}

#[derive(Debug)]
pub(super) enum Open {
    Approval(oneshot::Sender<Decision>),
    Input(oneshot::Sender<Answers>),
}

impl Questions {
    pub fn new(counters: Arc<Counters>) -> Self {
        Self { next: AtomicU64::new(1), open: Mutex::default(), counters }
    }

    /// Whether there was such a question.
    pub fn decide(&self, id: QuestionId, decision: Decision) -> bool {
        self.settle(id, |open| match open {
            Open::Approval(sender) => sender.send(decision).map_err(drop),
            Open::Input(_) => Err(()),
        })
    }

    /// Whether there was such a question.
    pub fn answer(&self, id: QuestionId, answers: Answers) -> bool {
        self.settle(id, |open| match open {
            Open::Input(sender) => sender.send(answers).map_err(drop),
            Open::Approval(_) => Err(()),
        })
    }

    fn settle(&self, id: QuestionId, give: impl FnOnce(Open) -> Result<(), ()>) -> bool {
        let Some(open) = self.lock().remove(&id) else { return false };
        let is_given = give(open).is_ok();
        if is_given {
            self.counters.questions_answered.one();
        }
        is_given
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QuestionId, Open>> {
        self.open.lock()
    }
}

/// Where the questions of one server are put to the turns that run on it.
#[derive(Debug)]
pub(super) struct Desk {
    questions: Arc<Questions>,
    within: Duration,
    seats: Mutex<HashMap<ThreadId, mpsc::Sender<StreamMessage>>>,
}

impl Desk {
    pub fn new(questions: Arc<Questions>, within: Duration) -> Arc<Self> {
        Arc::new(Self { questions, within, seats: Mutex::default() })
    }

    /// From now on, questions about this thread come here. They are declined once this is dropped.
    pub fn sit(self: &Arc<Self>, thread: &ThreadId) -> Seat {
        let (sender, questions) = mpsc::channel(MAX_UNSHOWN);
        self.seats().insert(thread.clone(), sender);
        Seat { desk: self.clone(), thread: thread.clone(), questions }
    }

    async fn approve(&self, approval: Approval) -> Decision {
        let (thread, asked) = match approval {
            Approval::Command(asked) => (asked.thread_id.clone(), Asked::Command(asked)),
            Approval::FileChange(asked) => (asked.thread_id.clone(), Asked::FileChange(asked)),
            Approval::Permissions(asked) => (asked.thread_id.clone(), Asked::Permissions(asked)),
        };
        self.decide(&thread, asked).await
    }

    async fn decide(&self, thread: &ThreadId, approval: Asked) -> Decision {
        let show = |id| StreamMessage::ApprovalRequest { id, approval };
        self.put(thread, show, Open::Approval).await.unwrap_or(Decision::Decline)
    }

    /// `None` when nobody answers.
    async fn put<T>(
        &self,
        thread: &ThreadId,
        show: impl FnOnce(QuestionId) -> StreamMessage,
        open: fn(oneshot::Sender<T>) -> Open,
    ) -> Option<T> {
        let seat = self.find(thread)?;
        let (sender, answer) = oneshot::channel();
        let id = QuestionId(self.questions.next.fetch_add(1, Ordering::Relaxed));
        self.questions.lock().insert(id, open(sender));
        let question = Question { id, questions: self.questions.clone(), seat };
        question.seat.try_send(show(id)).ok()?;
        self.questions.counters.questions_asked.one();
        tokio::select! {
            answer = timeout(self.within, answer) => answer.ok()?.ok(),
            () = question.seat.closed() => None,
        }
    }

    /// Who follows this thread. Older servers name none; then it is the only turn that runs.
    fn find(&self, thread: &ThreadId) -> Option<mpsc::Sender<StreamMessage>> {
        let seats = self.seats();
        let sole = || seats.values().next().filter(|_| seats.len() == 1);
        seats.get(thread).or_else(|| thread.is_empty().then(sole).flatten()).cloned()
    }

    fn seats(&self) -> MutexGuard<'_, HashMap<ThreadId, mpsc::Sender<StreamMessage>>> {
        self.seats.lock()
    }
}

/// A turn that is being followed.
#[derive(Debug)]
pub(super) struct Seat {
    desk: Arc<Desk>,
    thread: ThreadId,
    questions: mpsc::Receiver<StreamMessage>,
}

impl Seat {
    /// The next question, or word that one is settled.
    pub async fn next(&mut self) -> StreamMessage {
        match self.questions.recv().await {
            Some(message) => message,
            // The desk has another turn of the thread; this one hears nothing more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.questions.close();
        let mut seats = self.desk.seats();
        if seats.get(&self.thread).is_some_and(mpsc::Sender::is_closed) {
            seats.remove(&self.thread);
        }
    }
}

/// A question that is open; settled, however it ends, when dropped.
struct Question {
    id: QuestionId,
    questions: Arc<Questions>,
    seat: mpsc::Sender<StreamMessage>,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.id);
        // The turn may be over.
        let _ = self.seat.try_send(StreamMessage::Resolved { id: self.id });
    }
}

/// What answers a server in the desk's name.
pub(super) fn handler(desk: &Arc<Desk>) -> impl Handler {
    let asking = desk.clone();
    let approvals = ask(move |approval| {
        let desk = asking.clone();
        async move { desk.approve(approval).await }
    });
    Clerk { approvals, desk: desk.clone() }
}

struct Clerk<A> {
    approvals: A,
    desk: Arc<Desk>,
}

impl<A: Handler> Handler for Clerk<A> {
    async fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> Answer<CommandExecutionApprovalDecision> {
        self.approvals.approve_command(asked).await
    }

    async fn approve_file_change(
        &self,
        asked: FileChangeRequestApprovalParams,
    ) -> Answer<FileChangeApprovalDecision> {
        self.approvals.approve_file_change(asked).await
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> Answer<PermissionsRequestApprovalResponse> {
        self.approvals.approve_permissions(asked).await
    }

    async fn user_input(&self, asked: ToolRequestUserInputParams) -> Answer<ToolRequestUserInputResponse> {
        let questions = asked.questions.clone();
        let show = |id| StreamMessage::InputRequest { id, questions };
        match self.desk.put(&asked.thread_id, show, Open::Input).await {
            Some(answers) => {
                let answers = answers.into_iter();
                let answers = answers.map(|(id, answers)| (id, ToolRequestUserInputAnswer { answers }));
                Ok(ToolRequestUserInputResponse { answers: answers.collect() })
            }
            None => Decline.user_input(asked).await,
        }
    }

    async fn elicitation(
        &self,
        asked: McpServerElicitationRequestParams,
    ) -> Answer<McpServerElicitationRequestResponse> {
        match self.desk.decide(&asked.thread_id, Asked::Elicitation(asked.clone())).await {
            Decision::Accept => Approve::once().elicitation(asked).await,
            Decision::AcceptForSession => Approve::for_session().elicitation(asked).await,
            Decision::Decline => Decline.elicitation(asked).await,
            Decision::Cancel => Err(NoAnswer::EndTurn),
        }
    }
}
