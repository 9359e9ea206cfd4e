//! Runs the tool calls of a response, with the hooks around each call.

use std::{sync::atomic::Ordering, time::Duration};

use codicil_config::Feature;
use codicil_metrics::{METRICS, labels::ToolCallEnd};
use codicil_protocol::{AskForApproval, FunctionCallOutputBody};
use codicil_telemetry::spans::{
    SpanOutcome, TurnIds, in_current_span, note_outcome, note_tool, tool_call_span,
};
use serde_json::{Value, json};
use tokio::task::JoinError;
use tracing::{Instrument, Span};

use super::{
    TurnTools,
    builtin::{BuiltinTool, HookView, builtin_tool, unsupported_call},
    call::{ToolCall, ToolError, ToolOutput, ToolResult, TurnCancelled, text_output},
    dynamic::{self, DynamicMatch},
    mcp,
};
use crate::{
    hooks::{HookContext, HookEffect, HookEvent, TurnHooks},
    turn_channel::TurnEvent,
};

/// How long tools may take to stop after an interrupt before they are dropped.
const STOP_TIME: Duration = Duration::from_secs(2);

/// What the names of MCP tools begin with.
const MCP_PREFIX: &str = "mcp__";

impl TurnTools {
    /// Runs the calls of one response, in parallel where they allow it, and reports their outputs.
    pub async fn run(&self, calls: Vec<ToolCall>) {
        if calls.is_empty() {
            return;
        }
        // A call is on disk before it has an effect, so that a killed server knows what it may have done.
        self.reporter.stored().await;
        let all = futures_util::future::join_all(calls.into_iter().map(|call| self.run_one(call)));
        let stop_timeout = async {
            self.cancel.cancelled().await;
            tokio::time::sleep(STOP_TIME).await;
        };
        tokio::select! {
            biased;
            _ = all => {}
            // Dropping the remaining calls also ends what they own.
            () = stop_timeout => tracing::warn!(turn = %self.turn_id, "a tool did not stop after an interrupt"),
        }
    }

    async fn run_one(&self, call: ToolCall) {
        let thread = self.thread_id();
        let span = tool_call_span(TurnIds { thread: &thread, turn: &self.turn_id }, &call.id);
        self.run_in_order(call).instrument(span).await;
    }

    /// Runs a call when it may run beside the others.
    async fn run_in_order(&self, call: ToolCall) {
        let result = if builtin_tool(&call.name).is_some_and(BuiltinTool::runs_in_parallel) {
            let _shared = self.parallel_lock.read().await;
            self.dispatch_with_hooks(&call).await
        } else {
            let _exclusive = self.parallel_lock.write().await;
            self.dispatch_with_hooks(&call).await
        };
        let output = result.unwrap_or_else(|TurnCancelled| text_output("aborted by user"));
        self.reporter.report_one(TurnEvent::Context(vec![call.into_output_item(output)])).await;
    }

    /// Runs a call between its `PreToolUse` and `PostToolUse` hooks.
    async fn dispatch_with_hooks(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        let Some(HookView { tool, input }) = self.has_hooks().then(|| hook_view(call)).flatten() else {
            return self.dispatch(call).await;
        };
        let id = call.id.clone();
        let before = HookEvent::PreToolUse { id: id.clone(), tool: tool.clone(), input: input.clone() };
        if let Some(why) = self.run_hooks(&before).await?.block {
            return Ok(text_output(format!("{} was blocked by a PreToolUse hook: {why}", call.name)));
        }
        let output = self.dispatch(call).await?;
        let response = match &output {
            FunctionCallOutputBody::Text(text) => Value::String(text.clone()),
            FunctionCallOutputBody::Content(parts) => json!(parts),
        };
        let effect = self.run_hooks(&HookEvent::PostToolUse { id, tool, input, response }).await?;
        if effect.stop.is_some() {
            self.stop_requested.store(true, Ordering::Relaxed);
        }
        let notes = effect.block.into_iter().chain(effect.stop).chain(effect.context);
        Ok(notes.fold(output, |output, note| match output {
            FunctionCallOutputBody::Text(text) => {
                text_output(format!("{text}\n\nA PostToolUse hook says: {note}"))
            }
            with_images => with_images,
        }))
    }

    /// Runs a call. A failure is an output too.
    async fn dispatch(&self, call: &ToolCall) -> Result<ToolOutput, TurnCancelled> {
        match self.call_tool(call).await {
            Ok(output) => Ok(output),
            Err(ToolError::Failed(text)) => Ok(text_output(text)),
            Err(ToolError::Cancelled) => Err(TurnCancelled),
        }
    }

