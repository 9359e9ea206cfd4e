//! Approvals and questions of servers, on their way to the product and back.
//!
//! A question belongs to a thread. If a turn of that thread is followed, the question becomes a message of its reply
//! and waits for [`Pool::decide`](super::Pool::decide) or [`Pool::answer`](super::Pool::answer). Otherwise, or if no
//! answer arrives in time, it is declined.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use codicil_client::{
    ApprovalDecision, ApprovalRequest, DeclineAll, FileChangeApproval, HandlerAnswer, RequestHandler, ask,
    protocol::{
        CommandExecutionApprovalDecision, CommandExecutionRequestApprovalParams, FileChangeApprovalDecision,
        McpServerElicitationRequestParams, McpServerElicitationRequestResponse,
        PermissionsRequestApprovalParams, PermissionsRequestApprovalResponse, ThreadId,
        ToolRequestUserInputAnswer, ToolRequestUserInputParams, ToolRequestUserInputResponse,
    },
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    counters::PoolCounters,
    error::PoolError,
    message::{QuestionId, StreamMessage},
};

/// Questions of one turn that may be queued for its reply.
const MAX_QUEUED_QUESTIONS: usize = 256;

/// The user's answers, by question id.
pub(super) type QuestionAnswers = BTreeMap<String, Vec<String>>;

/// The open questions of a pool.
#[derive(Debug)]
pub(super) struct OpenQuestions {
    next: AtomicU64,
    open: Mutex<HashMap<QuestionId, QuestionState>>,
    counters: Arc<PoolCounters>,
}

#[derive(Debug)]
enum QuestionState {
    Approval(ApprovalRequest, oneshot::Sender<ApprovalDecision>),
    Input(oneshot::Sender<QuestionAnswers>),
}

impl OpenQuestions {
    pub fn new(counters: Arc<PoolCounters>) -> Self {
        Self { next: AtomicU64::new(1), open: Mutex::default(), counters }
    }

    /// Answers an approval. A decision that does not answer it is an error and leaves the question open.
    pub fn decide(&self, id: QuestionId, decision: ApprovalDecision) -> Result<(), PoolError> {
        let mut open = self.open.lock();
        let Some(QuestionState::Approval(request, _)) = open.get(&id) else {
            return Err(PoolError::NotAsked(id));
        };
        request.check(&decision)?;
        let Some(QuestionState::Approval(_, sender)) = open.remove(&id) else {
            return Err(PoolError::NotAsked(id));
        };
        drop(open);
        sender.send(decision).map_err(|_| PoolError::NotAsked(id))?;
        self.counters.questions_answered.increment();
        Ok(())
    }

    pub fn answer(&self, id: QuestionId, answers: QuestionAnswers) -> Result<(), PoolError> {
        let mut open = self.open.lock();
        if !matches!(open.get(&id), Some(QuestionState::Input(_))) {
            return Err(PoolError::NotAsked(id));
        }
        let Some(QuestionState::Input(sender)) = open.remove(&id) else {
            return Err(PoolError::NotAsked(id));
        };
        drop(open);
        sender.send(answers).map_err(|_| PoolError::NotAsked(id))?;
        self.counters.questions_answered.increment();
        Ok(())
    }
}

/// Passes the questions of one server to the turns that run on it.
#[derive(Debug)]
pub(super) struct QuestionBroker {
    questions: Arc<OpenQuestions>,
    within: Duration,
    followers: Mutex<HashMap<ThreadId, mpsc::Sender<StreamMessage>>>,
}

impl QuestionBroker {
    pub fn new(questions: Arc<OpenQuestions>, within: Duration) -> Arc<Self> {
        Arc::new(Self { questions, within, followers: Mutex::default() })
    }

    /// Receives the questions about this thread until the returned value is dropped. After that they are declined.
    pub fn follow(self: &Arc<Self>, thread: &ThreadId) -> FollowedTurn {
        let (sender, questions) = mpsc::channel(MAX_QUEUED_QUESTIONS);
        self.followers.lock().insert(thread.clone(), sender);
        FollowedTurn { broker: self.clone(), thread: thread.clone(), questions }
    }

    async fn decide(&self, approval: ApprovalRequest) -> ApprovalDecision {
        let thread = approval.thread_id().clone();
        let request = approval.clone();
        let show = |id| StreamMessage::ApprovalRequest { id, approval };
        let open = |sender| QuestionState::Approval(request, sender);
        self.ask(&thread, show, open).await.unwrap_or(ApprovalDecision::Decline)
    }

