//! The server requests of a turn, and the moments after which its tool calls may have effects.
//!
//! A request that outlives the process is stored before it is sent, and its answer before anything follows from it. So is the
//! moment from which a call may have effects: what comes before it can happen again after a restart.

use std::time::Duration;

use codicil_protocol::{ThreadItem, ThreadStatus, TurnId, rpc::RequestId};
use codicil_store::{AskedRequest, Record, RequestAnswer, StoredRequest, UnfinishedTurn};
use serde_json::value::to_raw_value;
use tokio::sync::oneshot;
use uuid::Uuid;

use super::{
    active_turn::{EarlyAnswer, ResolvedRequest},
    actor::ThreadActor,
    open_questions::{DurableRequest, EndedQuestion, QuestionEnd, QuestionKind},
};
use crate::{
    clock::{unix_now, unix_now_ms},
    durable_requests,
    error::{RequestError, ThreadError},
    subagent::SubagentOrigin,
    thread_clients::{ClientAnswer, ClientReply},
    turn_channel::{DurableQuestion, QuestionRequest},
};

/// Who answers when a deadline has passed.
const BY_DEADLINE: &str = "deadline";

/// A server request that waits for an answer.
#[derive(Clone, Debug)]
pub struct WaitingRequest {
    pub turn_id: TurnId,
    /// The identity of the request, which stays the same over restarts.
    pub asked: AskedRequest,
    /// Unix seconds.
    pub asked_at: i64,
}

impl WaitingRequest {
    /// Returns the open requests of a stored turn.
    pub fn of_turn(turn: &UnfinishedTurn) -> Vec<Self> {
        let waiting = |request: &StoredRequest| Self {
            turn_id: turn.id.clone(),
            asked: request.asked.clone(),
            asked_at: request.asked_at.map_or(0, |at| at.as_second()),
        };
        turn.open_requests().map(waiting).collect()
    }
}

/// The result of answering a server request.
#[derive(Clone, Debug)]
pub enum AnswerOutcome {
    Accepted,
    AlreadyResolved {
        by: String,
        /// Unix seconds.
        at: i64,
    },
}

impl ThreadActor {
    /// Returns whether the requests and calls of the running turn are stored. A subagent ends with its parent's turn, and a
    /// reviewer's history is not stored.
    pub(super) fn stores_calls(&self) -> bool {
        self.state.log.is_some() && !self.is_reviewing() && SubagentOrigin::of(&self.state.source).is_none()
    }

    /// Stores that a call may have effects, and lets it go on.
    pub(super) async fn on_begin(
        &mut self,
        turn: &TurnId,
        call_id: String,
        item: Option<Box<ThreadItem>>,
        reply: oneshot::Sender<()>,
    ) {
        let Some(active) = &mut self.active else { return };
        if active.cancel.is_cancelled() {
            return;
        }
        let item = item.filter(|_| !active.calls.asked.contains(&call_id)).map(|item| *item);
        active.calls.begun.insert(call_id.clone());
        if self.stores_calls() {
            let begun = Record::Begun { turn_id: turn.clone(), call_id, item };
            if !self.store_or_fail_turn(vec![begun]).await || !self.sync_or_fail_turn().await {
                return;
            }
        }
        if !self.engine.store.may_act() {
            // The thread is about to be given up. Another process may have taken it already.
            return self.abandon_turn();
        }
        // The tool may have been dropped in this moment.
        let _ = reply.send(());
    }

    /// Stores the request if it outlives the process, updates the status, and sends the request to the subscribers. A call that
    /// runs again after a restart gets the answer to its earlier request instead, or waits for it.
    pub(super) async fn on_question(&mut self, request: QuestionRequest) {
        let Some(active) = &mut self.active else { return };
        if active.cancel.is_cancelled() {
            return;
        }
        if let Some(DurableQuestion { call_id, method, .. }) = &request.durable
            && let Some(answer) = active.calls.take_answer(call_id, method)
        {
            // The tool may have been dropped in this moment.
            let _ = request.reply.send(reply_of(answer));
            return self.update_waiting_status(None);
        }
        let Some(request) = active.questions.attach(request) else { return };
        let durable = request.durable.as_ref().map(|question| self.durable_request(question, request.kind));
        if let Some(durable) = &durable
            && !self.store_asked(durable).await
        {
            return;
        }
        self.update_waiting_status(Some(request.kind));
        let question = self.notifier.ask(&*request.encode);
        let time_limit = durable.as_ref().and_then(|durable| time_left(&durable.asked));
        let request = QuestionRequest { time_limit: request.time_limit.or(time_limit), ..request };
        if let Some(active) = &mut self.active {
            active.questions.push(request, question, durable);
        }
    }

