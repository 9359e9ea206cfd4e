//! Estimates of token counts: four bytes per token. Precise enough to decide when to compact.

use codicil_protocol::{
    ContentItem, FunctionCallOutputBody, FunctionCallOutputContentItem, ReasoningItemContent,
    ReasoningItemReasoningSummary, ResponseItem,
};
use serde::Serialize;

/// The average number of bytes per token.
pub const BYTES_PER_TOKEN: usize = 4;

/// The estimate for an image: about that of a large one in high resolution.
const IMAGE_TOKENS: u64 = 1_500;

/// Returns the estimate for a text.
pub fn text_tokens(text: &str) -> u64 {
    text.len().div_ceil(BYTES_PER_TOKEN) as u64
}

/// Returns the estimate for an item, without its envelope.
pub fn approx_tokens(item: &ResponseItem) -> u64 {
    match item {
        ResponseItem::Message { content, .. } => content.iter().map(part_tokens).sum(),
        ResponseItem::Reasoning { summary, content, encrypted_content } => {
            let summary: u64 = summary.iter().map(summary_tokens).sum();
            let content: u64 = content.iter().flatten().map(reasoning_tokens).sum();
            summary + content + encrypted_content.as_deref().map_or(0, text_tokens)
        }
        ResponseItem::FunctionCall { name, arguments, .. } => text_tokens(name) + text_tokens(arguments),
        ResponseItem::CustomToolCall { name, input, .. } => text_tokens(name) + text_tokens(input),
        ResponseItem::FunctionCallOutput { output, .. }
        | ResponseItem::CustomToolCallOutput { output, .. } => output_tokens(output),
        ResponseItem::ImageGenerationCall { revised_prompt, .. } => {
            IMAGE_TOKENS + revised_prompt.as_deref().map_or(0, text_tokens)
        }
        ResponseItem::Compaction { encrypted_content } => text_tokens(encrypted_content),
        ResponseItem::LocalShellCall { .. }
        | ResponseItem::ToolSearchCall { .. }
        | ResponseItem::ToolSearchOutput { .. }
        | ResponseItem::WebSearchCall { .. }
        | ResponseItem::Unrecognized(_) => json_tokens(item),
        // Never sent.
        ResponseItem::GhostSnapshot { .. } | ResponseItem::Other => 0,
    }
}

fn part_tokens(part: &ContentItem) -> u64 {
    match part {
        ContentItem::InputText { text } | ContentItem::OutputText { text } => text_tokens(text),
        ContentItem::InputImage { .. } | ContentItem::InputAudio { .. } => IMAGE_TOKENS,
        ContentItem::Unrecognized(value) => json_tokens(value),
    }
}

fn output_tokens(output: &FunctionCallOutputBody) -> u64 {
    let part = |part: &FunctionCallOutputContentItem| match part {
        FunctionCallOutputContentItem::InputText { text } => text_tokens(text),
        FunctionCallOutputContentItem::InputImage { .. }
        | FunctionCallOutputContentItem::InputAudio { .. } => IMAGE_TOKENS,
        FunctionCallOutputContentItem::EncryptedContent { encrypted_content } => {
            text_tokens(encrypted_content)
        }
        FunctionCallOutputContentItem::Unrecognized(value) => json_tokens(value),
    };
    match output {
        FunctionCallOutputBody::Text(text) => text_tokens(text),
        FunctionCallOutputBody::Content(parts) => parts.iter().map(part).sum(),
    }
}

fn summary_tokens(summary: &ReasoningItemReasoningSummary) -> u64 {
    match summary {
        ReasoningItemReasoningSummary::SummaryText { text } => text_tokens(text),
        ReasoningItemReasoningSummary::Unrecognized(value) => json_tokens(value),
    }
}

fn reasoning_tokens(content: &ReasoningItemContent) -> u64 {
    match content {
        ReasoningItemContent::ReasoningText { text } | ReasoningItemContent::Text { text } => {
            text_tokens(text)
        }
        ReasoningItemContent::Unrecognized(value) => json_tokens(value),
    }
}

fn json_tokens(value: &impl Serialize) -> u64 {
    serde_json::to_string(value).map_or(0, |text| text_tokens(&text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn four_bytes_make_a_token() {
        let check = |item: serde_json::Value, expected: u64| {
            let item: ResponseItem = serde_json::from_value(item).unwrap();
            assert_eq!(approx_tokens(&item), expected, "{item:?}");
        };
        let user =
            |content: serde_json::Value| json!({"type": "message", "role": "user", "content": content});
        check(user(json!([])), 0);
        check(user(json!([{"type": "input_text", "text": "12345678"}])), 2);
        check(user(json!([{"type": "input_text", "text": "123456789"}])), 3);
        check(user(json!([{"type": "input_image", "image_url": "x".repeat(100_000)}])), IMAGE_TOKENS);
        check(json!({"type": "function_call", "call_id": "c", "name": "exec", "arguments": "12345678"}), 3);
        check(json!({"type": "function_call_output", "call_id": "c", "output": "12345678"}), 2);
        check(
            json!({"type": "custom_tool_call_output", "call_id": "c", "output":
                [{"type": "input_text", "text": "1234"}, {"type": "input_image", "image_url": "x"}]}),
            1 + IMAGE_TOKENS,
        );
        check(
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "1234"}],
                "content": [{"type": "reasoning_text", "text": "1234"}], "encrypted_content": "12345678"}),
            4,
        );
        check(json!({"type": "compaction", "encrypted_content": "1234"}), 1);
        check(json!({"type": "other"}), 0);
        let unknown = json!({"type": "from_the_future", "text": "x"});
        check(unknown.clone(), text_tokens(&unknown.to_string()));
    }
}
