//! The queue of appends. Everything that has arrived while a commit was under way is the next commit: one statement, one
//! flush of the database's log. One task owns the connection.
//!
//! A lost connection does not fail an append. The rows of the leases tell which batches are stored, and the others are sent
//! again. The statement of a lost connection may still be running then; it locks the same rows, and whichever comes first
//! takes effect, once.

use std::{
    collections::{HashSet, VecDeque},
    time::Duration,
};

use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::{
    address::DatabaseAddress,
    append_statement::{self, BatchOutcome, LineBatch},
    connection::{DatabaseConnection, RetryPauses},
    error::{PostgresError, Result},
};

/// The number of appends that can wait. Further ones wait for room.
const QUEUE: usize = 1024;
/// The maximum number of batches in a statement.
const MAX_BATCHES: usize = 256;
/// A statement gets no further batches when it has this many bytes.
const STATEMENT_BYTES: usize = 4 * 1024 * 1024;
/// The time for which appends are repeated while the database is not available.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) struct AppendQueue {
    sender: mpsc::Sender<QueuedAppend>,
    _task: AbortOnDropHandle<()>,
}

struct QueuedAppend {
    batch: LineBatch,
    answer: oneshot::Sender<Result<()>>,
}

impl AppendQueue {
    pub fn start(address: DatabaseAddress) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let writer = AppendWriter { address, connection: None, receiver, deferred: VecDeque::new() };
        Self { sender, _task: AbortOnDropHandle::new(tokio::spawn(writer.run())) }
    }

    /// Appends a batch. Once queued, it is written even if the caller stops waiting. Callers wait for each append to a thread
    /// before the next.
    pub async fn append(&self, batch: LineBatch) -> Result<()> {
        batch.check()?;
        let (answer, stored) = oneshot::channel();
        self.sender.send(QueuedAppend { batch, answer }).await.map_err(|_| PostgresError::Closed)?;
        stored.await.map_err(|_| PostgresError::Closed)?
    }
}

struct AppendWriter {
    address: DatabaseAddress,
    connection: Option<DatabaseConnection>,
    receiver: mpsc::Receiver<QueuedAppend>,
    /// Appends that did not fit into a statement.
    deferred: VecDeque<QueuedAppend>,
}

impl AppendWriter {
    async fn run(mut self) {
        while let Some(appends) = self.next_appends().await {
            self.store(appends).await;
        }
    }

    /// Waits for an append and takes everything that waits beside it, at most one batch of each thread.
    async fn next_appends(&mut self) -> Option<Vec<QueuedAppend>> {
        let first = match self.deferred.pop_front() {
            Some(deferred) => deferred,
            None => self.receiver.recv().await?,
        };
        let mut bytes = first.batch.lines.len();
        let mut threads = HashSet::from([first.batch.thread]);
        let mut appends = vec![first];
        let mut left = VecDeque::new();
        while appends.len() < MAX_BATCHES && bytes < STATEMENT_BYTES {
            let next = self.deferred.pop_front().or_else(|| self.receiver.try_recv().ok());
            let Some(next) = next else { break };
            if threads.insert(next.batch.thread) {
                bytes += next.batch.lines.len();
                appends.push(next);
            } else {
                left.push_back(next);
            }
        }
        left.append(&mut self.deferred);
        self.deferred = left;
        Some(appends)
    }

    /// Stores batches and answers them.
    async fn store(&mut self, mut open: Vec<QueuedAppend>) {
        let mut retries = RetryPauses::new(PATIENCE);
        let mut is_repeated = false;
        loop {
            match self.send(&open).await {
                Ok(stored) => {
                    open = answer_stored(open, &stored);
                    if !is_repeated {
                        return open.into_iter().for_each(QueuedAppend::answer_overtaken);
                    }
                }
                Err(error) if error.is_unavailable() => {
                    is_repeated = true;
                    if let Err(error) = retries.pause(error).await {
                        return answer_unavailable(open, &error);
                    }
                }
                Err(error) => return self.store_one_by_one(open, error).await,
            }
            if open.is_empty() {
                return;
            }
            match self.settle(open, &mut retries).await {
                Some(rest) => open = rest,
                None => return,
            }
        }
    }

    /// Stores each batch by itself, so that one that the database refuses does not fail the others.
    async fn store_one_by_one(&mut self, open: Vec<QueuedAppend>, error: PostgresError) {
        let mut open: VecDeque<_> = open.into();
        if open.len() == 1
            && let Some(refused) = open.pop_front()
        {
            return refused.answer(Err(error));
        }
        for append in open {
            Box::pin(self.store(vec![append])).await;
        }
    }

    /// Reads the ends of the threads, however long it takes to reach the database. Returns the batches that have to be sent
    /// again; `None` if all are answered.
    async fn settle(
        &mut self,
        open: Vec<QueuedAppend>,
        retries: &mut RetryPauses,
    ) -> Option<Vec<QueuedAppend>> {
        let batches: Vec<_> = open.iter().map(|append| &append.batch).collect();
        let ends = loop {
            let failed = match self.connected().await {
                Ok(connection) => match append_statement::log_ends(connection, &batches).await {
                    Ok(ends) => break ends,
                    Err(error) => error,
                },
                Err(error) => error,
            };
            self.connection = None;
            if let Err(error) = retries.pause(failed).await {
                answer_unavailable(open, &error);
                return None;
            }
        };
        let mut rest = Vec::new();
        for append in open {
            match append.batch.outcome(ends.get(&append.batch.thread)) {
                BatchOutcome::Stored => append.answer(Ok(())),
                BatchOutcome::NotStored => rest.push(append),
                BatchOutcome::Overtaken => append.answer_overtaken(),
            }
        }
        (!rest.is_empty()).then_some(rest)
    }

    /// Sends the statement once. A connection that failed is dropped.
    async fn send(&mut self, open: &[QueuedAppend]) -> Result<HashSet<Uuid>> {
        let batches: Vec<_> = open.iter().map(|append| &append.batch).collect();
        let result = match self.connected().await {
            Ok(connection) => append_statement::append(connection, &batches).await,
            Err(error) => Err(error),
        };
        if result.as_ref().is_err_and(PostgresError::is_unavailable) {
            self.connection = None;
        }
        result
    }

    async fn connected(&mut self) -> Result<&DatabaseConnection> {
        let open = self.connection.take().filter(DatabaseConnection::is_open);
        let connection = match open {
            Some(connection) => connection,
            None => DatabaseConnection::open(&self.address).await?,
        };
        Ok(self.connection.insert(connection))
    }
}

/// Answers the stored batches, and returns the others.
fn answer_stored(open: Vec<QueuedAppend>, stored: &HashSet<Uuid>) -> Vec<QueuedAppend> {
    let mut rest = Vec::new();
    for append in open {
        if stored.contains(&append.batch.thread) {
            append.answer(Ok(()));
        } else {
            rest.push(append);
        }
    }
    rest
}

fn answer_unavailable(open: Vec<QueuedAppend>, error: &PostgresError) {
    let reason = match error {
        PostgresError::Unavailable(reason) => reason.to_string(),
        other => other.to_string(),
    };
    let unavailable = || PostgresError::Unavailable(reason.clone().into());
    open.into_iter().for_each(|append| append.answer(Err(unavailable())));
}

impl QueuedAppend {
    fn answer(self, result: Result<()>) {
        // A caller that does not wait any more reads the thread again before it writes.
        let _ = self.answer.send(result);
    }

    fn answer_overtaken(self) {
        let overtaken = self.batch.overtaken();
        self.answer(Err(overtaken));
    }
}
