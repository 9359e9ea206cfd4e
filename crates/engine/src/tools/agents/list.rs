//! `list_agents`: the subagents of the thread and their states, where they are addressed by path.

use codicil_model::ToolSpec;
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::model_status;
use crate::{
    thread::ThreadHandle,
    tools::{
        TurnTools,
        builtin::BuiltinTool,
        call::{ToolCall, ToolResult, text_output},
        offer::ToolOffer,
        schema::{function, string},
    },
};

pub(in crate::tools) struct ListAgents;

#[derive(Deserialize)]
struct ListAgentsArguments {
    path_prefix: Option<String>,
}

impl BuiltinTool for ListAgents {
    fn name(&self) -> &'static str {
        "list_agents"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if !offer.agents.as_ref()?.by_path {
            return None;
        }
        let properties = json!({ "path_prefix": string("Only the agents at this path and below it.") });
        let description = "Lists your agents and how far they have come.";
        Some(function(self.name(), description, properties, &[]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { list(turn, call) })
    }
}

fn list(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let ListAgentsArguments { path_prefix } = call.arguments()?;
    let prefix = path_prefix.as_deref().map(str::trim).unwrap_or_default().trim_end_matches('/');
    let agents = turn.thread.subagents.threads()?.agents_below(&turn.thread.thread_id);
    let listed: Vec<_> = agents.iter().filter(|agent| is_below(agent, prefix)).map(entry).collect();
    Ok(text_output(json!({ "agents": listed }).to_string()))
}

fn is_below(agent: &ThreadHandle, prefix: &str) -> bool {
    let path = agent.origin().and_then(|origin| origin.path.as_deref()).unwrap_or_default();
    prefix.is_empty()
        || path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn entry(agent: &ThreadHandle) -> Value {
    let origin = agent.origin();
    json!({
        "agent_id": agent.id(),
        "agent_name": origin.and_then(|origin| origin.path.as_deref()),
        "nickname": origin.and_then(|origin| origin.nickname.as_deref()),
        "agent_type": origin.and_then(|origin| origin.role.as_deref()),
        "agent_status": model_status(&agent.state()),
    })
}
