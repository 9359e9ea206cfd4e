//! The task of a running turn: request a response, run the tools it calls, and repeat until the model is done.
//!
//! The task owns nothing of its thread. It reports events on the thread's [channel](crate::turn_channel) and asks the
//! thread what to do next. Every item that it starts is completed, however it ends.

mod images;
mod model;
mod patch_progress;
mod plan;
mod request_timer;
mod response;
mod shell;

use std::sync::Arc;

use codicil_model::ModelProvider;
use codicil_prompts::{developer_message, user_text_message};
use codicil_protocol::{HookPromptFragment, ThreadId, ThreadItem, TurnError, TurnId};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    hooks::HookEvent,
    ids::new_item_id,
    tools::{ToolCall, TurnCancelled, TurnTools},
    turn_channel::{FollowUp, NextAction, TurnEvent, TurnOutcome, TurnReporter},
};

pub use shell::{ShellCommand, ShellTask};

/// A turn that talks to the model, with the thread's state as it was when the turn began.
pub struct TurnTask {
    pub thread: ThreadId,
    pub turn: TurnId,
    pub provider: Arc<dyn ModelProvider>,
    pub reporter: TurnReporter,
    pub cancel: CancellationToken,
    /// Changes when the response that is being received should end.
    pub response_ends: watch::Receiver<u64>,
    pub visibility: ResponseVisibility,
    pub tools: Arc<TurnTools>,
    /// The user's text, for turns that start with user input.
    pub prompt: Option<String>,
    /// The calls that a turn of an earlier process still has to run; `None` for a turn that starts here.
    pub continued_calls: Option<Vec<ToolCall>>,
}

/// The parts of a response that clients see.
#[derive(Clone, Copy, Debug)]
pub struct ResponseVisibility {
    /// Messages are items.
    pub messages: bool,
    pub raw_reasoning: bool,
    /// Proposed plans are items of their own.
    pub plans: bool,
    /// Patches are shown while they are written.
    pub patches: bool,
}

/// Why a turn stops before the model is done.
enum TurnStop {
    Interrupted,
    Failed(TurnError),
}

impl From<TurnCancelled> for TurnStop {
    fn from(TurnCancelled: TurnCancelled) -> Self {
        Self::Interrupted
    }
}

/// What hooks decide at the start or at the end of a turn.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HookDecision {
    Continue,
    End,
}

impl TurnTask {
    /// Runs the turn to its end.
    pub async fn run(self) -> TurnOutcome {
        match self.run_loop().await {
            Ok(()) => TurnOutcome::Completed,
            Err(TurnStop::Interrupted) => TurnOutcome::Interrupted,
            Err(TurnStop::Failed(error)) => TurnOutcome::Failed(error),
        }
    }

    async fn run_loop(&self) -> Result<(), TurnStop> {
        let begun = match &self.continued_calls {
            None => self.begin().await?,
            Some(calls) => self.continue_calls(calls.clone()).await?,
        };
        if begun == HookDecision::End {
            return Ok(());
        }
        let mut follow_up = FollowUp::Needed;
        let mut last_message = None;
        let mut was_continued = false;
        loop {
            match self.reporter.next(follow_up).await {
                NextAction::Respond(request) => {
                    let response = self.respond(&request).await?;
                    last_message = response.message.or(last_message);
                    let is_last = response.calls.is_empty();
                    follow_up = if is_last { FollowUp::IfSteered } else { FollowUp::Needed };
                    self.tools.run(response.calls).await;
                    if !self.tools.can_continue() {
                        return Ok(());
                    }
                    if !is_last {
                        self.reload_tools().await?;
                    }
                }
                NextAction::Compact(request) => self.compact(*request).await?,
                NextAction::End => {
                    self.check_cancelled()?;
                    if self.run_stop_hooks(was_continued, last_message.take()).await? == HookDecision::End {
                        return Ok(());
                    }
                    was_continued = true;
                    follow_up = FollowUp::Needed;
                }
            }
            self.check_cancelled()?;
        }
    }

