//! The body of a Messages request.

use codicil_protocol::{ReasoningEffort, ReasoningSummary, ServiceTier};
use serde_json::{Map, Value, json};

use super::messages::{conversation, write_messages, write_system};
use crate::{
    ModelInfo, ModelRequest, ReasoningOptions, ThinkingStyle, ToolSpec, body::RequestBody,
    chat::custom_description, http::BodyExtent, request::wire_name, tools::free_text_parameters,
};

pub(super) fn body(request: &ModelRequest, model: &ModelInfo, extent: BodyExtent) -> RequestBody {
    let conversation = conversation(&request.input, extent);
    let mut body = RequestBody::builder();
    body.raw("{\"model\":").json(&request.model);
    body.member("max_tokens", &model.max_output_tokens);
    body.raw(",\"stream\":true");
    write_system(request, &conversation, schema_in_words(request, model), &mut body);
    body.raw(",\"messages\":[");
    write_messages(conversation, &mut body);
    body.raw("]");
    let tools = request.tools.anthropic_json();
    if tools.as_ref() != b"[]" {
        body.raw(",\"tools\":").shared(tools);
        body.member(
            "tool_choice",
            &json!({ "type": "auto", "disable_parallel_tool_use": !request.parallel_tool_calls }),
        );
    }
    if let Some(thinking) = request.reasoning.as_ref().and_then(|reasoning| thinking(reasoning, model)) {
        body.member("thinking", &thinking);
    }
    if let Some(config) = output_config(request, model) {
        body.member("output_config", &config);
    }
    if let Some(tier) = request.service_tier.as_ref().and_then(anthropic_tier) {
        body.member("service_tier", tier);
    }
    body.raw("}");
    body.finish()
}

/// Returns the name of a tier in Anthropic's API. `auto` uses reserved capacity where the account has it; there is nothing
/// like `flex`.
pub fn anthropic_tier(tier: &ServiceTier) -> Option<&str> {
    match tier {
        ServiceTier::Fast => Some("auto"),
        ServiceTier::Unrecognized(name) => match name.as_str() {
            "priority" => Some("auto"),
            "auto" | "standard_only" => Some(name),
            _ => None,
        },
        ServiceTier::Flex | ServiceTier::Default => None,
    }
}

fn thinking(reasoning: &ReasoningOptions, model: &ModelInfo) -> Option<Value> {
    if reasoning.effort == Some(ReasoningEffort::None) {
        return None;
    }
    match model.thinking {
        ThinkingStyle::Adaptive => {
            let is_hidden = reasoning.summary == Some(ReasoningSummary::None);
            let display = if is_hidden { "omitted" } else { "summarized" };
            Some(json!({ "type": "adaptive", "display": display }))
        }
        // A request for reasoning from a model without a style: the configuration knows that it reasons.
        ThinkingStyle::Budget | ThinkingStyle::None => {
            let wanted = match reasoning.effort.clone() {
                Some(ReasoningEffort::Minimal | ReasoningEffort::Low) => 4096,
                Some(ReasoningEffort::High) => 24_576,
                Some(ReasoningEffort::Xhigh) => 32_768,
                Some(effort) if is_beyond_xhigh(&effort) => 32_768,
                _ => 12_288,
            };
            let budget = wanted.min(model.max_output_tokens / 2).max(1024);
            Some(json!({ "type": "enabled", "budget_tokens": budget }))
        }
    }
}

/// Returns the `output_config` member with effort and output format.
fn output_config(request: &ModelRequest, model: &ModelInfo) -> Option<Value> {
    let mut members = Map::new();
    let effort = request.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_ref());
    if let (ThinkingStyle::Adaptive, Some(effort)) = (model.thinking, effort) {
        members.extend(effort_name(effort, model).map(|name| ("effort".to_owned(), name.into())));
    }
    if let (true, Some(schema)) = (model.structured_output, &request.output_schema) {
        let mut schema = (**schema).clone();
        reduce_schema(&mut schema);
        members.insert("format".to_owned(), json!({ "type": "json_schema", "schema": schema }));
    }
    (!members.is_empty()).then(|| members.into())
}

/// Returns the effort, or the nearest one that the model supports.
fn effort_name(effort: &ReasoningEffort, model: &ModelInfo) -> Option<String> {
    let effort = match effort {
        effort if model.has_effort(effort) => effort,
        ReasoningEffort::None | ReasoningEffort::Minimal => &ReasoningEffort::Low,
        ReasoningEffort::Xhigh => &ReasoningEffort::High,
        effort if is_beyond_xhigh(effort) => model.efforts.last()?,
        ReasoningEffort::Unrecognized(_) => model.default_effort.as_ref()?,
        other => other,
    };
    wire_name(effort)
}

/// Returns whether this is one of the efforts above `xhigh` that later models of other vendors have.
fn is_beyond_xhigh(effort: &ReasoningEffort) -> bool {
    matches!(effort, ReasoningEffort::Unrecognized(name) if matches!(name.as_str(), "max" | "ultra"))
}

/// Removes keywords that the API rejects (limits of numbers, strings and arrays) and closes objects, as it requires.
fn reduce_schema(schema: &mut Value) {
    const UNKNOWN: [&str; 10] = [
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
        "uniqueItems",
    ];
    match schema {
        Value::Object(members) => {
            // The keys below `properties` are the user's names, not keywords.
            let is_schema =
                members.get("type").is_some_and(Value::is_string) || members.contains_key("anyOf");
            if is_schema {
                members.retain(|key, _| !UNKNOWN.contains(&key.as_str()));
                if members.get("type").and_then(Value::as_str) == Some("object") {
                    members.insert("additionalProperties".to_owned(), false.into());
                }
            }
            members.values_mut().for_each(reduce_schema);
        }
        Value::Array(parts) => parts.iter_mut().for_each(reduce_schema),
        _ => {}
    }
}

/// Returns the output schema as an instruction, for models without structured output.
fn schema_in_words(request: &ModelRequest, model: &ModelInfo) -> Option<String> {
    let schema = request.output_schema.as_ref().filter(|_| !model.structured_output)?;
    Some(format!(
        "Your final answer must be one JSON value that follows this JSON Schema, with no other text and \
         no code fence around it:\n{schema}"
    ))
}

pub(crate) fn tool(spec: &ToolSpec) -> Option<Value> {
    Some(match spec {
        ToolSpec::Function { name, description, parameters, .. } => {
            json!({ "name": name, "description": description, "input_schema": parameters })
        }
        ToolSpec::Custom { name, .. } => json!({
            "name": name,
            "description": custom_description(spec),
            "input_schema": free_text_parameters(),
        }),
        // Namespaces are flattened before.
        ToolSpec::WebSearch { .. } | ToolSpec::ImageGeneration | ToolSpec::Namespace { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_that_the_api_rejects_are_removed() {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "score": { "type": "integer", "minimum": 0, "maximum": 100 },
                "minimum": { "type": "string", "minLength": 1 },
                "list": { "type": "array", "minItems": 1, "items": { "type": "object", "properties": {} } },
            },
        });
        reduce_schema(&mut schema);
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "score": { "type": "integer" },
                "minimum": { "type": "string" },
                "list": {
                    "type": "array",
                    "items": { "type": "object", "properties": {}, "additionalProperties": false },
                },
            },
        });
        assert_eq!(schema, expected);
    }
}
