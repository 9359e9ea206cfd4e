//! Anthropic's Messages API.

pub(crate) mod decoder;
mod messages;
mod wire;

pub use wire::anthropic_tier;

use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::{
    ModelCatalogue, ModelError, ModelRequest, ProviderCredentials, WireApi,
    body::RequestBody,
    credentials::sensitive_value,
    http::{BodyExtent, HttpDialect, user_agent},
    stream::EventDecoder,
};

pub(crate) use {messages::is_signed_reasoning, wire::tool};

/// The dialect. It needs the catalogue because a request states the output limit and the thinking mode.
pub(crate) struct AnthropicDialect {
    catalogue: Arc<ModelCatalogue>,
}

impl AnthropicDialect {
    pub fn new(catalogue: Arc<ModelCatalogue>) -> Self {
        Self { catalogue }
    }
}

impl HttpDialect for AnthropicDialect {
    const WIRE_API: WireApi = WireApi::Anthropic;
    const PATH: &'static str = "/messages";

    fn body(&self, request: &ModelRequest, extent: BodyExtent) -> RequestBody {
        wire::body(request, self.catalogue.look_up(&request.model), extent)
    }

    fn headers(&self, request: &ModelRequest) -> HeaderMap {
        let mut headers = user_agent(request);
        headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
        headers
    }

    fn authorize(&self, credentials: &ProviderCredentials, headers: &mut HeaderMap) {
        if let Some(key) = sensitive_value(credentials.token.reveal()) {
            headers.insert(HeaderName::from_static("x-api-key"), key);
        }
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn EventDecoder> {
        Box::new(decoder::AnthropicDecoder::new(request.tools.custom_names()))
    }

    /// Signed thinking is bound to the input before it. After a thread's tools or instructions changed, the
    /// request is rejected with the thinking and accepted without.
    fn is_worth_reducing(&self, error: &ModelError) -> bool {
        let ModelError::Status(failure) = error else { return false };
        let message = failure.message.as_deref().unwrap_or_default();
        failure.status.as_u16() == 400 && message.contains("thinking") && message.contains("signature")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::pairs::tests::history;

    fn ids(message: &Value, kind: &str, key: &str) -> Vec<String> {
        let blocks = message["content"].as_array().unwrap().iter();
        let blocks = blocks.filter(|block| block["type"] == kind);
        blocks.map(|block| block[key].as_str().unwrap().to_owned()).collect()
    }

    proptest! {
        #[test]
        fn every_call_is_followed_by_its_result(
            words in prop::collection::vec("(u|d|a|\\+[xyz]|-[xyz])", 0..30),
        ) {
            let request = ModelRequest { input: history(&words.join(" ")), ..ModelRequest::default() };
            let body = AnthropicDialect::new(Arc::default()).body(&request, BodyExtent::Full).to_json();
            let messages = body["messages"].as_array().unwrap();
            prop_assert_eq!(&messages[0]["role"], "user");
            prop_assert_eq!(&messages[messages.len() - 1]["role"], "user");
            for pair in messages.windows(2) {
                prop_assert_ne!(&pair[0]["role"], &pair[1]["role"], "two messages of one side");
                let results = ids(&pair[1], "tool_result", "tool_use_id");
                prop_assert_eq!(ids(&pair[0], "tool_use", "id"), results);
            }
            prop_assert!(ids(&messages[0], "tool_result", "tool_use_id").is_empty());
        }
    }
}
