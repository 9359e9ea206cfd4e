//! The JSON-RPC envelope: requests, notifications, responses and errors, without the `jsonrpc` member.
//!
//! Reading is lazy: [`Message::parse`] decodes the method and the id and leaves `params` as raw JSON for the decoder that
//! knows its type. The same holds for `codicil`, the member of the extension, and for `trace`. `jsonrpc` and other unknown members are
//! ignored.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};

use crate::{Inspect, wire};

/// The id of a request. The sender chooses it, and the response repeats it unchanged.
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

/// The caller's position in a distributed trace.
#[wire]
#[derive(Default)]
pub struct W3cTraceContext {
    #[omit]
    pub traceparent: Option<String>,
    #[omit]
    pub tracestate: Option<String>,
}

/// A message that expects a response.
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

/// A message that expects no response.
#[wire]
#[schemars(rename = "JSONRPCNotification")]
pub struct Notification {
    pub method: String,
    #[omit]
    pub params: Option<Value>,
}

/// The response to a request that succeeded.
#[wire]
#[schemars(rename = "JSONRPCResponse")]
pub struct Response {
    pub id: RequestId,
    pub result: Value,
}

/// The response to a request that failed.
#[wire]
#[schemars(rename = "JSONRPCError")]
pub struct ErrorResponse {
    pub error: ErrorObject,
    pub id: RequestId,
}

/// The reason for a failed request.
#[wire]
#[schemars(rename = "JSONRPCErrorError")]
pub struct ErrorObject {
    pub code: i64,
    pub message: String,
    #[omit]
    pub data: Option<Value>,
}

/// The error codes in use.
pub mod codes {
    /// The request is not known, or not valid in the current state.
    pub const INVALID_REQUEST: i64 = -32600;
    /// The method exists, but is not implemented.
    pub const METHOD_NOT_FOUND: i64 = -32601;
    /// The params are well-formed but inconsistent.
    pub const INVALID_PARAMS: i64 = -32602;
    /// The server, the operating system or a backend failed.
    pub const INTERNAL_ERROR: i64 = -32603;
    /// The server is overloaded; the request can be sent again later.
    pub const OVERLOADED: i64 = -32001;
}

/// A received message, with its content as raw JSON.
#[derive(Debug)]
pub enum Message<'a> {
    Request {
        id: RequestId,
        method: String,
        params: Option<&'a RawValue>,
        codicil: Option<&'a RawValue>,
        /// The place of the request in a trace, a [`W3cTraceContext`].
        trace: Option<&'a RawValue>,
    },
    Notification {
        method: String,
        params: Option<&'a RawValue>,
    },
    Response {
        id: RequestId,
        result: &'a RawValue,
    },
    Error {
        id: RequestId,
        error: ErrorObject,
    },
}

impl<'a> Message<'a> {
    /// Parses a message. Fails for text that is not JSON or not a JSON-RPC message; neither can be answered.
    pub fn parse(text: &'a str) -> Result<Self, MalformedMessage> {
        // Serde would also read the members from an array, in their order.
        if !text.trim_start_matches([' ', '\t', '\n', '\r']).starts_with('{') {
            return Err(MalformedMessage::NotObject);
        }
        let envelope: MessageEnvelope<'a> = serde_json::from_str(text).map_err(MalformedMessage::Json)?;
        let id = match envelope.id {
            Some(id) => Some(serde_json::from_str(id.get()).map_err(|_| MalformedMessage::Id)?),
            None => None,
        };
        match (envelope.method, id, envelope.result, envelope.error) {
            (Some(method), Some(id), ..) => {
                let MessageEnvelope { params, codicil, trace, .. } = envelope;
                Ok(Self::Request { id, method, params, codicil, trace })
            }
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
    #[serde(borrow)]
    codicil: Option<&'a RawValue>,
    #[serde(borrow)]
    trace: Option<&'a RawValue>,
}

/// Reads a member for which null is a value: a null id is invalid, a null result is a result.
pub fn present<'de: 'a, 'a, D: serde::Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

/// The reason why a line is not a message.
#[derive(Debug)]
pub enum MalformedMessage {
    NotObject,
    Json(serde_json::Error),
    Id,
    Empty,
}

impl fmt::Display for MalformedMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotObject => f.write_str("not a JSON object"),
            Self::Json(error) => write!(f, "not a JSON-RPC message: {error}"),
            Self::Id => f.write_str("the id is neither a string nor an integer"),
            Self::Empty => f.write_str("neither a method nor an answer"),
        }
    }
}

impl std::error::Error for MalformedMessage {}
