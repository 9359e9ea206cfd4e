//! Tools for subagents: threads of their own that the model starts below the thread of this turn.
//!
//! A thread reaches the subagents it started, and theirs, and no other threads. There are two sets of tools: the usual
//! one and, with the feature `multi_agent_v2`, one whose subagents are also addressed by the path of their task.
//!
//! | part | where |
//! |---|---|
//! | the tools | `spawn.rs`, `send.rs`, `wait.rs`, `close.rs`, `list.rs` |
//! | roles and limits of the configuration | `roles.rs` |
//! | messages to subagents | `message.rs` |

mod close;
mod list;
mod message;
mod roles;
mod send;
mod spawn;
mod wait;

use codicil_config::{ConfigError, EffectiveConfig, Feature};
use codicil_protocol::{
    CollabAgentState, CollabAgentStatus, CollabAgentTool, CollabAgentToolCallStatus, ItemId,
    ProtocolGeneration, ReasoningEffort, SubAgentActivityKind, ThreadId, ThreadItem,
};
use serde_json::{Value, json};
use uuid::Uuid;

use super::{
    TurnTools,
    call::{ToolCall, ToolError, TurnCancelled},
};
use crate::{
    error::ThreadError,
    subagent::{ROOT_PATH, SubagentOrigin},
    thread::{ThreadHandle, ThreadState},
    threads::{Threads, WeakThreads},
};
use roles::{AgentRole, AgentSettings};

pub(super) use {
    close::{CloseAgent, ResumeAgent},
    list::ListAgents,
    send::{AssignTask, SendInput, SendMessage},
    spawn::SpawnAgent,
    wait::WaitAgent,
};

/// Everything that the specs of the subagent tools depend on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgentOffer {
    /// Whether subagents are addressed by the path of their task.
    pub by_path: bool,
    pub roles: Vec<AgentRole>,
}

impl AgentOffer {
    /// Returns `None` where a thread at this depth cannot start subagents.
    pub fn new(config: &EffectiveConfig, depth: u32) -> Option<Self> {
        let by_path = addresses_by_path(config);
        if !by_path && !config.features.enabled(Feature::MultiAgent) {
            return None;
        }
        let agents = AgentSettings::new(config);
        (depth < agents.max_depth).then_some(Self { by_path, roles: agents.roles })
    }
}

/// Whether tasks of subagents have names, by which they are addressed.
fn addresses_by_path(config: &EffectiveConfig) -> bool {
    config.features.enabled(Feature::MultiAgentV2)
}

/// What subagents inherit from their thread, and where they are found.
pub(crate) struct SubagentContext {
    pub threads: WeakThreads,
    /// The origin of the thread itself; `None` unless it is a subagent.
    origin: Option<SubagentOrigin>,
    base_instructions: Option<String>,
    developer_instructions: Option<String>,
    /// The client that started the thread at the root.
    originator: Option<String>,
    ephemeral: bool,
}

impl SubagentContext {
    pub fn new(threads: WeakThreads, state: &ThreadState) -> Self {
        Self {
            threads,
            origin: SubagentOrigin::of(&state.source),
            base_instructions: state.base_instructions.clone(),
            developer_instructions: state.developer_instructions(),
            originator: state.originator.clone(),
            ephemeral: state.log.is_none(),
        }
    }

    /// Returns how many subagents deep the thread is; 0 for a thread that a client started.
    fn depth(&self) -> u32 {
        self.origin.as_ref().map_or(0, |origin| origin.depth)
    }

    fn path(&self) -> &str {
        self.origin.as_ref().and_then(|origin| origin.path.as_deref()).unwrap_or(ROOT_PATH)
    }

    /// Returns the registry. Do not hold it while waiting for subagents: that would keep it alive.
    fn threads(&self) -> Result<Threads, AgentError> {
        self.threads.upgrade().ok_or(AgentError::Ending)
    }
}

/// A subagent that a call names.
enum AgentTarget {
    Live(ThreadHandle),
    /// The id of no live subagent: it was closed or never existed.
    Gone(ThreadId),
}

impl AgentTarget {
    /// Finds a subagent by its id, its nickname or the path of its task.
    fn find(turn: &TurnTools, name: &str) -> Result<Self, AgentError> {
        let subagents = &turn.thread.subagents;
        let name = name.trim();
        let path =
            if name.starts_with('/') { name.to_owned() } else { format!("{}/{name}", subagents.path()) };
        let is_named = |origin: &SubagentOrigin| {
            origin.nickname.as_deref() == Some(name) || origin.path.as_deref() == Some(path.as_str())
        };
        let is_target =
            |handle: &ThreadHandle| &handle.id()[..] == name || handle.origin().is_some_and(is_named);
        let live = subagents.threads()?.agents_below(&turn.thread.thread_id);
        match live.into_iter().find(is_target) {
            Some(handle) => Ok(Self::Live(handle)),
            None if Uuid::parse_str(name).is_ok() => Ok(Self::Gone(ThreadId::from(name))),
            None => Err(AgentError::NoAgent(name.to_owned())),
        }
    }

    fn id(&self) -> &ThreadId {
        match self {
            Self::Live(handle) => handle.id(),
            Self::Gone(id) => id,
        }
    }
}

