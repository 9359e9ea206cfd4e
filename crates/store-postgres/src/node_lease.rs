//! The lease of a node: registered once, renewed by a task, and trusted for a little less time than others respect it.
//!
//! The database's clock decides when others may take over; this node's clock decides when it stops to act. A renewal is
//! trusted from the moment it was sent, so the node stops first, however slow the connection is. The clocks need not agree,
//! only go equally fast.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time;
use tokio_postgres::types::Type;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use uuid::Uuid;

use crate::{
    boot_clock::BootTime,
    connection::{ConnectionPool, column},
    error::{PostgresError, Result},
    store::PostgresStore,
};

/// The part of its time after which a lease is renewed, and by which a node stops before others may take over.
const PERIODS: u32 = 6;

/// Takes the name if it is free: the earlier run has expired, or is the one that this process has ended.
const REGISTER: &str = "
insert into codicil_node as n (name, run, url, places, until)
values ($1, $2, $3, $4, now() + make_interval(secs => $5))
on conflict (name) do update
    set run = excluded.run, url = excluded.url, places = excluded.places, until = excluded.until
    where n.until <= now() or n.run in ($2, $6)
returning run";

/// Never shortens the lease: the statement of a lost connection may take effect after a later one.
const RENEW: &str = "
update codicil_node set until = greatest(until, now() + make_interval(secs => $3))
where name = $1 and run = $2 and until > '-infinity' returning run";

/// A node and its run. A process that registers again is another run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeIdentity {
    pub name: String,
    pub run: Uuid,
}

/// How a node registers.
#[derive(Clone, Debug)]
pub struct NodeSettings {
    pub name: String,
    /// Where other nodes and clients reach it.
    pub url: String,
    /// The workspaces that it can reach, besides its own disk.
    pub places: Vec<String>,
    /// The time after which others may take over if the lease is not renewed.
    pub ttl: Duration,
}

/// A node of the cluster, for people.
#[derive(Clone, Debug, PartialEq)]
pub struct RegisteredNode {
    pub identity: NodeIdentity,
    pub url: String,
    pub places: Vec<String>,
    /// The time for which the lease is still valid; zero if it has ended.
    pub remaining: Duration,
    /// The number of trees that it owns.
    pub trees: i64,
}

/// The lease of this node. Dropping it stops the renewals.
pub struct NodeLease {
    identity: NodeIdentity,
    settings: NodeSettings,
    pool: Arc<ConnectionPool>,
    trust: Arc<LeaseTrust>,
    _renewals: AbortOnDropHandle<()>,
}

/// Until when the node acts.
pub(crate) struct LeaseTrust {
    until: Mutex<BootTime>,
    /// Cancelled when the lease is lost.
    pub lost: CancellationToken,
}

impl NodeLease {
    /// Registers a node under a new run. Fails with `NameInUse` while another process of this name is not known to be dead.
    pub async fn register(store: &PostgresStore, settings: NodeSettings) -> Result<Self> {
        // Renewals have a connection of their own, so that no other statement delays them.
        let pool = Arc::new(ConnectionPool::new(store.pool.address().clone(), 1));
        Self::register_with(pool, settings, Uuid::nil()).await
    }

    /// Registers again after the lease was lost. The trees of the earlier run can be taken by any node from now on.
    pub async fn register_again(self) -> Result<Self> {
        let Self { identity, settings, pool, trust, .. } = self;
        trust.lost.cancel();
        Self::register_with(pool, settings, identity.run).await
    }

    async fn register_with(
        pool: Arc<ConnectionPool>,
        settings: NodeSettings,
        replaced: Uuid,
    ) -> Result<Self> {
        let identity = NodeIdentity { name: settings.name.clone(), run: Uuid::now_v7() };
        let ttl = settings.ttl.as_secs_f64();
        let values = [
            (&identity.name as _, Type::TEXT),
            (&identity.run as _, Type::UUID),
            (&settings.url as _, Type::TEXT),
            (&settings.places as _, Type::TEXT_ARRAY),
            (&ttl as _, Type::FLOAT8),
            (&replaced as _, Type::UUID),
        ];
        let sent_at = BootTime::now();
        let answer = pool.query("register the node", REGISTER, &values).await?;
        if answer.rows.is_empty() {
            return Err(name_in_use(&pool, identity.name).await?);
        }
        let trust = Arc::new(LeaseTrust {
            until: Mutex::new(trusted_until(sent_at, settings.ttl)),
            lost: CancellationToken::new(),
        });
        let renewals = LeaseRenewals {
            identity: identity.clone(),
            ttl: settings.ttl,
            pool: pool.clone(),
            trust: trust.clone(),
        };
        let renewals = AbortOnDropHandle::new(tokio::spawn(renewals.run()));
        Ok(Self { identity, settings, pool, trust, _renewals: renewals })
    }

    pub fn identity(&self) -> &NodeIdentity {
        &self.identity
    }

    /// Returns whether the node may start effects: no other node can have taken its threads.
    pub fn may_act(&self) -> bool {
        self.trust.may_act()
    }

    pub(crate) fn trust(&self) -> Arc<LeaseTrust> {
        self.trust.clone()
    }

