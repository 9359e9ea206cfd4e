//! Why a request that was relayed has no response of the owner.

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RelayError {
    #[error(
        "the connection to node {node} was lost before it answered: whether the request was carried out is unknown"
    )]
    OutcomeUnknown { node: String },
    #[error("too many requests wait for the node that owns the thread")]
    Busy,
}
