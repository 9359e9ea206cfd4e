//! The errors between a request and the end of its response, and their form for clients.
//!
//! The texts are part of the contract where the reference implementation fixes them (`unexpected status …`,
//! `exceeded retry limit …`, `stream disconnected before completion: …`). No text contains a credential
//! or the query of a URL.

use std::{fmt, time::Duration};

use codicil_http::ClientError;
use codicil_protocol::{CodexErrorInfo, RateLimitSnapshot, TurnError};
use http::StatusCode;

/// The reason why a model gave no complete response.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelError {
    #[error("{0}")]
    Config(String),
    /// No credentials are available. The text says what to set or run.
    #[error("{0}")]
    Unauthorized(String),
    #[error("could not reach {url}: {cause}")]
    Connect { url: String, cause: String },
    /// The provider was reached and the connection ended before a response began.
    #[error("no response from {url}: {cause}")]
    NoResponse { url: String, cause: String },
    #[error("{0}")]
    Status(Box<StatusFailure>),
    #[error(
        "exceeded retry limit, last status: 429 Too Many Requests{}{}",
        after_colon(.message),
        request_suffix(.request_id)
    )]
    RateLimited { message: Option<String>, retry_after: Option<Duration>, request_id: Option<String> },
    #[error("{0}")]
    UsageLimitReached(Box<UsageLimit>),
    #[error("your plan does not include this model; sign in with another plan or use an API key")]
    UsageNotIncluded,
    #[error(
        "the account's quota is used up; check its plan and billing details with the provider{}",
        after_colon(.0)
    )]
    QuotaExceeded(Option<String>),
    /// `details` are the provider's words, if they have numbers.
    #[error(
        "the conversation no longer fits the model's context window; compact the thread or start a new one"
    )]
    ContextWindowExceeded { details: Option<String> },
    #[error("{0}")]
    InvalidPrompt(String),
    #[error(
        "the model is overloaded at the moment; try again later or choose another model{}",
        after_colon(.message)
    )]
    Overloaded { message: Option<String>, retry_after: Option<Duration> },
    /// The provider reported a failure within the stream that may be temporary.
    #[error("stream disconnected before completion: {message}")]
    Failed { code: String, message: String, retry_after: Option<Duration> },
    /// The provider ended the response early and said why. A retry would cost the same and end the same.
    #[error("stream disconnected before completion: Incomplete response returned, reason: {0}")]
    Incomplete(String),
    #[error("stream disconnected before completion: {0}")]
    Disconnected(String),
    #[error("stream disconnected before completion: an event of the provider cannot be read: {0}")]
    Unreadable(String),
    #[error("stream disconnected before completion: no answer within {} s", .0.as_secs_f32())]
    FirstTokenTimeout(Duration),
    #[error("stream disconnected before completion: idle timeout waiting for SSE")]
    Stalled(Duration),
    #[error("the provider answered {content_type} instead of an event stream, url: {url}")]
    NotAStream { url: String, content_type: String },
    #[error("the provider answered with JSON that is no response: {0}")]
    NotAResponse(String),
    /// A response beyond [the limits](crate::MAX_RESPONSE_BYTES). A retry would have the same result.
    #[error("the model's response is too large: {0}")]
    TooLarge(String),
}

/// An HTTP response that is not a success and has no variant of its own in [`ModelError`].
#[derive(Clone, Debug, PartialEq)]
pub struct StatusFailure {
    pub status: StatusCode,
    /// Address of the request, without its query.
    pub url: String,
    pub body: String,
    /// `error.message` of a JSON body.
    pub message: Option<String>,
    /// The explanation in another member of a JSON body.
    pub details: Option<String>,
    /// `error.code` of a JSON body.
    pub code: Option<String>,
    /// `error.type` of a JSON body.
    pub kind: Option<String>,
    pub retry_after: Option<Duration>,
    pub request_id: Option<String>,
}

/// The usage limit of a plan that was reached.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UsageLimit {
    pub plan: Option<String>,
    pub resets_in: Option<Duration>,
    pub rate_limits: Option<RateLimitSnapshot>,
}

