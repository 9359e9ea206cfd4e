//! The body of a Chat Completions request. It has only members that local servers support or ignore.

use serde_json::{Value, json};

use super::messages::write_messages;
use crate::{
    ModelRequest, ToolSpec,
    body::RequestBody,
    request::{tier_name, wire_name},
    tools::free_text_parameters,
};

pub(super) fn body(request: &ModelRequest) -> RequestBody {
    let mut body = RequestBody::builder();
    body.raw("{\"model\":").json(&request.model);
    body.raw(",\"messages\":[");
    write_messages(request, &mut body);
    body.raw("],\"stream\":true,\"stream_options\":{\"include_usage\":true}");
    let tools = request.tools.chat_json();
    if tools.as_ref() != b"[]" {
        body.raw(",\"tools\":").shared(tools);
        body.member("parallel_tool_calls", &request.parallel_tool_calls);
    }
    let effort = request.reasoning.as_ref().and_then(|reasoning| reasoning.effort.as_ref());
    if let Some(effort) = effort.and_then(wire_name) {
        body.member("reasoning_effort", &effort);
    }
    if let Some(tier) = request.service_tier.as_ref().and_then(tier_name) {
        body.member("service_tier", &tier);
    }
    if let Some(schema) = &request.output_schema {
        let format = json!({
            "type": "json_schema",
            "json_schema": { "name": "codex_output_schema", "strict": true, "schema": **schema },
        });
        body.member("response_format", &format);
    }
    body.raw("}");
    body.finish()
}

pub(crate) fn tool(spec: &ToolSpec) -> Option<Value> {
    let function = match spec {
        ToolSpec::Function { name, description, parameters, strict } => {
            let mut function = json!({ "name": name, "description": description, "parameters": parameters });
            if let (true, Some(members)) = (*strict, function.as_object_mut()) {
                members.insert("strict".to_owned(), true.into());
            }
            function
        }
        ToolSpec::Custom { name, .. } => json!({
            "name": name,
            "description": custom_description(spec),
            "parameters": free_text_parameters(),
        }),
        // Namespaces are flattened before.
        ToolSpec::WebSearch { .. } | ToolSpec::ImageGeneration | ToolSpec::Namespace { .. } => return None,
    };
    Some(json!({ "type": "function", "function": function }))
}

/// Returns a custom tool's description with its grammar, for which a function has no other member.
pub(crate) fn custom_description(spec: &ToolSpec) -> String {
    match spec {
        ToolSpec::Custom { description, grammar: Some(grammar), .. } => format!(
            "{description}\n\nThe input follows this {} grammar:\n{}",
            grammar.syntax, grammar.definition
        ),
        ToolSpec::Custom { description, .. } => description.clone(),
        _ => String::new(),
    }
}
