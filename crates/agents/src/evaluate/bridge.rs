//! Runs the prompt's tools when the server calls them. Each call is a transaction and ends with an event.

use std::{panic::AssertUnwindSafe, sync::Arc};

use codicil_client::{
    ClientTools,
    protocol::{
        DynamicToolCallOutputContentItem, DynamicToolCallParams, DynamicToolCallResponse, DynamicToolSpec,
    },
};
use futures_util::FutureExt;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, SetOnce},
    time::{Instant, timeout_at},
};

use super::{
    budget::Budget,
    events::{EvaluationEvent, MAX_OUTPUT, ToolInvoked, ToolKind, truncate},
    expansion::SectionExpansion,
    run::EvaluationRun,
    session::Session,
    tool::{Tool, ToolContext, ToolError, ToolFailure, ToolOutput},
    transaction::{StateConflict, StateTransaction},
};

/// The state that the tool calls of one evaluation share.
pub(super) struct ToolBridge {
    adapter: String,
    prompt: String,
    session: Session,
    tools: Vec<Tool>,
    deadline: Option<Instant>,
    budget: Option<Budget>,
    /// Runs calls one at a time, so that each call sees the changes of the previous one.
    one_at_a_time: Semaphore,
    /// The first request for more sections of the prompt.
    expansion: Mutex<Option<SectionExpansion>>,
    /// The tool that ended the evaluation, and its message.
    pub fatal: SetOnce<(String, String)>,
}

impl ToolBridge {
    pub fn new(run: &EvaluationRun<'_>, tools: Vec<Tool>) -> Arc<Self> {
        Arc::new(Self {
            adapter: run.setup.client.adapter_name.clone(),
            prompt: run.prompt.name().to_owned(),
            session: run.session.clone(),
            tools,
            deadline: run.deadline,
            budget: run.budget.cloned(),
            one_at_a_time: Semaphore::new(1),
            expansion: Mutex::default(),
            fatal: SetOnce::new(),
        })
    }

    /// Returns the `dynamicTools` of `thread/start`.
    pub fn specs(&self) -> Vec<DynamicToolSpec> {
        self.tools.iter().map(|tool| tool.spec().clone()).collect()
    }

    /// Returns the tools in the form in which the client runs them.
    pub fn client_tools(self: &Arc<Self>) -> ClientTools {
        self.tools.iter().fold(ClientTools::new(), |tools, tool| {
            let bridge = self.clone();
            let called = tool.clone();
            tools.add_raw(tool.spec().clone(), move |call| {
                let bridge = bridge.clone();
                let tool = called.clone();
                async move { bridge.call(&tool, call).await }
            })
        })
    }

    pub fn take_expansion(&self) -> Option<SectionExpansion> {
        self.expansion.lock().take()
    }

    async fn call(&self, tool: &Tool, call: DynamicToolCallParams) -> DynamicToolCallResponse {
        // The semaphore is never closed. A waiting call is dropped when the server cancels it.
        let _permit = self.one_at_a_time.acquire().await;
        let mut attempt = ToolAttempt::begin(self, &call);
        let outcome = match self.refusal() {
            Some(reason) => Err(ToolError::new(reason)),
            None => self.attempt(tool, &attempt, call).await,
        };
        let committed = outcome.and_then(|output| match attempt.transaction.commit() {
            Ok(()) => Ok(output),
            Err(StateConflict) => Err(ToolError::new("the state has changed meanwhile; try again")),
        });
        match committed {
            Ok(output) => attempt.succeed(output),
            Err(ToolError(failure)) => attempt.fail(failure),
        }
    }

    /// Runs the tool until the deadline. A panic is a failed call.
    async fn attempt(
        &self,
        tool: &Tool,
        attempt: &ToolAttempt<'_>,
        call: DynamicToolCallParams,
    ) -> Result<ToolOutput, ToolError> {
        let cx = ToolContext {
            transaction: attempt.transaction.clone(),
            call_id: call.call_id,
            thread_id: call.thread_id,
            turn_id: call.turn_id,
            deadline: self.deadline,
        };
        let running = AssertUnwindSafe(async { tool.run(call.arguments, cx).await }).catch_unwind();
        let done = match self.deadline {
            Some(deadline) => timeout_at(deadline, running).await,
            None => Ok(running.await),
        };
        match done {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(_)) => Err(ToolError::new("the tool panicked")),
            Err(_) => Err(ToolError::new("the deadline has passed")),
        }
    }

    /// Returns why no tool may run any more.
    fn refusal(&self) -> Option<String> {
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Some("the deadline has passed".to_owned());
        }
        let exceeded = self.budget.as_ref().and_then(|budget| budget.check_left().err());
        exceeded.map(|exceeded| exceeded.to_string())
    }

    fn note_expansion(&self, expansion: SectionExpansion) {
        let expansion = SectionExpansion { prompt: self.prompt.clone(), ..expansion };
        self.expansion.lock().get_or_insert(expansion);
    }
}

/// A tool call, from its snapshot to its event. If it is dropped before its end, it is rolled back and reported as
/// failed.
struct ToolAttempt<'b> {
    bridge: &'b ToolBridge,
    transaction: StateTransaction,
    name: String,
    call_id: String,
    params: Value,
    began: Instant,
    is_reported: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CallStatus {
    Succeeded,
    Failed,
}

impl<'b> ToolAttempt<'b> {
    fn begin(bridge: &'b ToolBridge, call: &DynamicToolCallParams) -> Self {
        Self {
            bridge,
            transaction: bridge.session.begin(),
            name: call.tool.clone(),
            call_id: call.call_id.clone(),
            params: call.arguments.clone(),
            began: Instant::now(),
            is_reported: false,
        }
    }

    fn succeed(&mut self, output: ToolOutput) -> DynamicToolCallResponse {
        self.report(CallStatus::Succeeded, &output.text());
        DynamicToolCallResponse { content_items: output.parts, success: true }
    }

    fn fail(&mut self, failure: ToolFailure) -> DynamicToolCallResponse {
        self.transaction.roll_back();
        let (status, text) = match failure {
            ToolFailure::Recoverable(message) => (CallStatus::Failed, message),
            ToolFailure::Fatal(message) => {
                // The first fatal error is kept.
                let _ = self.bridge.fatal.set((self.name.clone(), message.clone()));
                (CallStatus::Failed, message)
            }
            ToolFailure::Expand(expansion) => {
                let sections = expansion.sections.join(", ");
                self.bridge.note_expansion(expansion);
                let text =
                    format!("The next message shows these sections in full: {sections}. End your turn now.");
                (CallStatus::Succeeded, text)
            }
        };
        self.report(status, &text);
        let text = DynamicToolCallOutputContentItem::InputText { text };
        DynamicToolCallResponse { content_items: vec![text], success: status == CallStatus::Succeeded }
    }

    fn report(&mut self, status: CallStatus, output: &str) {
        self.is_reported = true;
        self.bridge.session.emit(&EvaluationEvent::ToolInvoked(ToolInvoked {
            adapter: self.bridge.adapter.clone(),
            prompt: self.bridge.prompt.clone(),
            kind: ToolKind::Bridged,
            name: self.name.clone(),
            call_id: self.call_id.clone(),
            params: self.params.clone(),
            success: status == CallStatus::Succeeded,
            output: truncate(output, MAX_OUTPUT),
            duration: Some(self.began.elapsed()),
        }));
    }
}

impl Drop for ToolAttempt<'_> {
    fn drop(&mut self) {
        if !self.is_reported {
            self.transaction.roll_back();
            self.report(CallStatus::Failed, "the call was cut off");
        }
    }
}
