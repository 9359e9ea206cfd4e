//! The checks of every request, in one place: `Host`, session, and for changes `Origin` and the session's token. Adds the
//! security headers to every response.

use std::sync::Arc;

use axum::{
    body::{Body, HttpBody, to_bytes},
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use subtle::ConstantTimeEq;

use super::{AccessControl, AllowedHosts, Session, sign_in};
use crate::pages;

/// The largest body of a request. Images of the composer are sent as text.
const MAX_BODY: usize = 24 << 20;

/// The largest body of a sign-in, which anyone can send.
const MAX_SIGN_IN_BODY: usize = 4 << 10;

/// The header with the session's token, which scripts use in place of the form field.
const CSRF_HEADER: &str = "x-csrf-token";

/// The name of the form field with the session's token.
pub const CSRF_FIELD: &str = "csrf";

const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
     connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The fields of a form that a signed-in person has sent.
#[derive(Clone, Debug, Default)]
pub struct FormFields(Vec<(String, String)>);

impl FormFields {
    /// Returns the value of a field; `None` if it is missing or empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(found, value)| found == name && !value.is_empty());
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the values of a field that can be given several times.
    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(found, value)| found == name && !value.is_empty())
            .map(|(_, value)| value.as_str())
    }

    /// Returns whether a field was sent, also if it is empty.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(found, _)| found == name)
    }

    pub(crate) fn parse(body: &[u8]) -> Self {
        Self(url::form_urlencoded::parse(body).into_owned().collect())
    }
}

/// Lets a request through to its handler if it may.
pub async fn guard(State(access): State<Arc<AccessControl>>, request: Request, next: Next) -> Response {
    let mut response = match check(&access, request).await {
        Ok(request) => next.run(request).await,
        Err(refused) => refused,
    };
    let headers = response.headers_mut();
    let mut set = |name: &'static str, value: &'static str| {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    };
    set("content-security-policy", CONTENT_SECURITY_POLICY);
    set("x-content-type-options", "nosniff");
    // Not `no-referrer`, with which browsers send `Origin: null`.
    set("referrer-policy", "same-origin");
    set("cross-origin-opener-policy", "same-origin");
    set("cross-origin-resource-policy", "same-origin");
    set("x-frame-options", "DENY");
    set("cache-control", "no-store");
    response
}

async fn check(access: &AccessControl, mut request: Request) -> Result<Request, Response> {
    let host = request.headers().get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    if !access.hosts.allows(host) {
        return Err(refuse(
            StatusCode::MISDIRECTED_REQUEST,
            "The console does not answer under this host name.",
        ));
    }
    let path = request.uri().path();
    if path.starts_with("/assets/") {
        return Ok(request);
    }
    let is_sign_in = path == sign_in::PATH;
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    if is_change && !AllowedHosts::is_same_origin(request.headers()) {
        return Err(refuse(StatusCode::FORBIDDEN, "The request comes from another site."));
    }
    let session = cookie(request.headers(), &access.cookie).and_then(|value| access.key.read(value));
    let session = session.filter(|session| !access.ended.has(&session.id));
    if session.is_none() && !is_sign_in {
        return Err(pages::sign_in_required(access).into_response());
    }
    if is_change {
        request = read_form(request, session.as_ref()).await?;
    }
    if let Some(session) = session {
        request.extensions_mut().insert(session);
    }
    Ok(request)
}

/// Reads the fields of a changing request, and checks the session's token. Only the sign-in form has no session.
async fn read_form(request: Request, session: Option<&Session>) -> Result<Request, Response> {
    let (mut parts, body) = request.into_parts();
    let max_body = if session.is_some() { MAX_BODY } else { MAX_SIGN_IN_BODY };
    let too_large = || refuse(StatusCode::PAYLOAD_TOO_LARGE, "The request is too large.");
    if body.size_hint().lower() > max_body as u64 {
        return Err(too_large());
    }
    let body = to_bytes(body, max_body).await.map_err(|_| too_large())?;
    let fields = FormFields::parse(&body);
    if let Some(session) = session {
        let in_header = parts.headers.get(CSRF_HEADER).and_then(|token| token.to_str().ok());
        let token = in_header.or_else(|| fields.get(CSRF_FIELD)).unwrap_or_default();
        if !bool::from(token.as_bytes().ct_eq(session.csrf.as_bytes())) {
            return Err(refuse(
                StatusCode::FORBIDDEN,
                "The form is out of date. Reload the page and try again.",
            ));
        }
    }
    parts.extensions.insert(fields);
    Ok(Request::from_parts(parts, Body::empty()))
}

fn refuse(status: StatusCode, reason: &'static str) -> Response {
    (status, reason).into_response()
}

/// Returns the value of a cookie.
fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(found, _)| *found == name).map(|(_, value)| value)
}
