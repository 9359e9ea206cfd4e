//! A fast path for decoding the items of a history.
//!
//! The protocol's own type keeps unknown values and needs two passes for that. Nearly all items of a long history have one
//! of three simple forms, which are decoded in one pass.

use std::borrow::Cow;

use codicil_protocol::{ContentItem, FunctionCallOutputBody, ResponseItem};
use serde::{Deserialize, de::IgnoredAny};

/// Decodes an item. Items that do not have exactly one of the simple forms are decoded as the protocol's type.
pub fn decode_item(json: &str) -> serde_json::Result<ResponseItem> {
    let plain = if json.starts_with("{\"type\":\"message\"") {
        serde_json::from_str(json).ok().and_then(PlainMessage::into_item)
    } else if json.starts_with("{\"type\":\"function_call\"") {
        serde_json::from_str(json).ok().map(PlainCall::into_item)
    } else if json.starts_with("{\"type\":\"function_call_output\"") {
        serde_json::from_str(json).ok().map(PlainOutput::into_item)
    } else {
        None
    };
    plain.map_or_else(|| serde_json::from_str(json), Ok)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainMessage<'a> {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    role: String,
    #[serde(borrow)]
    content: Vec<PlainContent<'a>>,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainContent<'a> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'a, str>,
    text: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainCall {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    name: String,
    arguments: String,
    call_id: String,
    id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PlainOutput {
    #[serde(rename = "type")]
    _type: IgnoredAny,
    call_id: String,
    output: String,
}

impl PlainMessage<'_> {
    fn into_item(self) -> Option<ResponseItem> {
        let content = self.content.into_iter().map(|PlainContent { kind, text }| match &*kind {
            "input_text" => Some(ContentItem::InputText { text }),
            "output_text" => Some(ContentItem::OutputText { text }),
            _ => None,
        });
        let content = content.collect::<Option<_>>()?;
        Some(ResponseItem::Message { role: self.role, content, end_turn: None, phase: None, id: self.id })
    }
}

impl PlainCall {
    fn into_item(self) -> ResponseItem {
        let Self { name, arguments, call_id, id, .. } = self;
        ResponseItem::FunctionCall { name, namespace: None, arguments, call_id, id }
    }
}

impl PlainOutput {
    fn into_item(self) -> ResponseItem {
        let output = FunctionCallOutputBody::Text(self.output);
        ResponseItem::function_call_output(self.call_id, output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_forms_decode_like_the_protocol() {
        for json in [
            r#"{"type":"message","role":"user","content":[{"type":"input_text","text":"a\"b"}],"id":null}"#,
            r#"{"type":"message","role":"assistant","content":[{"type":"output_text","text":"x"}]}"#,
            r#"{"type":"message","role":"assistant","content":[],"phase":"commentary","id":"m1"}"#,
            r#"{"type":"message","role":"user","content":[{"type":"input_image","image_url":"u"}]}"#,
            r#"{"type":"message","role":"user","content":[{"type":"new_kind","text":"u"}]}"#,
            r#"{"type":"function_call","name":"n","arguments":"{}","call_id":"c","id":"i"}"#,
            r#"{"type":"function_call","name":"n","namespace":"s","arguments":"{}","call_id":"c"}"#,
            r#"{"type":"function_call_output","call_id":"c","output":"text"}"#,
            r#"{"type":"function_call_output","name":"clock","output":"text"}"#,
            r#"{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"t"}]}"#,
            r#"{"type":"reasoning","summary":[],"encrypted_content":null}"#,
            r#"{"type":"of_the_future","x":1}"#,
        ] {
            let expected: ResponseItem = serde_json::from_str(json).unwrap();
            assert_eq!(decode_item(json).unwrap(), expected, "{json}");
        }
        assert!(decode_item(r#"{"type":"message","role":1}"#).is_err());
    }
}
