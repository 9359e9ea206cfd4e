//! The keys of requests that create, move or delete threads. A client can repeat such a request without a second effect.
//!
//! The intent is stored before the effect and the result before the response, under a lock that other nodes respect as long
//! as the holder is alive. A node that dies between the two leaves an intent, and the repetition of the request completes it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, oneshot},
    time,
};
use tokio_postgres::types::Type;
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use crate::{
    connection::{ConnectionPool, Value, column},
    error::{PostgresError, Result},
    node_lease::NodeIdentity,
    store::PostgresStore,
};

/// The time between two removals of keys that are older than a day.
const CLEAN_EVERY: Duration = Duration::from_secs(60 * 60);
/// The number of commands that can wait for the task.
const COMMANDS: usize = 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

const ACTION: &str = "use the key of a request";

/// Takes a key that is free: it is new, it was released, or its holder is buried.
const LOCK: &str = "
insert into codicil_key as k (key, holder, node, run) values ($1, $2, $3, $4)
on conflict (key) do update set holder = $2, node = $3, run = $4
    where k.holder is null or k.holder = $2 or not exists (
        select from codicil_node n where n.name = k.node and n.run = k.run and n.until > '-infinity')
returning intent, result";

/// The lock of a key. No other request with this key is carried out meanwhile, on any node. Dropping it releases the key.
pub struct KeyLock {
    pool: Arc<ConnectionPool>,
    held: HeldKey,
    intent: Option<String>,
    result: Option<String>,
    commands: mpsc::Sender<KeyCommand>,
}

#[derive(Clone)]
struct HeldKey {
    key: String,
    holder: Uuid,
}

/// The handle of the task that locks and releases keys, and the time when old keys were last removed.
pub(crate) struct RequestKeys {
    commands: mpsc::Sender<KeyCommand>,
    cleaned: Mutex<Option<Instant>>,
    _task: AbortOnDropHandle<()>,
}

enum KeyCommand {
    Lock { key: String, node: NodeIdentity, reply: oneshot::Sender<Result<Option<KeyLock>>> },
    Release(HeldKey),
}

impl RequestKeys {
    /// Starts the task. One task does both, so that a request that is dropped while its key is being locked leaves nothing
    /// locked: its answer is dropped, and the release follows the lock.
    pub fn start(pool: Arc<ConnectionPool>) -> Self {
        let (commands, mut received) = mpsc::channel(COMMANDS);
        let weak = commands.downgrade();
        let task = tokio::spawn(async move {
            while let Some(command) = received.recv().await {
                match (command, weak.upgrade()) {
                    (KeyCommand::Lock { key, node, reply }, Some(commands)) => {
                        let _ = reply.send(KeyLock::try_lock(&pool, commands, key, &node).await);
                    }
                    (KeyCommand::Lock { reply, .. }, None) => {
                        let _ = reply.send(Err(PostgresError::Closed));
                    }
                    (KeyCommand::Release(held), _) => held.release(&pool).await,
                }
            }
        });
        Self { commands, cleaned: Mutex::default(), _task: AbortOnDropHandle::new(task) }
    }

    async fn try_lock(&self, node: &NodeIdentity, key: &str) -> Result<Option<KeyLock>> {
        let (reply, locked) = oneshot::channel();
        let command = KeyCommand::Lock { key: key.to_owned(), node: node.clone(), reply };
        self.commands.send(command).await.map_err(|_| PostgresError::Closed)?;
        locked.await.map_err(|_| PostgresError::Closed)?
    }

    /// Returns whether it is time to remove old keys.
    fn is_due(&self) -> bool {
        let mut cleaned = self.cleaned.lock();
        let is_due = cleaned.is_none_or(|last| last.elapsed() >= CLEAN_EVERY);
        if is_due {
            *cleaned = Some(Instant::now());
        }
        is_due
    }
}

