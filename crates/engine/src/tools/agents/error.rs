//! Why a call about agents fails, in words for the model that made it.

use codicil_config::ConfigError;

use crate::error::ThreadError;

#[derive(Debug, thiserror::Error)]
pub(super) enum AgentError {
    #[error("agents may be nested {0} deep and no deeper; do the task yourself")]
    TooDeep(u32),
    #[error("all {0} places for agents are taken; close an agent that is done with close_agent first")]
    Full(usize),
    #[error("unknown agent_type: {name}; there are: {known}")]
    UnknownRole { name: String, known: String },
    #[error("unknown reasoning_effort: {0}")]
    UnknownEffort(String),
    #[error("task_name must be made of lower-case letters, digits and underscores: {0:?}")]
    BadTaskName(String),
    #[error("there is an agent {0} already; choose another task_name")]
    TaskNameTaken(String),
    #[error("agent not found: {0}; one that was closed can be opened again with resume_agent")]
    NotFound(String),
    #[error("no such agent: {0:?}; use the id that spawn_agent returned")]
    NoAgent(String),
    #[error("give either message or items, not both")]
    TwoMessages,
    #[error("give message or items")]
    NoMessage,
    #[error("the message must not be empty")]
    EmptyMessage,
    #[error("items[{0}] says nothing that can be sent")]
    BadItem(usize),
    #[error("there are no agents to wait for: targets must not be empty")]
    NoTargets,
    #[error("timeout_ms must be greater than zero")]
    NoTime,
    #[error("the role's configuration cannot be used: {0}")]
    Role(#[from] ConfigError),
    #[error("the agent could not be started: {0}")]
    Start(ThreadError),
    #[error("the agent could not be reached: {0}")]
    Send(ThreadError),
    #[error("the agent could not be opened again: {0}")]
    Reopen(ThreadError),
    #[error("the turn is ending")]
    Ending,
}
