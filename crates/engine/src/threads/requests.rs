//! Server requests that wait for an answer, of all threads, loaded or not: `codicil/request/list` and
//! `codicil/request/answer`.

use std::collections::BTreeSet;

use codicil_protocol::{ThreadId, ThreadStatus};
use codicil_store::{RequestOutcome, UnfinishedTurn};

use super::{Threads, ids::canonical, not_stored};
use crate::{
    durable_requests,
    error::{RequestError, ThreadError},
    request_key::{RequestKey, find_key},
    thread::{AnswerOutcome, WaitingRequest},
    thread_clients::ClientAnswer,
};

/// Who has ended a request that was never answered.
const BY_TURN_END: &str = "turnEnd";

/// A request that waits for an answer, and its thread.
#[derive(Clone, Debug)]
pub struct ThreadRequest {
    pub thread_id: ThreadId,
    pub waiting: WaitingRequest,
}

/// A page of requests, sorted by thread and age.
#[derive(Clone, Debug, Default)]
pub struct RequestPage {
    pub requests: Vec<ThreadRequest>,
    pub next_cursor: Option<String>,
}

impl Threads {
    /// Returns the requests that wait for an answer, of one thread or of all. Only threads that have such requests are read.
    pub async fn waiting_requests(
        &self,
        thread: Option<&ThreadId>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<RequestPage, ThreadError> {
        // A cursor is the last request of the page before.
        let (after_thread, after_request) =
            cursor.and_then(|cursor| cursor.split_once('/')).unwrap_or_default();
        let threads: Vec<ThreadId> = match thread {
            Some(thread) => vec![canonical(thread)?],
            None => self.threads_with_requests(after_thread).await?,
        };
        let mut requests = Vec::new();
        for thread_id in threads {
            let mut waiting = match self.requests_of(&thread_id).await {
                Ok(waiting) => waiting,
                // It was deleted or archived meanwhile.
                Err(ThreadError::NotStored(_)) if thread.is_none() => continue,
                Err(error) => return Err(error),
            };
            if thread_id[..] == *after_thread {
                waiting.retain(|request| request.asked.request.as_str() > after_request);
            }
            let found = waiting.into_iter();
            requests.extend(found.map(|waiting| ThreadRequest { thread_id: thread_id.clone(), waiting }));
            if requests.len() > limit {
                break;
            }
        }
        let has_more = requests.len() > limit;
        requests.truncate(limit);
        let last = requests.last().filter(|_| has_more);
        let next_cursor = last.map(|last| format!("{}/{}", last.thread_id, last.waiting.asked.request));
        Ok(RequestPage { requests, next_cursor })
    }

    /// Returns the threads that may have open requests, from `from` on, in order.
    async fn threads_with_requests(&self, from: &str) -> Result<Vec<ThreadId>, ThreadError> {
        let mut threads: BTreeSet<ThreadId> =
            self.0.engine.store.threads_with_requests(from).await?.into_iter().collect();
        // Requests of ephemeral threads and subagents are not stored.
        let loaded = self.lock();
        let is_active = |id: &&ThreadId| {
            let status = loaded.get(id).and_then(|handle| handle.status());
            id[..] >= *from && matches!(status, Some(ThreadStatus::Active { .. }))
        };
        threads.extend(loaded.ids().filter(is_active).cloned());
        Ok(threads.into_iter().collect())
    }

    async fn requests_of(&self, id: &ThreadId) -> Result<Vec<WaitingRequest>, ThreadError> {
        if let Ok(handle) = self.get(id) {
            return handle.waiting_requests().await;
        }
        let loaded = self.load(id).await?;
        let unfinished = loaded.thread.unfinished.as_ref();
        Ok(unfinished.map(WaitingRequest::of_turn).unwrap_or_default())
    }

    /// Answers a server request. A thread that is not loaded is loaded, and its turn continues.
    pub async fn answer_request(
        &self,
        thread: &ThreadId,
        request: String,
        answer: ClientAnswer,
        key: Option<RequestKey>,
    ) -> Result<AnswerOutcome, ThreadError> {
        let id = canonical(thread)?;
        if self.get(&id).is_err() {
            if self.is_repeated_answer(&id, key.as_ref()).await? {
                return Ok(AnswerOutcome::Accepted);
            }
            if !self.load_to_answer(&id, &request, &answer).await? {
                return self.resolved(&id, request).await;
            }
        }
        match self.get(&id)?.with_key(key).answer_request(request.clone(), answer).await? {
            Some(outcome) => Ok(outcome),
            None => self.resolved(&id, request).await,
        }
    }

    /// Returns whether a thread that is not loaded has stored the key of an answer, which it does with the answer.
    async fn is_repeated_answer(&self, id: &ThreadId, key: Option<&RequestKey>) -> Result<bool, ThreadError> {
        let Some(key) = key else { return Ok(false) };
        let stored = self.0.engine.store.keys(id).await.map_err(not_stored)?;
        match find_key(&stored, key) {
            Some(known) => key.replay::<()>(known).map(|()| true),
            None => Ok(false),
        }
    }

    /// Loads a thread whose request is about to be answered. Returns false, and does not load it, if the request is not open.
    async fn load_to_answer(
        &self,
        id: &ThreadId,
        request: &str,
        answer: &ClientAnswer,
    ) -> Result<bool, ThreadError> {
        let stored = self.load(id).await?;
        let mut open = stored.thread.unfinished.iter().flat_map(UnfinishedTurn::open_requests);
        let Some(open) = open.find(|open| open.asked.request == request) else { return Ok(false) };
        if let Ok(result) = &answer.reply {
            durable_requests::check_result(&open.asked.method, result).map_err(RequestError::WrongShape)?;
        }
        self.resume_shared(id).await?;
        Ok(true)
    }

    /// Returns how a request ended that is not open.
    async fn resolved(&self, id: &ThreadId, request: String) -> Result<AnswerOutcome, ThreadError> {
        let outcome = self.0.engine.store.request_outcome(id, &request).await.map_err(not_stored)?;
        let (by, at) = match outcome {
            Some(RequestOutcome::Answered { by, at }) => (by, at),
            Some(RequestOutcome::TurnEnded { at }) => (BY_TURN_END.to_owned(), at),
            Some(RequestOutcome::Open) | None => return Err(RequestError::NotFound(request).into()),
        };
        Ok(AnswerOutcome::AlreadyResolved { by, at: at.map_or(0, |at| at.as_second()) })
    }
}
