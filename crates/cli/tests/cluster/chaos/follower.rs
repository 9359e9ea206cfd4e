//! A client that goes on with its thread whatever happens to servers, and knows afterwards what it was told.

use std::{collections::BTreeSet, path::Path, sync::Arc, time::Duration};

use codicil_protocol::{CodicilSubscribeResponse, MessageSeq, Thread, rpc::ErrorObject};
use codicil_testkit::{FoldedThread, ReceivedMessage};
use fastrand::Rng;
use serde_json::{Value, from_value, json};
use tokio::time::{Instant, sleep};

use super::{
    connection::{CallFailure, LossyConnection, OwnerRoute},
    node::ChaosNodes,
};

/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// Refusals that mean: later, or elsewhere.
const PASSING: [&str; 5] = ["ownedByNode", "storeUnavailable", "threadClosed", "moved", "nodeUnavailable"];

pub struct ThreadFollower {
    number: usize,
    nodes: Arc<ChaosNodes>,
    cwd: String,
    rng: Rng,
    /// Empty until the thread is created.
    thread: String,
    known: FoldedThread,
    /// A connection with a subscription.
    connection: Option<LossyConnection>,
    route: OwnerRoute,
    /// The server that owns the thread, as far as is known.
    owner: Option<usize>,
    subscriptions: usize,
    /// The turns that a server has accepted.
    accepted: BTreeSet<String>,
}

/// A thread at the end of a run.
pub struct FollowedThread {
    /// How each turn ended.
    pub ends: Vec<String>,
    pub subscriptions: usize,
}

impl ThreadFollower {
    pub fn new(number: usize, nodes: Arc<ChaosNodes>, cwd: &Path, rng: Rng) -> Self {
        Self {
            number,
            nodes,
            cwd: cwd.display().to_string(),
            rng,
            thread: String::new(),
            known: FoldedThread::default(),
            connection: None,
            route: if number.is_multiple_of(2) { OwnerRoute::Redirected } else { OwnerRoute::Relayed },
            owner: None,
            subscriptions: 0,
            accepted: BTreeSet::new(),
        }
    }

    /// Runs one turn after the other until a time, and checks what is stored.
    pub async fn run(mut self, until: Instant) -> FollowedThread {
        self.create().await;
        let mut turn = 0;
        while Instant::now() < until {
            self.run_turn(turn).await;
            turn += 1;
        }
        let stored = self.stored().await;
        self.known.check(&stored);
        let ids: Vec<_> = stored.turns.iter().map(|turn| turn.id.to_string()).collect();
        let different: BTreeSet<_> = ids.iter().cloned().collect();
        assert_eq!(different.len(), ids.len(), "thread {}: a turn is stored twice", self.number);
        assert_eq!(
            different, self.accepted,
            "thread {}: the turns that were accepted are stored",
            self.number
        );
        let end = |turn: &codicil_protocol::Turn| {
            serde_json::to_value(&turn.status).unwrap().as_str().unwrap_or_default().to_owned()
        };
        FollowedThread { ends: stored.turns.iter().map(end).collect(), subscriptions: self.subscriptions }
    }

    /// Creates the thread, once: a repetition with the same key has no second effect.
    async fn create(&mut self) {
        let params = json!({ "cwd": self.cwd });
        let key = format!("thread-{}", self.number);
        self.thread = loop {
            let Some(mut connection) = self.connect().await else { continue };
            match connection.call("thread/start", &params, Some(&key)).await {
                Ok(started) => break started["thread"]["id"].as_str().unwrap().to_owned(),
                Err(CallFailure::Lost) => {}
                Err(CallFailure::Refused(error)) => self.refused(&error).await,
            }
        };
    }

    /// Starts a turn, once, and follows it to its end.
    async fn run_turn(&mut self, number: usize) {
        let key = format!("turn-{}-{number}", self.number);
        let text = format!("question {number} of thread {}", self.number);
        let params = json!({ "threadId": self.thread, "input": [{ "type": "text", "text": text }] });
        let turn = loop {
            self.subscribe().await;
            let Some(connection) = &mut self.connection else { continue };
            match connection.call("turn/start", &params, Some(&key)).await {
                Ok(started) => break started["turn"]["id"].as_str().unwrap().to_owned(),
                Err(CallFailure::Lost) => self.connection = None,
                Err(CallFailure::Refused(error)) => self.refused(&error).await,
            }
        };
        self.accepted.insert(turn.clone());
        while !self.known.has_ended(&turn) {
            self.subscribe().await;
            let Some(connection) = &mut self.connection else { continue };
            match connection.next().await {
                Some(message) => self.take(&message),
                None => self.connection = None,
            }
        }
    }