    fn durable_request(&self, question: &DurableQuestion, kind: QuestionKind) -> DurableRequest {
        let approvals = self.state.config.settings.codicil.approvals;
        let default = durable_requests::default_result(question.method, approvals.default);
        let deadline = approvals.deadline_ms.filter(|_| default.is_some());
        let asked = AskedRequest {
            request: Uuid::now_v7().to_string(),
            call_id: question.call_id.clone(),
            kind,
            method: question.method.to_owned(),
            params: question.params.clone(),
            item: question.item.clone(),
            deadline_ms: deadline
                .map(|limit| unix_now_ms().saturating_add(i64::try_from(limit).unwrap_or(i64::MAX))),
        };
        DurableRequest { asked, asked_at: unix_now(), default }
    }

    /// Stores a request before it is sent. Returns false if that fails, which stops the turn.
    async fn store_asked(&mut self, durable: &DurableRequest) -> bool {
        if !self.stores_calls() {
            return true;
        }
        let Some(active) = &mut self.active else { return false };
        active.calls.asked.insert(durable.asked.call_id.clone());
        let mut open = active.questions.kinds_without(None);
        open.push(durable.asked.kind);
        let asked = Record::Asked { turn_id: active.id.clone(), request: durable.asked.clone(), open };
        self.store_or_fail_turn(vec![asked]).await
    }

    /// Stores the answer, resolves the request for all clients, updates the status, and only then forwards the reply. What the
    /// tool does with the reply therefore always follows on the wire.
    pub(super) async fn on_question_ended(&mut self, ended: EndedQuestion) {
        let EndedQuestion { id, end, reply: sender } = ended;
        let Some(active) = &self.active else { return };
        if active.cancel.is_cancelled() {
            // The request is withdrawn now and resolved after the turn's end.
            return;
        }
        let durable = active.questions.durable(&id).cloned();
        let default = durable.as_ref().and_then(|durable| durable.default.clone());
        let (reply, by) = match end {
            QuestionEnd::Replied(ClientAnswer { reply, by }) => (Some(reply), by),
            QuestionEnd::TimedOut => (default.map(Ok), BY_DEADLINE.to_owned()),
            QuestionEnd::Abandoned => return self.resolve_question(&id),
        };
        if let Some(durable) = &durable
            && !self.store_answer(&id, durable, reply.as_ref(), by).await
        {
            return;
        }
        self.resolve_question(&id);
        match (sender, durable) {
            // The tool may have been dropped in this moment.
            (Some(sender), _) => drop(sender.send(reply)),
            (None, Some(DurableRequest { asked, .. })) => {
                if let Some(active) = &mut self.active {
                    let AskedRequest { call_id, method, .. } = asked;
                    let answer = answer_of(reply.as_ref());
                    active.calls.answers.push(EarlyAnswer { call_id, method, answer });
                }
            }
            (None, None) => {}
        }
    }

    fn resolve_question(&mut self, id: &RequestId) {
        let kind = self.active.as_mut().and_then(|active| active.questions.remove(id));
        let Some(kind) = kind else { return };
        self.notifier.request_resolved(id.clone(), kind);
        self.update_waiting_status(None);
    }

    /// Stores an answer, with the key of the request that gives it, before anything follows from it. Returns false if that
    /// fails, which stops the turn.
    async fn store_answer(
        &mut self,
        id: &RequestId,
        durable: &DurableRequest,
        reply: Option<&ClientReply>,
        by: String,
    ) -> bool {
        let stores = self.stores_calls();
        let Some(active) = &mut self.active else { return false };
        let request = durable.asked.request.clone();
        let record = Record::Answered {
            turn_id: active.id.clone(),
            request: request.clone(),
            answer: answer_of(reply),
            by: by.clone(),
            open: active.questions.kinds_without(Some(id)),
        };
        let mut records = if stores { vec![record] } else { Vec::new() };
        match self.key_records(&()) {
            Ok(key) => records.extend(key),
            Err(error) => {
                self.fail_turn(&error);
                return false;
            }
        }
        let is_stored =
            records.is_empty() || self.store_or_fail_turn(records).await && self.sync_or_fail_turn().await;
        if !is_stored {
            return false;
        }
        if let Some(active) = &mut self.active {
            active.resolved.push(ResolvedRequest { request, by, at: unix_now() });
        }
        true
    }

    /// Returns the open requests that outlive the process.
    pub(super) fn waiting_requests(&self) -> Vec<WaitingRequest> {
        let Some(active) = &self.active else {
            let left = self.state.unfinished.as_ref();
            return left.map(|left| WaitingRequest::of_turn(left.turn())).unwrap_or_default();
        };
        let waiting = active.questions.durable_requests().map(|durable| WaitingRequest {
            turn_id: active.id.clone(),
            asked: durable.asked.clone(),
            asked_at: durable.asked_at,
        });
        waiting.collect()
    }

