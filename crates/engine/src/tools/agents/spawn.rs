//! `spawn_agent`: starts a subagent for a part of the work.

use codicil_model::ToolSpec;
use codicil_prompts::developer_message;
use codicil_protocol::{
    CollabAgentState, CollabAgentStatus, CollabAgentTool, ProtocolGeneration, ReasoningEffort, UserInput,
};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    AgentCallItem, AgentError, addresses_by_path,
    message::{self, AgentMessage},
    roles::{self, AgentRole, AgentSettings, RoleEffect},
    send,
};
use crate::{
    settings::TurnSettings,
    subagent::{self, SubagentOrigin, SubagentSlot},
    thread::{InheritedHistory, ThreadHandle},
    threads::{NewAgent, Threads},
    tools::{
        TurnTools,
        builtin::BuiltinTool,
        call::{ToolCall, ToolResult, text_output},
        offer::ToolOffer,
        schema::{boolean, function, string},
    },
};

/// The message after a copied conversation.
const FORKED: &str = "\
    Up to here this is the conversation of the agent that started you, so that you know what it knows. You \
    are its agent, with a part of the work: the next message says which. Calls above that were aborted are \
    not yours to repeat. Your last message is what the other agent gets to read.";

pub(in crate::tools) struct SpawnAgent;

#[derive(Deserialize)]
struct SpawnArguments {
    #[serde(flatten)]
    message: AgentMessage,
    #[serde(flatten)]
    request: SpawnRequest,
}

/// The requested properties of the subagent. Models fill in what they do not use, so an empty text counts as none.
#[derive(Deserialize)]
struct SpawnRequest {
    task_name: Option<String>,
    agent_type: Option<String>,
    model: Option<String>,
    reasoning_effort: Option<String>,
    fork_context: Option<bool>,
}

impl BuiltinTool for SpawnAgent {
    fn name(&self) -> &'static str {
        "spawn_agent"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        let agents = offer.agents.as_ref()?;
        let roles = agents.roles.iter().map(|role| format!("\n- `{}`: {}", role.name, role.description));
        let roles =
            format!("The kind of agent. Leave it out unless one of these fits:{}", roles.collect::<String>());
        let mut properties = json!({
            "message": string("What the agent is to do. It knows nothing else, so say all it needs."),
            "items": message::items_schema(),
            "agent_type": string(&roles),
            "model": string("Another model than yours, if the user asked for it."),
            "reasoning_effort": string("Another effort than yours, if the user asked for it."),
            "fork_context": boolean("Whether the agent gets this whole conversation as well. False by default."),
        });
        let mut required = Vec::new();
        if agents.by_path
            && let Some(properties) = properties.as_object_mut()
        {
            let name = "A name for the task in lower-case letters, digits and underscores. The agent's path ends with it.";
            properties.insert("task_name".to_owned(), string(name));
            required.push("task_name");
        }
        let description = "Starts an agent that works beside you on a part of the task, in the same folder and under the \
                           same rules. Returns at once with its id. You are told when it is done; go on with your own \
                           part until then, and wait for it only when you cannot. Use it for parts that can be done \
                           independently of each other.";
        Some(function(self.name(), description, properties, &required))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(spawn(turn, call))
    }
}

async fn spawn(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let SpawnArguments { message, request } = call.arguments()?;
    check_depth(turn)?;
    let input = message.into_input()?;
    let mut item = AgentCallItem::new(turn, call, CollabAgentTool::SpawnAgent);
    item.prompt = Some(message::preview(&input));
    let model = non_empty(&request.model).unwrap_or(&turn.settings.model).to_owned();
    item.show_requested_model(&TurnSettings { model, ..turn.settings.clone() });
    item.begin(Vec::new()).await?;
    match request.start_agent(turn, input).await {
        Ok((handle, settings)) => {
            item.show_model(&settings);
            item.show_path(&handle);
            let output = address(&handle);
            let state = item.first_state(&handle);
            item.emit_completed(vec![(handle.id().clone(), state)]).await;
            Ok(text_output(output.to_string()))
        }
        Err(error) => {
            item.emit_failed(Vec::new()).await;
            Err(error.into())
        }
    }
}

