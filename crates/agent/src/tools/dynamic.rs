//! Tools that the client runs: the call goes to it, and its answer to the model.

use std::{collections::BTreeSet, time::Instant};

use codicil_protocol::{
    DynamicToolCall, DynamicToolCallOutputContentItem, DynamicToolCallParams, DynamicToolCallResponse,
    DynamicToolCallStatus, DynamicToolSpec, FunctionCallOutputBody, FunctionCallOutputContentItem,
    ThreadItem,
};
use serde::de::Unexpected;
use serde_json::Value;

use super::{
    TurnTools,
    ask::{Kind, Reply},
    call::{Call, Cancelled, Input, Output, say},
};

impl TurnTools {
    pub(super) async fn call_dynamic(&self, call: &Call) -> Result<Output, Cancelled> {
        let arguments = match &call.input {
            Input::Arguments(text) if text.trim().is_empty() => Value::Object(Default::default()),
            Input::Arguments(_) => match call.arguments::<Value>() {
                Ok(arguments) => arguments,
                Err(told) => return Ok(told),
            },
            Input::Text(text) => Value::String(text.clone()),
        };
        let began = Instant::now();
        let item = |status, response: Option<&DynamicToolCallResponse>| ThreadItem::DynamicToolCall {
            id: call.item_id(),
            tool: call.name.clone(),
            arguments: arguments.clone(),
            status,
            content_items: response.map(|response| response.content_items.clone()),
            success: response.map(|response| response.success),
            duration_ms: response.map(|_| i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX)),
        };
        self.started(item(DynamicToolCallStatus::InProgress, None)).await;
        let params = DynamicToolCallParams {
            thread_id: self.kit.thread.clone(),
            turn_id: self.turn.clone(),
            call_id: call.id.clone(),
            tool: call.name.clone(),
            arguments: arguments.clone(),
        };
        let limit = self.config.settings.codicil.deadlines.tool;
        let response = match self.asker().ask_within::<DynamicToolCall>(params, Kind::Call, limit).await? {
            Some(Reply::Answer(response)) if response.content_items.iter().all(is_known) => response,
            Some(Reply::Answer(_)) => failed("dynamic tool response was invalid"),
            Some(Reply::Nonsense) => failed("dynamic tool response was invalid"),
            Some(Reply::Error) => failed("dynamic tool request failed"),
            None => failed(&format!("dynamic tool call timed out after {} ms", limit.as_millis())),
        };
        let status = match response.success {
            true => DynamicToolCallStatus::Completed,
            false => DynamicToolCallStatus::Failed,
        };
        self.completed(item(status, Some(&response))).await;
        Ok(output(response))
    }
}

fn failed(text: &str) -> DynamicToolCallResponse {
    let text = DynamicToolCallOutputContentItem::InputText { text: text.to_owned() };
    DynamicToolCallResponse { content_items: vec![text], success: false }
}

fn is_known(part: &DynamicToolCallOutputContentItem) -> bool {
    !matches!(part, DynamicToolCallOutputContentItem::Unrecognized(_))
}

/// One text is told as such; several, or images, are parts.
fn output(response: DynamicToolCallResponse) -> Output {
    let parts = response.content_items.into_iter().filter_map(|part| match part {
        DynamicToolCallOutputContentItem::InputText { text } => {
            Some(FunctionCallOutputContentItem::InputText { text })
        }
        DynamicToolCallOutputContentItem::InputImage { image_url } => {
            Some(FunctionCallOutputContentItem::InputImage { image_url, detail: None })
        }
        DynamicToolCallOutputContentItem::Unrecognized(_) => None,
    });
    let mut parts: Vec<_> = parts.collect();
    match parts.as_mut_slice() {
        [] => say(String::new()),
        [FunctionCallOutputContentItem::InputText { text }] => say(std::mem::take(text)),
        _ => FunctionCallOutputBody::Content(parts),
    }
}

/// Whether these tools can be offered; the reason if not, in the reference server's words.
pub(crate) fn check_dynamic_tools(tools: &[DynamicToolSpec]) -> Result<(), String> {
    let mut names = BTreeSet::new();
    for tool in tools {
        let name = tool.name.trim();
        if name.is_empty() {
            return Err("dynamic tool name must not be empty".to_owned());
        }
        if name != tool.name {
            return Err(format!("dynamic tool name has leading/trailing whitespace: {}", tool.name));
        }
        if name == "mcp" || name.starts_with("mcp__") {
            return Err(format!("dynamic tool name is reserved: {name}"));
        }
        if !names.insert(name) {
            return Err(format!("duplicate dynamic tool name: {name}"));
        }
        if let Err(reason) = check_schema(&tool.input_schema) {
            return Err(format!("dynamic tool input schema is not supported for {name}: {reason}"));
        }
    }
    Ok(())
}

/// Any object is taken; what a schema means is between the client and the model.
fn check_schema(schema: &Value) -> Result<(), String> {
    let found = match schema {
        Value::Object(_) => return Ok(()),
        Value::Null => Unexpected::Unit,
        Value::Bool(value) => Unexpected::Bool(*value),
        Value::Number(_) => Unexpected::Other("number"),
        Value::String(text) => Unexpected::Str(text),
        Value::Array(_) => Unexpected::Seq,
    };
    Err(format!("invalid type: {found}, expected internally tagged enum JsonSchema"))
}
