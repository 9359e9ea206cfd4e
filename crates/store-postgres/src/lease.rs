//! Ownership of trees of threads, and takeover.
//!
//! A tree belongs to a node's run. The fence is the epoch: every takeover increments it, and appends at another epoch have
//! no effect. A takeover from a node that does not renew its lease has three statements, each of which can be repeated:
//!
//! 1. Bury the node. This locks its row, so that a renewal that began in time wins, and a later one fails.
//! 2. Take the root, if its epoch is the one that was seen and its owner is buried.
//! 3. Take the other threads of the tree. A child that was inserted during (2) is visible now, and none is inserted at the
//!    old epoch any more.
//!
//! Only then may the tree be read. `tests/it/lease_model` shows what goes wrong with fewer statements.

use codicil_metrics::METRICS;
use tokio_postgres::{Row, types::Type};
use uuid::Uuid;

use crate::{
    connection::column,
    error::{PostgresError, Result},
    node_lease::NodeIdentity,
    store::PostgresStore,
};

/// The maximum number of attempts to take a tree that other nodes take at the same time.
const MAX_ATTEMPTS: usize = 16;

const ACTION: &str = "take a thread over";

/// The number of a tree's owner, counted up by every takeover.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub i64);

/// The right to write to a tree of threads, until another node takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TreeLease {
    pub root: Uuid,
    pub epoch: Epoch,
}

/// A thread of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeThread {
    pub id: Uuid,
    /// The ordinal of its next line.
    pub next: u64,
}

/// The result of claiming a thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The node owns the thread's tree, and may read and write it now.
    Held(TreeLease),
    /// Another node owns it and is alive.
    OwnedElsewhere(NodeAddress),
}

/// A node that owns a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAddress {
    pub identity: NodeIdentity,
    pub url: String,
}

/// Which trees without an owner a node takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClaimRule {
    Any,
    /// Not those whose workspace is on another node that is alive.
    WithoutHome,
}

/// The result of claiming a thread, and the place of its workspace.
pub(crate) struct PlacedClaim {
    pub claim: Claim,
    pub place: String,
}

/// The root of a thread as it was found.
struct FoundRoot {
    lease: TreeLease,
    owner: RootOwner,
    place: String,
    /// A node that is alive and has the workspace: the asking one if possible.
    home: Option<NodeAddress>,
}

enum RootOwner {
    /// Released, also by the planned stop of its node.
    None,
    /// The node with this name was buried.
    Buried(String),
    Alive(NodeAddress),
    /// A node whose lease has ended and that is not buried.
    Expired(NodeIdentity),
}

impl PostgresStore {
    /// Takes the tree of a thread, unless another node that is alive owns it.
    pub async fn claim(&self, node: &NodeIdentity, thread: Uuid) -> Result<Claim> {
        Ok(self.claim_placed(node, thread, ClaimRule::Any).await?.claim)
    }

    /// Takes the tree of a thread as [`claim`](Self::claim) does, and returns where its workspace is.
    pub(crate) async fn claim_placed(
        &self,
        node: &NodeIdentity,
        thread: Uuid,
        rule: ClaimRule,
    ) -> Result<PlacedClaim> {
        for _ in 0..MAX_ATTEMPTS {
            let FoundRoot { lease, owner, place, home } = self.find_root(node.run, thread).await?;
            let home = home.filter(|home| rule == ClaimRule::WithoutHome && home.identity != *node);
            let (taken, from) = match (owner, home) {
                (RootOwner::Alive(owner), _) if owner.identity == *node => (Some(lease), None),
                (RootOwner::Alive(owner), _) | (_, Some(owner)) => {
                    return Ok(PlacedClaim { claim: Claim::OwnedElsewhere(owner), place });
                }
                (RootOwner::None, None) => (self.take_root(node, &lease).await?, None),
                (RootOwner::Buried(from), None) => (self.take_root(node, &lease).await?, Some(from)),
                (RootOwner::Expired(owner), None) => {
                    self.bury(&owner).await?;
                    (self.take_root(node, &lease).await?, Some(owner.name))
                }
            };
            if let Some(lease) = taken {
                self.take_children(node, &lease).await?;
                if from.is_some_and(|from| from != node.name) {
                    METRICS.leases_taken_over.inc();
                }
                return Ok(PlacedClaim { claim: Claim::Held(lease), place });
            }
        }
        Err(PostgresError::Unavailable("other nodes take the thread all the time".into()))
    }