    /// Offers the tools and runs the hooks for the start of the turn.
    async fn begin(&self) -> Result<HookDecision, TurnStop> {
        self.tools.install_skill_servers().await?;
        self.offer_tools().await?;
        self.run_start_hooks().await
    }

    /// Offers the tools and runs the calls that a turn of an earlier process has left.
    async fn continue_calls(&self, calls: Vec<ToolCall>) -> Result<HookDecision, TurnStop> {
        let offered = self.offer_tools().await;
        // Also if the turn is being interrupted: each call needs an output.
        self.tools.run(calls).await;
        offered?;
        self.check_cancelled()?;
        Ok(if self.tools.can_continue() { HookDecision::Continue } else { HookDecision::End })
    }

    async fn offer_tools(&self) -> Result<(), TurnStop> {
        let tools = self.cancel.run_until_cancelled(self.tools.load()).await;
        self.reporter.report_one(TurnEvent::Offered(tools.ok_or(TurnStop::Interrupted)?)).await;
        Ok(())
    }

    /// Offers the model what MCP servers have changed, which a call may have caused.
    async fn reload_tools(&self) -> Result<(), TurnStop> {
        let changed = self.cancel.run_until_cancelled(self.tools.reload()).await;
        if let Some(tools) = changed.ok_or(TurnStop::Interrupted)? {
            self.reporter.report_one(TurnEvent::Offered(tools)).await;
        }
        Ok(())
    }

    fn check_cancelled(&self) -> Result<(), TurnStop> {
        if self.cancel.is_cancelled() { Err(TurnStop::Interrupted) } else { Ok(()) }
    }

    /// Runs the hooks for the start of the thread and for the user's prompt.
    async fn run_start_hooks(&self) -> Result<HookDecision, TurnStop> {
        let Some(prompt) = self.prompt.clone().filter(|_| self.tools.has_hooks()) else {
            return Ok(HookDecision::Continue);
        };
        let start = self.tools.thread.take_start_source().map(|source| HookEvent::SessionStart { source });
        for event in start.into_iter().chain([HookEvent::UserPromptSubmit { prompt }]) {
            let effect = self.tools.run_hooks(&event).await?;
            let messages: Vec<_> = effect.context.into_iter().map(|text| developer_message([text])).collect();
            // Context that a hook adds to a prompt follows the prompt.
            let event = match event {
                HookEvent::UserPromptSubmit { .. } => TurnEvent::Notice(messages),
                _ => TurnEvent::Context(messages),
            };
            self.reporter.report_one(event).await;
            if effect.block.is_some() || effect.stop.is_some() {
                return Ok(HookDecision::End);
            }
        }
        Ok(HookDecision::Continue)
    }

    /// Runs the hooks for the end of the turn. A hook that blocks the end adds its reason as a prompt.
    async fn run_stop_hooks(
        &self,
        was_continued: bool,
        last_message: Option<String>,
    ) -> Result<HookDecision, TurnStop> {
        if self.prompt.is_none() || !self.tools.has_hooks() {
            return Ok(HookDecision::End);
        }
        let effect =
            self.tools.run_hooks(&HookEvent::Stop { is_repeated: was_continued, last_message }).await?;
        let Some(reason) = effect.block.filter(|_| effect.stop.is_none()) else {
            return Ok(HookDecision::End);
        };
        let id = new_item_id();
        let fragment = HookPromptFragment { text: reason.clone(), hook_run_id: id.to_string() };
        let item = ThreadItem::HookPrompt { id, fragments: vec![fragment] };
        self.reporter.report_one(TurnEvent::Started(Box::new(item.clone()))).await;
        self.reporter
            .report_one(TurnEvent::Completed {
                item: Box::new(item),
                context: vec![user_text_message(reason)],
            })
            .await;
        Ok(HookDecision::Continue)
    }
}