impl ModelError {
    /// Returns the error for clients when it ends a turn.
    pub fn to_turn_error(&self) -> TurnError {
        TurnError {
            message: self.to_string(),
            codex_error_info: Some(self.error_info()),
            additional_details: self.details(),
            misalignment: None,
        }
    }

    /// Returns the error for clients when the turn continues with retry number `retry` of `max_retries`.
    pub fn to_retry_error(&self, retry: u32, max_retries: u32) -> TurnError {
        TurnError {
            message: format!("Reconnecting... {retry}/{max_retries}"),
            codex_error_info: Some(CodexErrorInfo::ResponseStreamDisconnected {
                http_status_code: self.http_status_code(),
            }),
            additional_details: Some(self.to_string()),
            misalignment: None,
        }
    }

    fn details(&self) -> Option<String> {
        match self {
            Self::ContextWindowExceeded { details } => details.clone(),
            Self::Status(failure) => failure.details.clone(),
            _ => None,
        }
    }

    /// Returns whether the same request may succeed later. See [`RetryPolicy`](crate::RetryPolicy).
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Status(failure) => failure.is_temporary(),
            Self::Connect { .. }
            | Self::NoResponse { .. }
            | Self::RateLimited { .. }
            | Self::Overloaded { .. }
            | Self::Failed { .. }
            | Self::Disconnected(_)
            | Self::Unreadable(_)
            | Self::FirstTokenTimeout(_)
            | Self::Stalled(_) => true,
            Self::Config(_)
            | Self::Unauthorized(_)
            | Self::UsageLimitReached(_)
            | Self::UsageNotIncluded
            | Self::QuotaExceeded(_)
            | Self::ContextWindowExceeded { .. }
            | Self::InvalidPrompt(_)
            | Self::Incomplete(_)
            | Self::NotAStream { .. }
            | Self::NotAResponse(_)
            | Self::TooLarge(_) => false,
        }
    }

    /// Returns whether the provider limits how much it is used, so that a quick retry would be in vain.
    pub(crate) fn is_throttled(&self) -> bool {
        matches!(self, Self::RateLimited { .. } | Self::Overloaded { .. })
    }

    /// Returns whether the provider itself repeats the request, without a notification.
    pub(crate) fn is_request_retryable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::NoResponse { .. } => true,
            Self::Status(failure) => failure.status.is_server_error(),
            _ => false,
        }
    }

    /// Returns the delay that the provider asked for.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Status(failure) => failure.retry_after,
            Self::RateLimited { retry_after, .. }
            | Self::Overloaded { retry_after, .. }
            | Self::Failed { retry_after, .. } => *retry_after,
            Self::UsageLimitReached(limit) => limit.resets_in,
            _ => None,
        }
    }

    /// Returns the HTTP status of the response, if there was one.
    pub fn http_status_code(&self) -> Option<u16> {
        match self {
            Self::Status(failure) => Some(failure.status.as_u16()),
            Self::RateLimited { .. } => Some(429),
            Self::NotAStream { .. } | Self::NotAResponse(_) => Some(200),
            _ => None,
        }
    }

    /// Returns the protocol's name of this error. Clients of the 0.118 generation see
    /// [another one](CodexErrorInfo::of_failed_turn) for some statuses.
    pub fn error_info(&self) -> CodexErrorInfo {
        match self {
            Self::Unauthorized(_) => CodexErrorInfo::Unauthorized,
            Self::Connect { .. } => CodexErrorInfo::HttpConnectionFailed { http_status_code: None },
            Self::Status(failure) => failure.error_info(),
            Self::RateLimited { .. } => {
                CodexErrorInfo::ResponseTooManyFailedAttempts { http_status_code: Some(429) }
            }
            Self::NoResponse { .. } | Self::NotAStream { .. } | Self::NotAResponse(_) => {
                CodexErrorInfo::ResponseStreamConnectionFailed { http_status_code: self.http_status_code() }
            }
            Self::UsageLimitReached(_) | Self::UsageNotIncluded | Self::QuotaExceeded(_) => {
                CodexErrorInfo::UsageLimitExceeded
            }
            Self::ContextWindowExceeded { .. } => CodexErrorInfo::ContextWindowExceeded,
            Self::Overloaded { .. } => CodexErrorInfo::ServerOverloaded,
            Self::Disconnected(_) | Self::Unreadable(_) | Self::FirstTokenTimeout(_) | Self::Stalled(_) => {
                CodexErrorInfo::ResponseStreamDisconnected { http_status_code: None }
            }
            Self::Failed { code, .. } if code == "rate_limit_exceeded" => CodexErrorInfo::RateLimitExceeded,
            Self::Config(_)
            | Self::InvalidPrompt(_)
            | Self::Failed { .. }
            | Self::Incomplete(_)
            | Self::TooLarge(_) => CodexErrorInfo::Other,
        }
    }
}