    /// Returns the node that owns the tree of a thread and is alive; `None` if there is none.
    pub async fn owner(&self, thread: Uuid) -> Result<Option<NodeAddress>> {
        Ok(match self.find_root(Uuid::nil(), thread).await?.owner {
            RootOwner::Alive(owner) => Some(owner),
            RootOwner::None | RootOwner::Buried(_) | RootOwner::Expired(_) => None,
        })
    }

    /// Returns the node that owns the tree of a thread and is alive, or else one that is alive and has the workspace. `run` is
    /// that of the asking node.
    pub(crate) async fn owner_or_home(&self, run: Uuid, thread: Uuid) -> Result<Option<NodeAddress>> {
        let FoundRoot { owner, home, .. } = self.find_root(run, thread).await?;
        Ok(match owner {
            RootOwner::Alive(owner) => Some(owner),
            RootOwner::None | RootOwner::Buried(_) | RootOwner::Expired(_) => home,
        })
    }

    /// Returns the tree of a thread that this node has loaded at an epoch.
    pub(crate) async fn tree_at(&self, thread: Uuid, epoch: Epoch) -> Result<TreeLease> {
        let sql = "select root from codicil_lease where thread = $1 and epoch = $2";
        let values = [(&thread as _, Type::UUID), (&epoch.0 as _, Type::INT8)];
        let answer = self.pool.query("read a lease", sql, &values).await?;
        let row = answer.rows.first().ok_or(PostgresError::Overtaken { thread, first: 0 })?;
        Ok(TreeLease { root: column(row, "root")?, epoch })
    }

    /// Returns the threads of a tree, the root first. Fails with `Overtaken` if another node has taken it.
    pub async fn tree(&self, tree: &TreeLease) -> Result<Vec<TreeThread>> {
        let sql = "select thread, next from codicil_lease where root = $1 and epoch = $2 order by thread <> root, thread";
        let values = [(&tree.root as _, Type::UUID), (&tree.epoch.0 as _, Type::INT8)];
        let answer = self.pool.query("read a tree of threads", sql, &values).await?;
        let read = |row| {
            let next: i64 = column(row, "next")?;
            Ok(TreeThread { id: column(row, "thread")?, next: next.cast_unsigned() })
        };
        let threads: Vec<TreeThread> = answer.rows.iter().map(read).collect::<Result<_>>()?;
        let has_root = threads.first().is_some_and(|first| first.id == tree.root);
        has_root.then_some(threads).ok_or(PostgresError::Overtaken { thread: tree.root, first: 0 })
    }

    /// Gives up a tree, so that any node can take it at once. Without effect if another node has taken it.
    pub async fn release(&self, tree: &TreeLease) -> Result<()> {
        self.release_all(std::slice::from_ref(tree)).await
    }

    /// Gives up trees.
    pub(crate) async fn release_all(&self, trees: &[TreeLease]) -> Result<()> {
        let sql = "update codicil_lease l set node = null, run = null
            from unnest($1::uuid[], $2::bigint[]) as w(root, epoch) where l.root = w.root and l.epoch = w.epoch";
        let roots: Vec<_> = trees.iter().map(|tree| tree.root).collect();
        let epochs: Vec<_> = trees.iter().map(|tree| tree.epoch.0).collect();
        let values = [(&roots as _, Type::UUID_ARRAY), (&epochs as _, Type::INT8_ARRAY)];
        self.pool.query("release threads", sql, &values).await?;
        Ok(())
    }

    /// Returns roots of trees with running turns whose owner is not alive, of workspaces that the caller can reach.
    pub async fn abandoned_trees(&self, places: &[String], limit: u32) -> Result<Vec<Uuid>> {
        let sql = "select distinct l.root from codicil_lease l join codicil_thread t on t.id = l.root
            where l.state = 1 and t.place = any($1) and not exists (
                select from codicil_node n where n.name = l.node and n.run = l.run and n.until > now())
            order by l.root limit $2";
        let limit = i64::from(limit);
        let values = [(&places as _, Type::TEXT_ARRAY), (&limit as _, Type::INT8)];
        let answer = self.pool.query("look for abandoned threads", sql, &values).await?;
        answer.rows.iter().map(|row| column(row, "root")).collect()
    }

