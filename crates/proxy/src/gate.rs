//! Who decides about connections.

use std::pin::Pin;

use codicil_policy::{Destination, Reach};

/// Decides, for one command, which hosts it reaches.
pub trait Gate: Send + Sync + 'static {
    /// Asked before anything is looked up. The connection waits for the answer; it may also go away.
    fn pass(&self, to: Destination) -> Passing<'_>;
}

/// A decision on its way.
pub type Passing<'a> = Pin<Box<dyn Future<Output = Pass> + Send + 'a>>;

/// What was decided about a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pass {
    Open(Reach),
    /// The command is told why.
    Shut(String),
}

/// What may be done with hosts that are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Methods {
    #[default]
    All,
    /// Requests that change nothing. What goes on in a tunnel cannot be seen, so there are none.
    ReadOnly,
}
