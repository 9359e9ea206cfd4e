//! The query of a request to the callback address.

use codicil_protocol::Secret;
use subtle::ConstantTimeEq;
use url::form_urlencoded;

use super::{CallbackOutcome, StateCheck};

/// Reads an authorization response (RFC 6749, sections 4.1.2 and 4.1.2.1). `None` if it does not belong to the
/// login with this state.
pub(super) fn parse_response(query: &str, state: &Secret, check: StateCheck) -> Option<CallbackOutcome> {
    // Parameters without a value count as omitted (RFC 6749, section 3.1).
    let parameter = |name: &str| {
        let mut pairs = form_urlencoded::parse(query.as_bytes());
        let found = pairs.find(|(key, value)| key == name && !value.is_empty());
        found.map(|(_, value)| value.into_owned())
    };
    let given_state = parameter("state");
    if given_state.as_deref().is_some_and(|given| !is_equal(given, state)) {
        return None;
    }
    let error = parameter("error");
    let description = parameter("error_description");
    if error.is_some() || description.is_some() {
        let is_accepted = given_state.is_some() || check == StateCheck::ExceptErrors;
        return is_accepted.then_some(CallbackOutcome::Error { error, description });
    }
    given_state?;
    Some(match parameter("code") {
        Some(code) => CallbackOutcome::Code { code: code.into(), issuer: parameter("iss") },
        None => CallbackOutcome::MissingCode,
    })
}

fn is_equal(given: &str, state: &Secret) -> bool {
    given.as_bytes().ct_eq(state.reveal().as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(query: &str, check: StateCheck) -> String {
        match parse_response(query, &Secret::from("s3cret".to_owned()), check) {
            None => "rejected".to_owned(),
            Some(CallbackOutcome::Code { code, issuer: None }) => format!("code {}", code.reveal()),
            Some(CallbackOutcome::Code { code, issuer: Some(issuer) }) => {
                format!("code {} from {issuer}", code.reveal())
            }
            Some(CallbackOutcome::Error { error, description }) => {
                format!("error {} {}", error.unwrap_or_default(), description.unwrap_or_default())
            }
            Some(CallbackOutcome::MissingCode) => "missing code".to_owned(),
            Some(CallbackOutcome::Cancelled) => "cancelled".to_owned(),
        }
    }

    #[test]
    fn only_responses_with_the_right_state_are_accepted() {
        let check = |query: &str, expected: &str| {
            assert_eq!(parse(query, StateCheck::Always), expected, "{query}");
            assert_eq!(parse(query, StateCheck::ExceptErrors), expected, "{query}");
        };
        check("state=s3cret&code=abc", "code abc");
        check("code=a%2Bb&state=s3cret", "code a+b");
        check("code=c+d&state=s3cret&iss=https%3A%2F%2Fx", "code c d from https://x");
        check("code=abc", "rejected");
        check("code=abc&state=", "rejected");
        check("code=abc&state=s3creT", "rejected");
        check("", "rejected");
        check("state=s3cret", "missing code");
        check("state=s3cret&code=", "missing code");
        check("state=s3cret&error=access_denied", "error access_denied ");
        check("state=s3cret&error=x&error_description=not+today", "error x not today");
        check("state=s3cret&code=abc&error=x", "error x ");
        check("state=other&error=access_denied", "rejected");
    }

    #[test]
    fn errors_without_a_state_are_accepted_only_on_request() {
        assert_eq!(parse("error=access_denied", StateCheck::Always), "rejected");
        assert_eq!(parse("error=access_denied", StateCheck::ExceptErrors), "error access_denied ");
    }
}
