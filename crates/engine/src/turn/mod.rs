//! A running turn: ask the model, show what it says, run the tools it calls, until it is done.

mod compact;
mod hooks;
mod images;
mod plan;
mod shell;
mod stream;
mod web_search;

use std::sync::Arc;

use codicil_model::{ModelError, ModelProvider, ModelRequest};
use codicil_protocol::{ThreadId, TurnError, TurnId};
use tokio_util::sync::CancellationToken;

use crate::{
    step::{FollowUp, NextAction, TurnEvent, TurnOutcome, TurnReporter},
    tools::{TurnCancelled, TurnTools},
};

pub use shell::ShellTask;
use stream::{ModelResponse, ResponseReader};

/// What a turn needs of its thread, as it was when the turn began.
pub struct TurnTask {
    pub thread: ThreadId,
    pub turn: TurnId,
    pub provider: Arc<dyn ModelProvider>,
    pub steps: TurnReporter,
    pub cancel: CancellationToken,
    pub show: ResponseVisibility,
    pub tools: Arc<TurnTools>,
    /// What the person said, if this turn is about it.
    pub prompt: Option<String>,
}

/// What of a response is shown to clients.
#[derive(Clone, Copy, Debug)]
pub struct ResponseVisibility {
    /// Messages are shown while they are being written.
    pub deltas: bool,
    pub raw_reasoning: bool,
    /// Proposed plans are items of their own.
    pub plans: bool,
}

impl TurnTask {
    /// Runs to the end. Whatever happens, every item it started is completed.
    pub async fn run(self) -> TurnOutcome {
        let _over = self.tools.ended.clone().drop_guard();
        let Some(tools) = self.cancel.run_until_cancelled(self.tools.load()).await else {
            return TurnOutcome::Interrupted;
        };
        self.steps.one(TurnEvent::Offered(tools)).await;
        match self.begin_hooks().await {
            Ok(true) => {}
            Ok(false) => return TurnOutcome::Completed,
            Err(TurnCancelled) => return TurnOutcome::Interrupted,
        }
        let mut follow_up = FollowUp::Needed;
        let (mut said, mut kept_on) = (None, false);
        loop {
            let done = match self.steps.next(follow_up).await {
                NextAction::Respond(request) => match self.respond(&request).await {
                    Ok(Some(response)) => {
                        said = response.message.or(said);
                        let is_last = response.calls.is_empty();
                        follow_up = if is_last { FollowUp::IfSteered } else { FollowUp::Needed };
                        self.tools.run(response.calls).await;
                        if !self.tools.can_continue() {
                            return TurnOutcome::Completed;
                        }
                        Ok(!self.cancel.is_cancelled())
                    }
                    Ok(None) => Ok(false),
                    Err(error) => Err(error),
                },
                NextAction::Compact(request) => self.compact(*request).await,
                NextAction::End if self.cancel.is_cancelled() => Ok(false),
                NextAction::End => match self.stop_hooks(kept_on, said.take()).await {
                    Ok(true) => {
                        (kept_on, follow_up) = (true, FollowUp::Needed);
                        Ok(true)
                    }
                    Ok(false) => return TurnOutcome::Completed,
                    Err(TurnCancelled) => Ok(false),
                },
            };
            match done {
                Ok(true) => {}
                Ok(false) => return TurnOutcome::Interrupted,
                Err(error) => return TurnOutcome::Failed(error),
            }
        }
    }

    /// One response, shown as it arrives. `None` when cancelled.
    async fn respond(&self, request: &ModelRequest) -> Result<Option<ModelResponse>, TurnError> {
        let mut retry = 0;
        loop {
            let error = match self.attempt(request.clone()).await {
                Ok(response) => return Ok(response),
                Err(error) => error,
            };
            if !self.retries(&mut retry, error).await? {
                return Ok(None);
            }
        }
    }

    /// Says that the model is asked again, and waits for it. An error when it is not worth it, false when
    /// the turn was cancelled meanwhile.
    async fn retries(&self, retry: &mut u32, error: ModelError) -> Result<bool, TurnError> {
        *retry += 1;
        let policy = self.provider.limits().stream;
        let Some(wait) = policy.delay(*retry, &error) else { return Err(error.to_turn_error()) };
        tracing::debug!(retry, %error, "asking the model again");
        self.steps.one(TurnEvent::Retrying(error.to_retry_error(*retry, policy.max_retries))).await;
        Ok(tokio::time::timeout(wait, self.cancel.cancelled()).await.is_err())
    }

    async fn attempt(&self, request: ModelRequest) -> Result<Option<ModelResponse>, ModelError> {
        let mut reader = ResponseReader::new(self.thread.clone(), self.turn.clone(), self.show);
        let mut stream = self.provider.stream(request);
        let mut events = Vec::new();
        loop {
            let flow = tokio::select! {
                biased;
                () = self.cancel.cancelled() => {
                    self.steps.report(reader.close()).await;
                    return Ok(None);
                }
                flow = stream.next(&mut events) => flow,
            };
            let mut steps = reader.read(events.drain(..));
            self.keep_images(&mut steps).await;
            self.steps.report(steps).await;
            match flow {
                Ok(codicil_model::StreamFlow::More) => {}
                Ok(codicil_model::StreamFlow::Done) => {
                    self.steps.report(reader.close()).await;
                    return Ok(Some(reader.finish()));
                }
                Err(error) => {
                    self.steps.report(reader.close()).await;
                    return Err(error);
                }
            }
        }
    }
}
