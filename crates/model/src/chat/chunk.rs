//! The chunks of a Chat Completions stream. A whole response has the same form, with `message` for `delta`.

use std::borrow::Cow;

use codicil_protocol::TokenUsageBreakdown;
use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Value, value::RawValue};

use crate::wire_json::{WireText, token_count};

#[derive(Deserialize)]
pub(super) struct ChatChunk<'a> {
    #[serde(borrow)]
    pub id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub object: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub choices: Option<Vec<ChatChoice<'a>>>,
    pub usage: Option<ChatUsage>,
    pub error: Option<Value>,
}

#[derive(Deserialize)]
pub(super) struct ChatChoice<'a> {
    #[serde(borrow)]
    pub delta: Option<ChatDelta<'a>>,
    #[serde(borrow)]
    pub message: Option<ChatDelta<'a>>,
    #[serde(borrow)]
    pub finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
pub(super) struct ChatDelta<'a> {
    #[serde(borrow)]
    pub content: Option<ChatContent<'a>>,
    #[serde(borrow)]
    pub refusal: Option<WireText<'a>>,
    #[serde(borrow)]
    pub reasoning_content: Option<WireText<'a>>,
    #[serde(borrow)]
    pub reasoning: Option<WireText<'a>>,
    #[serde(borrow)]
    pub tool_calls: Option<Vec<CallFragment<'a>>>,
}

impl ChatDelta<'_> {
    /// Returns whether anything of the response is in this delta.
    pub fn has_content(&self) -> bool {
        let content = match &self.content {
            Some(ChatContent::Text(text)) => !text.is_empty(),
            Some(ChatContent::Parts(parts)) => !parts.is_empty(),
            Some(ChatContent::Other) | None => false,
        };
        let texts = [&self.refusal, &self.reasoning_content, &self.reasoning];
        let has_text = texts.into_iter().flatten().any(|text| !text.is_empty());
        content || has_text || self.tool_calls.as_ref().is_some_and(|calls| !calls.is_empty())
    }
}

/// Content as a text or, from Mistral, as a list of parts.
pub(super) enum ChatContent<'a> {
    Text(WireText<'a>),
    Parts(Vec<ContentPart<'a>>),
    Other,
}

impl<'de: 'a, 'a> Deserialize<'de> for ChatContent<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(from)?.get();
        // The derived form for either would refuse a lone half of a character.
        let content = match raw.as_bytes().first() {
            Some(b'"') => serde_json::from_str(raw).map(Self::Text),
            Some(b'[') => serde_json::from_str(raw).map(Self::Parts),
            _ => Ok(Self::Other),
        };
        content.map_err(D::Error::custom)
    }
}

#[derive(Deserialize)]
pub(super) struct ContentPart<'a> {
    #[serde(borrow)]
    pub text: Option<WireText<'a>>,
    #[serde(borrow)]
    pub refusal: Option<WireText<'a>>,
    #[serde(borrow)]
    pub thinking: Option<ChatContent<'a>>,
}

#[derive(Deserialize)]
pub(super) struct CallFragment<'a> {
    pub index: Option<i64>,
    #[serde(borrow)]
    pub id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub function: Option<FunctionFragment<'a>>,
}

#[derive(Default, Deserialize)]
pub(super) struct FunctionFragment<'a> {
    #[serde(borrow)]
    pub name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub arguments: Option<&'a RawValue>,
}

/// Returns the arguments as text. Most servers send a string that holds JSON, some the JSON itself.
pub(super) fn argument_text(arguments: &RawValue) -> WireText<'_> {
    let raw = arguments.get();
    match serde_json::from_str::<Option<WireText<'_>>>(raw) {
        Ok(text) if !raw.starts_with('[') => text.unwrap_or_default(),
        _ => WireText::from(raw),
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ChatUsage {
    #[serde(deserialize_with = "token_count")]
    prompt_tokens: Option<i64>,
    #[serde(deserialize_with = "token_count")]
    completion_tokens: Option<i64>,
    #[serde(deserialize_with = "token_count")]
    total_tokens: Option<i64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PromptDetails {
    #[serde(deserialize_with = "token_count")]
    cached_tokens: Option<i64>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CompletionDetails {
    #[serde(deserialize_with = "token_count")]
    reasoning_tokens: Option<i64>,
}

impl From<ChatUsage> for TokenUsageBreakdown {
    fn from(usage: ChatUsage) -> Self {
        let cached = usage.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let reasoning = usage.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        let input_tokens = usage.prompt_tokens.unwrap_or(0);
        let output_tokens = usage.completion_tokens.unwrap_or(0);
        Self {
            total_tokens: usage.total_tokens.unwrap_or(0).max(input_tokens.saturating_add(output_tokens)),
            input_tokens,
            cached_input_tokens: cached.unwrap_or(0),
            cache_write_input_tokens: 0,
            output_tokens,
            reasoning_output_tokens: reasoning.unwrap_or(0),
        }
    }
}