impl From<ClientError> for ModelError {
    fn from(error: ClientError) -> Self {
        Self::Config(error.to_string())
    }
}

impl StatusFailure {
    fn is_temporary(&self) -> bool {
        self.status.is_server_error() || self.status == StatusCode::REQUEST_TIMEOUT
    }

    fn error_info(&self) -> CodexErrorInfo {
        match self.status.as_u16() {
            400 => CodexErrorInfo::BadRequest,
            500 => CodexErrorInfo::InternalServerError,
            status @ (401 | 403 | 404 | 422 | 501..=599) => {
                CodexErrorInfo::HttpConnectionFailed { http_status_code: Some(status) }
            }
            _ => CodexErrorInfo::Other,
        }
    }
}

impl fmt::Display for StatusFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.message.as_deref().or(self.details.as_deref()).unwrap_or(&self.body);
        match self.status.as_u16() {
            400 if said == self.body => return f.write_str(said),
            400 => return write!(f, "{said}, answer: {}", self.body),
            500 => {
                let said = Some(said.to_owned()).filter(|text| !text.is_empty());
                return write!(
                    f,
                    "the model's provider had an internal error; try again in a moment{}{}",
                    after_colon(&said),
                    request_suffix(&self.request_id)
                );
            }
            status => write!(f, "unexpected status {status}")?,
        }
        if let Some(reason) = self.status.canonical_reason() {
            write!(f, " {reason}")?;
        }
        let text = self.message.as_deref().unwrap_or(&self.body);
        write!(f, ": {text}, url: {}{}", self.url, request_suffix(&self.request_id))
    }
}

impl fmt::Display for UsageLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.plan {
            Some(plan) => write!(f, "the usage limit of your {plan} plan is reached")?,
            None => f.write_str("your usage limit is reached")?,
        }
        match self.resets_in {
            Some(wait) => write!(f, "; it resets in {}", duration_text(wait)),
            None => f.write_str("; try again later"),
        }
    }
}

/// Writes a duration with its two largest units.
fn duration_text(wait: Duration) -> String {
    let minutes = wait.as_secs().div_ceil(60);
    let units = [(minutes / 1440, "day"), (minutes / 60 % 24, "hour"), (minutes % 60, "minute")];
    let parts: Vec<String> = (units.iter().filter(|(count, _)| *count > 0).take(2))
        .map(|(count, unit)| format!("{count} {unit}{}", if *count == 1 { "" } else { "s" }))
        .collect();
    if parts.is_empty() { "less than a minute".to_owned() } else { parts.join(" ") }
}

fn after_colon(text: &Option<String>) -> String {
    text.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
}

fn request_suffix(request_id: &Option<String>) -> String {
    request_id.as_ref().map(|id| format!(", request id: {id}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_at_most_two_units() {
        let check =
            |seconds, expected: &str| assert_eq!(duration_text(Duration::from_secs(seconds)), expected);
        check(0, "less than a minute");
        check(30, "1 minute");
        check(3600, "1 hour");
        check(3660, "1 hour 1 minute");
        check(90_061, "1 day 1 hour");
    }
}
