//! `send_input`, `assign_task` and `send_message`: saying something to an agent that is there.

use codicil_protocol::{CollabAgentStatus, CollabAgentTool, ThreadId, TurnStartParams, UserInput};
use serde::Deserialize;
use serde_json::json;

use super::{
    ToolCall, ToolOutput, TurnCancelled, TurnTools,
    error::AgentError,
    input::{self, AgentMessage},
    say,
    target::AgentTarget,
};
use crate::{
    error::{ThreadError, TurnInputError},
    permissions::{InheritedPermissions, StoredPermissions},
    subagent,
    thread::ThreadHandle,
};

#[derive(Deserialize)]
struct SendArguments {
    #[serde(alias = "id")]
    target: String,
    #[serde(flatten)]
    message: AgentMessage,
    /// Whether what the agent is doing is stopped first.
    interrupt: Option<bool>,
}

/// How a message reaches an agent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MessageDelivery {
    /// It is worked on: now, or as part of the turn that is running.
    Work { interrupt: bool },
    /// It is known from the agent's next request on, and starts nothing.
    Note,
}

impl TurnTools {
    pub(super) async fn send_input(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let arguments: SendArguments = match call.arguments() {
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let interrupt = arguments.interrupt.unwrap_or(false);
        self.send(call, arguments, MessageDelivery::Work { interrupt }).await
    }

    pub(super) async fn send_message(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        match call.arguments() {
            Ok(arguments) => self.send(call, arguments, MessageDelivery::Note).await,
            Err(told) => Ok(told),
        }
    }

    async fn send(
        &self,
        call: &ToolCall,
        arguments: SendArguments,
        how: MessageDelivery,
    ) -> Result<ToolOutput, TurnCancelled> {
        let found = self.threads().and_then(|threads| self.target(&threads, &arguments.target));
        let (target, input) = match (found, arguments.message.input()) {
            (Ok(target), Ok(input)) => (target, input),
            (Err(error), _) | (_, Err(error)) => return Ok(say(error.to_string())),
        };
        let mut note = self.note(call, CollabAgentTool::SendInput);
        note.prompt = Some(input::preview(&input));
        let id = target.id().clone();
        self.note_started(&note, vec![id.clone()]).await;
        let sent = match &target {
            AgentTarget::Live(handle) => self.deliver(handle, input, how).await,
            AgentTarget::Gone(id) => Err(AgentError::NotFound(id.to_string())),
        };
        let state = match &target {
            AgentTarget::Live(handle) => handle.state(),
            AgentTarget::Gone(_) => subagent::state(CollabAgentStatus::NotFound),
        };
        match sent {
            Ok(submission) => {
                self.note_completed(&note, vec![(id, state)]).await;
                Ok(say(json!({ "submission_id": submission }).to_string()))
            }
            Err(error) => {
                self.note_failed(&note, vec![(id, state)]).await;
                Ok(say(error.to_string()))
            }
        }
    }

    /// Returns what names the delivery: the turn that took the message, or the agent that will read it.
    async fn deliver(
        &self,
        handle: &ThreadHandle,
        input: Vec<UserInput>,
        how: MessageDelivery,
    ) -> Result<String, AgentError> {
        let MessageDelivery::Work { interrupt } = how else {
            let message = codicil_prompts::user_text_message(input::preview(&input));
            handle.notice(message).await;
            return Ok(handle.id().to_string());
        };
        if interrupt {
            match handle.interrupt().await {
                Ok(_) | Err(ThreadError::TurnInput(TurnInputError::NothingToInterrupt)) => {}
                Err(error) => return Err(AgentError::Send(error)),
            }
        }
        self.narrow_agent(handle).await.map_err(AgentError::Send)?;
        self.start_turn(handle, input).await.map_err(AgentError::Send)
    }

    /// Takes from an agent what this thread may not do any more, before the agent works on something new.
    async fn narrow_agent(&self, handle: &ThreadHandle) -> Result<(), ThreadError> {
        let now = handle.snapshot().await?.settings;
        let mut narrowed = now.clone();
        narrowed.narrow_to(&StoredPermissions::from(&self.settings), InheritedPermissions::ALL);
        if narrowed == now {
            return Ok(());
        }
        let change = TurnStartParams {
            sandbox_policy: Some(narrowed.sandbox).filter(|sandbox| *sandbox != now.sandbox),
            approval_policy: Some(narrowed.approval_policy).filter(|policy| *policy != now.approval_policy),
            approvals_reviewer: Some(narrowed.approvals_reviewer)
                .filter(|reviewer| *reviewer != now.approvals_reviewer),
            ..TurnStartParams::new(handle.id().clone(), Vec::new())
        };
        handle.update_settings(change).await.map(drop)
    }

    /// Has an agent work on something, on behalf of whoever asked for this turn.
    pub(super) async fn start_turn(
        &self,
        handle: &ThreadHandle,
        input: Vec<UserInput>,
    ) -> Result<String, ThreadError> {
        let id: ThreadId = handle.id().clone();
        let accepted = handle.start_turn(TurnStartParams::new(id, input), self.origin.clone()).await?;
        // Nobody has to be answered first, so the agent may speak at once.
        Ok(accepted.answer.id.to_string())
    }
}
