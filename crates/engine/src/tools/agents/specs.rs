//! The tools about agents as the model is told about them.

use codicil_config::{EffectiveConfig, Feature};
use codicil_model::ToolSpec;
use serde_json::{Value, json};

use super::{
    TurnTools,
    roles::{AgentRole, AgentSettings},
};
use crate::tools::specs::{boolean, function, number, object, string, strings};

/// Everything that the tools about agents depend on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AgentOffer {
    by_path: bool,
    roles: Vec<AgentRole>,
}

impl AgentOffer {
    /// `None` when an agent at this depth is to start no others.
    pub fn new(config: &EffectiveConfig, depth: u32) -> Option<Self> {
        let by_path = by_path(config);
        if !by_path && !config.features.enabled(Feature::MultiAgent) {
            return None;
        }
        let agents = AgentSettings::of(config);
        (depth < agents.max_depth).then_some(Self { by_path, roles: agents.roles })
    }
}

impl TurnTools {
    /// Whether agents have names for their tasks, and tools of their own because of it.
    pub(super) fn addresses_by_path(&self) -> bool {
        by_path(&self.config)
    }
}

fn by_path(config: &EffectiveConfig) -> bool {
    config.features.enabled(Feature::MultiAgentV2)
}

/// The list, in the order in which the reference server has it.
pub(in crate::tools) fn tools(offer: &AgentOffer) -> Vec<ToolSpec> {
    match offer.by_path {
        false => vec![spawn_agent(offer), send_input(), resume_agent(), wait_agent(offer), close_agent()],
        true => vec![
            spawn_agent(offer),
            send_message(),
            assign_task(),
            wait_agent(offer),
            close_agent(),
            list_agents(),
        ],
    }
}

fn spawn_agent(offer: &AgentOffer) -> ToolSpec {
    let roles = offer.roles.iter().map(|role| format!("\n- `{}`: {}", role.name, role.description));
    let roles =
        format!("The kind of agent. Leave it out unless one of these fits:{}", roles.collect::<String>());
    let mut properties = json!({
        "message": string("What the agent is to do. It knows nothing else, so say all it needs."),
        "items": items(),
        "agent_type": string(&roles),
        "model": string("Another model than yours, if the user asked for it."),
        "reasoning_effort": string("Another effort than yours, if the user asked for it."),
        "fork_context": boolean("Whether the agent gets this whole conversation as well. False by default."),
    });
    let mut required = Vec::new();
    if let (true, Some(properties)) = (offer.by_path, properties.as_object_mut()) {
        let name = "A name for the task in lower-case letters, digits and underscores. The agent's path ends with it.";
        properties.insert("task_name".to_owned(), string(name));
        required.push("task_name");
    }
    let about = "Starts an agent that works beside you on a part of the task, in the same folder and under the \
                 same rules. Returns at once with its id. You are told when it is done; go on with your own \
                 part until then, and wait for it only when you cannot. Use it for parts that can be done \
                 independently of each other.";
    function("spawn_agent", about, properties, &required)
}

fn send_input() -> ToolSpec {
    let about = "Tells an agent something more. It is worked on at once, or as soon as the agent's present \
                 step is done. An agent that has finished begins anew, and knows what it did.";
    function("send_input", about, to_agent(), &["target"])
}

fn assign_task() -> ToolSpec {
    let about = "Gives an agent something to do. It is worked on at once, or as soon as the agent's present \
                 step is done.";
    function("assign_task", about, to_agent(), &["target"])
}

fn to_agent() -> Value {
    json!({
        "target": string("The agent: its id, or another name that its start returned."),
        "message": string("What to tell it."),
        "items": items(),
        "interrupt": boolean("Whether to stop what the agent is doing first. False by default."),
    })
}

fn send_message() -> ToolSpec {
    let properties = json!({
        "target": string("The agent: its path, the name of its task, or its id."),
        "message": string("What to tell it."),
    });
    let about =
        "Lets an agent know something. It reads it with its next step and starts nothing because of it.";
    function("send_message", about, properties, &["target", "message"])
}

fn resume_agent() -> ToolSpec {
    let properties = json!({ "id": string("The agent that was closed.") });
    let about =
        "Opens an agent again that was closed, with everything it knew, so that it can be sent input.";
    function("resume_agent", about, properties, &["id"])
}

fn wait_agent(offer: &AgentOffer) -> ToolSpec {
    let whom = match offer.by_path {
        true => "The agents to wait for; all of them when left out.",
        false => "The ids of the agents to wait for.",
    };
    let properties = json!({
        "targets": strings(whom),
        "timeout_ms": number(
            "How long to wait, in milliseconds: 30000 by default, 10000 at least, 3600000 at most."
        ),
    });
    let about = "Waits until one of the agents is done and returns how those that are done ended, with their \
                 last words. Prefer long waits to repeated ones.";
    let required: &[&str] = if offer.by_path { &[] } else { &["targets"] };
    function("wait_agent", about, properties, required)
}

fn close_agent() -> ToolSpec {
    let properties = json!({ "target": string("The agent to close.") });
    let about = "Ends an agent that is not needed any more, with the agents it started, and makes room for \
                 others. Returns how far it had come.";
    function("close_agent", about, properties, &["target"])
}

fn list_agents() -> ToolSpec {
    let properties = json!({ "path_prefix": string("Only the agents at this path and below it.") });
    function("list_agents", "Lists your agents and how far they have come.", properties, &[])
}

/// A message of several parts.
fn items() -> Value {
    let part = object(
        json!({
            "type": string("`text`, `image`, `local_image`, `skill` or `mention`."),
            "text": string("For `text`."),
            "image_url": string("For `image`."),
            "path": string("For `local_image`, `skill` and `mention`."),
            "name": string("For `skill` and `mention`."),
        }),
        &[],
    );
    json!({ "type": "array", "items": part, "description": "The message in parts, instead of `message`." })
}