    /// Waits until the lease is lost. The node must then end its commands and turns, and register again.
    pub async fn lost(&self) {
        self.trust.lost.cancelled().await;
    }

    /// Ends the run. Other nodes can take its trees at once. Everything that wants to write has to be done before.
    pub async fn release(self) -> Result<()> {
        self.trust.lost.cancel();
        // A run without a row counts as buried, so the leases of its trees need no change.
        let sql = "delete from codicil_node where name = $1 and run = $2";
        let values = [(&self.identity.name as _, Type::TEXT), (&self.identity.run as _, Type::UUID)];
        self.pool.query("release the threads of the node", sql, &values).await?;
        Ok(())
    }
}

impl LeaseTrust {
    pub fn may_act(&self) -> bool {
        !self.lost.is_cancelled() && BootTime::now() < *self.until.lock()
    }
}

/// The task that renews a lease.
struct LeaseRenewals {
    identity: NodeIdentity,
    ttl: Duration,
    pool: Arc<ConnectionPool>,
    trust: Arc<LeaseTrust>,
}

impl LeaseRenewals {
    async fn run(self) {
        let period = self.ttl / PERIODS;
        while !self.trust.lost.is_cancelled() {
            let remaining = self.trust.until.lock().remaining();
            let renewed = time::timeout(remaining, async {
                time::sleep(period).await;
                time::timeout(period, self.renew()).await
            });
            match renewed.await {
                Ok(Ok(Ok(true))) => {}
                Ok(Ok(Ok(false))) => {
                    tracing::warn!(
                        node = self.identity.name,
                        "another node has taken over: the lease had ended"
                    );
                    self.trust.lost.cancel();
                }
                Ok(Ok(Err(error))) => tracing::warn!("failed to renew the lease of the node: {error}"),
                Ok(Err(_)) => tracing::warn!("failed to renew the lease of the node in time"),
                Err(_) => {}
            }
            if !self.trust.may_act() && !self.trust.lost.is_cancelled() {
                tracing::warn!(node = self.identity.name, "the lease of the node has ended without renewal");
                self.trust.lost.cancel();
            }
        }
    }

    /// Renews the lease. Returns `false` if the run was buried or replaced.
    async fn renew(&self) -> Result<bool> {
        let sent_at = BootTime::now();
        let ttl = self.ttl.as_secs_f64();
        let values = [
            (&self.identity.name as _, Type::TEXT),
            (&self.identity.run as _, Type::UUID),
            (&ttl as _, Type::FLOAT8),
        ];
        let rows = self.pool.query_once("renew the lease of the node", RENEW, &values).await?;
        if rows.is_empty() {
            return Ok(false);
        }
        *self.trust.until.lock() = trusted_until(sent_at, self.ttl);
        Ok(true)
    }
}

fn trusted_until(sent_at: BootTime, ttl: Duration) -> BootTime {
    sent_at.after(ttl - ttl / PERIODS)
}

async fn name_in_use(pool: &ConnectionPool, name: String) -> Result<PostgresError> {
    let sql = "select extract(epoch from greatest(until - now(), '0'))::float8 as seconds from codicil_node
        where name = $1 and until > '-infinity'";
    let answer = pool.query("read the nodes", sql, &[(&name, Type::TEXT)]).await?;
    let seconds: f64 = answer.rows.first().map_or(Ok(0.0), |row| column(row, "seconds"))?;
    Ok(PostgresError::NameInUse { name, remaining: Duration::try_from_secs_f64(seconds).unwrap_or_default() })
}

impl PostgresStore {
    /// Returns the name of the node whose run this is, if it is alive.
    pub async fn node_of_run(&self, run: Uuid) -> Result<Option<String>> {
        let sql = "select name from codicil_node where run = $1 and until > now()";
        let answer = self.pool.query("read the nodes", sql, &[(&run, Type::UUID)]).await?;
        answer.rows.first().map(|row| column(row, "name")).transpose()
    }

    /// Returns the places that nodes can reach which are alive and can be reached themselves.
    pub(crate) async fn served_places(&self) -> Result<Vec<String>> {
        let sql =
            "select distinct unnest(places) as place from codicil_node where until > now() and url <> ''";
        let answer = self.pool.query("read the nodes", sql, &[]).await?;
        answer.rows.iter().map(|row| column(row, "place")).collect()
    }

    /// Returns the nodes that are registered and not buried, by name.
    pub async fn nodes(&self) -> Result<Vec<RegisteredNode>> {
        let sql = "select name, run, url, places,
                extract(epoch from greatest(until - now(), '0'))::float8 as seconds,
                (select count(*) from codicil_lease l
                    where l.thread = l.root and l.node = n.name and l.run = n.run) as trees
            from codicil_node n where until > '-infinity' order by name";
        let answer = self.pool.query("read the nodes", sql, &[]).await?;
        let read = |row| {
            let seconds: f64 = column(row, "seconds")?;
            Ok(RegisteredNode {
                identity: NodeIdentity { name: column(row, "name")?, run: column(row, "run")? },
                url: column(row, "url")?,
                places: column(row, "places")?,
                remaining: Duration::try_from_secs_f64(seconds).unwrap_or_default(),
                trees: column(row, "trees")?,
            })
        };
        answer.rows.iter().map(read).collect()
    }
}
