//! Tools of MCP servers: approved, called, and shown.

mod approval;
mod questions;
mod resources;

use std::{sync::Arc, time::Duration};

use codicil_mcp::{CallError, McpTool, ModelOutput, ModelPart, ProgressSink, ToolCall};
use codicil_protocol::{
    Frame, FunctionCallOutputBody, FunctionCallOutputContentItem, McpToolCallError, McpToolCallProgress,
    McpToolCallProgressNotification, McpToolCallResult, McpToolCallStatus, ThreadItem,
};
use serde_json::Value;
use tokio::sync::mpsc;

use super::{
    TurnTools,
    call::{Call, Cancelled, Output, say},
};
use crate::{clock::millis, step::Step};

/// Progress reports that may wait; a tool that reports faster loses the rest.
const PROGRESS: usize = 64;

/// A call as an item.
struct McpItem<'a> {
    call: &'a Call,
    server: &'a str,
    tool: &'a str,
    arguments: Value,
}

/// How a call ended.
struct End {
    result: Result<(McpToolCallResult, McpToolCallStatus), String>,
    took: Duration,
}

impl McpItem<'_> {
    fn started(&self) -> ThreadItem {
        self.item(McpToolCallStatus::InProgress, None, None, None)
    }

    fn ended(&self, end: End) -> ThreadItem {
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
    pub(super) async fn call_mcp(&self, call: &Call, tool: &McpTool) -> Result<Output, Cancelled> {
        let arguments: Value = match call.arguments() {
            // Left out altogether, and shown so.
            Ok(_) if call.is_bare() => Value::Null,
            Ok(arguments) => arguments,
            Err(told) => return Ok(told),
        };
        let item = McpItem { call, server: &tool.server, tool: &tool.tool.name, arguments };
        self.started(item.started()).await;
        if let Err(why) = self.approve_mcp(call, tool, &item.arguments).await? {
            let end = End { result: Err(why.clone()), took: Duration::ZERO };
            self.completed(item.ended(end)).await;
            return Ok(say(why));
        }
        let began = std::time::Instant::now();
        let (progress, mut reports) = mpsc::channel(PROGRESS);
        let sink: ProgressSink = Arc::new(move |step| drop(progress.try_send(step)));
        let called = self.kit.servers.call(ToolCall {
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
                let end = End { result: Ok((outcome.result, status)), took: outcome.duration };
                self.completed(item.ended(end)).await;
                Ok(output)
            }
            Err(error) => {
                let message = error.to_item_error().message;
                let end = End { result: Err(message.clone()), took: began.elapsed() };
                self.completed(item.ended(end)).await;
                if error == CallError::Cancelled && self.cancel.is_cancelled() {
                    return Err(Cancelled);
                }
                Ok(say(message))
            }
        }
    }

    async fn say_progress(&self, call: &Call, message: String) {
        let params = McpToolCallProgressNotification {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            item_id: call.item_id(),
            message,
        };
        self.steps.one(Step::Told(Frame::notification::<McpToolCallProgress>(&params))).await;
    }
}

fn model_output(output: ModelOutput) -> Output {
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
