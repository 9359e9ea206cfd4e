//! `spawn_agent`: a thread of its own for a part of the work.

use codicil_prompts::developer_message;
use codicil_protocol::{CollabAgentTool, ReasoningEffort, UserInput};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    ToolCall, ToolOutput, TurnCancelled, TurnTools,
    error::AgentError,
    input::{self, AgentMessage},
    item::AgentCallItem,
    roles::{AgentRole, AgentSettings, RoleEffect},
    say,
};
use crate::{
    settings::TurnSettings,
    subagent::{SubagentOrigin, SubagentSlot},
    thread::{InheritedHistory, ThreadHandle},
    threads::{NewAgent, Threads},
};

#[derive(Deserialize)]
struct SpawnArguments {
    #[serde(flatten)]
    message: AgentMessage,
    #[serde(flatten)]
    wish: SpawnRequest,
}

/// What the agent is to be like. Models fill in what they do not use: an empty text is none.
#[derive(Deserialize)]
struct SpawnRequest {
    task_name: Option<String>,
    agent_type: Option<String>,
    model: Option<String>,
    reasoning_effort: Option<String>,
    fork_context: Option<bool>,
}

/// What an agent that knows its parent's conversation must know besides.
const FORKED: &str = "\
    Up to here this is the conversation of the agent that started you, so that you know what it knows. You \
    are its agent, with a part of the work: the next message says which. Calls above that were aborted are \
    not yours to repeat. Your last message is what the other agent gets to read.";

impl TurnTools {
    pub(super) async fn spawn_agent(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let SpawnArguments { message, wish } = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let input = match self.check_depth().and_then(|()| message.input()) {
            Ok(input) => input,
            Err(error) => return Ok(say(error.to_string())),
        };
        let mut note = self.note(call, CollabAgentTool::SpawnAgent);
        note.prompt = Some(input::preview(&input));
        let expected = given(&wish.model).unwrap_or(&self.settings.model).to_owned();
        self.show_model(&mut note, &TurnSettings { model: expected, ..self.settings.clone() });
        self.note_started(&note, Vec::new()).await;
        match self.start_agent(&wish, input).await {
            Ok((handle, settings)) => {
                self.show_model(&mut note, &settings);
                let output = self.introduction(&handle);
                self.note_completed(&note, vec![(handle.id().clone(), handle.state())]).await;
                Ok(say(output.to_string()))
            }
            Err(error) => {
                self.note_failed(&note, Vec::new()).await;
                Ok(say(error.to_string()))
            }
        }
    }

    fn check_depth(&self) -> Result<(), AgentError> {
        let max = AgentSettings::of(&self.config).max_depth;
        if self.kit.family.depth() >= max { Err(AgentError::TooDeep(max)) } else { Ok(()) }
    }

    fn show_model(&self, note: &mut AgentCallItem, settings: &TurnSettings) {
        let info = self.kit.engine.catalogue().look_up(&settings.model);
        note.model = Some(settings.model.clone());
        note.effort = settings.effort.clone().or_else(|| info.default_effort.clone());
    }

    /// Opens the thread and has it begin; one that cannot begin is ended again.
    async fn start_agent(
        &self,
        wish: &SpawnRequest,
        input: Vec<UserInput>,
    ) -> Result<(ThreadHandle, TurnSettings), AgentError> {
        let threads = self.threads()?;
        let agents = AgentSettings::of(&self.config);
        let role = agents.choose(given(&wish.agent_type))?;
        let path = self.task_path(&threads, wish)?;
        let effect = self.role_effect(role).await?;
        let settings = self.settings_for(wish, &effect)?;
        let inherited = self.inherited(wish, &effect).await?;
        let names = role.map(|role| role.nicknames.as_slice()).unwrap_or_default();
        let slot = threads.take_slot(&self.kit.thread, agents.max_threads, names);
        let slot = slot.ok_or(AgentError::Full(agents.max_threads))?;
        let family = &self.kit.family;
        let new = NewAgent {
            origin: self.origin_of(&slot, role, path),
            slot,
            settings: settings.clone(),
            config: effect.config,
            base_instructions: family.base_instructions.clone(),
            developer_instructions: both(family.developer_instructions.clone(), effect.instructions),
            ephemeral: family.ephemeral,
            inherited,
        };
        let handle = threads.open_agent(new).await.map_err(AgentError::Start)?;
        if let Err(error) = self.start_turn(&handle, input).await {
            threads.unload(handle.id()).await;
            return Err(AgentError::Start(error));
        }
        Ok((handle, settings))
    }

