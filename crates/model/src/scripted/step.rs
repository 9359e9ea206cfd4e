//! Parses the steps of a reply.

use std::time::Duration;

use codicil_protocol::TokenUsageBreakdown;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;
use toml::{Value, map::Map};

use crate::{ModelError, status};

#[derive(Clone, Debug, PartialEq)]
pub(super) enum ScriptStep {
    Think(String),
    Say(String),
    Run(String),
    Patch(String),
    Call {
        tool: String,
        args: serde_json::Value,
        input: Option<String>,
    },
    Delay(Duration),
    Usage(TokenUsageBreakdown),
    /// The reply ends with this error.
    Fail(ModelError),
    /// The reply stalls until the idle timeout of the provider.
    Stall,
}

impl ScriptStep {
    pub fn is_tool_call(&self) -> bool {
        matches!(self, Self::Run(_) | Self::Patch(_) | Self::Call { .. })
    }

    pub fn from_table(mut table: Map<String, Value>) -> Result<Self, String> {
        const ACTIONS: [&str; 8] = ["think", "say", "run", "patch", "call", "delay_ms", "usage", "fail"];
        if let Some(key) = table.keys().find(|key| !ACTIONS.contains(&key.as_str()) && !is_extra(key)) {
            return Err(format!("unknown key in a step: {key}"));
        }
        let mut actions = ACTIONS.iter().filter(|action| table.contains_key(**action));
        let (Some(action), None) = (actions.next(), actions.next()) else {
            return Err(format!("a step does one thing: {}", ACTIONS.join(", ")));
        };
        let value = table.remove(*action).unwrap_or(Value::Boolean(false));
        match *action {
            "think" => text(action, value).map(Self::Think),
            "say" => text(action, value).map(Self::Say),
            "run" => text(action, value).map(Self::Run),
            "patch" => text(action, value).map(Self::Patch),
            "delay_ms" => whole(action, &value).map(|millis| Self::Delay(Duration::from_millis(millis))),
            "usage" => usage(&value).map(Self::Usage),
            "fail" => fail(&value),
            _ => Ok(Self::Call {
                tool: text(action, value)?,
                args: table.remove("args").map_or_else(|| json!({}), to_json),
                input: table.remove("input").map(|input| text("input", input)).transpose()?,
            }),
        }
    }
}

/// Returns whether a key belongs to `call`.
fn is_extra(key: &str) -> bool {
    matches!(key, "args" | "input")
}

fn text(key: &str, value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        _ => Err(format!("{key} must be a text")),
    }
}

fn whole(key: &str, value: &Value) -> Result<u64, String> {
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    number.ok_or_else(|| format!("{key} must be a whole number"))
}

fn usage(value: &Value) -> Result<TokenUsageBreakdown, String> {
    let count = |key: &str| match value.get(key) {
        Some(value) => whole(key, value).map(|count| i64::try_from(count).unwrap_or(i64::MAX)),
        None => Ok(0),
    };
    let input_tokens = count("input")?;
    let output_tokens = count("output")?;
    Ok(TokenUsageBreakdown {
        total_tokens: input_tokens.saturating_add(output_tokens),
        input_tokens,
        cached_input_tokens: count("cached")?,
        cache_write_input_tokens: 0,
        output_tokens,
        reasoning_output_tokens: count("reasoning")?,
    })
}

fn fail(value: &Value) -> Result<ScriptStep, String> {
    let message = value.get("message").and_then(Value::as_str).unwrap_or("the script says so").to_owned();
    match value {
        Value::String(kind) if kind == "stall" => Ok(ScriptStep::Stall),
        Value::String(kind) if kind == "cut" => Ok(ScriptStep::Fail(ModelError::Disconnected(
            "stream closed before response.completed".to_owned(),
        ))),
        Value::String(kind) => Err(format!("unknown failure: {kind}")),
        Value::Table(table) if table.contains_key("status") => {
            let code = whole("status", value.get("status").unwrap_or(value))?;
            let status = u16::try_from(code).ok().and_then(|code| StatusCode::from_u16(code).ok());
            let status = status.ok_or_else(|| format!("no such status: {code}"))?;
            let body = json!({ "error": { "message": message } }).to_string();
            Ok(ScriptStep::Fail(status::failure(status, &wait_header(value)?, "scripted", &body)))
        }
        Value::Table(table) => {
            let code = table.get("code").and_then(Value::as_str).unwrap_or_default();
            Ok(ScriptStep::Fail(status::reported(json!({ "code": code, "message": message }))))
        }
        _ => Err("fail must be \"cut\", \"stall\" or a table with a status or a code".to_owned()),
    }
}

fn wait_header(value: &Value) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    if let Some(wait) = value.get("retry_after") {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(whole("retry_after", wait)?));
    }
    Ok(headers)
}

fn to_json(value: Value) -> serde_json::Value {
    serde_json::to_value(value).unwrap_or_default()
}
