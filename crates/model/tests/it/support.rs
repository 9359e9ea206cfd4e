//! Providers, requests, and transcripts of events.

use std::sync::Arc;

use codicil_model::{
    EnvironmentSource, EventStream, ModelCatalogue, ModelError, ModelEvent, ModelProvider, ModelRequest,
    ProviderConfig, ProviderContext, StreamFlow, ToolSpec, WireApi, connect,
};
use codicil_protocol::{
    ContentItem, FunctionCallOutputBody, ReasoningItemReasoningSummary, ResponseItem, TokenUsageBreakdown,
};
use serde_json::{Value, json};

/// A provider without retries at `base_url`.
pub fn provider(base_url: &str, wire_api: WireApi) -> Arc<dyn ModelProvider> {
    configured(ProviderConfig { wire_api, ..config(base_url) })
}

pub fn config(base_url: &str) -> ProviderConfig {
    ProviderConfig {
        base_url: Some(base_url.to_owned()),
        request_max_retries: Some(0),
        stream_max_retries: Some(0),
        ..ProviderConfig::default()
    }
}

pub fn configured(config: ProviderConfig) -> Arc<dyn ModelProvider> {
    connect("mock", &config, &context(&[])).unwrap()
}

/// A process with these variables and without a login.
pub fn context(variables: &[(&str, &str)]) -> ProviderContext {
    let owned: Vec<_> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    let environment = EnvironmentSource::new(move |wanted| {
        owned.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.clone())
    });
    ProviderContext { auth: None, environment, catalogue: Arc::new(ModelCatalogue::default()) }
}

pub fn request(items: impl IntoIterator<Item = ResponseItem>) -> ModelRequest {
    ModelRequest {
        model: "some-model".into(),
        instructions: "Be helpful.".into(),
        input: items.into_iter().collect(),
        ..ModelRequest::default()
    }
}

pub fn hello() -> ModelRequest {
    request([user("hello")])
}

pub fn user(text: &str) -> ResponseItem {
    message("user", ContentItem::InputText { text: text.into() })
}

pub fn developer(text: &str) -> ResponseItem {
    message("developer", ContentItem::InputText { text: text.into() })
}

pub fn assistant(text: &str) -> ResponseItem {
    message("assistant", ContentItem::OutputText { text: text.into() })
}

fn message(role: &str, part: ContentItem) -> ResponseItem {
    ResponseItem::Message { role: role.into(), content: vec![part], end_turn: None, phase: None, id: None }
}

pub fn call(id: &str, name: &str, arguments: &str) -> ResponseItem {
    ResponseItem::FunctionCall {
        name: name.into(),
        namespace: None,
        arguments: arguments.into(),
        call_id: id.into(),
        id: Some(format!("fc_{id}")),
    }
}

pub fn output(id: &str, text: &str) -> ResponseItem {
    ResponseItem::function_call_output(id.into(), FunctionCallOutputBody::Text(text.into()))
}

pub fn item(json: Value) -> ResponseItem {
    serde_json::from_value(json).unwrap()
}

pub fn shell_tool() -> ToolSpec {
    ToolSpec::Function {
        name: "exec_command".into(),
        description: "Runs a command.".into(),
        parameters: json!({ "type": "object", "properties": { "cmd": { "type": "string" } }, "required": ["cmd"] }),
        strict: false,
    }
}

pub fn patch_tool() -> ToolSpec {
    ToolSpec::Custom { name: "apply_patch".into(), description: "Edits files.".into(), grammar: None }
}

/// Reads a stream to its end. Returns all events and the result.
pub async fn drain(mut stream: EventStream) -> (Vec<ModelEvent>, Result<(), ModelError>) {
    let mut events = Vec::new();
    loop {
        match stream.next(&mut events).await {
            Ok(StreamFlow::More) => {}
            Ok(StreamFlow::Done) => return (events, Ok(())),
            Err(error) => return (events, Err(error)),
        }
    }
}

