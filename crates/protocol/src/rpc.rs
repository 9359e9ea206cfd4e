//! The JSON-RPC envelope: requests, notifications, answers and errors, without the `jsonrpc` member.
//!
//! Reading is lazy: [`Message::parse`] finds the method and the id and leaves `params` as the text it
//! came in, for the one decoder that knows its type. `jsonrpc` and other unknown members are ignored.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{Inspect, wire};

/// Chosen by whoever sends the request, and given back with the answer as it came.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum RequestId {
    String(String),
    Integer(i64),
}

impl Inspect for RequestId {}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(id) => f.write_str(id),
            Self::Integer(id) => id.fmt(f),
        }
    }
}

/// The caller's place in a distributed trace.
#[wire]
#[derive(Default)]
pub struct W3cTraceContext {
    #[omit]
    pub traceparent: Option<String>,
    #[omit]
    pub tracestate: Option<String>,
}

/// A message that expects an answer.
#[wire]
#[schemars(rename = "JSONRPCRequest")]
pub struct Request {
    pub id: RequestId,
    pub method: String,
    #[omit]
    pub params: Option<Value>,
    #[omit]
    pub trace: Option<W3cTraceContext>,
}

/// A message that expects no answer.
#[wire]
#[schemars(rename = "JSONRPCNotification")]
pub struct Notification {
    pub method: String,
    #[omit]
    pub params: Option<Value>,
}

/// The answer to a request that worked.
#[wire]
#[schemars(rename = "JSONRPCResponse")]
pub struct Response {
    pub id: RequestId,
    pub result: Value,
}

/// The answer to a request that did not.
#[wire]
#[schemars(rename = "JSONRPCError")]
pub struct ErrorResponse {
    pub error: ErrorObject,
    pub id: RequestId,
}

/// Why a request failed.
#[wire]
#[schemars(rename = "JSONRPCErrorError")]
pub struct ErrorObject {
    pub code: i64,
    pub message: String,
    #[omit]
    pub data: Option<Value>,
}

/// The codes in use.
pub mod codes {
    /// Not a request this server understands, or not now.
    pub const INVALID_REQUEST: i64 = -32600;
    /// Understood, but its values do not fit together.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server, the system or a backend failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// Too much at once; the same request may be sent again later.
    pub const OVERLOADED: i64 = -32001;
}

/// One received message; what it carries is still text.
#[derive(Debug)]
pub enum Message<'a> {
    Request { id: RequestId, method: String, params: Option<&'a RawValue> },
    Notification { method: String, params: Option<&'a RawValue> },
    Response { id: RequestId, result: &'a RawValue },
    Error { id: RequestId, error: ErrorObject },
}

impl<'a> Message<'a> {
    /// Fails for what is not JSON or not a message of the protocol; neither can be answered.
    pub fn parse(text: &'a str) -> Result<Self, MalformedMessage> {
        let envelope: MessageEnvelope<'a> = serde_json::from_str(text).map_err(MalformedMessage::Json)?;
        let id = match envelope.id {
            Some(id) => Some(serde_json::from_str(id.get()).map_err(|_| MalformedMessage::Id)?),
            None => None,
        };
        match (envelope.method, id, envelope.result, envelope.error) {
            (Some(method), Some(id), ..) => Ok(Self::Request { id, method, params: envelope.params }),
            (Some(method), None, ..) => Ok(Self::Notification { method, params: envelope.params }),
            (None, Some(id), Some(result), _) => Ok(Self::Response { id, result }),
            (None, Some(id), None, Some(error)) => Ok(Self::Error { id, error }),
            _ => Err(MalformedMessage::Empty),
        }
    }
}

#[derive(Deserialize)]
struct MessageEnvelope<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    error: Option<ErrorObject>,
}

/// Reads a member that may be null but not absent: a null id is wrong, a null result is a result.
fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// Why a line is not a message.
#[derive(Debug)]
pub enum MalformedMessage {
    Json(serde_json::Error),
    Id,
    Empty,
}

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Json(error) => write!(f, "not a JSON-RPC message: {error}"),
            Self::Id => f.write_str("the id is neither a string nor an integer"),
            Self::Empty => f.write_str("neither a method nor an answer"),
        }
    }
}

impl std::error::Error for MalformedMessage {}
