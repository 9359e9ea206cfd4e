//! The body of a Responses request. Its keys have the order of the reference implementation.

use codicil_protocol::{ReasoningSummary, WebSearchLocation, WebSearchToolConfig};
use serde_json::{Map, Value, json};

use crate::{
    ModelRequest, ReasoningOptions, ToolSpec,
    body::RequestBody,
    request::{tier_name, wire_name},
};

pub(crate) fn body(request: &ModelRequest) -> RequestBody {
    let mut body = RequestBody::builder();
    body.raw("{\"model\":").json(&request.model);
    body.raw(",\"instructions\":").shared(request.instructions.json());
    body.raw(",\"input\":[");
    for (at, chunk) in request.input.chunks().enumerate() {
        if at > 0 {
            body.raw(",");
        }
        body.shared(chunk);
    }
    body.raw("],\"tools\":").shared(request.tools.responses_json());
    body.member("tool_choice", "auto");
    body.member("parallel_tool_calls", &request.parallel_tool_calls);
    body.member("reasoning", &request.reasoning.as_ref().map(reasoning));
    body.raw(",\"store\":false,\"stream\":true");
    let include: &[&str] = if request.reasoning.is_some() { &["reasoning.encrypted_content"] } else { &[] };
    body.member("include", include);
    if let Some(tier) = request.service_tier.as_ref().and_then(tier_name) {
        body.member("service_tier", &tier);
    }
    if let Some(key) = &request.prompt_cache_key {
        body.member("prompt_cache_key", key);
    }
    if let Some(text) = text(request) {
        body.member("text", &text);
    }
    body.raw("}");
    body.finish()
}

fn reasoning(reasoning: &ReasoningOptions) -> Value {
    let mut members = Map::new();
    if let Some(effort) = reasoning.effort.as_ref().and_then(wire_name) {
        members.insert("effort".to_owned(), effort.into());
    }
    // The API has no value for "none": the key is omitted.
    let summary = reasoning.summary.as_ref().filter(|summary| **summary != ReasoningSummary::None);
    if let Some(summary) = summary.and_then(wire_name) {
        members.insert("summary".to_owned(), summary.into());
    }
    members.into()
}

/// Returns the `text` member, or `None` if it would be empty.
fn text(request: &ModelRequest) -> Option<Value> {
    let mut members = Map::new();
    if let Some(verbosity) = request.verbosity.as_ref().and_then(wire_name) {
        members.insert("verbosity".to_owned(), verbosity.into());
    }
    if let Some(schema) = &request.output_schema {
        let format = json!({
            "type": "json_schema",
            "strict": true,
            "schema": **schema,
            "name": "codex_output_schema",
        });
        members.insert("format".to_owned(), format);
    }
    (!members.is_empty()).then(|| members.into())
}

fn web_search(external_web_access: bool, settings: &WebSearchToolConfig) -> Value {
    let WebSearchToolConfig { context_size, allowed_domains, location } = settings;
    let mut tool = json!({ "type": "web_search", "external_web_access": external_web_access });
    if let Some(members) = tool.as_object_mut() {
        let filters = allowed_domains.as_ref().map(|domains| json!({ "allowed_domains": domains }));
        members.extend(filters.map(|filters| ("filters".to_owned(), filters)));
        members
            .extend(location.as_ref().map(|location| ("user_location".to_owned(), user_location(location))));
        let context_size = context_size.as_ref().and_then(wire_name);
        members.extend(context_size.map(|size| ("search_context_size".to_owned(), size.into())));
    }
    tool
}

fn user_location(location: &WebSearchLocation) -> Value {
    let WebSearchLocation { country, region, city, timezone } = location;
    let members = [("country", country), ("region", region), ("city", city), ("timezone", timezone)];
    let members =
        members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value.as_ref()?))));
    Value::Object([("type".to_owned(), json!("approximate"))].into_iter().chain(members).collect())
}

pub(crate) fn tool(spec: &ToolSpec) -> Option<Value> {
    Some(match spec {
        ToolSpec::Function { name, description, parameters, strict } => json!({
            "type": "function",
            "name": name,
            "description": description,
            "strict": strict,
            "parameters": parameters,
        }),
        ToolSpec::Custom { name, description, grammar } => {
            let mut tool = json!({ "type": "custom", "name": name, "description": description });
            if let (Some(grammar), Some(members)) = (grammar, tool.as_object_mut()) {
                let format = json!({
                    "type": "grammar",
                    "syntax": grammar.syntax,
                    "definition": grammar.definition,
                });
                members.insert("format".to_owned(), format);
            }
            tool
        }
        ToolSpec::WebSearch { external_web_access, settings } => web_search(*external_web_access, settings),
        ToolSpec::ImageGeneration => json!({ "type": "image_generation", "output_format": "png" }),
        ToolSpec::Namespace { name, description, tools } => json!({
            "type": "namespace",
            "name": name,
            "description": description,
            "tools": tools.iter().filter_map(tool).collect::<Vec<_>>(),
        }),
    })
}
