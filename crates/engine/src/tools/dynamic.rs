//! Tools that the client runs: the call goes to it, and its answer to the model.

use std::time::Instant;

use codicil_model::joined_name;
use codicil_protocol::{
    DynamicToolCall, DynamicToolCallOutputContentItem, DynamicToolCallParams, DynamicToolCallResponse,
    DynamicToolCallStatus, DynamicToolEntry, FunctionCallOutputBody, FunctionCallOutputContentItem,
    ThreadItem,
};
use serde_json::Value;

use super::{
    TurnTools,
    ask::{QuestionKind, QuestionReply},
    call::{ToolCall, ToolInput, ToolOutput, TurnCancelled, say},
};

/// What a call means among the tools of the client.
pub(super) enum DynamicMatch<'t> {
    Tool(NamedDynamicTool<'t>),
    /// The namespace is the client's, and there is no such tool in it.
    Nothing,
    /// None of the client's.
    Others,
}

/// A tool of the client.
#[derive(Clone, Copy)]
pub(super) struct NamedDynamicTool<'t> {
    namespace: Option<&'t str>,
    name: &'t str,
}

/// Finds the tool that a call means. Providers that know no namespaces call tools by their joined names.
pub(super) fn meant<'t>(tools: &'t [DynamicToolEntry], call: &ToolCall) -> DynamicMatch<'t> {
    let namespaces = tools.iter().filter_map(|entry| match entry {
        DynamicToolEntry::Namespace(namespace) => Some(namespace),
        DynamicToolEntry::Tool(_) => None,
    });
    let mut is_theirs = false;
    for namespace in namespaces {
        let is_named = call.namespace.as_ref() == Some(&namespace.name);
        is_theirs |= is_named;
        let found = namespace.tools.iter().find(|tool| match is_named {
            true => tool.name == call.name,
            false => call.namespace.is_none() && joined_name(Some(&namespace.name), &tool.name) == call.name,
        });
        if let Some(tool) = found {
            return DynamicMatch::Tool(NamedDynamicTool {
                namespace: Some(&namespace.name),
                name: &tool.name,
            });
        }
    }
    let found = tools.iter().find_map(|entry| match entry {
        DynamicToolEntry::Tool(tool) if tool.name == call.name => Some(tool),
        _ => None,
    });
    match found {
        _ if is_theirs => DynamicMatch::Nothing,
        Some(tool) => DynamicMatch::Tool(NamedDynamicTool { namespace: None, name: &tool.name }),
        None => DynamicMatch::Others,
    }
}

impl TurnTools {
    pub(super) async fn call_dynamic(
        &self,
        call: &ToolCall,
        meant: NamedDynamicTool<'_>,
    ) -> Result<ToolOutput, TurnCancelled> {
        let arguments = match &call.input {
            ToolInput::Arguments(text) if text.trim().is_empty() => Value::Object(Default::default()),
            ToolInput::Arguments(_) => match call.arguments::<Value>() {
                Ok(arguments) => arguments,
                Err(told) => return Ok(told),
            },
            ToolInput::Text(text) => Value::String(text.clone()),
        };
        let began = Instant::now();
        let item = |status, response: Option<&DynamicToolCallResponse>| ThreadItem::DynamicToolCall {
            id: call.item_id(),
            namespace: meant.namespace.map(str::to_owned),
            tool: meant.name.to_owned(),
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
            namespace: meant.namespace.map(str::to_owned),
            tool: meant.name.to_owned(),
            arguments: arguments.clone(),
        };
        let limit = self.config.settings.codicil.deadlines.tool;
        let response =
            match self.asker().ask_within::<DynamicToolCall>(params, QuestionKind::Call, limit).await? {
                Some(QuestionReply::Answer(response)) if response.content_items.iter().all(is_known) => {
                    response
                }
                Some(QuestionReply::Answer(_)) => failed("dynamic tool response was invalid"),
                Some(QuestionReply::Nonsense) => failed("dynamic tool response was invalid"),
                Some(QuestionReply::Error) => failed("dynamic tool request failed"),
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
fn output(response: DynamicToolCallResponse) -> ToolOutput {
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
