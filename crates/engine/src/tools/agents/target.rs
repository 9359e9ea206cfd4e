//! Whom a call is about. A thread reaches the agents below it and nobody else.

use codicil_protocol::ThreadId;
use uuid::Uuid;

use super::{TurnTools, error::AgentError};
use crate::{subagent::SubagentOrigin, thread::ThreadHandle, threads::Threads};

/// An agent that was named.
pub(super) enum AgentTarget {
    Live(ThreadHandle),
    /// An id that no living agent of ours has: it was closed, or never was one.
    Gone(ThreadId),
}

impl AgentTarget {
    pub fn id(&self) -> &ThreadId {
        match self {
            Self::Live(handle) => handle.id(),
            Self::Gone(id) => id,
        }
    }
}

impl TurnTools {
    /// Finds an agent by its id, its nickname or the path of its task.
    pub(super) fn target(&self, threads: &Threads, name: &str) -> Result<AgentTarget, AgentError> {
        let name = name.trim();
        let path = match name.starts_with('/') {
            true => name.to_owned(),
            false => format!("{}/{name}", self.kit.family.path()),
        };
        let is_meant = |handle: &ThreadHandle| {
            let is_named = |origin: &SubagentOrigin| {
                origin.nickname.as_deref() == Some(name) || origin.path.as_deref() == Some(path.as_str())
            };
            &handle.id()[..] == name || handle.origin().is_some_and(is_named)
        };
        match threads.agents_below(&self.kit.thread).into_iter().find(is_meant) {
            Some(handle) => Ok(AgentTarget::Live(handle)),
            None if Uuid::parse_str(name).is_ok() => Ok(AgentTarget::Gone(ThreadId::from(name))),
            None => Err(AgentError::NoAgent(name.to_owned())),
        }
    }
}