/// The parts of a call's item that stay the same.
///
/// In the 0.166 generation, calls about subagents with paths have no item of their own: clients see what the subagent did.
struct AgentCallItem<'a> {
    turn: &'a TurnTools,
    id: ItemId,
    tool: CollabAgentTool,
    prompt: Option<String>,
    model: Option<String>,
    effort: Option<ReasoningEffort>,
    /// The path of the subagent's task, once it is known.
    agent_path: Option<String>,
}

/// Subagents and their states.
type AgentStates = Vec<(ThreadId, CollabAgentState)>;

impl<'a> AgentCallItem<'a> {
    fn new(turn: &'a TurnTools, call: &ToolCall, tool: CollabAgentTool) -> Self {
        Self { turn, id: call.item_id(), tool, prompt: None, model: None, effort: None, agent_path: None }
    }

    /// Takes over the path of a subagent.
    fn show_path(&mut self, agent: &ThreadHandle) {
        self.agent_path = agent.origin().and_then(|origin| origin.path.clone());
    }

    /// Returns the activity that clients see instead of the call; `None` if they see the call.
    fn activity(&self) -> Option<SubAgentActivityKind> {
        let is_later = self.turn.origin.generation == ProtocolGeneration::V166;
        if !is_later || !addresses_by_path(&self.turn.config) {
            return None;
        }
        match self.tool {
            CollabAgentTool::SpawnAgent => Some(SubAgentActivityKind::Started),
            CollabAgentTool::SendInput => Some(SubAgentActivityKind::Interacted),
            CollabAgentTool::CloseAgent => Some(SubAgentActivityKind::Interrupted),
            _ => None,
        }
    }

    /// Starts the item. The call may have effects from here on.
    async fn begin(&self, receivers: Vec<ThreadId>) -> Result<(), TurnCancelled> {
        if self.activity().is_some() {
            return self.turn.begin(&self.id, None).await;
        }
        let item = self.item(CollabAgentToolCallStatus::InProgress, receivers, Vec::new());
        self.turn.begin(&self.id, Some(item.clone())).await?;
        self.turn.emit_started(item).await;
        Ok(())
    }

    /// Completes the item. A call about a subagent that failed or is missing counts as failed.
    async fn emit_completed(&self, states: AgentStates) {
        let has_failed = |state: &CollabAgentState| {
            matches!(state.status, CollabAgentStatus::Errored | CollabAgentStatus::NotFound)
        };
        let status = if states.iter().any(|(_, state)| has_failed(state)) {
            CollabAgentToolCallStatus::Failed
        } else {
            CollabAgentToolCallStatus::Completed
        };
        self.emit_ended(status, states).await;
    }

    async fn emit_failed(&self, states: AgentStates) {
        self.emit_ended(CollabAgentToolCallStatus::Failed, states).await;
    }

    async fn emit_ended(&self, status: CollabAgentToolCallStatus, states: AgentStates) {
        if let Some(kind) = self.activity() {
            return self.emit_activity(kind, &status, states).await;
        }
        let receivers = states.iter().map(|(id, _)| id.clone()).collect();
        self.turn.emit_completed(self.item(status, receivers, states)).await;
    }

    /// Shows what the subagent of a successful call did.
    async fn emit_activity(
        &self,
        kind: SubAgentActivityKind,
        status: &CollabAgentToolCallStatus,
        states: AgentStates,
    ) {
        let Some((agent_thread_id, _)) = states.into_iter().next() else { return };
        if *status != CollabAgentToolCallStatus::Completed {
            return;
        }
        let item = ThreadItem::SubAgentActivity {
            id: self.id.clone(),
            kind,
            agent_thread_id,
            agent_path: self.agent_path.clone().unwrap_or_default(),
            model: self.model.clone(),
            reasoning_effort: self.effort.clone(),
        };
        self.turn.emit_started(item.clone()).await;
        self.turn.emit_completed(item).await;
    }

    fn item(
        &self,
        status: CollabAgentToolCallStatus,
        receivers: Vec<ThreadId>,
        states: AgentStates,
    ) -> ThreadItem {
        ThreadItem::CollabAgentToolCall {
            id: self.id.clone(),
            tool: self.tool.clone(),
            status,
            sender_thread_id: self.turn.thread_id(),
            receiver_thread_ids: receivers,
            prompt: self.prompt.clone(),
            model: self.model.clone(),
            reasoning_effort: self.effort.clone(),
            agents_states: states.into_iter().map(|(id, state)| (id.to_string(), state)).collect(),
        }
    }
}

/// Returns a state in the words of the reference server's tools: a word, or a word with the last message.
fn model_status(state: &CollabAgentState) -> Value {
    match state.status {
        CollabAgentStatus::PendingInit => json!("pending_init"),
        CollabAgentStatus::Running => json!("running"),
        CollabAgentStatus::Interrupted => json!("interrupted"),
        CollabAgentStatus::Completed => json!({ "completed": state.message }),
        CollabAgentStatus::Errored => json!({ "errored": state.message }),
        CollabAgentStatus::Shutdown => json!("shutdown"),
        CollabAgentStatus::NotFound | CollabAgentStatus::Unrecognized(_) => json!("not_found"),
    }
}

/// Why a call about subagents fails. The texts are for the model.
#[derive(Debug, thiserror::Error)]
enum AgentError {
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

impl From<AgentError> for ToolError {
    fn from(error: AgentError) -> Self {
        Self::Failed(error.to_string())
    }
}
