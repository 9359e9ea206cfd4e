//! The meaning of a response's status, headers and error body. Pure functions, tested as tables.

use std::time::Duration;

use codicil_protocol::{CreditsSnapshot, RateLimitSnapshot, RateLimitWindow};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::{ModelError, StatusFailure, UsageLimit, overflow::is_overflow};

/// Upper bound of a provider's words in an error text. An error page of a proxy may be much longer.
const MAX_TEXT_LEN: usize = 2048;

/// Returns the error for a response that is not a success.
pub(crate) fn failure(status: StatusCode, headers: &HeaderMap, url: &str, body: &str) -> ModelError {
    let report = ErrorReport::from_body(body);
    let retry_after = retry_after(headers).or_else(|| delay_in_message(report.message.as_deref()?));
    let request_id = header(headers, "x-request-id").or_else(|| header(headers, "request-id"));
    let known = match status.as_u16() {
        401 | 403 | 404 => None,
        429 => report.limit(headers),
        _ => report.overflow(body).or_else(|| report.limit(headers)),
    };
    if let Some(error) = known {
        return error;
    }
    let message = report.message.clone().or_else(|| report.details.clone());
    match status.as_u16() {
        429 => {
            let message = message.or_else(|| Some(shortened(body)).filter(|text| !text.is_empty()));
            ModelError::RateLimited { message, retry_after, request_id }
        }
        // Anthropic's own status for overload.
        529 => ModelError::Overloaded { message, retry_after },
        _ if report.is_overload() => ModelError::Overloaded { message, retry_after },
        _ => ModelError::Status(Box::new(StatusFailure {
            status,
            url: url.to_owned(),
            body: shortened(body),
            message: report.message,
            details: report.details,
            code: report.code,
            kind: report.kind,
            retry_after,
            request_id,
        })),
    }
}

/// Returns the error that a provider reports within a stream, or in a successful response.
pub(crate) fn reported(error: Value) -> ModelError {
    let report = ErrorReport::from_error(error);
    if let Some(error) = report.overflow("").or_else(|| report.limit(&HeaderMap::new())) {
        return error;
    }
    let message = report.message.clone().or_else(|| report.details.clone());
    let is_any = |names: &[&str]| names.iter().any(|name| report.is(name));
    if report.is_overload() {
        return ModelError::Overloaded { message, retry_after: None };
    }
    if is_any(&["rate_limit_error", "429"]) {
        let retry_after = message.as_deref().and_then(delay_in_message);
        return ModelError::RateLimited { message, retry_after, request_id: None };
    }
    let message = message.unwrap_or_else(|| "the provider gave no reason".to_owned());
    if is_any(&["invalid_prompt", "invalid_request_error", "400"]) {
        return ModelError::InvalidPrompt(message);
    }
    if is_any(&["authentication_error", "permission_error", "invalid_api_key", "401", "403"]) {
        return ModelError::Unauthorized(message);
    }
    let code = report.code.or(report.kind).unwrap_or_default();
    ModelError::Failed { retry_after: delay_in_message(&message), code, message }
}

/// Returns the error for a JSON document that is no response: its `error`, or what it says.
pub(crate) fn unexpected_document(data: &[u8]) -> ModelError {
    let text = String::from_utf8_lossy(data);
    let report = ErrorReport::from_body(&text);
    if !report.error.is_null() {
        return reported(report.error);
    }
    ModelError::NotAResponse(report.details.unwrap_or_else(|| shortened(&text)))
}

/// The members of an error object, or of the body that holds one.
struct ErrorReport {
    error: Value,
    /// `message` of the error.
    message: Option<String>,
    /// The explanation in another member.
    details: Option<String>,
    code: Option<String>,
    kind: Option<String>,
}

impl ErrorReport {
    fn from_body(body: &str) -> Self {
        let body: Value = serde_json::from_str(body).unwrap_or_default();
        // Gemini sends a list of one.
        let mut body = match body {
            Value::Array(list) => list.into_iter().next().unwrap_or_default(),
            body => body,
        };
        let error = body.get_mut("error").map(Value::take).unwrap_or_default();
        let mut report = Self::from_error(error);
        let other =
            || ["detail", "message", "error_description", "msg"].iter().find_map(|key| body.get(*key));
        if report.message.is_none() && report.details.is_none() {
            report.details = other().and_then(explanation);
        }
        report
    }

