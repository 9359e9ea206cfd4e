//! Who decides about connections.

use std::pin::Pin;

use codicil_policy::{AddressReach, NetworkDestination};

/// Decides, for one command, which hosts it reaches.
pub trait HostGate: Send + Sync + 'static {
    /// Asked before anything is looked up. The connection waits for the answer; it may also go away.
    fn pass(&self, to: NetworkDestination) -> GateFuture<'_>;
}

/// A decision on its way.
pub type GateFuture<'a> = Pin<Box<dyn Future<Output = GateDecision> + Send + 'a>>;

/// What was decided about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateDecision {
    Open(AddressReach),
    /// The command is told why.
    Shut(String),
}

/// What may be done with hosts that are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AllowedMethods {
    #[default]
    All,
    /// Requests that change nothing. What goes on in a tunnel cannot be seen, so there are none.
    ReadOnly,
}
