//! `close_agent` and `resume_agent`: an agent ends, and begins again where it was.

use codicil_protocol::{CollabAgentStatus, CollabAgentTool, ThreadId};
use serde::Deserialize;
use serde_json::json;

use super::{
    ToolCall, ToolOutput, TurnCancelled, TurnTools, error::AgentError, item::told, roles::AgentSettings, say,
    target::AgentTarget,
};
use crate::{
    subagent::{self, SubagentOrigin},
    thread::ThreadHandle,
};

#[derive(Deserialize)]
struct CloseArguments {
    #[serde(alias = "id")]
    target: String,
}

impl TurnTools {
    /// Ends an agent and those below it. What it did stays stored.
    pub(super) async fn close_agent(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let target = match self.only_target(call) {
            Ok(target) => target,
            Err(told) => return Ok(told),
        };
        let (note, id) = (self.note(call, CollabAgentTool::CloseAgent), target.id().clone());
        self.note_started(&note, vec![id.clone()]).await;
        let (AgentTarget::Live(handle), Ok(threads)) = (target, self.threads()) else {
            self.note_failed(&note, vec![(id.clone(), subagent::state(CollabAgentStatus::NotFound))]).await;
            return Ok(say(AgentError::NotFound(id.to_string()).to_string()));
        };
        let before = handle.state();
        drop(handle);
        threads.unload(&id).await;
        let output = json!({ "previous_status": told(&before) });
        self.note_completed(&note, vec![(id, before)]).await;
        Ok(say(output.to_string()))
    }

    /// Loads a closed agent again. One that is loaded stays as it is.
    pub(super) async fn resume_agent(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let target = match self.only_target(call) {
            Ok(target) => target,
            Err(told) => return Ok(told),
        };
        let (note, id) = (self.note(call, CollabAgentTool::ResumeAgent), target.id().clone());
        self.note_started(&note, vec![id.clone()]).await;
        let opened = match target {
            AgentTarget::Live(handle) => Ok(handle),
            AgentTarget::Gone(id) => self.reopen(&id).await,
        };
        match opened {
            Ok(handle) => {
                let state = handle.state();
                let output = json!({ "status": told(&state) });
                self.note_completed(&note, vec![(id, state)]).await;
                Ok(say(output.to_string()))
            }
            Err(error) => {
                self.note_failed(&note, vec![(id, subagent::state(CollabAgentStatus::NotFound))]).await;
                Ok(say(error.to_string()))
            }
        }
    }

    /// The agent that a call is about, or what the model is told instead.
    fn only_target(&self, call: &ToolCall) -> Result<AgentTarget, ToolOutput> {
        let CloseArguments { target } = call.arguments()?;
        let found = self.threads().and_then(|threads| self.target(&threads, &target));
        found.map_err(|error| say(error.to_string()))
    }

    async fn reopen(&self, id: &ThreadId) -> Result<ThreadHandle, AgentError> {
        let threads = self.threads()?;
        let stored = threads.stored_agent(&self.kit.thread, id).await.map_err(AgentError::Reopen)?;
        let agents = AgentSettings::of(&self.config);
        let names: Vec<_> = stored.thread.meta.agent_nickname.iter().cloned().collect();
        let slot = threads.take_slot(&self.kit.thread, agents.max_threads, &names);
        let slot = slot.ok_or(AgentError::Full(agents.max_threads))?;
        let mut settings = self.agent_settings();
        settings.cwd = stored.thread.meta.cwd.clone().into();
        // A role that was taken out of the configuration meanwhile changes nothing any more.
        let role = SubagentOrigin::of(&stored.thread.meta.source).and_then(|origin| origin.role);
        let role = role.and_then(|role| agents.role(&role));
        let config = self.role_effect(role).await?.config;
        let opened = threads.reopen_agent(&self.kit.thread, stored, slot, settings, config).await;
        opened.map_err(AgentError::Reopen)
    }
}
