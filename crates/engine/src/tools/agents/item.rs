//! What clients see of a call about agents, and what the model is told of their states.

use codicil_protocol::{
    CollabAgentState, CollabAgentStatus, CollabAgentTool, CollabAgentToolCallStatus, ItemId, ReasoningEffort,
    ThreadId, ThreadItem,
};
use serde_json::{Value, json};

use super::{ToolCall, TurnTools};

/// A call as its item shows it.
pub(super) struct AgentCallItem {
    id: ItemId,
    sender: ThreadId,
    tool: CollabAgentTool,
    pub prompt: Option<String>,
    pub model: Option<String>,
    pub effort: Option<ReasoningEffort>,
}

/// Agents and how far they have come.
pub(super) type AgentStates = Vec<(ThreadId, CollabAgentState)>;

impl AgentCallItem {
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
            sender_thread_id: self.sender.clone(),
            receiver_thread_ids: receivers,
            prompt: self.prompt.clone(),
            model: self.model.clone(),
            reasoning_effort: self.effort.clone(),
            agents_states: states.into_iter().map(|(id, state)| (id.to_string(), state)).collect(),
        }
    }
}

impl TurnTools {
    pub(super) fn note(&self, call: &ToolCall, tool: CollabAgentTool) -> AgentCallItem {
        let (id, sender) = (call.item_id(), self.kit.thread.clone());
        AgentCallItem { id, sender, tool, prompt: None, model: None, effort: None }
    }

    pub(super) async fn note_started(&self, note: &AgentCallItem, receivers: Vec<ThreadId>) {
        self.started(note.item(CollabAgentToolCallStatus::InProgress, receivers, Vec::new())).await;
    }

    /// A call about an agent that is lost or in trouble has failed, as far as clients are concerned.
    pub(super) async fn note_completed(&self, note: &AgentCallItem, states: AgentStates) {
        let in_trouble = |state: &CollabAgentState| {
            matches!(state.status, CollabAgentStatus::Errored | CollabAgentStatus::NotFound)
        };
        let status = match states.iter().any(|(_, state)| in_trouble(state)) {
            true => CollabAgentToolCallStatus::Failed,
            false => CollabAgentToolCallStatus::Completed,
        };
        let receivers = states.iter().map(|(id, _)| id.clone()).collect();
        self.completed(note.item(status, receivers, states)).await;
    }

    pub(super) async fn note_failed(&self, note: &AgentCallItem, states: AgentStates) {
        let receivers = states.iter().map(|(id, _)| id.clone()).collect();
        self.completed(note.item(CollabAgentToolCallStatus::Failed, receivers, states)).await;
    }
}

/// A state in the words of the reference's tools: a word, or a word and what the agent said last.
pub(super) fn told(state: &CollabAgentState) -> Value {
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