fn check_depth(turn: &TurnTools) -> Result<(), AgentError> {
    let max = AgentSettings::new(&turn.config).max_depth;
    if turn.thread.subagents.depth() >= max { Err(AgentError::TooDeep(max)) } else { Ok(()) }
}

impl AgentCallItem<'_> {
    /// Shows the model that was asked for. In the 0.166 generation, it is empty until the agent has started.
    fn show_requested_model(&mut self, settings: &TurnSettings) {
        self.show_model(settings);
        if self.turn.origin.generation == ProtocolGeneration::V166 {
            self.model = Some(String::new());
        }
    }

    /// Returns the state of an agent that has just been started. In the 0.166 generation, it is not running yet.
    fn first_state(&self, agent: &ThreadHandle) -> CollabAgentState {
        match self.turn.origin.generation {
            ProtocolGeneration::V118 => agent.state(),
            ProtocolGeneration::V166 => subagent::state(CollabAgentStatus::PendingInit),
        }
    }

    fn show_model(&mut self, settings: &TurnSettings) {
        let info = self.turn.thread.engine.catalogue().look_up(&settings.model);
        self.model = Some(settings.model.clone());
        self.effort = settings.effort.clone().or_else(|| info.default_effort.clone());
    }
}

impl SpawnRequest {
    /// Opens the subagent's thread and starts its first turn. If the turn cannot start, the thread is unloaded again.
    async fn start_agent(
        &self,
        turn: &TurnTools,
        input: Vec<UserInput>,
    ) -> Result<(ThreadHandle, TurnSettings), AgentError> {
        let context = &turn.thread.subagents;
        let threads = context.threads()?;
        let agents = AgentSettings::new(&turn.config);
        let role = agents.choose(non_empty(&self.agent_type))?;
        let path = self.task_path(turn, &threads)?;
        let effect = roles::apply_role(turn, role).await?;
        let settings = self.settings(turn, &effect)?;
        let inherited = self.inherited_history(turn, &effect).await?;
        let names = role.map(|role| role.nicknames.as_slice()).unwrap_or_default();
        let slot = threads.take_slot(&turn.thread.thread_id, agents.max_threads, names);
        let slot = slot.ok_or(AgentError::Full(agents.max_threads))?;
        let new = NewAgent {
            origin: origin(turn, &slot, role, path),
            slot,
            settings: settings.clone(),
            config: effect.config,
            base_instructions: context.base_instructions.clone(),
            developer_instructions: join_texts(context.developer_instructions.clone(), effect.instructions),
            originator: context.originator.clone(),
            ephemeral: context.ephemeral,
            parent_epoch: turn.epoch,
            inherited,
        };
        let handle = threads.open_agent(new).await.map_err(AgentError::Start)?;
        if let Err(error) = send::start_turn(turn, &handle, input).await {
            threads.unload(handle.id()).await;
            return Err(AgentError::Start(error));
        }
        Ok((handle, settings))
    }

    /// Returns the subagent's settings. The role takes precedence over the model's request, because users write roles.
    fn settings(&self, turn: &TurnTools, effect: &RoleEffect) -> Result<TurnSettings, AgentError> {
        let mut settings = inherited_settings(turn);
        if let Some(model) = effect.settings.model.as_deref().or(non_empty(&self.model)) {
            // A different model uses its own default reasoning effort.
            if model != settings.model {
                settings.effort = None;
            }
            settings.model = model.to_owned();
        }
        let requested_effort = non_empty(&self.reasoning_effort).map(parse_effort).transpose()?;
        if let Some(effort) = effect.settings.model_reasoning_effort.clone().or(requested_effort) {
            settings.effort = Some(effort);
        }
        // The effort in use, so that the subagent keeps it whatever the default becomes.
        if settings.effort.is_none() {
            let info = turn.thread.engine.catalogue().look_up(&settings.model);
            settings.effort.clone_from(&info.default_effort);
        }
        if let Some(summary) = &effect.settings.model_reasoning_summary {
            settings.summary = Some(summary.clone());
        }
        if let Some(provider) = &effect.settings.model_provider {
            settings.provider.clone_from(provider);
        }
        Ok(settings)
    }

