//! The one place that decides what happens to a request whose thread another node owns.

use codicil_store::OwnerNode;

use crate::clients::ClientSession;

/// What happens to a request whose thread another node owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerAction {
    /// This node relays the request and the messages of the thread.
    Relay,
    /// The client gets the error `moved`, and sends the request to the owner itself.
    Redirect,
    /// The client gets the error `ownedByNode`, which says where the thread is.
    Refuse,
}

/// Decides about a request.
pub fn decide(session: &ClientSession, owner: &OwnerNode) -> OwnerAction {
    // A request that was relayed once is not relayed again. A node without an address listens on no network.
    if session.is_relayed || owner.url.is_empty() {
        OwnerAction::Refuse
    } else if session.wants_redirect() {
        OwnerAction::Redirect
    } else {
        OwnerAction::Relay
    }
}
