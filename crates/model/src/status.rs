//! The meaning of a response's status, headers and error body. Pure functions, tested as tables.

use std::time::Duration;

use codicil_protocol::{CreditsSnapshot, RateLimitSnapshot, RateLimitWindow};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

use crate::{ModelError, StatusFailure, UsageLimit};

/// Upper bound of an error body in an error text. An error page of a proxy may be much longer.
const MAX_BODY_LEN: usize = 4096;

/// Returns the error for a response that is not a success.
pub(crate) fn failure(status: StatusCode, headers: &HeaderMap, url: &str, body: &str) -> ModelError {
    let error = error_member(body);
    let text_of = |key: &str| error.get(key).and_then(Value::as_str).map(str::to_owned);
    let message = text_of("message");
    let code = text_of("code");
    let kind = text_of("type");
    let names = [code.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or_default()];
    let is = |name: &str| names.contains(&name);
    let retry_after = retry_after(headers);
    let request_id = header(headers, "x-request-id").or_else(|| header(headers, "request-id"));

    if is("context_length_exceeded") || is_too_long(status, message.as_deref()) {
        return ModelError::ContextWindowExceeded;
    }
    match status.as_u16() {
        429 if is("usage_limit_reached") => ModelError::UsageLimitReached(Box::new(UsageLimit {
            plan: text_of("plan_type"),
            resets_in: resets_in(&error),
            rate_limits: rate_limits(headers),
        })),
        429 if is("usage_not_included") => ModelError::UsageNotIncluded,
        429 if is("insufficient_quota") => ModelError::QuotaExceeded,
        429 => {
            let retry_after = retry_after.or_else(|| delay_in_message(message.as_deref()?));
            ModelError::RateLimited { retry_after, request_id }
        }
        // Anthropic's own status for overload.
        529 if is("overloaded_error") => ModelError::Overloaded { retry_after },
        _ => ModelError::Status(Box::new(StatusFailure {
            status,
            url: url.to_owned(),
            body: shortened(body),
            message: message.map(|text| shortened(&text)),
            code,
            kind,
            retry_after,
            request_id,
        })),
    }
}

/// Local servers and Anthropic have no code for a prompt that is too long, only a message.
fn is_too_long(status: StatusCode, message: Option<&str>) -> bool {
    let hints = ["prompt is too long", "maximum context length", "exceeds the available context size"];
    matches!(status.as_u16(), 400 | 413)
        && message.is_some_and(|text| hints.iter().any(|hint| text.contains(hint)))
}

/// Returns the `error` member of a JSON body, or null.
fn error_member(body: &str) -> Value {
    match serde_json::from_str(body) {
        Ok(Value::Object(mut members)) => members.remove("error").unwrap_or_default(),
        _ => Value::Null,
    }
}

fn shortened(text: &str) -> String {
    text.get(..text.floor_char_boundary(MAX_BODY_LEN)).unwrap_or_default().to_owned()
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

/// Returns the error for a `response.failed` event.
pub(crate) fn failed(code: String, message: Option<String>) -> ModelError {
    let message = message.unwrap_or_else(|| "the provider gave no reason".to_owned());
    match code.as_str() {
        "context_length_exceeded" => ModelError::ContextWindowExceeded,
        "insufficient_quota" => ModelError::QuotaExceeded,
        "usage_not_included" => ModelError::UsageNotIncluded,
        "invalid_prompt" => ModelError::InvalidPrompt(message),
        "server_is_overloaded" | "slow_down" => ModelError::Overloaded { retry_after: None },
        _ => ModelError::Failed { retry_after: delay_in_message(&message), code, message },
    }
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
        plan_type: None,
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