    /// Answers an open request in the place of the clients that were asked. `None` if the running turn has no such request.
    pub(super) async fn on_answer_request(
        &mut self,
        request: &str,
        answer: ClientAnswer,
    ) -> Result<Option<AnswerOutcome>, ThreadError> {
        let Some(active) = &mut self.active else { return self.answer_left_request(request, answer).await };
        if let Some(ResolvedRequest { by, at, .. }) =
            active.resolved.iter().find(|resolved| resolved.request == request).cloned()
        {
            return Ok(Some(AnswerOutcome::AlreadyResolved { by, at }));
        }
        let mut open = active.questions.durable_requests();
        let Some(durable) = open.find(|durable| durable.asked.request == request) else { return Ok(None) };
        if let Ok(result) = &answer.reply {
            durable_requests::check_result(&durable.asked.method, result)
                .map_err(RequestError::WrongShape)?;
        }
        drop(open);
        let Some(ended) = active.questions.answer(request, answer) else { return Ok(None) };
        self.on_question_ended(ended).await;
        match self.active.as_ref().filter(|active| active.is_store_failing) {
            Some(_) => Err(RequestError::NotStored.into()),
            None => Ok(Some(AnswerOutcome::Accepted)),
        }
    }

    /// Stores the answer to a request of a turn that this process cannot continue, because it cannot reach the workspace. The
    /// process that continues the turn finds the answer.
    async fn answer_left_request(
        &mut self,
        request: &str,
        answer: ClientAnswer,
    ) -> Result<Option<AnswerOutcome>, ThreadError> {
        let Some(left) = &self.state.unfinished else { return Ok(None) };
        if left.owner.is_some() || self.check_workspace().is_ok() {
            return Ok(None);
        }
        let turn = left.turn();
        let Some(asked) = turn.open_requests().find(|open| open.asked.request == request) else {
            return Ok(None);
        };
        if let Ok(result) = &answer.reply {
            durable_requests::check_result(&asked.asked.method, result).map_err(RequestError::WrongShape)?;
        }
        let others = turn.open_requests().filter(|open| open.asked.request != request);
        let answered = Record::Answered {
            turn_id: turn.id.clone(),
            request: request.to_owned(),
            answer: answer_of(Some(&answer.reply)),
            by: answer.by,
            open: others.map(|open| open.asked.kind).collect(),
        };
        let records = [answered].into_iter().chain(self.key_records(&())?).collect();
        self.store_once(records).await?;
        self.reload().await?;
        Ok(Some(AnswerOutcome::Accepted))
    }

    /// Sets the status flags to those of the open requests and of one that is about to be sent.
    pub(super) fn update_waiting_status(&mut self, more: Option<QuestionKind>) {
        let Some(active) = &self.active else { return };
        let active_flags = active.questions.flags(more);
        self.set_status(ThreadStatus::Active { active_flags });
    }
}

/// Returns the time until the deadline of a request; `None` if it has none.
pub(super) fn time_left(asked: &AskedRequest) -> Option<Duration> {
    let left = asked.deadline_ms?.saturating_sub(unix_now_ms());
    Some(Duration::from_millis(u64::try_from(left).unwrap_or(0)))
}

/// Returns the stored form of a reply.
fn answer_of(reply: Option<&ClientReply>) -> RequestAnswer {
    match reply {
        Some(Ok(result)) => RequestAnswer::Result(serde_json::from_str(result.get()).unwrap_or_default()),
        Some(Err(error)) => RequestAnswer::Error(error.clone()),
        None => RequestAnswer::TimedOut(true),
    }
}

/// Returns the reply of a stored answer; `None` if the time limit had passed.
fn reply_of(answer: RequestAnswer) -> Option<ClientReply> {
    match answer {
        RequestAnswer::Result(result) => Some(Ok(to_raw_value(&result).expect("a value is valid JSON"))),
        RequestAnswer::Error(error) => Some(Err(error)),
        RequestAnswer::TimedOut(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use codicil_protocol::rpc::ErrorObject;
    use serde_json::{json, value::RawValue};

    use super::*;

    #[test]
    fn a_stored_answer_is_the_reply_that_was_given() {
        let raw: Box<RawValue> = to_raw_value(&json!({ "decision": "accept" })).unwrap();
        let reply = reply_of(answer_of(Some(&Ok(raw.clone())))).unwrap().unwrap();
        assert_eq!(reply.get(), raw.get());
        let error = ErrorObject { code: -1, message: "no".to_owned(), data: None };
        assert_eq!(reply_of(answer_of(Some(&Err(error.clone())))).unwrap().unwrap_err(), error);
        assert!(reply_of(answer_of(None)).is_none());
    }
}
