//! Named places where a reply waits for the test.
//!
//! A gate is a latch: once released it stays open, also for replies that come to it later. So a
//! release that happens before the reply arrives is not lost.

use std::collections::HashSet;

use tokio::sync::watch;

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

    /// Called by a reply that has come to the gate.
    pub(super) async fn pass(&self, name: &str) {
        let mut changes = self.state.subscribe();
        // The message is for `reached`; a gate that many replies share need not wake everyone each time.
        self.state.send_if_modified(|state| state.reached.insert(name.to_owned()));
        let _ = changes.wait_for(|state| state.released.contains(name)).await;
    }

    /// Returns when some reply has come to the gate.
    pub(super) async fn reached(&self, name: &str) {
        let _ = self.state.subscribe().wait_for(|state| state.reached.contains(name)).await;
    }
}
