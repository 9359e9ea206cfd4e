//! One answer of the model: its condition, status, headers and content.
//!
//! The methods that build a streamed answer (`say`, `call`, `gate` …) are in `steps.rs`.

use std::{fmt, sync::Arc};

use hyper::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};
use serde_json::Value;

use super::{
    recorded::RecordedRequest,
    steps::{ReplyEnding, ReplyItem, ReplyStep, ReplyUsage},
};

/// The answer to one request.
///
/// A new reply is a stream that completes by itself after its steps and reports 100 input and 10 output
/// tokens. [`Reply::status`] is a plain HTTP answer instead. Methods that make no sense together (a message
/// in a plain answer, a step after `hang`) panic when the reply is built.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) when: Option<ReplyCondition>,
    pub(super) hold: Option<String>,
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    pub(super) answer: ReplyAnswer,
}

#[derive(Clone, Debug)]
pub(super) enum ReplyAnswer {
    /// Shared, because a long stream may be repeated for many requests.
    Stream(Arc<ReplyStream>),
    Plain {
        status: StatusCode,
        body: PlainBody,
    },
    HangUp,
}

#[derive(Clone, Debug)]
pub(super) struct ReplyStream {
    pub(super) steps: Vec<ReplyStep>,
    pub(super) usage: Option<ReplyUsage>,
    pub(super) ending: ReplyEnding,
}

#[derive(Clone, Debug)]
pub(super) enum PlainBody {
    /// An error in the form of the request's dialect.
    Error,
    Json(Value),
    Text(String),
}

#[derive(Clone)]
pub(super) struct ReplyCondition(Arc<dyn Fn(&RecordedRequest) -> bool + Send + Sync>);

impl ReplyCondition {
    pub(super) fn holds(&self, request: &RecordedRequest) -> bool {
        (self.0)(request)
    }
}

impl fmt::Debug for ReplyCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ReplyCondition")
    }
}

impl Default for Reply {
    fn default() -> Self {
        let stream = ReplyStream {
            steps: Vec::new(),
            usage: Some(ReplyUsage::default()),
            ending: ReplyEnding::default(),
        };
        Self::of(ReplyAnswer::Stream(Arc::new(stream)))
    }
}

impl Reply {
    /// Returns an empty stream, which completes immediately.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a plain HTTP answer. Its body is an error in the form of the dialect, unless one is given.
    pub fn status(code: u16) -> Self {
        let status = StatusCode::from_u16(code).unwrap_or_else(|_| panic!("not an HTTP status: {code}"));
        Self::of(ReplyAnswer::Plain { status, body: PlainBody::Error })
    }

    /// Returns a reply without an answer: the connection is closed after the request has been read.
    pub fn hang_up() -> Self {
        Self::of(ReplyAnswer::HangUp)
    }

    /// Sets the JSON body of a plain answer.
    pub fn body(self, json: Value) -> Self {
        self.plain_body(PlainBody::Json(json))
    }

    /// Sets a text body of a plain answer, as from a proxy in between.
    pub fn body_text(self, text: impl Into<String>) -> Self {
        self.plain_body(PlainBody::Text(text.into()))
    }

    /// Adds a header to the answer, whether plain or a stream.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        let name = HeaderName::try_from(name).unwrap_or_else(|_| panic!("not a header name: {name:?}"));
        let value = HeaderValue::try_from(value).unwrap_or_else(|_| panic!("not a header value: {value:?}"));
        self.headers.push((name, value));
        self
    }

    /// Keeps this reply for a request that matches. Other requests take the next matching reply.
    pub fn when(mut self, fits: impl Fn(&RecordedRequest) -> bool + Send + Sync + 'static) -> Self {
        self.when = Some(ReplyCondition(Arc::new(fits)));
        self
    }

    /// Holds the whole answer, including its status line, until the gate of this name is released.
    pub fn hold(mut self, gate: impl Into<String>) -> Self {
        self.hold = Some(gate.into());
        self
    }

    fn of(answer: ReplyAnswer) -> Self {
        Self { when: None, hold: None, headers: Vec::new(), answer }
    }

    fn plain_body(mut self, new: PlainBody) -> Self {
        let ReplyAnswer::Plain { body, .. } = &mut self.answer else {
            panic!("body() belongs to Reply::status(…)");
        };
        *body = new;
        self
    }

    /// Returns the stream to add a step to.
    pub(super) fn stream(&mut self) -> &mut ReplyStream {
        let ReplyAnswer::Stream(stream) = &mut self.answer else {
            panic!("a plain answer has no steps: begin with Reply::new()");
        };
        let stream = Arc::make_mut(stream);
        assert!(
            stream.ending == ReplyEnding::Completed,
            "nothing can follow the end of a reply: {:?}",
            stream.ending
        );
        stream
    }

    /// Returns whether the reply has an ending, so that a further step belongs to the next reply.
    pub(super) fn has_ended(&self) -> bool {
        match &self.answer {
            ReplyAnswer::Stream(stream) => stream.ending != ReplyEnding::Completed,
            ReplyAnswer::Plain { .. } | ReplyAnswer::HangUp => true,
        }
    }

    /// Returns whether it contains an output item that only the Responses dialect can encode.
    pub(super) fn is_for_responses_only(&self) -> bool {
        let ReplyAnswer::Stream(stream) = &self.answer else { return false };
        stream.steps.iter().any(|step| matches!(step, ReplyStep::Open(ReplyItem::Other(_))))
    }
}
