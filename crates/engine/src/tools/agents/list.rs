//! `list_agents`: who is there, for agents that are addressed by path.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{ToolCall, ToolOutput, TurnTools, item::told, say};
use crate::thread::ThreadHandle;

#[derive(Deserialize)]
struct ListAgentsArguments {
    /// Only those at this path and below it.
    path_prefix: Option<String>,
}

impl TurnTools {
    pub(super) fn list_agents(&self, call: &ToolCall) -> ToolOutput {
        let ListAgentsArguments { path_prefix } = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return told,
        };
        let prefix = path_prefix.as_deref().map(str::trim).unwrap_or_default().trim_end_matches('/');
        let agents = match self.threads() {
            Ok(threads) => threads.agents_below(&self.kit.thread),
            Err(error) => return say(error.to_string()),
        };
        let shown: Vec<_> = agents.iter().filter(|agent| is_below(agent, prefix)).map(entry).collect();
        say(json!({ "agents": shown }).to_string())
    }
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
        "agent_status": told(&agent.state()),
    })
}
