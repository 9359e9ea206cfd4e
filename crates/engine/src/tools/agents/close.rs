//! `close_agent` and `resume_agent`: end a subagent, and open it again with its history.

use codicil_model::ToolSpec;
use codicil_protocol::{CollabAgentStatus, CollabAgentTool, ThreadId};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::json;

use super::{AgentCallItem, AgentError, AgentSettings, AgentTarget, model_status, roles, spawn};
use crate::{
    subagent::{self, SubagentOrigin},
    thread::ThreadHandle,
    tools::{
        TurnTools,
        builtin::BuiltinTool,
        call::{ToolCall, ToolResult, text_output},
        offer::ToolOffer,
        schema::{function, string},
    },
};

pub(in crate::tools) struct CloseAgent;
pub(in crate::tools) struct ResumeAgent;

#[derive(Deserialize)]
struct CloseArguments {
    #[serde(alias = "id")]
    target: String,
}

impl BuiltinTool for CloseAgent {
    fn name(&self) -> &'static str {
        "close_agent"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        offer.agents.as_ref()?;
        let properties = json!({ "target": string("The agent to close.") });
        let description = "Ends an agent that is not needed any more, with the agents it started, and makes room for \
                           others. Returns how far it had come.";
        Some(function(self.name(), description, properties, &["target"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(close(turn, call))
    }
}

impl BuiltinTool for ResumeAgent {
    fn name(&self) -> &'static str {
        "resume_agent"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if offer.agents.as_ref()?.by_path {
            return None;
        }
        let properties = json!({ "id": string("The agent that was closed.") });
        let description =
            "Opens an agent again that was closed, with everything it knew, so that it can be sent input.";
        Some(function(self.name(), description, properties, &["id"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(resume(turn, call))
    }
}

/// Ends a subagent and those below it. They stay stored.
async fn close(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let CloseArguments { target } = call.arguments()?;
    let target = AgentTarget::find(turn, &target)?;
    let id = target.id().clone();
    let mut item = AgentCallItem::new(turn, call, CollabAgentTool::CloseAgent);
    if let AgentTarget::Live(handle) = &target {
        item.show_path(handle);
    }
    item.begin(vec![id.clone()]).await?;
    let (AgentTarget::Live(handle), Ok(threads)) = (target, turn.thread.subagents.threads()) else {
        item.emit_failed(vec![(id.clone(), subagent::state(CollabAgentStatus::NotFound))]).await;
        return Err(AgentError::NotFound(id.to_string()).into());
    };
    let last_state = handle.state();
    drop(handle);
    threads.unload(&id).await;
    let output = json!({ "previous_status": model_status(&last_state) });
    item.emit_completed(vec![(id, last_state)]).await;
    Ok(text_output(output.to_string()))
}

/// Loads a closed subagent. One that is loaded stays as it is.
async fn resume(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let CloseArguments { target } = call.arguments()?;
    let target = AgentTarget::find(turn, &target)?;
    let id = target.id().clone();
    let item = AgentCallItem::new(turn, call, CollabAgentTool::ResumeAgent);
    item.begin(vec![id.clone()]).await?;
    let opened = match target {
        AgentTarget::Live(handle) => Ok(handle),
        AgentTarget::Gone(id) => reopen(turn, &id).await,
    };
    match opened {
        Ok(handle) => {
            let state = handle.state();
            let output = json!({ "status": model_status(&state) });
            item.emit_completed(vec![(id, state)]).await;
            Ok(text_output(output.to_string()))
        }
        Err(error) => {
            item.emit_failed(vec![(id, subagent::state(CollabAgentStatus::NotFound))]).await;
            Err(error.into())
        }
    }
}

async fn reopen(turn: &TurnTools, id: &ThreadId) -> Result<ThreadHandle, AgentError> {
    let parent = &turn.thread.thread_id;
    let threads = turn.thread.subagents.threads()?;
    let stored = threads.stored_agent(parent, id).await.map_err(AgentError::Reopen)?;
    let agents = AgentSettings::new(&turn.config);
    let names: Vec<_> = stored.thread.meta.agent_nickname.iter().cloned().collect();
    let slot = threads.take_slot(parent, agents.max_threads, &names);
    let slot = slot.ok_or(AgentError::Full(agents.max_threads))?;
    let mut settings = spawn::inherited_settings(turn);
    settings.cwd = stored.thread.meta.cwd.clone().into();
    // A role that has been removed from the configuration has no effect any more.
    let role = SubagentOrigin::of(&stored.thread.meta.source).and_then(|origin| origin.role);
    let role = role.and_then(|role| agents.role(&role));
    let config = roles::apply_role(turn, role).await?.config;
    let opened = threads.reopen_agent(parent, stored, slot, settings, config).await;
    opened.map_err(AgentError::Reopen)
}