    fn origin_of(
        &self,
        slot: &SubagentSlot,
        role: Option<&AgentRole>,
        path: Option<String>,
    ) -> SubagentOrigin {
        SubagentOrigin {
            parent: self.kit.thread.clone(),
            depth: self.kit.family.depth() + 1,
            path,
            nickname: Some(slot.nickname().to_owned()),
            role: role.map(|role| role.name.clone()),
        }
    }

    /// The settings that every agent of this turn begins with. The mode is the person's, not theirs.
    pub(super) fn agent_settings(&self) -> TurnSettings {
        TurnSettings { collaboration_mode: None, ..self.settings.clone() }
    }

    /// What the role says counts more than what the model wishes: people wrote it.
    fn settings_for(&self, wish: &SpawnRequest, effect: &RoleEffect) -> Result<TurnSettings, AgentError> {
        let mut settings = self.agent_settings();
        if let Some(model) = effect.settings.model.as_deref().or(given(&wish.model)) {
            // How hard another model thinks is for it to say.
            if model != settings.model {
                settings.effort = None;
            }
            settings.model = model.to_owned();
        }
        let wished = given(&wish.reasoning_effort).map(effort).transpose()?;
        if let Some(effort) = effect.settings.model_reasoning_effort.clone().or(wished) {
            settings.effort = Some(effort);
        }
        if let Some(summary) = &effect.settings.model_reasoning_summary {
            settings.summary = Some(summary.clone());
        }
        if let Some(provider) = &effect.settings.model_provider {
            settings.provider.clone_from(provider);
        }
        Ok(settings)
    }

    /// The conversation so far, with a word about whose it is.
    async fn inherited(
        &self,
        wish: &SpawnRequest,
        effect: &RoleEffect,
    ) -> Result<Option<InheritedHistory>, AgentError> {
        if wish.fork_context != Some(true) {
            return Ok(None);
        }
        let mut inherited = self.reporter.inherited_history().await.ok_or(AgentError::Ending)?;
        let words = [Some(FORKED.to_owned()), effect.instructions.clone()];
        inherited.history.push(developer_message(words.into_iter().flatten()));
        Ok(Some(inherited))
    }

    /// The place of the agent in the tree, where agents are addressed by it.
    fn task_path(&self, threads: &Threads, wish: &SpawnRequest) -> Result<Option<String>, AgentError> {
        if !self.addresses_by_path() {
            return Ok(None);
        }
        let name = given(&wish.task_name).unwrap_or_default();
        let is_fine = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if name.is_empty() || !name.chars().all(is_fine) {
            return Err(AgentError::BadTaskName(name.to_owned()));
        }
        let path = format!("{}/{name}", self.kit.family.path());
        let has_path =
            |agent: &ThreadHandle| agent.origin().is_some_and(|origin| origin.path.as_ref() == Some(&path));
        match threads.agents_below(&self.kit.thread).iter().any(has_path) {
            true => Err(AgentError::TaskNameTaken(path)),
            false => Ok(Some(path)),
        }
    }

    /// How the model may address the agent from now on.
    fn introduction(&self, handle: &ThreadHandle) -> Value {
        let origin = handle.origin();
        let nickname = origin.and_then(|origin| origin.nickname.as_deref());
        match origin.and_then(|origin| origin.path.as_deref()) {
            Some(path) => json!({ "agent_id": handle.id(), "task_name": path, "nickname": nickname }),
            None => json!({ "agent_id": handle.id(), "nickname": nickname }),
        }
    }
}

fn given(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

fn effort(name: &str) -> Result<ReasoningEffort, AgentError> {
    match serde_json::from_value(Value::String(name.to_ascii_lowercase())) {
        Ok(ReasoningEffort::Unrecognized(_)) | Err(_) => Err(AgentError::UnknownEffort(name.to_owned())),
        Ok(effort) => Ok(effort),
    }
}

fn both(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}\n\n{second}")),
        (first, second) => first.or(second),
    }
}