    /// Returns the conversation so far, if the subagent is to know it, with a message that says whose it is.
    async fn inherited_history(
        &self,
        turn: &TurnTools,
        effect: &RoleEffect,
    ) -> Result<Option<InheritedHistory>, AgentError> {
        if self.fork_context != Some(true) {
            return Ok(None);
        }
        let mut inherited = turn.reporter.inherited_history().await.ok_or(AgentError::Ending)?;
        let instructions = [Some(FORKED.to_owned()), effect.instructions.clone()];
        inherited.history.push(developer_message(instructions.into_iter().flatten()));
        Ok(Some(inherited))
    }

    /// Returns the path of the subagent's task, where subagents are addressed by it.
    fn task_path(&self, turn: &TurnTools, threads: &Threads) -> Result<Option<String>, AgentError> {
        if !addresses_by_path(&turn.config) {
            return Ok(None);
        }
        let name = non_empty(&self.task_name).unwrap_or_default();
        let is_allowed =
            |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
        if name.is_empty() || !name.chars().all(is_allowed) {
            return Err(AgentError::BadTaskName(name.to_owned()));
        }
        let path = format!("{}/{name}", turn.thread.subagents.path());
        let has_path =
            |agent: &ThreadHandle| agent.origin().is_some_and(|origin| origin.path.as_ref() == Some(&path));
        if threads.agents_below(&turn.thread.thread_id).iter().any(has_path) {
            return Err(AgentError::TaskNameTaken(path));
        }
        Ok(Some(path))
    }
}

/// Returns the settings that every subagent of this turn begins with. The collaboration mode is the user's alone.
pub(super) fn inherited_settings(turn: &TurnTools) -> TurnSettings {
    TurnSettings { collaboration_mode: None, ..turn.settings.clone() }
}

fn origin(
    turn: &TurnTools,
    slot: &SubagentSlot,
    role: Option<&AgentRole>,
    path: Option<String>,
) -> SubagentOrigin {
    SubagentOrigin {
        parent: turn.thread_id(),
        depth: turn.thread.subagents.depth() + 1,
        path,
        nickname: Some(slot.nickname().to_owned()),
        role: role.map(|role| role.name.clone()),
    }
}

/// Returns the names by which the model can address a new subagent.
fn address(handle: &ThreadHandle) -> Value {
    let origin = handle.origin();
    let nickname = origin.and_then(|origin| origin.nickname.as_deref());
    match origin.and_then(|origin| origin.path.as_deref()) {
        Some(path) => json!({ "agent_id": handle.id(), "task_name": path, "nickname": nickname }),
        None => json!({ "agent_id": handle.id(), "nickname": nickname }),
    }
}

fn non_empty(text: &Option<String>) -> Option<&str> {
    text.as_deref().map(str::trim).filter(|text| !text.is_empty())
}

fn parse_effort(name: &str) -> Result<ReasoningEffort, AgentError> {
    match serde_json::from_value(Value::String(name.to_ascii_lowercase())) {
        Ok(ReasoningEffort::Unrecognized(_)) | Err(_) => Err(AgentError::UnknownEffort(name.to_owned())),
        Ok(effort) => Ok(effort),
    }
}

fn join_texts(first: Option<String>, second: Option<String>) -> Option<String> {
    match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}\n\n{second}")),
        (first, second) => first.or(second),
    }
}
