//! Agents that the model starts: threads of their own, below the one whose turn this is.
//!
//! A thread reaches the agents it started, and theirs, and no other threads. There are two sets of tools:
//! the usual one, and with the feature `multi_agent_v2` one whose agents are also addressed by the path of
//! their task.
//!
//! | part | where |
//! |---|---|
//! | what the model is offered, which roles there are | `specs.rs`, `roles.rs` |
//! | what a call says: messages, addressees | `input.rs`, `target.rs` |
//! | the tools | `spawn.rs`, `send.rs`, `wait.rs`, `close.rs`, `list.rs` |
//! | what clients see of a call | `item.rs` |

mod close;
mod error;
mod input;
mod item;
mod list;
mod roles;
mod send;
mod spawn;
mod specs;
mod target;
mod wait;

use crate::{
    subagent::{ROOT_PATH, SubagentOrigin},
    thread::ThreadState,
    threads::{Threads, WeakThreads},
};

use super::{
    TurnTools,
    call::{ToolCall, ToolOutput, TurnCancelled, say},
};

pub(super) use specs::{AgentOffer, tools};

use error::AgentError;

/// What the agents of a thread take over from it, and where they are found.
pub(crate) struct SubagentContext {
    pub threads: WeakThreads,
    /// Set when the thread is itself an agent of another one.
    origin: Option<SubagentOrigin>,
    base_instructions: Option<String>,
    developer_instructions: Option<String>,
    ephemeral: bool,
}

impl SubagentContext {
    pub fn of(threads: WeakThreads, state: &ThreadState) -> Self {
        Self {
            threads,
            origin: SubagentOrigin::of(&state.source),
            base_instructions: state.base_instructions.clone(),
            developer_instructions: state.developer_instructions.clone(),
            ephemeral: state.log.is_none(),
        }
    }

    /// How many agents are above and including this one.
    fn depth(&self) -> u32 {
        self.origin.as_ref().map_or(0, |origin| origin.depth)
    }

    fn path(&self) -> &str {
        self.origin.as_ref().and_then(|origin| origin.path.as_deref()).unwrap_or(ROOT_PATH)
    }
}

impl TurnTools {
    /// Calls about agents; what is none of them is no tool at all.
    pub(super) async fn agent_tool(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        match call.name.as_str() {
            "spawn_agent" => self.spawn_agent(call).await,
            "send_input" | "assign_task" => self.send_input(call).await,
            "send_message" => self.send_message(call).await,
            "wait_agent" => self.wait_agent(call).await,
            "close_agent" => self.close_agent(call).await,
            "resume_agent" => self.resume_agent(call).await,
            "list_agents" => Ok(self.list_agents(call)),
            name => Ok(say(format!("unsupported call: {name}"))),
        }
    }

    /// The registry. Not to be held while waiting for agents: it would live as long as the wait.
    fn threads(&self) -> Result<Threads, AgentError> {
        self.kit.family.threads.upgrade().ok_or(AgentError::Ending)
    }
}
