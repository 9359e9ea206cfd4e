//! What can happen in the model: time passes, a node sends, a statement begins or takes effect, a connection is lost.

use super::{
    LeaseModel,
    cluster::{
        ClusterState, HeldTree, MARGIN, NodeRow, NodeWork, Statement, StatementKind, TTL, TreeWrite, Variant,
    },
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Tick,
    Renew(usize),
    Write(usize, TreeWrite),
    /// Begins a takeover, or repeats one.
    TakeOver(usize),
    /// Reads the tree after a takeover.
    Load(usize),
    /// Reads the rows of a write whose answer was lost.
    Recover(usize),
    /// A statement takes its snapshot.
    Begin(usize),
    /// A statement takes effect, and its answer arrives if it is awaited.
    Execute(usize),
    /// The node loses the connection. The statement may still take effect.
    LoseConnection(usize),
    /// A statement of a lost connection never arrives.
    Vanish(usize),
}

pub fn possible(model: &LeaseModel, state: &ClusterState, steps: &mut Vec<Step>) {
    if state.now < model.end {
        steps.push(Step::Tick);
    }
    for node in 0..state.nodes.len() {
        steps_of_node(model, state, node, steps);
    }
    for (at, statement) in state.in_flight.iter().enumerate() {
        if statement.snapshot.is_some() || !statement.needs_snapshot(model.variant) {
            steps.push(Step::Execute(at));
        } else {
            steps.push(Step::Begin(at));
        }
        if statement.is_awaited && state.lost_connections > 0 {
            steps.push(Step::LoseConnection(at));
        }
        if !statement.is_awaited && statement.snapshot.is_none() {
            steps.push(Step::Vanish(at));
        }
    }
}

fn steps_of_node(model: &LeaseModel, state: &ClusterState, node: usize, steps: &mut Vec<Step>) {
    let process = &state.nodes[node];
    let is_renewal = |it: &Statement| it.node == node && matches!(it.kind, StatementKind::Renew { .. });
    // Nodes whose lease outlives the run need no renewal.
    let needs_renewal = model.until[node] <= model.end && state.renewals > 0;
    if needs_renewal && !process.is_gone && !state.in_flight.iter().any(is_renewal) {
        steps.push(Step::Renew(node));
    }
    let is_trusted = state.now < process.trusted_until;
    match process.work {
        NodeWork::Idle if is_trusted => {
            let root = state.root();
            let is_expired = match state.database.nodes[root.owner] {
                NodeRow::Buried => true,
                NodeRow::Until(until) => until <= state.now,
            };
            if root.owner == node || is_expired {
                steps.push(Step::TakeOver(node));
            }
        }
        NodeWork::Taken { .. } if is_trusted => steps.push(Step::Load(node)),
        NodeWork::Holding(held) if is_trusted => {
            if held.next[1].is_none() {
                steps.push(Step::Write(node, TreeWrite::SpawnChild));
            }
            for (thread, next) in held.next.into_iter().enumerate() {
                if let Some(first) = next.filter(|next| *next < model.batches) {
                    steps.push(Step::Write(node, TreeWrite::Append { thread, first }));
                }
            }
        }
        NodeWork::Uncertain(..) => steps.push(Step::Recover(node)),
        _ => {}
    }
}

pub fn take(model: &LeaseModel, state: &mut ClusterState, step: Step) {
    match step {
        Step::Tick => state.now += 1,
        Step::Renew(node) => {
            state.renewals -= 1;
            state.send(node, StatementKind::Renew { sent_at: state.now });
        }
        Step::Write(node, write) => {
            if let NodeWork::Holding(held) = state.nodes[node].work {
                send_write(state, node, held, write);
            }
        }
        Step::TakeOver(node) => begin_takeover(model, state, node),
        Step::Load(node) => load(state, node),
        Step::Recover(node) => recover(state, node),
        Step::Begin(at) => state.in_flight[at].snapshot = Some(state.snapshot()),
        Step::Execute(at) => {
            let statement = state.in_flight.remove(at);
            let snapshot = statement.snapshot.unwrap_or_else(|| state.snapshot());
            let changed = state.database.execute(model.variant, &statement, snapshot);
            if statement.is_awaited {
                answer(model, state, statement, changed);
            }
        }
        Step::LoseConnection(at) => {
            state.lost_connections -= 1;
            state.in_flight[at].is_awaited = false;
            let Statement { node, kind, .. } = state.in_flight[at];
            let work = &mut state.nodes[node].work;
            match *work {
                _ if matches!(kind, StatementKind::Renew { .. }) => {}
                NodeWork::Writing(held, write) => *work = NodeWork::Uncertain(held, write),
                // Each statement of a takeover can be repeated.
                _ => *work = NodeWork::Idle,
            }
        }
        Step::Vanish(at) => {
            state.in_flight.remove(at);
        }
    }
}

fn send_write(state: &mut ClusterState, node: usize, held: HeldTree, write: TreeWrite) {
    let epoch = held.epoch;
    let kind = match write {
        TreeWrite::SpawnChild => StatementKind::SpawnChild { epoch },
        TreeWrite::Append { thread, first } => StatementKind::Append { thread, epoch, first },
    };
    state.send(node, kind);
    state.nodes[node].work = NodeWork::Writing(held, write);
}