    /// Asks a question and waits for the answer; `None` if there is none.
    async fn ask<T>(
        &self,
        thread: &ThreadId,
        show: impl FnOnce(QuestionId) -> StreamMessage,
        open: impl FnOnce(oneshot::Sender<T>) -> QuestionState,
    ) -> Option<T> {
        let follower = self.follower(thread)?;
        let (sender, answer) = oneshot::channel();
        let id = QuestionId(self.questions.next.fetch_add(1, Ordering::Relaxed));
        self.questions.open.lock().insert(id, open(sender));
        let question = PendingQuestion { id, questions: self.questions.clone(), follower };
        question.follower.try_send(show(id)).ok()?;
        self.questions.counters.questions_asked.increment();
        tokio::select! {
            answer = timeout(self.within, answer) => answer.ok()?.ok(),
            () = question.follower.closed() => None,
        }
    }

    /// Returns the follower of a thread. Older servers name no thread; then it is the only running turn.
    fn follower(&self, thread: &ThreadId) -> Option<mpsc::Sender<StreamMessage>> {
        let followers = self.followers.lock();
        let only = || followers.values().next().filter(|_| followers.len() == 1);
        followers.get(thread).or_else(|| thread.is_empty().then(only).flatten()).cloned()
    }
}

/// The questions of a turn that is followed.
#[derive(Debug)]
pub(super) struct FollowedTurn {
    broker: Arc<QuestionBroker>,
    thread: ThreadId,
    questions: mpsc::Receiver<StreamMessage>,
}

impl FollowedTurn {
    /// Returns the next question, or the notice that one is resolved.
    pub async fn next(&mut self) -> StreamMessage {
        match self.questions.recv().await {
            Some(message) => message,
            // Another turn of the thread has replaced this one, which receives nothing more.
            None => std::future::pending().await,
        }
    }
}

impl Drop for FollowedTurn {
    fn drop(&mut self) {
        self.questions.close();
        let mut followers = self.broker.followers.lock();
        if followers.get(&self.thread).is_some_and(mpsc::Sender::is_closed) {
            followers.remove(&self.thread);
        }
    }
}

/// An open question. Dropping it resolves the question, however it ended.
struct PendingQuestion {
    id: QuestionId,
    questions: Arc<OpenQuestions>,
    follower: mpsc::Sender<StreamMessage>,
}

impl Drop for PendingQuestion {
    fn drop(&mut self) {
        self.questions.open.lock().remove(&self.id);
        // Fails if the turn is over.
        let _ = self.follower.try_send(StreamMessage::Resolved { id: self.id });
    }
}

/// Returns the request handler of a server.
pub(super) fn handler(broker: &Arc<QuestionBroker>) -> impl RequestHandler {
    let approval_broker = broker.clone();
    let approvals = ask(move |approval| {
        let broker = approval_broker.clone();
        async move { broker.decide(approval).await }
    });
    BrokerHandler { approvals, broker: broker.clone() }
}

struct BrokerHandler<A> {
    approvals: A,
    broker: Arc<QuestionBroker>,
}

impl<A: RequestHandler> RequestHandler for BrokerHandler<A> {
    async fn approve_command(
        &self,
        params: CommandExecutionRequestApprovalParams,
    ) -> HandlerAnswer<CommandExecutionApprovalDecision> {
        self.approvals.approve_command(params).await
    }

    async fn approve_file_change(
        &self,
        approval: FileChangeApproval,
    ) -> HandlerAnswer<FileChangeApprovalDecision> {
        self.approvals.approve_file_change(approval).await
    }

    async fn approve_permissions(
        &self,
        params: PermissionsRequestApprovalParams,
    ) -> HandlerAnswer<PermissionsRequestApprovalResponse> {
        self.approvals.approve_permissions(params).await
    }

    async fn user_input(
        &self,
        params: ToolRequestUserInputParams,
    ) -> HandlerAnswer<ToolRequestUserInputResponse> {
        let questions = params.questions.clone();
        let show = |id| StreamMessage::InputRequest { id, questions };
        match self.broker.ask(&params.thread_id, show, QuestionState::Input).await {
            Some(answers) => {
                let answers = answers.into_iter();
                let answers = answers.map(|(id, answers)| (id, ToolRequestUserInputAnswer { answers }));
                Ok(ToolRequestUserInputResponse { answers: answers.collect() })
            }
            None => DeclineAll.user_input(params).await,
        }
    }

    async fn elicitation(
        &self,
        params: McpServerElicitationRequestParams,
    ) -> HandlerAnswer<McpServerElicitationRequestResponse> {
        self.approvals.elicitation(params).await
    }
}