    /// `run` is that of the asking node.
    async fn find_root(&self, run: Uuid, thread: Uuid) -> Result<FoundRoot> {
        let sql = "select r.thread, r.epoch, r.node, r.run, n.url, t.place,
                case when n.until > now() then 'alive' when n.until > '-infinity' then 'expired'
                    when n.until is not null then 'buried' end as state,
                h.name as home, h.run as home_run, h.url as home_url
            from codicil_lease l join codicil_lease r on r.thread = l.root
            left join codicil_thread t on t.id = r.thread
            left join codicil_node n on n.name = r.node and n.run = r.run
            left join lateral (
                select * from codicil_node h
                where t.place = any(h.places) and h.until > now() and (h.url <> '' or h.run = $2)
                order by h.run <> $2, h.name limit 1
            ) h on true
            where l.thread = $1";
        let answer = self.pool.query(ACTION, sql, &[(&thread, Type::UUID), (&run, Type::UUID)]).await?;
        let row = answer.rows.first().ok_or(PostgresError::NotFound(thread))?;
        let home = column::<Option<String>>(row, "home")?.map(|name| {
            let identity = NodeIdentity { name, run: column(row, "home_run")? };
            Ok::<_, PostgresError>(NodeAddress { identity, url: column(row, "home_url")? })
        });
        Ok(FoundRoot {
            lease: TreeLease { root: column(row, "thread")?, epoch: Epoch(column(row, "epoch")?) },
            owner: root_owner(row)?,
            place: column::<Option<String>>(row, "place")?.unwrap_or_default(),
            home: home.transpose()?,
        })
    }

    /// Statement 1.
    pub(crate) async fn bury(&self, node: &NodeIdentity) -> Result<()> {
        let sql =
            "update codicil_node set until = '-infinity' where name = $1 and run = $2 and until <= now()";
        let values = [(&node.name as _, Type::TEXT), (&node.run as _, Type::UUID)];
        self.pool.query(ACTION, sql, &values).await?;
        Ok(())
    }

    /// Statement 2. `None` if another node was faster, or if the owner has renewed its lease.
    async fn take_root(&self, node: &NodeIdentity, seen: &TreeLease) -> Result<Option<TreeLease>> {
        let sql = "update codicil_lease l set epoch = epoch + 1, node = $3, run = $4
            where thread = $1 and root = $1 and epoch = $2 and not exists (
                select from codicil_node n where n.name = l.node and n.run = l.run and n.until > '-infinity')
            returning epoch";
        let values = [
            (&seen.root as _, Type::UUID),
            (&seen.epoch.0 as _, Type::INT8),
            (&node.name as _, Type::TEXT),
            (&node.run as _, Type::UUID),
        ];
        let answer = self.pool.query(ACTION, sql, &values).await?;
        // If an earlier attempt took effect, the next look finds this node as the owner.
        let epoch = answer.rows.first().map(|row| column(row, "epoch")).transpose()?;
        Ok(epoch.map(|epoch| TreeLease { root: seen.root, epoch: Epoch(epoch) }))
    }

    /// Statement 3.
    async fn take_children(&self, node: &NodeIdentity, tree: &TreeLease) -> Result<()> {
        // The turn of a subagent ends with its owner. It is settled when the subagent is loaded.
        let sql = "update codicil_lease set epoch = $2, node = $3, run = $4, state = 0
            where root = $1 and thread <> $1 and epoch < $2";
        let values = [
            (&tree.root as _, Type::UUID),
            (&tree.epoch.0 as _, Type::INT8),
            (&node.name as _, Type::TEXT),
            (&node.run as _, Type::UUID),
        ];
        self.pool.query(ACTION, sql, &values).await?;
        Ok(())
    }
}

fn root_owner(row: &Row) -> Result<RootOwner> {
    let identity = || -> Result<NodeIdentity> {
        Ok(NodeIdentity { name: column(row, "node")?, run: column(row, "run")? })
    };
    Ok(match column::<Option<&str>>(row, "state")? {
        None => RootOwner::None,
        Some("alive") => RootOwner::Alive(NodeAddress { identity: identity()?, url: column(row, "url")? }),
        Some("expired") => RootOwner::Expired(identity()?),
        Some(_) => RootOwner::Buried(column(row, "node")?),
    })
}
