//! A tool call: its parameters, its outcome and its errors.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use codicil_protocol::{McpToolCallError, McpToolCallResult, McpToolCallStatus};
use rmcp::{
    model::ProgressNotificationParam,
    transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError},
};
use serde_json::{Value, json};
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::{
    elicitation::Elicitor,
    limits::{ERROR_CHARS, PROGRESS_CHARS},
    start_error::{find_cause, root_cause},
    text::{cut, to_ordered_json},
};

/// Receives progress, in order and before the result. Called while messages are read, so it must not block.
pub type ProgressSink = Arc<dyn Fn(ToolProgress) + Send + Sync>;

/// A call to make. `server` and `tool` are the names in [`crate::McpTool`], not the qualified name.
#[derive(Clone, Default)]
pub struct McpCall {
    pub server: String,
    pub tool: String,
    /// An object, or null for none.
    pub arguments: Value,
    /// Sent as `_meta`.
    pub meta: Option<Value>,
    pub progress: Option<ProgressSink>,
    /// Answers the server's elicitation requests; without it they are declined. The calls of a thread share one
    /// elicitor, which distinguishes them from the calls of other threads.
    pub elicitor: Option<Arc<dyn Elicitor>>,
    /// Ends the call and sends a cancellation to the server.
    pub cancel: CancellationToken,
}

/// Omits the arguments, which may be long and secret.
impl fmt::Debug for McpCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpCall")
            .field("server", &self.server)
            .field("tool", &self.tool)
            .finish_non_exhaustive()
    }
}

/// Progress that a tool reports.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolProgress {
    pub progress: f64,
    pub total: Option<f64>,
    pub message: Option<String>,
}

/// The result of a tool. A failure that the tool itself reports is a result, too.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutcome {
    pub result: McpToolCallResult,
    pub is_error: bool,
    pub duration: Duration,
}

/// A result in the form for the model.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelOutput {
    Text(String),
    /// Used when the result holds images.
    Parts(Vec<ModelPart>),
}

#[derive(Clone, Debug, PartialEq)]
pub enum ModelPart {
    Text(String),
    /// A `data:` URL.
    Image(String),
}

/// The reason why a call has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum CallError {
    #[error("unknown MCP server '{0}'")]
    UnknownServer(String),
    #[error("unknown tool '{tool}' of MCP server '{server}'")]
    UnknownTool { server: String, tool: String },
    #[error("tool '{tool}' is disabled for MCP server '{server}'")]
    DisabledTool { server: String, tool: String },
    #[error("arguments of an MCP tool must be an object")]
    Arguments,
    /// The server is not running and could not be started.
    #[error("{0}")]
    NotStarted(String),
    /// An error that the server returned.
    #[error("MCP error {code}: {message}")]
    Server { code: i32, message: String, data: Option<Value> },
    /// The server requires a login.
    #[error("not signed in")]
    NotSignedIn,
    /// The access token lacks scopes that the call needs.
    #[error("the server needs more access ({}); sign in to it again", .0.join(" "))]
    MissingScopes(Vec<String>),
    #[error("timed out after {}", seconds(*.0))]
    TimedOut(Duration),
    #[error("cancelled")]
    Cancelled,
    /// The connection closed before the response.
    #[error("{0}")]
    Closed(String),
    /// A response that is not valid.
    #[error("the server's response is not valid: {0}")]
    Unreadable(String),
}

impl ToolProgress {
    pub(crate) fn of(report: ProgressNotificationParam) -> ToolProgress {
        let message = report.message.map(|message| cut(&message, PROGRESS_CHARS));
        ToolProgress { progress: report.progress, total: report.total, message }
    }

    /// Returns the text for the user: the tool's message, or the numbers.
    pub fn text(&self) -> String {
        match (&self.message, self.total) {
            (Some(message), _) => message.clone(),
            (None, Some(total)) => format!("{}/{total}", self.progress),
            (None, None) => self.progress.to_string(),
        }
    }
}

impl CallError {
    /// Converts an error of the transport.
    pub(crate) fn transport(error: &(dyn Error + 'static)) -> CallError {
        if let Some(error) = find_cause::<InsufficientScopeError>(error) {
            let scopes = error.required_scope.as_deref().unwrap_or_default();
            return CallError::MissingScopes(scopes.split_ascii_whitespace().map(str::to_owned).collect());
        }
        if find_cause::<AuthRequiredError>(error).is_some() {
            return CallError::NotSignedIn;
        }
        CallError::Closed(root_cause(error))
    }

    /// Returns the `error` of an `mcpToolCall` item.
    pub fn to_item_error(&self) -> McpToolCallError {
        McpToolCallError { message: cut(&format!("tool call error: {self}"), ERROR_CHARS) }
    }
}

impl ToolOutcome {
    /// Reads the result of `tools/call`. Its content is passed on unchanged.
    pub(crate) fn of(result: Value, duration: Duration) -> Result<ToolOutcome, CallError> {
        let Value::Object(mut result) = result else {
            return Err(CallError::Unreadable("the result is not an object".to_owned()));
        };
        let content = match result.remove("content") {
            Some(Value::Array(content)) => content,
            None | Some(Value::Null) => Vec::new(),
            Some(_) => return Err(CallError::Unreadable("its content is not a list".to_owned())),
        };
        let structured_content = result.remove("structuredContent").filter(|content| !content.is_null());
        let is_error = result.get("isError").and_then(Value::as_bool).unwrap_or(false);
        let meta = result.remove("_meta").filter(|meta| !meta.is_null());
        Ok(ToolOutcome {
            result: McpToolCallResult { content, structured_content, meta },
            is_error,
            duration,
        })
    }

