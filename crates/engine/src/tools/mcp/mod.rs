//! Tools of MCP servers: approved, called, and shown.

mod approval;
mod questions;
mod resources;

use std::{sync::Arc, time::Duration};

use codicil_mcp::{CallError, McpCall, McpTool, ModelOutput, ModelPart, ProgressSink};
use codicil_protocol::{
    Frame, FunctionCallOutputBody, FunctionCallOutputContentItem, McpToolCallError, McpToolCallProgress,
    McpToolCallProgressNotification, McpToolCallResult, McpToolCallStatus, ThreadItem,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    TurnTools,
    call::{ToolCall, ToolOutput, TurnCancelled, say},
};
use crate::{clock::millis, turn_channel::TurnEvent};

/// Progress reports that may wait; a tool that reports faster loses the rest.
const PROGRESS: usize = 64;

/// A call as an item.
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
            result,
            error,
            duration_ms,
        }
    }
}

impl TurnTools {
    pub(super) async fn call_mcp(
        &self,
        call: &ToolCall,
        tool: &McpTool,
    ) -> Result<ToolOutput, TurnCancelled> {
        let arguments: Value = match call.arguments() {
            // Left out altogether, and shown so.
            Ok(_) if call.is_bare() => Value::Null,
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let item = McpItem { call, server: &tool.server, tool: &tool.tool.name, arguments };
        self.started(item.started()).await;
        if let Err(why) = self.approve_mcp(call, tool, &item.arguments).await? {
            let end = McpCallEnd { result: Err(why.clone()), took: Duration::ZERO };
            self.completed(item.ended(end)).await;
            return Ok(say(why));
        }
        let began = std::time::Instant::now();
        let (progress, mut reports) = mpsc::channel(PROGRESS);
        let sink: ProgressSink = Arc::new(move |step| drop(progress.try_send(step)));
        let called = self.kit.servers.call(McpCall {
            server: tool.server.clone(),
            tool: tool.tool.name.clone(),
            arguments: item.arguments.clone(),
            meta: None,
            progress: Some(sink),
            elicitor: Some(self.elicitor()),
            cancel: self.cancel.clone(),
        });
        tokio::pin!(called);
        let outcome = loop {
            tokio::select! {
                biased;
                Some(progress) = reports.recv() => self.say_progress(call, progress.text()).await,
                outcome = &mut called => break outcome,
            }
        };
        while let Ok(progress) = reports.try_recv() {
            self.say_progress(call, progress.text()).await;
        }
        match outcome {
            Ok(outcome) => {
                let output = model_output(outcome.for_model());
                let status = outcome.status();
                let end = McpCallEnd { result: Ok((outcome.result, status)), took: outcome.duration };
                self.completed(item.ended(end)).await;
                Ok(output)
            }
            Err(error) => {
                let message = error.to_item_error().message;
                let end = McpCallEnd { result: Err(message.clone()), took: began.elapsed() };
                self.completed(item.ended(end)).await;
                if error == CallError::Cancelled && self.cancel.is_cancelled() {
                    return Err(TurnCancelled);
                }
                Ok(say(message))
            }
        }
    }

    async fn say_progress(&self, call: &ToolCall, message: String) {
        let params = McpToolCallProgressNotification {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: call.item_id(),
            message,
        };
        self.reporter
            .report_one(TurnEvent::Notification(Frame::notification::<McpToolCallProgress>(&params)))
            .await;
    }
}

fn model_output(output: ModelOutput) -> ToolOutput {
    match output {
        ModelOutput::Text(text) => say(text),
        ModelOutput::Parts(parts) => {
            let parts = parts.into_iter().map(|part| match part {
                ModelPart::Text(text) => FunctionCallOutputContentItem::InputText { text },
                ModelPart::Image(image_url) => {
                    FunctionCallOutputContentItem::InputImage { image_url, detail: None }
                }
            });
            FunctionCallOutputBody::Content(parts.collect())
        }
    }
}