impl PostgresStore {
    /// Locks a key. Waits as long as another request with this key is carried out.
    pub async fn lock_key(&self, node: &NodeIdentity, key: &str) -> Result<KeyLock> {
        if self.keys.is_due() {
            let sql = "delete from codicil_key where holder is null and at < now() - interval '1 day'";
            self.pool.query(ACTION, sql, &[]).await?;
        }
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(lock) = self.keys.try_lock(node, key).await? {
                return Ok(lock);
            }
            self.bury_expired_holder(key).await?;
            time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Buries the node that holds a key, if its lease has ended.
    async fn bury_expired_holder(&self, key: &str) -> Result<()> {
        let sql =
            "select n.name, n.run from codicil_key k join codicil_node n on n.name = k.node and n.run = k.run
            where k.key = $1 and n.until <= now()";
        let answer = self.pool.query(ACTION, sql, &[(&key, Type::TEXT)]).await?;
        let Some(row) = answer.rows.first() else { return Ok(()) };
        self.bury(&NodeIdentity { name: column(row, "name")?, run: column(row, "run")? }).await
    }
}

impl KeyLock {
    /// Locks a key; `None` if it is held.
    async fn try_lock(
        pool: &Arc<ConnectionPool>,
        commands: mpsc::Sender<KeyCommand>,
        key: String,
        node: &NodeIdentity,
    ) -> Result<Option<Self>> {
        let held = HeldKey { key, holder: Uuid::now_v7() };
        let mut values = held.values().to_vec();
        values.extend([(&node.name as _, Type::TEXT), (&node.run as _, Type::UUID)]);
        let answer = pool.query(ACTION, LOCK, &values).await?;
        let Some(row) = answer.rows.first() else { return Ok(None) };
        let intent = column(row, "intent")?;
        let result = column(row, "result")?;
        Ok(Some(Self { pool: pool.clone(), held, intent, result, commands }))
    }

    /// Returns the intent of an earlier attempt.
    pub fn intent(&self) -> Option<&str> {
        self.intent.as_deref()
    }

    /// Returns the result of the request, if it was carried out.
    pub fn result(&self) -> Option<&str> {
        self.result.as_deref()
    }

    /// Stores the intent. Replaces what an earlier attempt has left.
    pub async fn begin(&mut self, intent: &str) -> Result<()> {
        let sql = "update codicil_key set intent = $3, result = null, at = now() where key = $1 and holder = $2 returning key";
        self.change(sql, Some(intent)).await?;
        self.intent = Some(intent.to_owned());
        self.result = None;
        Ok(())
    }

    /// Stores the result; the key is released with the lock. Fails with `KeyLost` if this node was too slow and another one carries the
    /// request out.
    pub async fn finish(self, result: &str) -> Result<()> {
        let sql =
            "update codicil_key set result = $3, at = now() where key = $1 and holder = $2 returning key";
        self.change(sql, Some(result)).await
    }

    /// Forgets the key, because the request has failed without an effect.
    pub async fn forget(self) -> Result<()> {
        let sql = "delete from codicil_key where key = $1 and holder = $2 returning key";
        match self.change(sql, None).await {
            Err(PostgresError::KeyLost) => Ok(()),
            result => result,
        }
    }

    async fn change(&self, sql: &str, text: Option<&str>) -> Result<()> {
        let mut values = self.held.values().to_vec();
        values.extend(text.iter().map(|text| -> Value<'_> { (text, Type::TEXT) }));
        let answer = self.pool.query(ACTION, sql, &values).await?;
        if answer.rows.is_empty() { Err(PostgresError::KeyLost) } else { Ok(()) }
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        // If there is no room, the key is free when this node ends.
        let _ = self.commands.try_send(KeyCommand::Release(self.held.clone()));
    }
}

impl HeldKey {
    async fn release(&self, pool: &ConnectionPool) {
        let sql = "update codicil_key set holder = null where key = $1 and holder = $2";
        if let Err(error) = pool.query(ACTION, sql, &self.values()).await {
            // The key is free when this node ends.
            tracing::warn!("failed to release the key of a request: {error}");
        }
    }

    fn values(&self) -> [Value<'_>; 2] {
        [(&self.key, Type::TEXT), (&self.holder, Type::UUID)]
    }
}
