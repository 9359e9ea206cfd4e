//! Elicitation requests: questions of a server to the user while one of its tools runs. The caller of the tool
//! answers through an [`Elicitor`]; without one the request is declined.

use std::{future::Future, pin::Pin};

use codicil_protocol::{
    McpElicitationSchema, McpServerElicitationAction, McpServerElicitationRequest,
    McpServerElicitationRequestResponse,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{call::CallError, call_registry::PageWatch, limits::OPEN_QUESTIONS};

/// Error code of a request that has to wait until the user has opened pages.
const URL_ELICITATION_REQUIRED: i32 = -32042;

/// Answers the elicitation requests of a call.
pub trait Elicitor: Send + Sync {
    /// Asks the user. The future is dropped when the call ends or the server cancels the request.
    fn elicit<'a>(
        &'a self,
        server: &'a str,
        request: McpServerElicitationRequest,
    ) -> Pin<Box<dyn Future<Output = McpServerElicitationRequestResponse> + Send + 'a>>;
}

/// The response when no elicitor is available.
pub(crate) fn declined() -> Value {
    json!({ "action": "decline" })
}

/// The response when the call ended before the user answered.
pub(crate) fn cancelled() -> Value {
    json!({ "action": "cancel" })
}

/// Asks the user to open a page. If the server reports the end of the interaction first, the page counts as accepted.
pub(crate) async fn ask_for_page(
    elicitor: &dyn Elicitor,
    server: &str,
    question: McpServerElicitationRequest,
    page: &PageWatch<'_>,
) -> McpServerElicitationRequestResponse {
    let accepted = McpServerElicitationRequestResponse {
        action: McpServerElicitationAction::Accept,
        content: None,
        meta: None,
    };
    tokio::select! {
        response = elicitor.elicit(server, question) => response,
        () = page.completed() => accepted,
    }
}

/// Returns the pages that the user must open before the server accepts the request, according to its error.
pub(crate) fn required_pages(error: &CallError) -> Vec<McpServerElicitationRequest> {
    let CallError::Server { code: URL_ELICITATION_REQUIRED, data: Some(data), .. } = error else {
        return Vec::new();
    };
    let pages = data.get("elicitations").and_then(Value::as_array).into_iter().flatten();
    let pages = pages.filter_map(|page| parse(page.clone()).ok());
    pages
        .filter(|page| matches!(page, McpServerElicitationRequest::Url { .. }))
        .take(OPEN_QUESTIONS)
        .collect()
}

/// Returns the default values of a form's fields.
pub(crate) fn defaults(params: &Value) -> Map<String, Value> {
    let fields = params.pointer("/requestedSchema/properties").and_then(Value::as_object);
    let defaults = fields.into_iter().flatten().filter_map(|(name, field)| {
        let default = field.get("default").filter(|default| !default.is_null())?;
        Some((name.clone(), default.clone()))
    });
    defaults.collect()
}