    /// Returns the thread as it is stored, once no turn is running.
    async fn stored(&mut self) -> Thread {
        let params = json!({ "threadId": self.thread, "includeTurns": true });
        loop {
            self.subscribe().await;
            let Some(connection) = &mut self.connection else { continue };
            match connection.call("thread/read", &params, None).await {
                Ok(mut read) => {
                    while let Some(message) = self.connection.as_mut().and_then(LossyConnection::unread) {
                        self.take(&message);
                    }
                    let stored: Thread = from_value(read["thread"].take()).unwrap();
                    let is_over = stored
                        .turns
                        .iter()
                        .all(|turn| serde_json::to_value(&turn.status).unwrap() != "inProgress");
                    if is_over && !self.known.is_running() && self.connection.is_some() {
                        return stored;
                    }
                    sleep(PAUSE).await;
                }
                Err(CallFailure::Lost) => self.connection = None,
                Err(CallFailure::Refused(error)) => self.refused(&error).await,
            }
        }
    }

    /// Makes sure that there is a connection with a subscription, unless one attempt fails.
    async fn subscribe(&mut self) {
        if self.connection.is_some() {
            return;
        }
        let Some(mut connection) = self.connect().await else { return };
        let after: Option<MessageSeq> = (self.subscriptions > 0).then(|| self.known.after()).flatten();
        let params = json!({ "threadId": self.thread, "after": after });
        match connection.call("codicil/subscribe", &params, None).await {
            Ok(answer) => {
                let answer: CodicilSubscribeResponse = from_value(answer).unwrap();
                self.known.subscribed(&answer);
                self.subscriptions += 1;
                self.connection = Some(connection);
                while let Some(message) = self.connection.as_mut().and_then(LossyConnection::unread) {
                    self.take(&message);
                }
            }
            Err(CallFailure::Lost) => {}
            Err(CallFailure::Refused(error)) => self.refused(&error).await,
        }
    }

    fn take(&mut self, message: &ReceivedMessage) {
        if message.params.get("threadId").and_then(Value::as_str).is_some_and(|id| id != self.thread) {
            return;
        }
        self.known.add(message);
        if matches!(message.method.as_str(), "thread/closed" | "codicil/behind") {
            // The server has given the thread up.
            self.connection = None;
        }
    }

    /// Connects to the owner, or to any server.
    async fn connect(&mut self) -> Option<LossyConnection> {
        let number = self.owner.take().unwrap_or_else(|| self.rng.usize(..self.nodes.count()));
        let connection = match self.nodes.address(number) {
            Some(address) => LossyConnection::open(&address, self.route).await,
            None => None,
        };
        if connection.is_none() {
            sleep(PAUSE).await;
        }
        connection
    }

    /// Follows a refusal to another server, or waits. Panics for a refusal that must not happen.
    async fn refused(&mut self, error: &ErrorObject) {
        let was_subscribed = self.connection.is_some();
        while let Some(message) = self.connection.as_mut().and_then(LossyConnection::unread) {
            self.take(&message);
        }
        let was_closed = was_subscribed && self.connection.take().is_none();
        if !self.thread.is_empty() && error.message.starts_with("thread not found") {
            assert!(
                was_closed,
                "thread {} ({}) is not found before it is closed: {error:?}, subscribed {} times, now: {was_subscribed}",
                self.number, self.thread, self.subscriptions
            );
            return sleep(PAUSE).await;
        }
        let data = error.data.clone().unwrap_or_default();
        let code = data["codicil"]["code"].as_str().unwrap_or_default();
        let is_passing = PASSING.contains(&code) || error.code == -32001;
        assert!(is_passing, "thread {} ({}): {error:?}", self.number, self.thread);
        self.owner = data["codicil"]["node"].as_str().and_then(|node| self.nodes.number(node));
        sleep(PAUSE).await;
    }
}
