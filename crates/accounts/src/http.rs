//! Requests to the issuer and to the backend: bounded in time and size, and silent about what they carry.

use std::time::Duration;

use codicil_model::http_client;
use reqwest::{
    Method, Request, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::Value;
use tokio::time::timeout;

const CONNECT: Duration = Duration::from_secs(10);
/// From the request to the last byte of its answer.
const TOTAL: Duration = Duration::from_secs(30);
const MAX_BODY: usize = 1 << 20;

/// An answer, whatever its status.
pub(crate) struct HttpReply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// Why there was no answer. Addresses are shown without their query.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("not a usable address: {0}")]
    Address(String),
    #[error("could not reach {url}: {cause}")]
    Connect { url: String, cause: String },
    #[error("{0} did not answer in time")]
    Timeout(String),
    #[error("{0} answered too much")]
    TooLarge(String),
    #[error("{0}")]
    Setup(String),
}

/// What a request carries.
pub(crate) enum RequestContent<'a> {
    Nothing,
    Json(&'a Value),
    Form(&'a [(&'a str, &'a str)]),
}

pub(crate) async fn get(url: &str, headers: HeaderMap) -> Result<HttpReply, HttpError> {
    send(Method::GET, url, headers, RequestContent::Nothing).await
}

pub(crate) async fn post(url: &str, content: RequestContent<'_>) -> Result<HttpReply, HttpError> {
    send(Method::POST, url, HeaderMap::new(), content).await
}

async fn send(
    method: Method,
    url: &str,
    headers: HeaderMap,
    content: RequestContent<'_>,
) -> Result<HttpReply, HttpError> {
    let url = address(url)?;
    let shown = shown(&url);
    let request = request(method, url, headers, content);
    timeout(TOTAL, perform(request, &shown)).await.map_err(|_| HttpError::Timeout(shown.clone()))?
}

fn request(method: Method, url: Url, headers: HeaderMap, content: RequestContent<'_>) -> Request {
    let mut request = Request::new(method, url);
    *request.headers_mut() = headers;
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    let (kind, body) = match content {
        RequestContent::Nothing => return request,
        RequestContent::Json(json) => ("application/json", json.to_string()),
        RequestContent::Form(pairs) => ("application/x-www-form-urlencoded", encode(pairs)),
    };
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    *request.body_mut() = Some(body.into());
    request
}

async fn perform(request: Request, shown: &str) -> Result<HttpReply, HttpError> {
    let unreachable = |error: reqwest::Error| HttpError::Connect {
        url: shown.to_owned(),
        cause: innermost(&error.without_url()),
    };
    let client = http_client(request.url(), CONNECT).await;
    let client = client.map_err(|error| HttpError::Setup(error.to_string()))?;
    let mut response = client.execute(request).await.map_err(unreachable)?;
    let status = response.status().as_u16();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        body.extend_from_slice(&chunk);
        if body.len() > MAX_BODY {
            return Err(HttpError::TooLarge(shown.to_owned()));
        }
    }
    Ok(HttpReply { status, body })
}

impl HttpReply {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Null when the body is no JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Tokens and codes must not cross a network in the clear.
fn address(text: &str) -> Result<Url, HttpError> {
    let url = Url::parse(text).map_err(|error| HttpError::Address(error.to_string()))?;
    let is_local = || {
        let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
    };
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_local() => Ok(url),
        _ => Err(HttpError::Address(format!("{} (https is needed)", shown(&url)))),
    }
}

/// An address without what it may be secret about.
fn shown(url: &Url) -> String {
    let mut url = url.clone();
    url.set_query(None);
    // These fail for addresses that have no user anyway.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.to_string()
}

/// Pairs in the form of an HTML form.
pub(crate) fn encode(pairs: &[(&str, &str)]) -> String {
    let mut url = Url::parse("form:").expect("a constant");
    url.query_pairs_mut().extend_pairs(pairs);
    url.query().unwrap_or_default().to_owned()
}

/// The text of the cause at the bottom, which names the reason without the address.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_may_do_without_https() {
        let check = |url: &str, expected: bool| assert_eq!(address(url).is_ok(), expected, "{url}");
        check("https://auth.example.com/oauth/token", true);
        check("http://127.0.0.1:8080/oauth/token", true);
        check("http://localhost:1/x", true);
        check("http://[::1]:1/x", true);
        check("http://auth.example.com/oauth/token", false);
        check("http://localhost.example.com/x", false);
        check("file:///etc/passwd", false);
        check("auth.example.com", false);
        let said = address("http://user:canary@example.com/?key=canary").unwrap_err().to_string();
        assert_eq!(said, "not a usable address: http://example.com/ (https is needed)");
    }

    #[test]
    fn a_form_is_encoded() {
        assert_eq!(encode(&[("a", "b c&d"), ("e", "ü=")]), "a=b+c%26d&e=%C3%BC%3D");
    }
}
