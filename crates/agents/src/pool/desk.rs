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
    ApprovalDecision, ApprovalRequest, ApproveAll, DeclineAll, HandlerAnswer, NoAnswer, RequestHandler, ask,
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
    counters::PoolCounters,
    message::{ApprovalSubject, QuestionId, StreamMessage},
};

/// Questions of one turn that wait to be shown.
const MAX_UNSHOWN: usize = 256;

/// What the person said, by the ids of the questions.
pub(super) type QuestionAnswers = BTreeMap<String, Vec<String>>;

/// All questions of a pool that wait for an answer.
#[derive(Debug)]
pub(super) struct OpenQuestions {
    next: AtomicU64,
    open: Mutex<HashMap<QuestionId, QuestionState>>,
    counters: Arc<PoolCounters>,
}

#[derive(Debug)]
pub(super) enum QuestionState {
    Approval(oneshot::Sender<ApprovalDecision>),
    Input(oneshot::Sender<QuestionAnswers>),
}

impl OpenQuestions {
    pub fn new(counters: Arc<PoolCounters>) -> Self {
        Self { next: AtomicU64::new(1), open: Mutex::default(), counters }
    }

    /// Whether there was such a question.
    pub fn decide(&self, id: QuestionId, decision: ApprovalDecision) -> bool {
        self.settle(id, |open| match open {
            QuestionState::Approval(sender) => sender.send(decision).map_err(drop),
            QuestionState::Input(_) => Err(()),
        })
    }

    /// Whether there was such a question.
    pub fn answer(&self, id: QuestionId, answers: QuestionAnswers) -> bool {
        self.settle(id, |open| match open {
            QuestionState::Input(sender) => sender.send(answers).map_err(drop),
            QuestionState::Approval(_) => Err(()),
        })
    }

    fn settle(&self, id: QuestionId, give: impl FnOnce(QuestionState) -> Result<(), ()>) -> bool {
        let Some(open) = self.lock().remove(&id) else { return false };
        let is_given = give(open).is_ok();
        if is_given {
            self.counters.questions_answered.one();
        }
        is_given
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<QuestionId, QuestionState>> {
        self.open.lock()
    }
}

/// Where the questions of one server are put to the turns that run on it.
#[derive(Debug)]
pub(super) struct QuestionBroker {
    questions: Arc<OpenQuestions>,
    within: Duration,
    seats: Mutex<HashMap<ThreadId, mpsc::Sender<StreamMessage>>>,
}

impl QuestionBroker {
    pub fn new(questions: Arc<OpenQuestions>, within: Duration) -> Arc<Self> {
        Arc::new(Self { questions, within, seats: Mutex::default() })
    }

    /// From now on, questions about this thread come here. They are declined once this is dropped.
    pub fn sit(self: &Arc<Self>, thread: &ThreadId) -> FollowedTurn {
        let (sender, questions) = mpsc::channel(MAX_UNSHOWN);
        self.seats().insert(thread.clone(), sender);
        FollowedTurn { desk: self.clone(), thread: thread.clone(), questions }
    }

    async fn approve(&self, approval: ApprovalRequest) -> ApprovalDecision {
        let (thread, asked) = match approval {
            ApprovalRequest::Command(asked) => (asked.thread_id.clone(), ApprovalSubject::Command(asked)),
            ApprovalRequest::FileChange(asked) => {
                (asked.thread_id.clone(), ApprovalSubject::FileChange(asked))
            }
            ApprovalRequest::Permissions(asked) => {
                (asked.thread_id.clone(), ApprovalSubject::Permissions(asked))
            }
        };
        self.decide(&thread, asked).await
    }

    async fn decide(&self, thread: &ThreadId, approval: ApprovalSubject) -> ApprovalDecision {
        let show = |id| StreamMessage::ApprovalRequest { id, approval };
        self.put(thread, show, QuestionState::Approval).await.unwrap_or(ApprovalDecision::Decline)
    }

    /// `None` when nobody answers.
    async fn put<T>(
        &self,
        thread: &ThreadId,
        show: impl FnOnce(QuestionId) -> StreamMessage,
        open: fn(oneshot::Sender<T>) -> QuestionState,
    ) -> Option<T> {
        let seat = self.find(thread)?;
        let (sender, answer) = oneshot::channel();
        let id = QuestionId(self.questions.next.fetch_add(1, Ordering::Relaxed));
        self.questions.lock().insert(id, open(sender));
        let question = PendingQuestion { id, questions: self.questions.clone(), seat };
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
pub(super) struct FollowedTurn {
    desk: Arc<QuestionBroker>,
    thread: ThreadId,
    questions: mpsc::Receiver<StreamMessage>,
}

impl FollowedTurn {
    /// The next question, or word that one is settled.
    pub async fn next(&mut self) -> StreamMessage {
        match self.questions.recv().await {
            Some(message) => message,
            // The desk has another turn of the thread; this one hears nothing more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for FollowedTurn {
    fn drop(&mut self) {
        self.questions.close();
        let mut seats = self.desk.seats();
        if seats.get(&self.thread).is_some_and(mpsc::Sender::is_closed) {
            seats.remove(&self.thread);
        }
    }
}

/// A question that is open; settled, however it ends, when dropped.
struct PendingQuestion {
    id: QuestionId,
    questions: Arc<OpenQuestions>,
    seat: mpsc::Sender<StreamMessage>,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        self.questions.lock().remove(&self.id);
        // The turn may be over.
        let _ = self.seat.try_send(StreamMessage::Resolved { id: self.id });
    }
}

/// What answers a server in the desk's name.
pub(super) fn handler(desk: &Arc<QuestionBroker>) -> impl RequestHandler {
    let asking = desk.clone();
    let approvals = ask(move |approval| {
        let desk = asking.clone();
        async move { desk.approve(approval).await }
    });
    BrokerHandler { approvals, desk: desk.clone() }
}

struct BrokerHandler<A> {
    approvals: A,
    desk: Arc<QuestionBroker>,
}

impl<A: RequestHandler> RequestHandler for BrokerHandler<A> {
    async fn approve_command(
        &self,
        asked: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        self.approvals.approve_command(asked).await
    }

    async fn approve_file_change(
        &self,
        asked: FileChangeRequestApprovalParams,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        self.approvals.approve_file_change(asked).await
    }

    async fn approve_permissions(
        &self,
        asked: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        self.approvals.approve_permissions(asked).await
    }

    async fn user_input(
        &self,
        asked: ToolRequestUserInputParams,
    ) -> HandlerAnswer<ToolRequestUserInputResponse> {
        let questions = asked.questions.clone();
        let show = |id| StreamMessage::InputRequest { id, questions };
        match self.desk.put(&asked.thread_id, show, QuestionState::Input).await {
            Some(answers) => {
                let answers = answers.into_iter();
                let answers = answers.map(|(id, answers)| (id, ToolRequestUserInputAnswer { answers }));
                Ok(ToolRequestUserInputResponse { answers: answers.collect() })
            }
            None => DeclineAll.user_input(asked).await,
        }
    }

    async fn elicitation(
        &self,
        asked: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        match self.desk.decide(&asked.thread_id, ApprovalSubject::Elicitation(asked.clone())).await {
            ApprovalDecision::Accept => ApproveAll::once().elicitation(asked).await,
            ApprovalDecision::AcceptForSession => ApproveAll::for_session().elicitation(asked).await,
            ApprovalDecision::Decline => DeclineAll.elicitation(asked).await,
            ApprovalDecision::Cancel => Err(NoAnswer::EndTurn),
        }
    }
}