    async fn call_tool(&self, call: &ToolCall) -> ToolResult {
        if self.cancel.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        // The client's tools come first: they replace built-in tools of the same name.
        match dynamic::find_tool(&self.thread.dynamic, call) {
            DynamicMatch::Tool(tool) => {
                note_tool(&call.name);
                return counted(ToolProvider::Client, dynamic::call_tool(self, call, tool).await);
            }
            DynamicMatch::UnknownInNamespace => {
                return counted(ToolProvider::Unknown, Err(unsupported_call(call)));
            }
            DynamicMatch::NotDynamic => {}
        }
        let mcp_tools = self.offered().mcp.clone();
        if let Some(tool) = mcp_tools.as_ref().and_then(|tools| tools.get(&call.name)) {
            note_tool(&call.name);
            return counted(ToolProvider::Mcp, mcp::call_tool(self, call, tool).await);
        }
        match builtin_tool(&call.name) {
            Some(tool) if self.is_offered(tool) || tool.accepts_unoffered_calls(self) => {
                note_tool(&call.name);
                if tool.begins_at_once() {
                    self.begin(&call.id, None).await?;
                }
                counted(ToolProvider::Builtin, tool.run(self, call).await)
            }
            _ => counted(ToolProvider::Unknown, Err(unsupported_call(call))),
        }
    }

    fn is_offered(&self, tool: &dyn BuiltinTool) -> bool {
        self.offered().tools.specs().iter().any(|spec| spec.name() == tool.name())
    }

    pub fn has_hooks(&self) -> bool {
        self.config.features.enabled(Feature::Hooks)
    }

    /// Runs the hooks for an event.
    pub async fn run_hooks(&self, event: &HookEvent) -> Result<HookEffect, TurnCancelled> {
        if !self.has_hooks() {
            return Ok(HookEffect::default());
        }
        let hooks = self.hooks.get_or_init(async || self.load_hooks().await).await;
        let context = self.hook_context();
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Err(TurnCancelled),
            effect = hooks.run(event, &context, &self.reporter) => Ok(effect),
        }
    }

    async fn load_hooks(&self) -> TurnHooks {
        let engine = self.thread.engine.clone();
        let config = self.config.clone();
        let load = move || TurnHooks::load(engine.config.home(), &config);
        match tokio::task::spawn_blocking(in_current_span(load)).await.map_err(JoinError::try_into_panic) {
            Ok(hooks) => hooks,
            // Hooks may refuse calls, so the turn fails rather than run without them.
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            // The runtime ends, and the turn with it.
            Err(Err(_)) => TurnHooks::default(),
        }
    }

    fn hook_context(&self) -> HookContext {
        let permission_mode = match &self.settings.approval_policy {
            _ if self.is_plan_mode() => "plan",
            AskForApproval::Never => "bypassPermissions",
            _ => "default",
        };
        HookContext {
            thread_id: self.thread_id(),
            turn_id: self.turn_id.clone(),
            transcript: self.transcript.clone(),
            cwd: self.settings.cwd.to_string_lossy().into_owned(),
            model: self.settings.model.clone(),
            permission_mode,
        }
    }
}

/// Who runs the tool of a call.
#[derive(Clone, Copy)]
enum ToolProvider {
    Builtin,
    Mcp,
    Client,
    /// The call names a tool that was not offered.
    Unknown,
}

/// Counts the end of a call, and notes it in the call's span.
fn counted(provider: ToolProvider, result: ToolResult) -> ToolResult {
    let outcome = match &result {
        Ok(_) => SpanOutcome::Completed,
        Err(ToolError::Failed(_)) => SpanOutcome::Failed,
        Err(ToolError::Cancelled) => SpanOutcome::Cancelled,
    };
    note_outcome(&Span::current(), outcome);
    METRICS.tool_calls.inc(match (provider, &result) {
        (ToolProvider::Builtin, Ok(_)) => ToolCallEnd::BuiltinOk,
        (ToolProvider::Builtin, Err(ToolError::Failed(_))) => ToolCallEnd::BuiltinFailed,
        (ToolProvider::Builtin, Err(ToolError::Cancelled)) => ToolCallEnd::BuiltinCancelled,
        (ToolProvider::Mcp, Ok(_)) => ToolCallEnd::McpOk,
        (ToolProvider::Mcp, Err(ToolError::Failed(_))) => ToolCallEnd::McpFailed,
        (ToolProvider::Mcp, Err(ToolError::Cancelled)) => ToolCallEnd::McpCancelled,
        (ToolProvider::Client, Ok(_)) => ToolCallEnd::DynamicOk,
        (ToolProvider::Client, Err(ToolError::Failed(_))) => ToolCallEnd::DynamicFailed,
        (ToolProvider::Client, Err(ToolError::Cancelled)) => ToolCallEnd::DynamicCancelled,
        (ToolProvider::Unknown, _) => ToolCallEnd::Unknown,
    });
    result
}

/// Returns a call as hooks see it; `None` for calls that run without hooks.
fn hook_view(call: &ToolCall) -> Option<HookView> {
    if call.name.starts_with(MCP_PREFIX) {
        return Some(HookView { tool: call.name.clone(), input: call.input_value() });
    }
    builtin_tool(&call.name)?.hook_view(call)
}