pub async fn events(provider: &Arc<dyn ModelProvider>, request: ModelRequest) -> Vec<ModelEvent> {
    let (events, end) = drain(provider.stream(request)).await;
    assert_eq!(end, Ok(()), "after {}", transcript(&events));
    events
}

pub async fn error(provider: &Arc<dyn ModelProvider>, request: ModelRequest) -> ModelError {
    drain(provider.stream(request)).await.1.unwrap_err()
}

/// Writes one line per event. Generated ids end in `_#`.
pub fn transcript(events: &[ModelEvent]) -> String {
    events.iter().map(|event| line(event) + "\n").collect()
}

fn line(event: &ModelEvent) -> String {
    match event {
        ModelEvent::RateLimits(limits) => {
            let used = |window: &Option<codicil_protocol::RateLimitWindow>| {
                window.as_ref().map_or("-".to_owned(), |window| format!("{}%", window.used_percent))
            };
            format!("limits {} {}", used(&limits.primary), used(&limits.secondary))
        }
        ModelEvent::Rerouted(model) => format!("rerouted {model}"),
        ModelEvent::ItemAdded { id, item } => format!("added {} {}", masked(id), shown(item)),
        ModelEvent::TextDelta { item_id, delta } => format!("text {} {delta:?}", masked(item_id)),
        ModelEvent::ToolInputDelta { item_id, delta } => format!("input {} {delta:?}", masked(item_id)),
        ModelEvent::ReasoningSummaryPartAdded { item_id, index } => {
            format!("part {} {index}", masked(item_id))
        }
        ModelEvent::ReasoningSummaryDelta { item_id, index, delta } => {
            format!("summary {} {index} {delta:?}", masked(item_id))
        }
        ModelEvent::ReasoningTextDelta { item_id, index, delta } => {
            format!("reasoning {} {index} {delta:?}", masked(item_id))
        }
        ModelEvent::ItemDone { id, item } => format!("done {} {}", masked(id), shown(item)),
        ModelEvent::Used(usage) => format!("used {}", counts(usage)),
        ModelEvent::Completed { response_id, usage } => {
            let usage = usage.as_ref().map_or("no usage".to_owned(), counts);
            format!("completed {}: {usage}", masked(response_id))
        }
    }
}

fn counts(usage: &TokenUsageBreakdown) -> String {
    format!(
        "{} in ({} cached) {} out ({} reasoning) {} total",
        usage.input_tokens,
        usage.cached_input_tokens,
        usage.output_tokens,
        usage.reasoning_output_tokens,
        usage.total_tokens
    )
}

fn shown(item: &ResponseItem) -> String {
    match item {
        ResponseItem::Message { role, content, .. } => {
            let texts: Vec<&str> = content
                .iter()
                .map(|part| match part {
                    ContentItem::OutputText { text } | ContentItem::InputText { text } => text.as_str(),
                    _ => "?",
                })
                .collect();
            format!("{role} {texts:?}")
        }
        ResponseItem::Reasoning { summary, content, encrypted_content } => {
            let texts: Vec<&str> = summary
                .iter()
                .map(|part| match part {
                    ReasoningItemReasoningSummary::SummaryText { text } => text.as_str(),
                    _ => "?",
                })
                .collect();
            let content = content.as_ref().map_or("-".to_owned(), |content| json!(content).to_string());
            format!("thinking {texts:?} {content} {}", encrypted_content.as_deref().unwrap_or("-"))
        }
        ResponseItem::FunctionCall { name, arguments, call_id, .. } => {
            format!("call {} {name} {arguments}", masked(call_id))
        }
        ResponseItem::CustomToolCall { name, input, call_id, .. } => {
            format!("custom {} {name} {input:?}", masked(call_id))
        }
        other => json!(other).to_string(),
    }
}

fn masked(id: &str) -> String {
    match id.rsplit_once('_') {
        Some((prefix, rest)) if rest.len() == 32 => format!("{prefix}_#"),
        _ => id.to_owned(),
    }
}
