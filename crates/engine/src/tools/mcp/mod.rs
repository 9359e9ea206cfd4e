//! Tools of MCP servers: approved, called and shown as items.

mod approval;
mod client_calls;
mod dependencies;
mod questions;
mod resources;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use codicil_mcp::{CallError, McpCall, McpTool, ModelOutput, ModelPart, ProgressSink, ToolOutcome};
use codicil_model::ToolSpec;
use codicil_protocol::{
    FunctionCallOutputBody, FunctionCallOutputContentItem, McpToolCallError, McpToolCallProgress,
    McpToolCallProgressNotification, McpToolCallResult, McpToolCallStatus, ThreadItem,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    TurnTools,
    call::{ToolCall, ToolError, ToolOutput, ToolResult, text_output},
};
use crate::clock::millis;

pub use client_calls::{ClientCallError, ThreadMcpServers};
pub(crate) use dependencies::MentionedSkills;
pub(super) use resources::{ListMcpResourceTemplates, ListMcpResources, ReadMcpResource};

/// Progress reports that may wait; further ones are dropped.
const PROGRESS: usize = 64;

/// The parts of a call's item that stay the same.
struct McpItem<'a> {
    call: &'a ToolCall,
    server: &'a str,
    tool: &'a str,
    arguments: Value,
}

/// How a call ended.
struct McpCallEnd {
    result: Result<(McpToolCallResult, McpToolCallStatus), String>,
    took: Duration,
}

/// Describes a tool of an MCP server to the model.
pub(super) fn tool_spec(tool: &McpTool) -> ToolSpec {
    ToolSpec::Function {
        name: tool.qualified_name.clone(),
        description: tool.description(),
        parameters: tool.parameters.clone(),
        strict: false,
    }
}

/// Runs a call of a tool of an MCP server.
pub(super) async fn call_tool(turn: &TurnTools, call: &ToolCall, tool: &McpTool) -> ToolResult {
    let arguments: Value = call.arguments()?;
    // Arguments that the model left out are left out of the item and the request, too.
    let arguments = if call.has_no_input() { Value::Null } else { arguments };
    let item = McpItem { call, server: &tool.server, tool: &tool.tool.name, arguments };
    turn.emit_started(item.started()).await;
    if let Err(why) = approval::approve(turn, call, tool, &item.arguments).await? {
        let end = McpCallEnd { result: Err(why.clone()), took: Duration::ZERO };
        turn.emit_completed(item.ended(end)).await;
        return Err(ToolError::Failed(why));
    }
    turn.begin(&call.id, Some(item.started())).await?;
    let began = Instant::now();
    let mut outcome = run_call(turn, call, tool, &item.arguments).await;
    if let Err(error) = &outcome
        && questions::restore_access(turn, tool, error).await?
    {
        outcome = run_call(turn, call, tool, &item.arguments).await;
    }
    match outcome {
        Ok(outcome) => {
            let output = model_output(outcome.for_model());
            let status = outcome.status();
            let end = McpCallEnd { result: Ok((outcome.result, status)), took: outcome.duration };
            turn.emit_completed(item.ended(end)).await;
            Ok(output)
        }
        Err(error) => {
            let message = error.to_item_error().message;
            let end = McpCallEnd { result: Err(message.clone()), took: began.elapsed() };
            turn.emit_completed(item.ended(end)).await;
            if error == CallError::Cancelled && turn.cancel.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            Err(ToolError::Failed(message))
        }
    }
}

/// Calls the tool once and reports its progress.
async fn run_call(
    turn: &TurnTools,
    call: &ToolCall,
    tool: &McpTool,
    arguments: &Value,
) -> Result<ToolOutcome, CallError> {
    let (progress, mut reports) = mpsc::channel(PROGRESS);
    let sink: ProgressSink = Arc::new(move |step| drop(progress.try_send(step)));
    let called = turn.thread.servers.call(McpCall {
        server: tool.server.clone(),
        tool: tool.tool.name.clone(),
        arguments: arguments.clone(),
        meta: tool.call_meta(),
        progress: Some(sink),
        elicitor: Some(questions::elicitor(turn)),
        cancel: turn.cancel.clone(),
    });
    tokio::pin!(called);
    let outcome = loop {
        tokio::select! {
            biased;
            Some(progress) = reports.recv() => send_progress(turn, call, progress.text()).await,
            outcome = &mut called => break outcome,
        }
    };
    while let Ok(progress) = reports.try_recv() {
        send_progress(turn, call, progress.text()).await;
    }
    outcome
}

async fn send_progress(turn: &TurnTools, call: &ToolCall, message: String) {
    let params = McpToolCallProgressNotification {
        thread_id: turn.thread_id(),
        turn_id: turn.turn_id.clone(),
        item_id: call.item_id(),
        message,
    };
    turn.notify::<McpToolCallProgress>(&params).await;
}

fn model_output(output: ModelOutput) -> ToolOutput {
    match output {
        ModelOutput::Text(text) => text_output(text),
        ModelOutput::Parts(parts) => {
            let parts = parts.into_iter().map(|part| match part {
                ModelPart::Text(text) => FunctionCallOutputContentItem::InputText { text },
                ModelPart::Image(image_url) => FunctionCallOutputContentItem::image(image_url),
            });
            FunctionCallOutputBody::Content(parts.collect())
        }
    }
}

impl McpItem<'_> {
    fn started(&self) -> ThreadItem {
        self.item(McpToolCallStatus::InProgress, None, None, None)
    }

    fn ended(&self, end: McpCallEnd) -> ThreadItem {
        let took = Some(millis(end.took));
        match end.result {
            Ok((result, status)) => self.item(status, Some(result), None, took),
            Err(message) => {
                self.item(McpToolCallStatus::Failed, None, Some(McpToolCallError { message }), took)
            }
        }
    }

    fn item(
        &self,
        status: McpToolCallStatus,
        result: Option<McpToolCallResult>,
        error: Option<McpToolCallError>,
        duration_ms: Option<i64>,
    ) -> ThreadItem {
        ThreadItem::McpToolCall {
            id: self.call.item_id(),
            server: self.server.to_owned(),
            tool: self.tool.to_owned(),
            status,
            arguments: self.arguments.clone(),
            app_context: None,
            mcp_app_resource_uri: None,
            mcp_app_ui: None,
            plugin_id: None,
            read_only_hint: None,
            result,
            error,
            duration_ms,
        }
    }
}
