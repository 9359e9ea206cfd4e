//! A tool call as the model made it, and the answer it gets.

use codicil_protocol::{FunctionCallOutputBody, ItemId, ResponseItem};
use serde::{Deserialize, Deserializer, de::DeserializeOwned};

/// One call.
#[derive(Clone, Debug)]
pub(crate) struct ToolCall {
    pub id: String,
    /// Where the model looked for the tool, if not among all.
    pub namespace: Option<String>,
    pub name: String,
    pub input: ToolInput,
}

/// What a tool is called with.
#[derive(Clone, Debug)]
pub(crate) enum ToolInput {
    /// JSON as text. It need not parse.
    Arguments(String),
    /// Free text.
    Text(String),
}

/// What the model gets back.
pub(crate) type ToolOutput = FunctionCallOutputBody;

/// The turn is being stopped; nobody waits for the output any more.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TurnCancelled;

impl ToolCall {
    /// Calls and their items share an id.
    pub fn item_id(&self) -> ItemId {
        ItemId::from(self.id.clone())
    }

    /// Whether it came without arguments.
    pub fn is_bare(&self) -> bool {
        match &self.input {
            ToolInput::Arguments(text) | ToolInput::Text(text) => text.trim().is_empty(),
        }
    }

    /// The arguments as a tool wants them, or what the model is told about them.
    pub fn arguments<T: DeserializeOwned>(&self) -> Result<T, ToolOutput> {
        let text = match &self.input {
            ToolInput::Arguments(text) | ToolInput::Text(text) => text,
        };
        // Some models leave out arguments that are all optional.
        let text = if text.trim().is_empty() { "{}" } else { text };
        serde_json::from_str(text)
            .map_err(|error| say(format!("failed to parse function arguments: {error}")))
    }

    /// The output as it enters the history.
    pub fn answer(self, output: ToolOutput) -> ResponseItem {
        match self.input {
            ToolInput::Arguments(_) => ResponseItem::FunctionCallOutput { call_id: self.id, output },
            ToolInput::Text(_) => {
                ResponseItem::CustomToolCallOutput { call_id: self.id, name: Some(self.name), output }
            }
        }
    }
}

/// An output of text.
pub(crate) fn say(text: impl Into<String>) -> ToolOutput {
    FunctionCallOutputBody::Text(text.into())
}

/// A count or a time from a model, which may write `10`, `10.0` or `"10"`.
pub(crate) fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        Number(f64),
        Text(String),
    }
    let number = match Option::<Written>::deserialize(deserializer)? {
        None => return Ok(None),
        Some(Written::Number(number)) => number,
        Some(Written::Text(text)) => text.trim().parse().map_err(serde::de::Error::custom)?,
    };
    // Saturates: a negative time is no time, and a huge one is cut by whoever uses it.
    Ok(Some(number as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Times {
        #[serde(default, deserialize_with = "number")]
        ms: Option<u64>,
    }

    fn call(arguments: &str) -> ToolCall {
        let input = ToolInput::Arguments(arguments.to_owned());
        ToolCall { id: "c".to_owned(), namespace: None, name: "t".to_owned(), input }
    }

    #[test]
    fn numbers_are_read_however_they_are_written() {
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
    fn what_does_not_parse_is_told() {
        let Err(ToolOutput::Text(text)) = call("{oops").arguments::<Times>() else { panic!("parsed") };
        assert!(text.starts_with("failed to parse function arguments: "), "{text}");
    }
}
