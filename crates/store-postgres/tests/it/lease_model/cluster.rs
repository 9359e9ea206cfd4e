//! The state of the model, and the effect of each statement.
//!
//! A statement is one transaction at the level *read committed*. It takes its snapshot and its time when it begins, and
//! checks the rows that it locks once more when it gets them. Only statements for which the difference matters begin
//! separately; the others take effect in one step. All nodes have the same clock, because only durations matter.

/// The time for which a renewal is valid, and how much earlier a node stops to act.
pub const TTL: u8 = 2;
pub const MARGIN: u8 = 1;

/// The statements that are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Variant {
    /// Those of this crate.
    Ours,
    /// Root and children are taken by one statement.
    OneStatement,
    /// The root is taken if its owner's row has expired, without burying the owner first.
    NoBurial,
    /// A child is inserted with the epoch that the node remembers.
    UnlockedRoot,
    /// A renewal is trusted from its answer on, not from its request.
    TrustFromAnswer,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClusterState {
    pub now: u8,
    pub database: Database,
    pub nodes: Vec<NodeProcess>,
    /// Statements that were sent and have not taken effect, sorted.
    pub in_flight: Vec<Statement>,
    /// The number of renewals that may still be sent, and of connections that may still be lost.
    pub renewals: u8,
    pub lost_connections: u8,
    /// Whether a node has found its append by reading the lease.
    pub recovered_append: bool,
}

