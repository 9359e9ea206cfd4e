//! The decoder of a server's messages.
//!
//! The SDK determines the type of a result by trying the results of all methods in turn. That is slow and loses
//! members that its types lack. Here results stay as received (`CustomResult`) and are read by the code that sent
//! the request. Only the result of `initialize` is decoded, because the SDK itself needs it.

use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomRequest, CustomResult, ErrorCode, ErrorData, InitializeResult,
    JsonRpcMessage, NumberOrString, PingRequest, RequestId, ServerJsonRpcMessage, ServerNotification,
    ServerRequest, ServerResult,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use crate::limits::MESSAGE_BYTES;

#[derive(Default)]
pub(crate) struct MessageDecoder {
    /// The pending `initialize` request.
    initialize: Option<RequestId>,
}

#[derive(Deserialize)]
struct RawMessage {
    #[serde(default)]
    id: Option<RequestId>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default)]
    params: Option<Value>,
    /// Null is a result, too.
    #[serde(default, deserialize_with = "given")]
    result: Option<Value>,
    #[serde(default)]
    error: Option<ErrorData>,
}

fn given<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A message or several: servers of protocol version 2025-03-26 may send batches.
#[derive(Deserialize)]
#[serde(untagged)]
enum MessageBatch {
    One(RawMessage),
    Many(Vec<RawMessage>),
}

impl MessageDecoder {
    /// Must be called for every message that is sent.
    pub(crate) fn note_sent(&mut self, message: &ClientJsonRpcMessage) {
        if let JsonRpcMessage::Request(request) = message
            && matches!(request.request, ClientRequest::InitializeRequest(_))
        {
            self.initialize = Some(request.id.clone());
        }
    }

    pub(crate) fn decode(&mut self, line: &[u8]) -> Result<Vec<ServerJsonRpcMessage>, serde_json::Error> {
        let messages = match serde_json::from_slice(line)? {
            MessageBatch::One(raw) => vec![raw],
            MessageBatch::Many(raws) => raws,
        };
        Ok(messages.into_iter().filter_map(|raw| self.message(raw)).collect())
    }

    fn message(&mut self, raw: RawMessage) -> Option<ServerJsonRpcMessage> {
        match raw {
            RawMessage { method: Some(method), id: Some(id), params, .. } => {
                Some(request(method, params, id))
            }
            RawMessage { method: Some(method), params, .. } => notification(&method, params),
            RawMessage { error: Some(error), id, .. } => Some(JsonRpcMessage::error(error, id)),
            RawMessage { result: Some(result), id: Some(id), .. } => {
                let result = self.result(&id, result);
                Some(JsonRpcMessage::response(result, id))
            }
            _ => None,
        }
    }

    fn result(&mut self, id: &RequestId, result: Value) -> ServerResult {
        if self.initialize.as_ref() == Some(id) {
            self.initialize = None;
            if let Ok(initialized) = InitializeResult::deserialize(&result) {
                return ServerResult::InitializeResult(initialized);
            }
        }
        ServerResult::CustomResult(CustomResult(result))
    }
}

fn request(method: String, params: Option<Value>, id: RequestId) -> ServerJsonRpcMessage {
    let request = match method.as_str() {
        "ping" => ServerRequest::PingRequest(PingRequest {
            method: Default::default(),
            extensions: Default::default(),
        }),
        _ => ServerRequest::CustomRequest(CustomRequest::new(method, params)),
    };
    JsonRpcMessage::request(request, id)
}

fn notification(method: &str, params: Option<Value>) -> Option<ServerJsonRpcMessage> {
    let mut message = json!({ "method": method });
    if let (Some(params), Some(message)) = (params, message.as_object_mut()) {
        message.insert("params".to_owned(), params);
    }
    let notification: ServerNotification = serde_json::from_value(message).ok()?;
    Some(JsonRpcMessage::notification(notification))
}

/// Returns the error in place of a response that was too long, if the head of the response holds its request id.
pub(crate) fn too_long(head: &[u8]) -> Option<ServerJsonRpcMessage> {
    let head = String::from_utf8_lossy(head);
    let before_result = head.split("\"result\"").next()?;
    let after_id = before_result.split_once("\"id\"")?.1.trim_start().strip_prefix(':')?.trim_start();
    let id = match after_id.strip_prefix('"') {
        Some(text) => NumberOrString::String(text.split('"').next()?.into()),
        None => {
            let digits: String = after_id.chars().take_while(char::is_ascii_digit).collect();
            NumberOrString::Number(digits.parse().ok()?)
        }
    };
    Some(too_large(id))
}

/// Returns the error in place of a response that was too large.
pub(crate) fn too_large(id: RequestId) -> ServerJsonRpcMessage {
    let text = format!("the response is larger than {} MiB", MESSAGE_BYTES / (1024 * 1024));
    JsonRpcMessage::error(ErrorData::new(ErrorCode::INTERNAL_ERROR, text, None), Some(id))
}

/// Returns a result as the server sent it, as far as the SDK has kept it.
pub(crate) fn raw(result: ServerResult) -> Value {
    match result {
        ServerResult::CustomResult(CustomResult(value)) => value,
        other => serde_json::to_value(other).unwrap_or(Value::Null),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(line: &str) -> Vec<ServerJsonRpcMessage> {
        MessageDecoder::default().decode(line.as_bytes()).unwrap()
    }

    #[test]
    fn results_are_not_changed() {
        let line =
            r#"{"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"a","later":1}],"nextCursor":null}}"#;
        let [JsonRpcMessage::Response(response)] = &decode(line)[..] else { panic!() };
        assert_eq!(raw(response.result.clone())["tools"][0]["later"], 1);
    }

    #[test]
    fn null_is_a_result_and_nothing_is_not() {
        assert!(matches!(decode(r#"{"id":"x","result":null}"#)[..], [JsonRpcMessage::Response(_)]));
        assert!(decode(r#"{"id":1}"#).is_empty());
        assert!(decode("[]").is_empty());
        assert!(MessageDecoder::default().decode(b"listening on port 7").is_err());
    }

    #[test]
    fn requests_keep_their_params() {
        let line = r#"[{"id":"e1","method":"elicitation/create","params":{"message":"?"}},{"id":2,"method":"ping"}]"#;
        let [JsonRpcMessage::Request(one), JsonRpcMessage::Request(two)] = &decode(line)[..] else {
            panic!()
        };
        let ServerRequest::CustomRequest(request) = &one.request else { panic!() };
        assert_eq!(request.params.as_ref().unwrap()["message"], "?");
        assert!(matches!(two.request, ServerRequest::PingRequest(_)));
    }

    #[test]
    fn the_request_of_a_long_response_is_found_in_its_head() {
        let check = |head: &str, id: Option<&str>| {
            let found = too_long(head.as_bytes()).map(|message| match message {
                JsonRpcMessage::Error(error) => error.id.unwrap().to_string(),
                _ => panic!(),
            });
            assert_eq!(found.as_deref(), id, "{head}");
        };
        check(r#"{"jsonrpc":"2.0","id":12,"result":{"content":["#, Some("12"));
        check(r#"{ "id" : "a7", "result": {"id": 3"#, Some("a7"));
        check(r#"{"jsonrpc":"2.0","result":{"id":12"#, None);
        check(r#"{"id":null,"resu"#, None);
        check("garbage", None);
    }
}
