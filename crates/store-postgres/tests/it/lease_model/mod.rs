//! A model of leases and takeover, checked exhaustively within its bounds.
//!
//! [`cluster`] has the state and what the statements do to it, [`steps`] what can happen. The statements are those of
//! `src/lease.rs`, `src/node_lease.rs` and `src/append_statement.rs`; the model was written before them. Simpler statements
//! that were considered are [`Variant`]s, and the tests show why each of them was rejected.

mod cluster;
mod steps;

use stateright::{Checker, HasDiscoveries, Model, Property};

use cluster::{ClusterState, NodeRow, Variant};
use steps::Step;

/// The bounds and the statements of a run.
#[derive(Clone)]
struct LeaseModel {
    variant: Variant,
    /// The last moment.
    end: u8,
    /// When the lease of each node ends. The tree belongs to the first one at the beginning.
    until: Vec<u8>,
    /// The maximum number of batches of a thread.
    batches: u8,
    /// The number of renewals, of all nodes together, and of connections that may be lost.
    renewals: u8,
    lost_connections: u8,
}

impl LeaseModel {
    /// A node that holds the tree and can be too late with its renewal, and one that takes over.
    fn takeover(variant: Variant) -> Self {
        Self { variant, end: 3, until: vec![2, 9], batches: 1, renewals: 1, lost_connections: 1 }
    }

    /// A node that has died, one that takes over from it and is late itself, and one that takes over from both.
    fn second_takeover() -> Self {
        Self {
            variant: Variant::Ours,
            end: 2,
            until: vec![0, 2, 9],
            batches: 1,
            renewals: 0,
            lost_connections: 1,
        }
    }
}

impl Model for LeaseModel {
    type State = ClusterState;
    type Action = Step;

    fn init_states(&self) -> Vec<ClusterState> {
        vec![ClusterState::new(&self.until, self.renewals, self.lost_connections)]
    }

    fn actions(&self, state: &ClusterState, steps: &mut Vec<Step>) {
        steps::possible(self, state, steps);
    }

    fn next_state(&self, state: &ClusterState, step: Step) -> Option<ClusterState> {
        let mut next = state.clone();
        steps::take(self, &mut next, step);
        next.in_flight.sort();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("one record per ordinal", |_, state: &ClusterState| {
                let in_order = |log: &Vec<cluster::LogEntry>| {
                    log.iter().enumerate().all(|(at, entry)| usize::from(entry.ordinal) == at)
                };
                state.database.logs.iter().all(in_order)
            }),
            Property::always("epochs never decrease", |_, state: &ClusterState| {
                state.database.logs.iter().all(|log| log.is_sorted_by_key(|entry| entry.epoch))
            }),
            Property::always("announced is stored", |_, state: &ClusterState| {
                let is_stored = |node: usize, thread: usize, ordinal: u8| {
                    let entry = state.database.logs[thread].get(usize::from(ordinal));
                    entry.is_some_and(|entry| entry.writer == node)
                };
                let mut nodes = state.nodes.iter().enumerate();
                nodes.all(|(node, process)| {
                    process.announced.iter().all(|(thread, ordinal)| is_stored(node, *thread, *ordinal))
                })
            }),
            Property::always("a loaded tree has one writer", |_, state: &ClusterState| {
                state.nodes.iter().filter_map(|node| node.held()).all(|held| state.is_fenced_for(held))
            }),
            Property::always("a node that acts is the owner", |_, state: &ClusterState| {
                let mut nodes = state.nodes.iter().enumerate();
                nodes.all(|(at, node)| {
                    let acts = node.held().is_some() && state.now < node.trusted_until;
                    !acts || state.database.leases[0].is_some_and(|root| root.owner == at)
                })
            }),
            Property::sometimes("a tree is taken over with its child", |model, state: &ClusterState| {
                let taker = state.nodes.last().and_then(|node| node.held());
                taker.is_some_and(|held| held.next[1].is_some() && held.epoch as usize == model.until.len())
            }),
            Property::sometimes("a lost answer is recovered", |_, state: &ClusterState| {
                state.lost_connections == 0 && state.recovered_append
            }),
            Property::sometimes("a node learns that it was buried", |model, state: &ClusterState| {
                let mut rows = state.database.nodes.iter().zip(&state.nodes);
                model.renewals == 0 || rows.any(|(row, node)| *row == NodeRow::Buried && node.is_gone)
            }),
        ]
    }
}

/// Checks everything within the bounds.
fn check_holds(model: LeaseModel) {
    let checker = model.checker().spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

/// Checks that a variant violates a property.
fn check_refuted(variant: Variant, property: &'static str) {
    let until_found = HasDiscoveries::AnyOf([property].into());
    let checker = LeaseModel::takeover(variant).checker().finish_when(until_found).spawn_bfs().join();
    checker.assert_any_discovery(property);
}

#[test]
fn the_statements_hold_every_property() {
    check_holds(LeaseModel::takeover(Variant::Ours));
}

#[test]
fn the_statements_hold_when_the_second_owner_is_late_too() {
    check_holds(LeaseModel::second_takeover());
}

#[test]
fn a_takeover_in_one_statement_misses_a_child_that_is_inserted_meanwhile() {
    check_refuted(Variant::OneStatement, "a loaded tree has one writer");
}

#[test]
fn a_takeover_without_burial_races_with_a_renewal_that_began_in_time() {
    check_refuted(Variant::NoBurial, "a node that acts is the owner");
}

#[test]
fn a_child_that_does_not_lock_its_root_escapes_the_takeover() {
    check_refuted(Variant::UnlockedRoot, "a loaded tree has one writer");
}

#[test]
fn a_lease_that_counts_from_the_answer_is_trusted_for_too_long() {
    check_refuted(Variant::TrustFromAnswer, "a node that acts is the owner");
}