/// Threads are 0, the root, and 1, its child.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Database {
    pub nodes: Vec<NodeRow>,
    pub leases: [Option<LeaseRow>; 2],
    pub logs: [Vec<LogEntry>; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodeRow {
    Until(u8),
    Buried,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseRow {
    pub epoch: u8,
    pub next: u8,
    pub owner: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LogEntry {
    pub ordinal: u8,
    pub epoch: u8,
    pub writer: usize,
}

/// What a node knows. A paused node is one whose steps do not happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeProcess {
    /// The node acts before this moment.
    pub trusted_until: u8,
    /// Whether it has learned that it was buried.
    pub is_gone: bool,
    pub work: NodeWork,
    /// Threads and ordinals that its clients have seen.
    pub announced: Vec<(usize, u8)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeWork {
    Idle,
    /// Waits for a statement of a takeover.
    Taking,
    /// Has taken the tree and not read it.
    Taken {
        epoch: u8,
    },
    Holding(HeldTree),
    Writing(HeldTree, TreeWrite),
    /// Does not know whether the write took effect.
    Uncertain(HeldTree, TreeWrite),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeldTree {
    pub epoch: u8,
    /// The next ordinals of root and child.
    pub next: [Option<u8>; 2],
    /// The length of both logs when they were read.
    pub loaded: [u8; 2],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TreeWrite {
    Append { thread: usize, first: u8 },
    SpawnChild,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Statement {
    pub node: usize,
    pub kind: StatementKind,
    /// Whether the node still waits for the answer.
    pub is_awaited: bool,
    pub snapshot: Option<Snapshot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum StatementKind {
    Renew {
        sent_at: u8,
    },
    Bury {
        target: usize,
        seen: u8,
    },
    TakeRoot {
        seen: u8,
    },
    TakeChildren {
        epoch: u8,
    },
    /// Root and children in one statement; only in [`Variant::OneStatement`].
    TakeTree {
        seen: u8,
    },
    SpawnChild {
        epoch: u8,
    },
    Append {
        thread: usize,
        epoch: u8,
        first: u8,
    },
}

/// What a statement has seen when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Snapshot {
    pub now: u8,
    pub owner_row: NodeRow,
    pub has_child: bool,
}

impl ClusterState {
    pub fn new(until: &[u8], renewals: u8, lost_connections: u8) -> Self {
        let process = |until: &u8| NodeProcess {
            trusted_until: until.saturating_sub(MARGIN),
            is_gone: false,
            work: NodeWork::Idle,
            announced: Vec::new(),
        };
        let mut nodes: Vec<_> = until.iter().map(process).collect();
        let held = HeldTree { epoch: 1, next: [Some(0), None], loaded: [0, 0] };
        nodes[0].work = NodeWork::Holding(held);
        let root = LeaseRow { epoch: 1, next: 0, owner: 0 };
        let database = Database {
            nodes: until.iter().map(|until| NodeRow::Until(*until)).collect(),
            leases: [Some(root), None],
            logs: [Vec::new(), Vec::new()],
        };
        let in_flight = Vec::new();
        Self { now: 0, database, nodes, in_flight, renewals, lost_connections, recovered_append: false }
    }

    pub fn root(&self) -> LeaseRow {
        self.database.leases[0].expect("the root is never deleted")
    }

    /// Returns whether no earlier owner has written since the tree was read, and none can: no thread has an earlier epoch.
    pub fn is_fenced_for(&self, held: &HeldTree) -> bool {
        let logs = self.database.logs.iter().zip(held.loaded);
        let has_no_earlier_writes = logs
            .into_iter()
            .all(|(log, len)| log[usize::from(len)..].iter().all(|it| it.epoch >= held.epoch));
        let leases = self.database.leases.iter().flatten();
        has_no_earlier_writes && leases.into_iter().all(|lease| lease.epoch >= held.epoch)
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            now: self.now,
            owner_row: self.database.nodes[self.root().owner],
            has_child: self.database.leases[1].is_some(),
        }
    }

    pub fn send(&mut self, node: usize, kind: StatementKind) {
        self.in_flight.push(Statement { node, kind, is_awaited: true, snapshot: None });
    }
}

impl NodeProcess {
    pub fn held(&self) -> Option<&HeldTree> {
        match &self.work {
            NodeWork::Holding(held) | NodeWork::Writing(held, _) | NodeWork::Uncertain(held, _) => Some(held),
            NodeWork::Idle | NodeWork::Taking | NodeWork::Taken { .. } => None,
        }
    }
}

impl Database {
    /// Executes a statement. Returns whether it has changed its rows.
    pub fn execute(&mut self, variant: Variant, statement: &Statement, snapshot: Snapshot) -> bool {
        match statement.kind {
            StatementKind::Renew { .. } => match &mut self.nodes[statement.node] {
                NodeRow::Buried => false,
                NodeRow::Until(until) => {
                    *until = (*until).max(snapshot.now + TTL);
                    true
                }
            },
            StatementKind::Bury { target, .. } => match &mut self.nodes[target] {
                row @ NodeRow::Until(_) if *row <= NodeRow::Until(snapshot.now) => {
                    *row = NodeRow::Buried;
                    true
                }
                _ => false,
            },
            StatementKind::TakeRoot { seen } => self.take_root(variant, statement.node, seen, snapshot),
            StatementKind::TakeChildren { epoch } => {
                self.take_child(statement.node, epoch);
                true
            }
            StatementKind::TakeTree { seen } => {
                let took_root = self.take_root(variant, statement.node, seen, snapshot);
                if took_root && snapshot.has_child {
                    self.take_child(statement.node, seen + 1);
                }
                took_root
            }
            StatementKind::SpawnChild { epoch } => self.spawn_child(variant, statement.node, epoch),
            StatementKind::Append { thread, epoch, first } => {
                self.append(statement.node, thread, epoch, first)
            }
        }
    }

    fn take_root(&mut self, variant: Variant, node: usize, seen: u8, snapshot: Snapshot) -> bool {
        let owner_row = self.leases[0].map(|root| self.nodes[root.owner]);
        let Some(root) = self.leases[0].as_mut().filter(|root| root.epoch == seen) else { return false };
        let is_free = match variant {
            // A subquery sees the snapshot.
            Variant::NoBurial => match snapshot.owner_row {
                NodeRow::Buried => true,
                NodeRow::Until(until) => until <= snapshot.now,
            },
            // Burial is final, so that it does not matter whether the snapshot or the current row is read.
            _ => owner_row == Some(NodeRow::Buried),
        };
        if is_free {
            root.epoch += 1;
            root.owner = node;
        }
        is_free
    }

    fn take_child(&mut self, node: usize, epoch: u8) {
        if let Some(child) = self.leases[1].as_mut().filter(|child| child.epoch < epoch) {
            child.epoch = epoch;
            child.owner = node;
        }
    }

    fn spawn_child(&mut self, variant: Variant, node: usize, epoch: u8) -> bool {
        let owns_root =
            self.leases[0].is_some_and(|root| root.epoch == epoch) || variant == Variant::UnlockedRoot;
        let may_insert = owns_root && self.leases[1].is_none();
        if may_insert {
            self.leases[1] = Some(LeaseRow { epoch, next: 0, owner: node });
        }
        may_insert
    }

    fn append(&mut self, node: usize, thread: usize, epoch: u8, first: u8) -> bool {
        let lease = self.leases[thread].as_mut();
        let Some(lease) = lease.filter(|lease| lease.epoch == epoch && lease.next == first) else {
            return false;
        };
        lease.next += 1;
        self.logs[thread].push(LogEntry { ordinal: first, epoch, writer: node });
        true
    }
}
