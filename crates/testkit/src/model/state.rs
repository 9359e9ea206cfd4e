//! What the server and its connections share: the script, the log, the gates and the faults.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use hyper::http::request::Parts;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::{
    gates::ScriptGates,
    ids::IdCounter,
    log::RequestLog,
    recorded::RecordedRequest,
    reply::Reply,
    script::{Script, ScriptRest},
};

/// More faults than this say nothing new.
const MAX_FAULTS: usize = 100;

pub(super) struct ModelShared {
    queue: Mutex<VecDeque<Reply>>,
    rest: Mutex<Option<ScriptRest>>,
    faults: Mutex<Vec<String>>,
    pub(super) requests: RequestLog,
    pub(super) others: RequestLog,
    pub(super) gates: ScriptGates,
    pub(super) ids: Arc<IdCounter>,
    active: watch::Sender<usize>,
}

/// A panic in a test's own closure must not turn into a second one here.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

impl ModelShared {
    pub(super) fn new(script: Script) -> Self {
        let shared = Self {
            queue: Mutex::default(),
            rest: Mutex::default(),
            faults: Mutex::default(),
            requests: RequestLog::new(),
            others: RequestLog::new(),
            gates: ScriptGates::new(),
            ids: Arc::default(),
            active: watch::Sender::new(0),
        };
        shared.push(script);
        shared
    }

    pub(super) fn push(&self, script: Script) {
        let (replies, rest) = script.into_parts();
        lock(&self.queue).extend(replies);
        if let Some(rest) = rest {
            *lock(&self.rest) = Some(rest);
        }
    }

    pub(super) fn unused(&self) -> Vec<Reply> {
        lock(&self.queue).iter().cloned().collect()
    }

    /// Records a request and finds its reply, in one go: of two requests the earlier gets the earlier reply.
    pub(super) fn admit(&self, parts: &Parts, body: Bytes) -> (RecordedRequest, Option<Reply>) {
        let mut queue = lock(&self.queue);
        let request = self.requests.add(parts, body);
        let fits = |reply: &Reply| reply.when.as_ref().is_none_or(|when| when.holds(&request));
        let queued = queue.iter().position(fits).and_then(|at| queue.remove(at));
        drop(queue);
        let reply = queued.or_else(|| self.rest_for(&request));
        (request, reply)
    }

    fn rest_for(&self, request: &RecordedRequest) -> Option<Reply> {
        match lock(&self.rest).as_mut()? {
            ScriptRest::Repeat(reply) => Some(reply.clone()),
            ScriptRest::Decide(decide) => Some(decide(request)),
        }
    }

    pub(super) fn fault(&self, fault: impl Into<String>) {
        let mut faults = lock(&self.faults);
        if faults.len() < MAX_FAULTS {
            faults.push(fault.into());
        }
    }

    pub(super) fn faults(&self) -> Vec<String> {
        lock(&self.faults).clone()
    }

    /// Marks a request as being answered for as long as the guard lives.
    pub(super) fn activity(self: &Arc<Self>) -> ModelActivity {
        self.active.send_modify(|active| *active += 1);
        ModelActivity(self.clone())
    }

    pub(super) async fn until_idle(&self) {
        let _ = self.active.subscribe().wait_for(|active| *active == 0).await;
    }
}

pub(super) struct ModelActivity(Arc<ModelShared>);

impl Drop for ModelActivity {
    fn drop(&mut self) {
        self.0.active.send_modify(|active| *active -= 1);
    }
}