/// Converts a response for the server. An accepted one always has content, with the defaults of fields that the user left
/// out.
pub(crate) fn response_for_server(
    response: McpServerElicitationRequestResponse,
    defaults: Map<String, Value>,
) -> Value {
    let mut result = match response.action {
        McpServerElicitationAction::Accept => {
            let mut content = response.content.unwrap_or_else(|| json!({}));
            if let Some(fields) = content.as_object_mut() {
                for (name, default) in defaults {
                    fields.entry(name).or_insert(default);
                }
            }
            json!({ "action": "accept", "content": content })
        }
        McpServerElicitationAction::Decline => declined(),
        McpServerElicitationAction::Cancel => cancelled(),
    };
    if let (Some(meta), Some(members)) = (response.meta, result.as_object_mut()) {
        members.insert("_meta".to_owned(), meta);
    }
    result
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ElicitationParams {
    #[serde(default)]
    mode: Option<String>,
    message: String,
    #[serde(default)]
    requested_schema: Option<Value>,
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    elicitation_id: Option<String>,
    #[serde(rename = "_meta", default)]
    meta: Option<Value>,
}

/// Parses the params of `elicitation/create`. The error names what is invalid.
pub(crate) fn parse(params: Value) -> Result<McpServerElicitationRequest, String> {
    let params: ElicitationParams = serde_json::from_value(params).map_err(|error| error.to_string())?;
    let meta = params.meta.filter(|meta| meta.as_object().is_none_or(|meta| !meta.is_empty()));
    match params.mode.as_deref() {
        None | Some("form") => Ok(McpServerElicitationRequest::Form {
            meta,
            message: params.message,
            requested_schema: form(params.requested_schema.unwrap_or_default())?,
        }),
        Some("url") => Ok(McpServerElicitationRequest::Url {
            meta,
            message: params.message,
            url: params.url.ok_or("missing field `url`")?,
            elicitation_id: params.elicitation_id.ok_or("missing field `elicitationId`")?,
        }),
        Some(mode) => Err(format!("unknown mode `{mode}`")),
    }
}

/// Parses the schema of a form. Keywords that forms do not support, such as a title, are removed.
fn form(schema: Value) -> Result<McpElicitationSchema, String> {
    let Value::Object(mut schema) = schema else {
        return Err("`requestedSchema` is not an object".to_owned());
    };
    keep(&mut schema, &["$schema", "type", "properties", "required"]);
    schema.entry("type").or_insert_with(|| "object".into());
    let fields = schema.entry("properties").or_insert_with(|| json!({}));
    for field in fields.as_object_mut().into_iter().flat_map(Map::values_mut) {
        simplify(field);
    }
    serde_json::from_value(Value::Object(schema)).map_err(|error| format!("`requestedSchema`: {error}"))
}

/// Removes keywords of a field that the protocol does not define for its type.
fn simplify(field: &mut Value) {
    if let Some(value) = value_or_null(field) {
        *field = value;
    }
    let Some(field) = field.as_object_mut() else { return };
    const TEXTS: [&str; 4] = ["type", "title", "description", "default"];
    let own: &[&str] = match field.get("type").and_then(Value::as_str) {
        Some("string") if field.contains_key("oneOf") => &["oneOf"],
        Some("string") if field.contains_key("enum") => &["enum", "enumNames"],
        Some("string") => &["minLength", "maxLength", "format"],
        Some("number" | "integer") => &["minimum", "maximum"],
        Some("array") => &["minItems", "maxItems", "items"],
        _ => &[],
    };
    keep(field, &[&TEXTS, own].concat());
    // A default of null means no default.
    if field.get("default").is_some_and(Value::is_null) {
        field.remove("default");
    }
}

/// Returns the other option of an `anyOf` with null, which is how optional fields are written.
fn value_or_null(field: &Value) -> Option<Value> {
    let options = field.get("anyOf")?.as_array()?;
    let mut values = options.iter().filter(|option| option.get("type") != Some(&json!("null")));
    let (Some(Value::Object(value)), None) = (values.next(), values.next()) else { return None };
    let mut value = value.clone();
    for key in ["title", "description", "default"] {
        if let Some(text) = field.get(key) {
            value.insert(key.to_owned(), text.clone());
        }
    }
    Some(Value::Object(value))
}

fn keep(object: &mut Map<String, Value>, keys: &[&str]) {
    object.retain(|key, _| keys.contains(&key.as_str()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(params: Value) -> Value {
        serde_json::to_value(parse(params).unwrap()).unwrap()
    }

    #[test]
    fn a_form_is_passed_on() {
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string", "title": "Name" } },
            "required": ["name"] });
        assert_eq!(
            parsed(json!({ "message": "Your name?", "requestedSchema": schema })),
            json!({ "mode": "form", "_meta": null, "message": "Your name?", "requestedSchema": schema })
        );
    }

    #[test]
    fn unsupported_keywords_are_removed() {
        let schema = json!({ "title": "Info", "additionalProperties": false, "type": "object", "properties": {
            "nick": { "anyOf": [{ "type": "string" }, { "type": "null" }], "default": null, "title": "Nick" },
            "age": { "type": "integer", "minimum": 0, "exclusiveMaximum": 200 },
            "size": { "type": "string", "enum": ["s", "m"], "x-order": 1 },
        } });
        let form = &parsed(json!({ "message": "?", "requestedSchema": schema }))["requestedSchema"];
        assert_eq!(
            form["properties"],
            json!({
                "nick": { "type": "string", "title": "Nick" },
                "age": { "type": "integer", "minimum": 0.0 },
                "size": { "type": "string", "enum": ["s", "m"] },
            })
        );
    }

    #[test]
    fn a_page_is_passed_on() {
        let params =
            json!({ "mode": "url", "message": "Open this", "url": "https://x", "elicitationId": "e" });
        let mut expected = params.clone();
        expected["_meta"] = Value::Null;
        assert_eq!(parsed(params), expected);
    }

    #[test]
    fn a_request_that_clients_cannot_show_is_refused() {
        assert!(
            parse(
                json!({ "message": "?", "requestedSchema": { "properties": { "a": { "type": "object" } } } })
            )
            .is_err()
        );
        assert!(parse(json!({ "mode": "url", "message": "?" })).is_err());
        assert!(parse(json!({ "mode": "dream", "message": "?" })).is_err());
        assert!(parse(json!({})).is_err());
    }

    #[test]
    fn responses_have_the_form_that_servers_expect() {
        use McpServerElicitationAction::{Accept, Cancel, Decline};
        let schema = json!({ "properties": { "a": { "default": 7 }, "b": { "default": null }, "c": {} } });
        let check = |action, content: Option<Value>, defaults: Map<String, Value>, expected: Value| {
            let response = McpServerElicitationRequestResponse { action, content, meta: None };
            assert_eq!(response_for_server(response, defaults), expected);
        };
        let own = || defaults(&json!({ "requestedSchema": schema }));
        check(Accept, Some(json!({"a": 1})), own(), json!({"action": "accept", "content": {"a": 1}}));
        check(Accept, None, own(), json!({"action": "accept", "content": {"a": 7}}));
        check(Accept, None, Map::new(), json!({"action": "accept", "content": {}}));
        check(Decline, Some(json!({})), own(), json!({"action": "decline"}));
        check(Cancel, None, own(), json!({"action": "cancel"}));
    }
}
