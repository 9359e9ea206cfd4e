//! Tools: typed async functions that the model may call.

use std::{fmt, pin::Pin, sync::Arc};

use codicil_client::protocol::{DynamicToolCallOutputContentItem, DynamicToolSpec, ThreadId, TurnId};
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    expansion::SectionExpansion, schema::params_schema, session::Slice, strict_schema::is_object,
    transaction::StateTransaction,
};

/// A function that the model may call, with the JSON schema of its parameters.
///
/// Each call is a transaction on the session. Changes made through the [`ToolContext`] are applied if the call
/// succeeds, and discarded if it fails, panics or is cancelled.
///
/// ```
/// use codicil_agents::evaluate::{Tool, ToolContext, ToolError};
/// use schemars::JsonSchema;
/// use serde::Deserialize;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Ticket {
///     /// The ticket's number.
///     id: u32,
/// }
///
/// #[derive(Clone, Default)]
/// struct Seen(Vec<u32>);
///
/// let tool = Tool::new("ticket", "Reads a ticket.", |ticket: Ticket, cx: ToolContext| async move {
///     cx.update(|seen: &mut Seen| seen.0.push(ticket.id));
///     match ticket.id {
///         7 => Ok("The door squeaks."),
///         id => Err(ToolError::new(format!("there is no ticket {id}"))),
///     }
/// });
/// assert_eq!(tool.name(), "ticket");
/// ```
#[derive(Clone)]
pub struct Tool {
    spec: DynamicToolSpec,
    run: ToolFunction,
}

type ToolFuture = Pin<Box<dyn Future<Output = Result<ToolOutput, ToolError>> + Send>>;
type ToolFunction = Arc<dyn Fn(Value, ToolContext) -> ToolFuture + Send + Sync>;

impl Tool {
    /// Creates a tool from an async function. Its parameters must be a struct or a map, or `()` for none. A doc
    /// comment on a field becomes the parameter's description.
    pub fn new<P, R, F, O>(name: impl Into<String>, description: impl Into<String>, run: F) -> Self
    where
        P: DeserializeOwned + JsonSchema,
        R: Into<ToolOutput>,
        F: Fn(P, ToolContext) -> O + Send + Sync + 'static,
        O: Future<Output = Result<R, ToolError>> + Send + 'static,
    {
        let spec = DynamicToolSpec {
            name: name.into(),
            description: description.into(),
            input_schema: params_schema::<P>(),
            defer_loading: None,
        };
        let run: ToolFunction = Arc::new(move |arguments, cx| match params::<P>(arguments) {
            Ok(params) => {
                let running = run(params, cx);
                Box::pin(async move { running.await.map(Into::into) })
            }
            Err(error) => Box::pin(async move { Err(error) }),
        });
        Self { spec, run }
    }

    /// Returns the tool's name.
    pub fn name(&self) -> &str {
        &self.spec.name
    }

    /// Returns the tool's name, description and parameter schema.
    pub fn spec(&self) -> &DynamicToolSpec {
        &self.spec
    }

    pub(super) fn has_object_params(&self) -> bool {
        is_object(&self.spec.input_schema)
    }

    pub(super) fn run(&self, arguments: Value, cx: ToolContext) -> ToolFuture {
        (self.run)(arguments, cx)
    }
}

fn params<P: DeserializeOwned>(arguments: Value) -> Result<P, ToolError> {
    // Models send null or `{}` for a tool without parameters.
    let is_empty = arguments == json!({}) || arguments.is_null();
    let other = if arguments.is_null() { json!({}) } else { Value::Null };
    serde_json::from_value(arguments).or_else(|error| {
        let retried = if is_empty { serde_json::from_value(other).ok() } else { None };
        retried.ok_or_else(|| ToolError::new(format!("invalid parameters: {error}")))
    })
}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// The context of a tool call: the session's state, the ids of the call, and the deadline.
#[derive(Clone)]
pub struct ToolContext {
    pub(super) transaction: StateTransaction,
    pub(super) call_id: String,
    pub(super) thread_id: ThreadId,
    pub(super) turn_id: TurnId,
    pub(super) deadline: Option<Instant>,
}

impl ToolContext {
    /// Returns the session's value of this type, including the changes of this call.
    pub fn get<T: Slice>(&self) -> Option<T> {
        self.transaction.get()
    }

    /// Sets the session's value of this type if the call succeeds.
    pub fn set<T: Slice>(&self, value: T) {
        self.transaction.set(Some(value));
    }

