//! The state that the server and its connections share: the script, the log, the gates and the faults.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use bytes::Bytes;
use hyper::http::request::Parts;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::watch;

use super::{
    dialect::IdCounter,
    log::RequestLog,
    recorded::RecordedRequest,
    reply::Reply,
    script::{Script, ScriptRest},
};

/// Maximum number of faults that are kept.
const MAX_FAULTS: usize = 100;

pub(super) struct ModelShared {
    queue: Mutex<VecDeque<Reply>>,
    rest: Mutex<Option<ScriptRest>>,
    faults: Mutex<Vec<String>>,
    pub(super) requests: RequestLog,
    pub(super) others: RequestLog,
    /// Answers to requests that are not for the model, by path.
    pub(super) pages: Mutex<HashMap<String, Value>>,
    pub(super) gates: ScriptGates,
    pub(super) ids: Arc<IdCounter>,
    active: watch::Sender<usize>,
}

impl ModelShared {
    pub(super) fn new(script: Script) -> Self {
        let shared = Self {
            queue: Mutex::default(),
            rest: Mutex::default(),
            faults: Mutex::default(),
            requests: RequestLog::new(),
            others: RequestLog::new(),
            pages: Mutex::default(),
            gates: ScriptGates::new(),
            ids: Arc::default(),
            active: watch::Sender::new(0),
        };
        shared.push(script);
        shared
    }

    pub(super) fn push(&self, script: Script) {
        let (replies, rest) = script.into_parts();
        self.queue.lock().extend(replies);
        if let Some(rest) = rest {
            *self.rest.lock() = Some(rest);
        }
    }

    pub(super) fn unused(&self) -> Vec<Reply> {
        self.queue.lock().iter().cloned().collect()
    }

    /// Records a request and takes its reply under one lock, so that of two requests the earlier gets the
    /// earlier reply.
    pub(super) fn admit(&self, parts: &Parts, body: Bytes) -> (RecordedRequest, Option<Reply>) {
        let mut queue = self.queue.lock();
        let request = self.requests.add(parts, body);
        let fits = |reply: &Reply| reply.when.as_ref().is_none_or(|when| when.holds(&request));
        let queued = queue.iter().position(fits).and_then(|at| queue.remove(at));
        drop(queue);
        let reply = queued.or_else(|| self.rest_for(&request));
        (request, reply)
    }

    fn rest_for(&self, request: &RecordedRequest) -> Option<Reply> {
        match self.rest.lock().as_mut()? {
            ScriptRest::Repeat(reply) => Some(reply.clone()),
            ScriptRest::Decide(decide) => Some(decide(request)),
        }
    }

    pub(super) fn fault(&self, fault: impl Into<String>) {
        let mut faults = self.faults.lock();
        if faults.len() < MAX_FAULTS {
            faults.push(fault.into());
        }
    }

    pub(super) fn faults(&self) -> Vec<String> {
        self.faults.lock().clone()
    }

    /// Marks a request as being answered until the guard is dropped.
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

/// Named points where a reply waits for the test.
///
/// A gate is a latch: once released it stays open, also for replies that reach it later. So a release before
/// the reply arrives is not lost.
pub(super) struct ScriptGates {
    state: watch::Sender<GateState>,
}

#[derive(Default)]
struct GateState {
    reached: HashSet<String>,
    released: HashSet<String>,
}

impl ScriptGates {
    pub(super) fn new() -> Self {
        Self { state: watch::Sender::new(GateState::default()) }
    }

    pub(super) fn release(&self, name: &str) {
        self.state.send_modify(|state| {
            state.released.insert(name.to_owned());
        });
    }

    /// Waits at the gate until it is released.
    pub(super) async fn pass(&self, name: &str) {
        let mut changes = self.state.subscribe();
        // Notifies `reached`. Replies that share a gate are not woken each time.
        self.state.send_if_modified(|state| state.reached.insert(name.to_owned()));
        let _ = changes.wait_for(|state| state.released.contains(name)).await;
    }

    /// Waits until a reply has reached the gate.
    pub(super) async fn reached(&self, name: &str) {
        let _ = self.state.subscribe().wait_for(|state| state.reached.contains(name)).await;
    }
}
