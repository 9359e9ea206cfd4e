//! The prompt's tools as the server calls them: each call a transaction with an event at its end.

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
    events::{ADAPTER_NAME, EvaluationEvent, MAX_OUTPUT, ToolInvoked, ToolKind, shortened},
    expansion::SectionExpansion,
    session::Session,
    tool::{Tool, ToolContext, ToolError, ToolFailure, ToolOutput},
    transaction::{StateConflict, StateTransaction},
};

/// What the calls of one evaluation share.
pub(super) struct ToolBridge {
    pub prompt: String,
    pub session: Session,
    pub tools: Vec<Tool>,
    pub deadline: Option<Instant>,
    pub budget: Option<Budget>,
    /// Calls run one at a time, so that each begins with what the one before it left.
    pub turn: Semaphore,
    /// The first wish for more of the prompt.
    pub expansion: Mutex<Option<SectionExpansion>>,
    /// The tool that ended the evaluation, and what it said.
    pub fatal: SetOnce<(String, String)>,
}

impl ToolBridge {
    pub fn new(
        prompt: &str,
        session: &Session,
        tools: Vec<Tool>,
        deadline: Option<Instant>,
        budget: Option<Budget>,
    ) -> Arc<Self> {
        Arc::new(Self {
            prompt: prompt.to_owned(),
            session: session.clone(),
            tools,
            deadline,
            budget,
            turn: Semaphore::new(1),
            expansion: Mutex::default(),
            fatal: SetOnce::new(),
        })
    }

    /// `dynamicTools` of `thread/start`.
    pub fn specs(&self) -> Vec<DynamicToolSpec> {
        self.tools.iter().map(|tool| tool.spec().clone()).collect()
    }

    /// The tools as the client runs them.
    pub fn client_tools(self: &Arc<Self>) -> ClientTools {
        self.tools.iter().fold(ClientTools::new(), |tools, tool| {
            let (bridge, spec, tool) = (self.clone(), tool.spec().clone(), tool.clone());
            tools.add_raw(spec, move |call| {
                let (bridge, tool) = (bridge.clone(), tool.clone());
                async move { bridge.call(&tool, call).await }
            })
        })
    }

    pub fn take_expansion(&self) -> Option<SectionExpansion> {
        self.expansion.lock().take()
    }

    async fn call(&self, tool: &Tool, call: DynamicToolCallParams) -> DynamicToolCallResponse {
        // Never closed. Whoever waits here is dropped when the server no longer waits for the call.
        let _turn = self.turn.acquire().await;
        let mut attempt = ToolAttempt::begin(self, &call);
        let outcome = match self.refusal() {
            Some(reason) => Err(ToolError::new(reason)),
            None => self.attempt(tool, &attempt, call).await,
        };
        let committed = outcome.and_then(|output| match attempt.transaction.commit() {
            Ok(()) => Ok(output),
            Err(StateConflict) => {
                Err(ToolError::new("the state was changed by somebody else meanwhile; try again"))
            }
        });
        match committed {
            Ok(output) => attempt.succeed(output),
            Err(ToolError(failure)) => attempt.fail(failure),
        }
    }

    /// Runs the tool itself, for as long as there is time. A panic is a failure like others.
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

    /// Why no tool may run any more.
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

/// One call, from its snapshot to its event. Dropped before its end, it is rolled back and told as failed.
struct ToolAttempt<'b> {
    bridge: &'b ToolBridge,
    transaction: StateTransaction,
    name: String,
    call_id: String,
    params: Value,
    began: Instant,
    is_told: bool,
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
            is_told: false,
        }
    }

    fn succeed(&mut self, output: ToolOutput) -> DynamicToolCallResponse {
        self.tell(true, &output.text());
        DynamicToolCallResponse { content_items: output.parts, success: true }
    }

    fn fail(&mut self, failure: ToolFailure) -> DynamicToolCallResponse {
        self.transaction.roll_back();
        let (success, text) = match failure {
            ToolFailure::Told(message) => (false, message),
            ToolFailure::Fatal(message) => {
                // The first counts.
                let _ = self.bridge.fatal.set((self.name.clone(), message.clone()));
                (false, message)
            }
            ToolFailure::Expand(expansion) => {
                let sections = expansion.sections.join(", ");
                self.bridge.note_expansion(expansion);
                (
                    true,
                    format!(
                        "The prompt will be shown again with these sections in full: {sections}. End your turn now."
                    ),
                )
            }
        };
        self.tell(success, &text);
        let text = DynamicToolCallOutputContentItem::InputText { text };
        DynamicToolCallResponse { content_items: vec![text], success }
    }

    fn tell(&mut self, success: bool, output: &str) {
        self.is_told = true;
        self.bridge.session.tell(&EvaluationEvent::ToolInvoked(ToolInvoked {
            adapter: ADAPTER_NAME,
            prompt: self.bridge.prompt.clone(),
            kind: ToolKind::Bridged,
            name: self.name.clone(),
            call_id: self.call_id.clone(),
            params: self.params.clone(),
            success,
            output: shortened(output, MAX_OUTPUT),
            duration: Some(self.began.elapsed()),
        }));
    }
}

impl Drop for ToolAttempt<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.transaction.roll_back();
            self.tell(false, "the call was cut off");
        }
    }
}