    /// Changes the session's value of this type if the call succeeds.
    pub fn update<T: Slice + Default>(&self, change: impl FnOnce(&mut T)) {
        let mut value = self.get::<T>().unwrap_or_default();
        change(&mut value);
        self.set(value);
    }

    /// Removes the session's value of this type if the call succeeds.
    pub fn remove<T: Slice>(&self) {
        self.transaction.set::<T>(None);
    }

    /// Registers an action that undoes an effect outside the session, such as a written file, if the call does not
    /// succeed.
    pub fn on_rollback(&self, undo: impl FnOnce() + Send + 'static) {
        self.transaction.on_rollback(undo);
    }

    /// Returns the server's id of this call.
    pub fn call_id(&self) -> &str {
        &self.call_id
    }

    /// Returns the thread of the call.
    pub fn thread_id(&self) -> &ThreadId {
        &self.thread_id
    }

    /// Returns the turn of the call.
    pub fn turn_id(&self) -> &TurnId {
        &self.turn_id
    }

    /// Returns the evaluation's deadline. A call that exceeds it is cancelled.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }
}

impl fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolContext").field("call_id", &self.call_id).finish_non_exhaustive()
    }
}

/// The output of a tool: text, images, or both.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToolOutput {
    pub(super) parts: Vec<DynamicToolCallOutputContentItem>,
}

impl ToolOutput {
    /// Creates output from a value, encoded as JSON.
    pub fn json(value: &impl Serialize) -> Result<Self, ToolError> {
        Ok(serde_json::to_string(value)?.into())
    }

    /// Adds an image by its URL, which may be a `data:` URL.
    pub fn image(mut self, url: impl Into<String>) -> Self {
        self.parts.push(DynamicToolCallOutputContentItem::InputImage { image_url: url.into() });
        self
    }

    /// Returns the text parts, joined by line breaks.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            DynamicToolCallOutputContentItem::InputText { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<_>>().join("\n")
    }
}

impl<T: Into<String>> From<T> for ToolOutput {
    fn from(text: T) -> Self {
        Self { parts: vec![DynamicToolCallOutputContentItem::InputText { text: text.into() }] }
    }
}

/// The error of a tool call. Any error converts to one with `?`, and its message is shown to the model.
#[derive(Debug)]
pub struct ToolError(pub(super) ToolFailure);

#[derive(Debug)]
pub(super) enum ToolFailure {
    /// The model sees the message, and the turn continues.
    Recoverable(String),
    /// The evaluation ends.
    Fatal(String),
    /// More of the prompt is needed.
    Expand(SectionExpansion),
}

impl ToolError {
    /// Creates an error whose message the model sees. The turn continues.
    pub fn new(message: impl Into<String>) -> Self {
        Self(ToolFailure::Recoverable(message.into()))
    }

    /// Creates an error that ends the evaluation in the phase `tool`.
    pub fn fatal(message: impl Into<String>) -> Self {
        Self(ToolFailure::Fatal(message.into()))
    }

    /// Creates a request to show more of the prompt; see [`SectionExpansion`].
    pub fn expand(expansion: SectionExpansion) -> Self {
        Self(ToolFailure::Expand(expansion))
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Deserialize, JsonSchema, PartialEq)]
    struct Sum {
        a: i32,
        #[serde(default)]
        b: i32,
    }

    #[test]
    fn parameters_are_decoded_as_their_type() {
        assert_eq!(params::<Sum>(json!({ "a": 1 })).unwrap(), Sum { a: 1, b: 0 });
        params::<()>(json!({})).unwrap();
        params::<()>(Value::Null).unwrap();
        let ToolError(ToolFailure::Recoverable(text)) = params::<Sum>(json!({ "a": "x" })).unwrap_err()
        else {
            panic!()
        };
        assert!(text.starts_with("invalid parameters: invalid type: string"), "{text}");
        assert!(params::<Sum>(json!({})).is_err());
    }

    #[test]
    fn outputs_are_texts_values_or_images() {
        assert_eq!(ToolOutput::from("a").text(), "a");
        assert_eq!(ToolOutput::json(&json!({ "a": 1 })).unwrap().text(), r#"{"a":1}"#);
        let output = ToolOutput::from("look").image("data:x");
        assert_eq!((output.parts.len(), output.text()), (2, "look".to_owned()));
    }
}
