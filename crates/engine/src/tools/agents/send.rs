//! `send_input`, `assign_task` and `send_message`: messages to a live subagent.

use codicil_model::ToolSpec;
use codicil_protocol::{CollabAgentStatus, CollabAgentTool, TurnStartParams, UserInput};
use futures_util::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{
    AgentCallItem, AgentError, AgentTarget,
    message::{self, AgentMessage},
};
use crate::{
    error::{ThreadError, TurnInputError},
    permissions::{InheritedPermissions, StoredPermissions},
    subagent,
    thread::{ThreadHandle, TurnOrigin},
    tools::{
        TurnTools,
        builtin::BuiltinTool,
        call::{ToolCall, ToolResult, text_output},
        offer::ToolOffer,
        schema::{boolean, function, string},
    },
};

pub(in crate::tools) struct SendInput;
pub(in crate::tools) struct AssignTask;
pub(in crate::tools) struct SendMessage;

#[derive(Deserialize)]
struct SendArguments {
    #[serde(alias = "id")]
    target: String,
    #[serde(flatten)]
    message: AgentMessage,
    /// Whether the subagent's running turn is interrupted first.
    interrupt: Option<bool>,
}

/// How a message reaches a subagent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageDelivery {
    /// It starts a turn, or steers the running one.
    Turn { interrupt: bool },
    /// It is part of the subagent's next request and starts nothing.
    Note,
}

impl BuiltinTool for SendInput {
    fn name(&self) -> &'static str {
        "send_input"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if offer.agents.as_ref()?.by_path {
            return None;
        }
        let description = "Tells an agent something more. It is worked on at once, or as soon as the agent's present \
                           step is done. An agent that has finished begins anew, and knows what it did.";
        Some(function(self.name(), description, input_properties(), &["target"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(send_input(turn, call))
    }
}

impl BuiltinTool for AssignTask {
    fn name(&self) -> &'static str {
        "assign_task"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if !offer.agents.as_ref()?.by_path {
            return None;
        }
        let description = "Gives an agent something to do. It is worked on at once, or as soon as the agent's present \
                           step is done.";
        Some(function(self.name(), description, input_properties(), &["target"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(send_input(turn, call))
    }
}

impl BuiltinTool for SendMessage {
    fn name(&self) -> &'static str {
        "send_message"
    }

    fn spec(&self, offer: &ToolOffer) -> Option<ToolSpec> {
        if !offer.agents.as_ref()?.by_path {
            return None;
        }
        let properties = json!({
            "target": string("The agent: its path, the name of its task, or its id."),
            "message": string("What to tell it."),
        });
        let description =
            "Lets an agent know something. It reads it with its next step and starts nothing because of it.";
        Some(function(self.name(), description, properties, &["target", "message"]))
    }

    fn begins_at_once(&self) -> bool {
        false
    }

    fn run<'a>(&'a self, turn: &'a TurnTools, call: &'a ToolCall) -> BoxFuture<'a, ToolResult> {
        Box::pin(async move { send(turn, call, call.arguments()?, MessageDelivery::Note).await })
    }
}

fn input_properties() -> Value {
    json!({
        "target": string("The agent: its id, or another name that its start returned."),
        "message": string("What to tell it."),
        "items": message::items_schema(),
        "interrupt": boolean("Whether to stop what the agent is doing first. False by default."),
    })
}

async fn send_input(turn: &TurnTools, call: &ToolCall) -> ToolResult {
    let arguments: SendArguments = call.arguments()?;
    let interrupt = arguments.interrupt.unwrap_or(false);
    send(turn, call, arguments, MessageDelivery::Turn { interrupt }).await
}

async fn send(
    turn: &TurnTools,
    call: &ToolCall,
    arguments: SendArguments,
    delivery: MessageDelivery,
) -> ToolResult {
    let target = AgentTarget::find(turn, &arguments.target)?;
    let input = arguments.message.into_input()?;
    let mut item = AgentCallItem::new(turn, call, CollabAgentTool::SendInput);
    item.prompt = Some(message::preview(&input));
    if let AgentTarget::Live(handle) = &target {
        item.show_path(handle);
    }
    let id = target.id().clone();
    item.begin(vec![id.clone()]).await?;
    let sent = match &target {
        AgentTarget::Live(handle) => deliver(turn, handle, input, delivery).await,
        AgentTarget::Gone(id) => Err(AgentError::NotFound(id.to_string())),
    };
    let state = match &target {
        AgentTarget::Live(handle) => handle.state(),
        AgentTarget::Gone(_) => subagent::state(CollabAgentStatus::NotFound),
    };
    match sent {
        Ok(submission) => {
            item.emit_completed(vec![(id, state)]).await;
            Ok(text_output(json!({ "submission_id": submission }).to_string()))
        }
        Err(error) => {
            item.emit_failed(vec![(id, state)]).await;
            Err(error.into())
        }
    }
}

/// Delivers a message. Returns the id of the turn that took it, or of the subagent that will read it.
async fn deliver(
    turn: &TurnTools,
    handle: &ThreadHandle,
    input: Vec<UserInput>,
    delivery: MessageDelivery,
) -> Result<String, AgentError> {
    let MessageDelivery::Turn { interrupt } = delivery else {
        let message = codicil_prompts::user_text_message(message::preview(&input));
        handle.notice(message).await;
        return Ok(handle.id().to_string());
    };
    if interrupt {
        match handle.interrupt_running().await {
            Ok(_) | Err(ThreadError::TurnInput(TurnInputError::NothingToInterrupt)) => {}
            Err(error) => return Err(AgentError::Send(error)),
        }
    }
    narrow_permissions(turn, handle).await.map_err(AgentError::Send)?;
    start_turn(turn, handle, input).await.map_err(AgentError::Send)
}

/// Takes permissions from a subagent that this thread has lost since the subagent was started.
async fn narrow_permissions(turn: &TurnTools, handle: &ThreadHandle) -> Result<(), ThreadError> {
    let current = handle.snapshot().await?.settings;
    let mut narrowed = current.clone();
    narrowed.narrow_to(&StoredPermissions::from(&turn.settings), InheritedPermissions::ALL);
    if narrowed == current {
        return Ok(());
    }
    let change = TurnStartParams {
        sandbox_policy: Some(narrowed.sandbox).filter(|sandbox| *sandbox != current.sandbox),
        approval_policy: Some(narrowed.approval_policy).filter(|policy| *policy != current.approval_policy),
        approvals_reviewer: Some(narrowed.approvals_reviewer)
            .filter(|reviewer| *reviewer != current.approvals_reviewer),
        ..TurnStartParams::new(handle.id().clone(), Vec::new())
    };
    handle.update_settings(change).await
}

/// Starts a turn of a subagent, with the origin of this turn.
pub(super) async fn start_turn(
    turn: &TurnTools,
    handle: &ThreadHandle,
    input: Vec<UserInput>,
) -> Result<String, ThreadError> {
    let params = TurnStartParams::new(handle.id().clone(), input);
    let root_turn = turn.origin.root_turn.clone().or_else(|| Some(turn.turn_id.clone()));
    let accepted = handle.start_turn(params, TurnOrigin { root_turn, ..turn.origin.clone() }).await?;
    // No client waits for a response, so the turn may send notifications at once.
    Ok(accepted.answer.id.to_string())
}