    /// Returns the `status` of an `mcpToolCall` item.
    pub fn status(&self) -> McpToolCallStatus {
        if self.is_error { McpToolCallStatus::Failed } else { McpToolCallStatus::Completed }
    }

    /// Returns the result for the model. Structured content takes precedence; images require a list of parts.
    pub fn for_model(&self) -> ModelOutput {
        if let Some(structured) = &self.result.structured_content {
            return ModelOutput::Text(structured.to_string());
        }
        let parts: Vec<ModelPart> = self.result.content.iter().map(part).collect();
        if parts.iter().any(|part| matches!(part, ModelPart::Image(_))) {
            return ModelOutput::Parts(parts);
        }
        ModelOutput::Text(to_ordered_json(&json!(self.result.content)))
    }
}

fn part(block: &Value) -> ModelPart {
    let field = |name: &str| block.get(name).and_then(Value::as_str);
    match (field("type"), field("text"), field("data")) {
        (Some("text"), Some(text), _) => ModelPart::Text(text.to_owned()),
        (Some("image"), _, Some(data)) if data.starts_with("data:") => ModelPart::Image(data.to_owned()),
        (Some("image"), _, Some(data)) => {
            let kind = field("mimeType").unwrap_or("application/octet-stream");
            ModelPart::Image(format!("data:{kind};base64,{data}"))
        }
        _ => ModelPart::Text(block.to_string()),
    }
}

pub(crate) fn seconds(duration: Duration) -> String {
    match duration.as_secs_f64() {
        1.0 => "1 second".to_owned(),
        seconds => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(result: Value) -> ToolOutcome {
        ToolOutcome::of(result, Duration::ZERO).unwrap()
    }

    #[test]
    fn a_model_reads_the_list_as_json() {
        let outcome = outcome(json!({ "content": [{ "type": "text", "text": "hi" }] }));
        assert_eq!(outcome.for_model(), ModelOutput::Text(r#"[{"type":"text","text":"hi"}]"#.to_owned()));
        assert_eq!(outcome.status(), McpToolCallStatus::Completed);
    }

    #[test]
    fn structured_content_wins() {
        let outcome = outcome(json!({ "content": [], "structuredContent": { "n": 3 }, "isError": true }));
        assert_eq!(outcome.for_model(), ModelOutput::Text(r#"{"n":3}"#.to_owned()));
        assert_eq!(outcome.status(), McpToolCallStatus::Failed);
    }

    #[test]
    fn images_become_parts() {
        let outcome = outcome(json!({ "content": [
            { "type": "text", "text": "a dot" },
            { "type": "image", "data": "QUJD", "mimeType": "image/png" },
            { "type": "odd" },
        ] }));
        let image = ModelPart::Image("data:image/png;base64,QUJD".to_owned());
        let odd = ModelPart::Text(r#"{"type":"odd"}"#.to_owned());
        assert_eq!(
            outcome.for_model(),
            ModelOutput::Parts(vec![ModelPart::Text("a dot".to_owned()), image, odd])
        );
    }

    #[test]
    fn missing_content_is_empty_and_invalid_content_is_an_error() {
        assert_eq!(outcome(json!({})).result.content, Vec::<Value>::new());
        assert!(ToolOutcome::of(json!("x"), Duration::ZERO).is_err());
        assert!(ToolOutcome::of(json!({ "content": "x" }), Duration::ZERO).is_err());
    }

    #[test]
    fn progress_has_a_text() {
        let progress = |message: Option<&str>, total| ToolProgress {
            progress: 1.0,
            total,
            message: message.map(str::to_owned),
        };
        assert_eq!(progress(Some("step"), Some(3.0)).text(), "step");
        assert_eq!(progress(None, Some(3.0)).text(), "1/3");
        assert_eq!(progress(None, None).text(), "1");
    }

    #[test]
    fn durations_are_readable() {
        assert_eq!(
            CallError::TimedOut(Duration::from_millis(500)).to_string(),
            "timed out after 0.5 seconds"
        );
        assert_eq!(CallError::TimedOut(Duration::from_secs(1)).to_string(), "timed out after 1 second");
    }
}