    fn from_error(error: Value) -> Self {
        let text_of = |key: &str| match error.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Number(number)) => Some(number.to_string()),
            _ => None,
        };
        Self {
            message: error
                .get("message")
                .or(Some(&error))
                .filter(|value| value.is_string())
                .and_then(explanation),
            // Routers put the words of the provider behind them here.
            details: error.pointer("/metadata/raw").and_then(explanation),
            code: text_of("code"),
            kind: text_of("type"),
            error,
        }
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.code.as_deref().into_iter().chain(self.kind.as_deref())
    }

    fn is(&self, name: &str) -> bool {
        self.names().any(|own| own == name)
    }

    /// Returns the error if the prompt is too long. The numbers of the provider stay in its details.
    fn overflow(&self, body: &str) -> Option<ModelError> {
        let texts = [self.message.as_deref(), self.details.as_deref(), Some(body)];
        if !texts.iter().flatten().any(|text| is_overflow(self.names(), text)) {
            return None;
        }
        let has_number = |text: &&str| text.contains(|c: char| c.is_ascii_digit());
        let numbers = texts.iter().flatten().copied().find(has_number);
        Some(ModelError::ContextWindowExceeded { details: numbers.map(shortened) })
    }

    /// Returns the error if the account's limit is reached.
    fn limit(&self, headers: &HeaderMap) -> Option<ModelError> {
        if self.is("usage_limit_reached") {
            return Some(ModelError::UsageLimitReached(Box::new(UsageLimit {
                plan: self.error.get("plan_type").and_then(Value::as_str).map(str::to_owned),
                resets_in: resets_in(&self.error),
                rate_limits: rate_limits(headers),
            })));
        }
        if self.is("usage_not_included") {
            return Some(ModelError::UsageNotIncluded);
        }
        let is_quota = self.is("insufficient_quota") || self.is("billing_error");
        is_quota.then(|| ModelError::QuotaExceeded(self.message.clone()))
    }

    fn is_overload(&self) -> bool {
        self.is("overloaded_error") || self.is("server_is_overloaded") || self.is("slow_down")
    }
}

/// Returns the text of an explanation: a string, or the messages of a list of problems.
fn explanation(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Array(problems) => {
            let texts: Vec<&str> =
                problems.iter().filter_map(|problem| problem.get("msg").and_then(Value::as_str)).collect();
            texts.join("; ")
        }
        _ => return None,
    };
    Some(shortened(&text)).filter(|text| !text.is_empty())
}

/// Returns the text without surrounding space, up to the limit.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.get(..text.floor_char_boundary(MAX_TEXT_LEN)) {
        Some(start) if start.len() < text.len() => format!("{start}…"),
        _ => text.to_owned(),
    }
}

