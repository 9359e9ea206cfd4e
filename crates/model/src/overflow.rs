//! Recognises the errors of providers for a prompt that exceeds the context window.
//!
//! OpenAI has a code for it. Most others have only a sentence, each its own.

/// Codes and types of an error that mean an overflow.
const CODES: [&str; 5] = [
    "context_length_exceeded",
    "context_window_exceeded",
    "exceed_context_size_error",
    "model_context_window_exceeded",
    "ContextWindowExceededError",
];

/// Parts of messages that mean an overflow, in lower case.
const PHRASES: [&str; 20] = [
    // OpenAI, vLLM, OpenRouter, Mistral
    "maximum context length",
    "exceeds the context window",
    // Anthropic
    "prompt is too long",
    "exceed context limit",
    // llama.cpp
    "exceeds the available context size",
    "context size has been exceeded",
    // LM Studio
    "context the overflows",
    "context length of only",
    "greater than the context length",
    "reached context length of",
    "context overflow",
    // LiteLLM
    "contextwindowexceedederror",
    // Ollama
    "exceeded max context length",
    "exceeds the context length",
    "exceeds maximum context length",
    // vLLM
    "longer than the maximum model length",
    // Gemini
    "exceeds the maximum number of tokens allowed",
    // xAI
    "maximum prompt length is",
    // Bedrock
    "input is too long for requested model",
    // Text Generation Inference
    "`inputs` tokens + `max_new_tokens` must be",
];

/// Returns whether an error with these codes and this message means that the prompt is too long.
pub(crate) fn is_overflow<'a>(codes: impl IntoIterator<Item = &'a str>, message: &str) -> bool {
    if codes.into_iter().any(|code| CODES.contains(&code)) {
        return true;
    }
    let message = message.to_lowercase();
    PHRASES.iter().any(|phrase| message.contains(phrase))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflows_are_recognised_by_their_sentences() {
        for message in [
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens.",
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            "prompt is too long: 208310 tokens > 200000 maximum",
            "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length",
            "the request exceeds the available context size (4096 tokens), try increasing it",
            "request (9130 tokens) exceeds the available context size (4096 tokens), try increasing it",
            "Context size has been exceeded.",
            "Trying to keep the first 5230 tokens when context the overflows. However, the model is loaded with \
             context length of only 4096 tokens, which is not enough.",
            "The number of tokens to keep from the initial prompt is greater than the context length.",
            "Reached context length of 4096 tokens with this model",
            "litellm.ContextWindowExceededError: litellm.BadRequestError: OpenAIException - too many tokens",
            "prompt too long; exceeded max context length by 12 tokens",
            "the input length exceeds the context length",
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
            "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
            "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            "Input is too long for requested model.",
        ] {
            assert!(is_overflow([], message), "{message}");
        }
        assert!(is_overflow(["exceed_context_size_error"], ""));
    }

    #[test]
    fn other_errors_are_no_overflow() {
        for message in [
            "",
            "max_tokens is too large: 100000. This model supports at most 4096 completion tokens.",
            "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000.",
            "Unsupported parameter: 'context'",
            "the prompt contains a forbidden word",
        ] {
            assert!(!is_overflow(["invalid_request_error"], message), "{message}");
        }
    }
}
