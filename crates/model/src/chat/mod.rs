//! The Chat Completions API, as Ollama, LM Studio, vLLM and llama.cpp serve it.

mod chunk;
pub(crate) mod decoder;
mod messages;
mod think;
mod wire;

use http::HeaderMap;

use crate::{
    ModelRequest, ProviderCredentials, WireApi,
    body::RequestBody,
    credentials::insert_bearer,
    http::{BodyExtent, HttpDialect, user_agent},
    stream::EventDecoder,
};

pub(crate) use {
    messages::is_chat_reasoning,
    wire::{custom_description, tool},
};

pub(crate) struct ChatDialect;

impl HttpDialect for ChatDialect {
    const WIRE_API: WireApi = WireApi::Chat;
    const PATH: &'static str = "/chat/completions";

    fn body(&self, request: &ModelRequest, _: BodyExtent) -> RequestBody {
        wire::body(request)
    }

    fn headers(&self, request: &ModelRequest) -> HeaderMap {
        user_agent(request)
    }

    fn authorize(&self, credentials: &ProviderCredentials, headers: &mut HeaderMap) {
        insert_bearer(credentials, headers);
    }

    fn decoder(&self, request: &ModelRequest) -> Box<dyn EventDecoder> {
        Box::new(decoder::ChatDecoder::new(request.tools.custom_names()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;
    use crate::pairs::tests::history;

    proptest! {
        #[test]
        fn every_call_is_followed_by_its_result(
            words in prop::collection::vec("(u|d|a|\\+[xyz]|-[xyz])", 0..30),
        ) {
            let request = ModelRequest { input: history(&words.join(" ")), ..ModelRequest::default() };
            let body = ChatDialect.body(&request, BodyExtent::Full).to_json();
            let mut expected: Vec<String> = Vec::new();
            let mut last_role = String::new();
            for message in body["messages"].as_array().unwrap() {
                let role = message["role"].as_str().unwrap().to_owned();
                if role == "tool" {
                    prop_assert!(!expected.is_empty(), "a result without a call");
                    let call = expected.remove(0);
                    prop_assert_eq!(message["tool_call_id"].as_str().unwrap(), call);
                    last_role = role;
                    continue;
                }
                prop_assert!(expected.is_empty(), "a call without a result");
                prop_assert_ne!(&role, &last_role, "two messages of one side");
                let calls = message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default();
                expected.extend(calls.iter().map(|call: &Value| call["id"].as_str().unwrap().to_owned()));
                last_role = role;
            }
            prop_assert!(expected.is_empty(), "a call without a result at the end");
        }
    }
}