fn begin_takeover(model: &LeaseModel, state: &mut ClusterState, node: usize) {
    let root = state.root();
    let seen = root.epoch;
    let kind = match state.database.nodes[root.owner] {
        // The answer of an earlier attempt was lost.
        _ if root.owner == node => StatementKind::TakeChildren { epoch: seen },
        NodeRow::Until(_) if model.variant != Variant::NoBurial => {
            StatementKind::Bury { target: root.owner, seen }
        }
        _ => take_root(model, seen),
    };
    state.nodes[node].work = NodeWork::Taking;
    state.send(node, kind);
}

fn take_root(model: &LeaseModel, seen: u8) -> StatementKind {
    match model.variant {
        Variant::OneStatement => StatementKind::TakeTree { seen },
        _ => StatementKind::TakeRoot { seen },
    }
}

fn load(state: &mut ClusterState, node: usize) {
    let NodeWork::Taken { epoch } = state.nodes[node].work else { return };
    let len = |thread: usize| u8::try_from(state.database.logs[thread].len()).expect("logs are short");
    let next = [0, 1].map(|thread: usize| state.database.leases[thread].map(|lease| lease.next));
    let held = HeldTree { epoch, next, loaded: [len(0), len(1)] };
    let is_mine = state.root().epoch == epoch;
    state.nodes[node].work = if is_mine { NodeWork::Holding(held) } else { NodeWork::Idle };
}

/// One row decides: the epoch is mine and the ordinal is the next one, or the first, or the epoch is another one.
fn recover(state: &mut ClusterState, node: usize) {
    let NodeWork::Uncertain(held, write) = state.nodes[node].work else { return };
    match write {
        TreeWrite::Append { thread, first } => {
            let lease = state.database.leases[thread].filter(|lease| lease.epoch == held.epoch);
            match lease.map(|lease| lease.next) {
                Some(next) if next == first + 1 => {
                    state.recovered_append = true;
                    stored(state, node, held, thread, first);
                }
                Some(next) if next == first => send_write(state, node, held, write),
                _ => state.nodes[node].work = NodeWork::Idle,
            }
        }
        TreeWrite::SpawnChild => match state.database.leases[1] {
            Some(child) if child.epoch == held.epoch => spawned(state, node, held),
            None if state.root().epoch == held.epoch => send_write(state, node, held, write),
            _ => state.nodes[node].work = NodeWork::Idle,
        },
    }
}

fn stored(state: &mut ClusterState, node: usize, mut held: HeldTree, thread: usize, first: u8) {
    held.next[thread] = Some(first + 1);
    let process = &mut state.nodes[node];
    process.announced.push((thread, first));
    process.announced.sort_unstable();
    process.work = NodeWork::Holding(held);
}

fn spawned(state: &mut ClusterState, node: usize, mut held: HeldTree) {
    held.next[1] = Some(0);
    state.nodes[node].work = NodeWork::Holding(held);
}

/// Handles the answer of a statement.
fn answer(model: &LeaseModel, state: &mut ClusterState, statement: Statement, changed: bool) {
    let node = statement.node;
    let work = state.nodes[node].work;
    match (statement.kind, work) {
        (StatementKind::Renew { sent_at }, _) if changed => {
            let from = if model.variant == Variant::TrustFromAnswer { state.now } else { sent_at };
            let trusted_until = &mut state.nodes[node].trusted_until;
            *trusted_until = (*trusted_until).max(from + TTL - MARGIN);
        }
        (StatementKind::Renew { .. }, _) => {
            let process = &mut state.nodes[node];
            process.trusted_until = 0;
            process.is_gone = true;
            process.work = NodeWork::Idle;
            let mine = state.in_flight.iter_mut().filter(|it| it.node == node);
            mine.for_each(|it| it.is_awaited = false);
        }
        // Whether the owner is buried, by this node or another one, is checked by the next statement.
        (StatementKind::Bury { seen, .. }, _) => state.send(node, take_root(model, seen)),
        (StatementKind::TakeRoot { seen }, _) if changed => {
            state.send(node, StatementKind::TakeChildren { epoch: seen + 1 });
        }
        (StatementKind::TakeTree { seen }, _) if changed => {
            state.nodes[node].work = NodeWork::Taken { epoch: seen + 1 };
        }
        (StatementKind::TakeRoot { .. } | StatementKind::TakeTree { .. }, _) => {
            state.nodes[node].work = NodeWork::Idle;
        }
        (StatementKind::TakeChildren { epoch }, _) => state.nodes[node].work = NodeWork::Taken { epoch },
        (StatementKind::Append { thread, first, .. }, NodeWork::Writing(held, _)) if changed => {
            stored(state, node, held, thread, first);
        }
        (StatementKind::SpawnChild { .. }, NodeWork::Writing(held, _)) if changed => {
            spawned(state, node, held);
        }
        // An earlier attempt of the same write may have taken effect.
        (_, NodeWork::Writing(held, write)) => state.nodes[node].work = NodeWork::Uncertain(held, write),
        _ => {}
    }
}

impl Statement {
    /// Returns whether it matters that the statement sees the past.
    fn needs_snapshot(&self, variant: Variant) -> bool {
        match self.kind {
            StatementKind::Renew { .. } | StatementKind::Bury { .. } | StatementKind::TakeTree { .. } => true,
            StatementKind::TakeRoot { .. } => variant == Variant::NoBurial,
            _ => false,
        }
    }
}
