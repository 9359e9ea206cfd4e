//! A tool call as the model made it, and the output that answers it.

use codicil_protocol::{FunctionCallOutputBody, ItemId, ResponseItem};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::Value;

/// One tool call of a model response.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub id: String,
    /// The namespace that the model named, if any.
    pub namespace: Option<String>,
    pub name: String,
    pub input: ToolInput,
}

/// The input of a tool call.
#[derive(Clone, Debug)]
pub(crate) enum ToolInput {
    /// JSON as text. It need not parse.
    Arguments(String),
    /// Free text.
    Text(String),
}

/// The output of a tool call, as the model reads it.
pub(crate) type ToolOutput = FunctionCallOutputBody;

pub(super) type ToolResult = Result<ToolOutput, ToolError>;

/// Why a call has no regular output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ToolError {
    /// The turn is being interrupted.
    Cancelled,
    /// The call failed. The text becomes its output, because models usually find another way.
    Failed(String),
}

/// The turn is being interrupted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnCancelled;

impl From<TurnCancelled> for ToolError {
    fn from(TurnCancelled: TurnCancelled) -> Self {
        Self::Cancelled
    }
}

impl ToolCall {
    /// Returns the call in an item of a response; `None` for items of other kinds.
    pub fn from_item(item: &ResponseItem) -> Option<Self> {
        match item.clone() {
            ResponseItem::FunctionCall { call_id, namespace, name, arguments, .. } => {
                Some(Self { id: call_id, namespace, name, input: ToolInput::Arguments(arguments) })
            }
            ResponseItem::CustomToolCall { call_id, name, input, .. } => {
                Some(Self { id: call_id, namespace: None, name, input: ToolInput::Text(input) })
            }
            _ => None,
        }
    }

    /// Returns the id of the call's item, which is the id of the call itself.
    pub fn item_id(&self) -> ItemId {
        ItemId::from(self.id.clone())
    }

    pub fn has_no_input(&self) -> bool {
        self.input.as_str().trim().is_empty()
    }

    /// Parses the arguments.
    pub(super) fn arguments<T: DeserializeOwned>(&self) -> Result<T, ToolError> {
        // Some models leave out arguments that are all optional.
        let text = if self.has_no_input() { "{}" } else { self.input.as_str() };
        serde_json::from_str(text)
            .map_err(|error| ToolError::Failed(format!("failed to parse function arguments: {error}")))
    }

    /// Returns the input as JSON. Text that is no JSON becomes a string.
    pub fn input_value(&self) -> Value {
        match &self.input {
            ToolInput::Arguments(text) => serde_json::from_str(text).unwrap_or(Value::String(text.clone())),
            ToolInput::Text(text) => Value::String(text.clone()),
        }
    }

    /// Turns the call's output into the item that enters the model's history.
    pub fn into_output_item(self, output: ToolOutput) -> ResponseItem {
        match self.input {
            ToolInput::Arguments(_) => ResponseItem::function_call_output(self.id, output),
            ToolInput::Text(_) => {
                ResponseItem::CustomToolCallOutput { call_id: self.id, name: Some(self.name), output }
            }
        }
    }
}

impl ToolInput {
    fn as_str(&self) -> &str {
        match self {
            Self::Arguments(text) | Self::Text(text) => text,
        }
    }
}

/// Makes an output that is one text.
pub(super) fn text_output(text: impl Into<String>) -> ToolOutput {
    FunctionCallOutputBody::Text(text.into())
}

/// Returns the output of a call that may have had effects and whose end was lost with the server.
pub(crate) fn outcome_unknown() -> ToolOutput {
    text_output(
        "The outcome of this call is unknown: the server ended while it was running. It may have had effects. Check \
         before you do it again.",
    )
}

/// Deserializes a count or a time, which models write as `10`, `10.0` or `"10"`.
pub(super) fn lenient_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum NumberOrText {
        Number(f64),
        Text(String),
    }
    let number = match Option::<NumberOrText>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(NumberOrText::Number(number)) => number,
        Some(NumberOrText::Text(text)) => text.trim().parse().map_err(serde::de::Error::custom)?,
    };
    // The cast saturates: a negative time becomes 0, and callers limit large ones.
    Ok(Some(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Times {
        #[serde(default, deserialize_with = "lenient_number")]
        ms: Option<u64>,
    }

    fn call(arguments: &str) -> ToolCall {
        let input = ToolInput::Arguments(arguments.to_owned());
        ToolCall { id: "c".to_owned(), namespace: None, name: "t".to_owned(), input }
    }

    #[test]
    fn numbers_parse_in_every_spelling() {
        let check = |arguments: &str, expected: Option<u64>| {
            assert_eq!(call(arguments).arguments::<Times>().unwrap().ms, expected, "{arguments}");
        };
        check(r#"{"ms":250}"#, Some(250));
        check(r#"{"ms":250.9}"#, Some(250));
        check(r#"{"ms":"40"}"#, Some(40));
        check(r#"{"ms":-3}"#, Some(0));
        check(r#"{"ms":1e300}"#, Some(u64::MAX));
        check(r#"{"ms":null}"#, None);
        check("", None);
    }

    #[test]
    fn arguments_that_do_not_parse_fail_the_call() {
        let Err(ToolError::Failed(text)) = call("{oops").arguments::<Times>() else { panic!("parsed") };
        assert!(text.starts_with("failed to parse function arguments: "), "{text}");
    }
}