fn resets_in(error: &Value) -> Option<Duration> {
    let seconds = error.get("resets_in_seconds").and_then(Value::as_f64).or_else(|| {
        let at = error.get("resets_at").and_then(Value::as_f64)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(at - now.as_secs_f64())
    })?;
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// Reads `retry-after-ms` or `retry-after`. The date form is not parsed; the ordinary backoff is used instead.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name| header(headers, name)?.trim().parse::<f64>().ok();
    let millis = number("retry-after-ms").map(|millis| millis / 1000.0);
    let seconds = millis.or_else(|| number("retry-after"))?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reads the delay from an error message such as `Please try again in 1.5s`.
pub(crate) fn delay_in_message(message: &str) -> Option<Duration> {
    let (_, after) = message.split_once("try again in ")?;
    let digits = after.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let (number, unit) = after.split_at(digits);
    let number: f64 = number.trim_end_matches('.').parse().ok()?;
    let unit = unit.trim_start();
    let seconds = if unit.starts_with("ms") {
        number / 1000.0
    } else if unit.starts_with('s') {
        number
    } else if unit.starts_with('m') {
        number * 60.0
    } else {
        return None;
    };
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reads the rate limits from the headers of a response, if there are any.
pub(crate) fn rate_limits(headers: &HeaderMap) -> Option<RateLimitSnapshot> {
    let snapshot = RateLimitSnapshot {
        limit_id: Some("codex".to_owned()),
        limit_name: header(headers, "x-codex-limit-name"),
        primary: window(headers, "primary"),
        secondary: window(headers, "secondary"),
        credits: credits(headers),
        ..RateLimitSnapshot::default()
    };
    let is_reported =
        snapshot.primary.is_some() || snapshot.secondary.is_some() || snapshot.credits.is_some();
    is_reported.then_some(snapshot)
}

fn window(headers: &HeaderMap, which: &str) -> Option<RateLimitWindow> {
    let number = |name| header(headers, &format!("x-codex-{which}-{name}"))?.trim().parse::<f64>().ok();
    let whole = |name| number(name).map(|value| value as i64);
    Some(RateLimitWindow {
        used_percent: number("used-percent")?.round() as i32,
        window_duration_mins: whole("window-minutes"),
        resets_at: whole("reset-at"),
    })
}

fn credits(headers: &HeaderMap) -> Option<CreditsSnapshot> {
    let flag = |name| header(headers, name).map(|text| matches!(text.trim(), "1" | "true" | "True"));
    Some(CreditsSnapshot {
        has_credits: flag("x-codex-credits-has-credits")?,
        unlimited: flag("x-codex-credits-unlimited").unwrap_or(false),
        balance: header(headers, "x-codex-credits-balance").filter(|text| !text.trim().is_empty()),
    })
}

pub(crate) fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pairs = pairs.iter();
        pairs.map(|(k, v)| (HeaderName::from_static(k), HeaderValue::from_static(v))).collect()
    }

    #[test]
    fn used_percent_is_rounded() {
        let snapshot = rate_limits(&headers(&[
            ("x-codex-primary-used-percent", "12.5"),
            ("x-codex-primary-window-minutes", "300"),
            ("x-codex-primary-reset-at", "1900000000"),
            ("x-codex-secondary-used-percent", "40"),
        ]))
        .unwrap();
        let primary = RateLimitWindow {
            used_percent: 13,
            window_duration_mins: Some(300),
            resets_at: Some(1_900_000_000),
        };
        assert_eq!(snapshot.primary, Some(primary));
        assert_eq!(snapshot.secondary.unwrap().used_percent, 40);
        assert_eq!(snapshot.limit_id.as_deref(), Some("codex"));
        assert_eq!(rate_limits(&headers(&[("content-type", "text/plain")])), None);
    }

    #[test]
    fn the_words_of_a_provider_are_found() {
        let check = |body: &str, message: Option<&str>, details: Option<&str>| {
            let report = ErrorReport::from_body(body);
            assert_eq!((report.message.as_deref(), report.details.as_deref()), (message, details), "{body}");
        };
        check(r#"{"error": {"message": " bad input\n"}}"#, Some("bad input"), None);
        check(r#"{"error": "model 'x' not found"}"#, Some("model 'x' not found"), None);
        check(r#"[{"error": {"message": "of Gemini"}}]"#, Some("of Gemini"), None);
        check(r#"{"detail": "not here"}"#, None, Some("not here"));
        check(
            r#"{"detail": [{"msg": "field required"}, {"msg": "too long"}]}"#,
            None,
            Some("field required; too long"),
        );
        check(r#"{"object": "error", "message": "of vLLM"}"#, None, Some("of vLLM"));
        check(
            r#"{"error": {"message": "Provider returned error", "metadata": {"raw": "upstream is down"}}}"#,
            Some("Provider returned error"),
            Some("upstream is down"),
        );
        check("<html>", None, None);
        check("", None, None);
        let long = "x".repeat(5000);
        assert_eq!(shortened(&long).chars().count(), MAX_TEXT_LEN + 1);
    }

    #[test]
    fn delays_are_read_from_headers_and_messages() {
        let check = |pairs: &[(&'static str, &'static str)], expected: Option<u64>| {
            assert_eq!(retry_after(&headers(pairs)), expected.map(Duration::from_millis), "{pairs:?}");
        };
        check(&[("retry-after", "3")], Some(3000));
        check(&[("retry-after", "1.5")], Some(1500));
        check(&[("retry-after", "9"), ("retry-after-ms", "250")], Some(250));
        check(&[("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT")], None);
        check(&[("retry-after", "-1")], None);

        let check = |text: &str, expected: Option<u64>| {
            assert_eq!(delay_in_message(text), expected.map(Duration::from_millis), "{text}");
        };
        check("Rate limit reached. Please try again in 11.054s. Visit", Some(11_054));
        check("Please try again in 28ms.", Some(28));
        check("Please try again in 2 minutes", Some(120_000));
        check("Please try again later", None);
    }
}
