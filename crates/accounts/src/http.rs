//! Requests to the issuer and to the ChatGPT backend, bounded in time and size.
//!
//! Errors never repeat what a request carried. Tokens are sent over https only, except to this machine.

use std::time::Duration;

use codicil_http::{BodyError, http_client, is_loopback, read_body, root_cause, without_secrets};
use reqwest::{
    Method, Request, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue},
};
use serde_json::Value;
use tokio::time::timeout;

const CONNECT_TIME: Duration = Duration::from_secs(10);
/// Time from the request to the last byte of its response.
const TOTAL_TIME: Duration = Duration::from_secs(30);
const MAX_BODY_BYTES: usize = 1 << 20;

/// A response of any status.
pub(crate) struct HttpReply {
    pub status: u16,
    pub body: Vec<u8>,
}

/// The reason why there is no response. URLs are shown without their query.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    #[error("not a usable address: {0}")]
    Address(String),
    #[error("could not reach {url}: {cause}")]
    Connect { url: String, cause: String },
    #[error("{0} did not answer in time")]
    Timeout(String),
    #[error("the response of {0} is too large")]
    TooLarge(String),
    #[error("{0}")]
    Setup(String),
}

impl HttpReply {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the body as JSON, or null if it is not JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

pub(crate) async fn get(url: &str, headers: HeaderMap) -> Result<HttpReply, HttpError> {
    let mut request = Request::new(Method::GET, checked_url(url)?);
    *request.headers_mut() = headers;
    send(request).await
}

pub(crate) async fn post_json(url: &str, body: &Value) -> Result<HttpReply, HttpError> {
    post(url, "application/json", body.to_string()).await
}

pub(crate) async fn post_form(url: &str, pairs: &[(&str, &str)]) -> Result<HttpReply, HttpError> {
    let mut form = Url::parse("form:").expect("the constant is a URL");
    form.query_pairs_mut().extend_pairs(pairs);
    post(url, "application/x-www-form-urlencoded", form.query().unwrap_or_default().to_owned()).await
}

/// Sends a request that the `oauth2` crate has built.
pub(crate) async fn send_oauth(request: oauth2::HttpRequest) -> Result<HttpReply, HttpError> {
    let (parts, body) = request.into_parts();
    let mut request = Request::new(parts.method, checked_url(&parts.uri.to_string())?);
    *request.headers_mut() = parts.headers;
    *request.body_mut() = Some(body.into());
    send(request).await
}

async fn post(url: &str, content_type: &'static str, body: String) -> Result<HttpReply, HttpError> {
    let mut request = Request::new(Method::POST, checked_url(url)?);
    request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    *request.body_mut() = Some(body.into());
    send(request).await
}

async fn send(mut request: Request) -> Result<HttpReply, HttpError> {
    request.headers_mut().insert(ACCEPT, HeaderValue::from_static("application/json"));
    let url = without_secrets(request.url().clone()).to_string();
    match timeout(TOTAL_TIME, receive(request, &url)).await {
        Ok(reply) => reply,
        Err(_) => Err(HttpError::Timeout(url)),
    }
}

async fn receive(request: Request, url: &str) -> Result<HttpReply, HttpError> {
    let unreachable = |error: reqwest::Error| HttpError::Connect {
        url: url.to_owned(),
        cause: root_cause(&error.without_url()),
    };
    let client = http_client(request.url(), CONNECT_TIME).await;
    let client = client.map_err(|error| HttpError::Setup(error.to_string()))?;
    let response = client.execute(request).await.map_err(unreachable)?;
    let status = response.status().as_u16();
    let body = read_body(response, MAX_BODY_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge => HttpError::TooLarge(url.to_owned()),
        BodyError::Transport(error) => unreachable(error),
    })?;
    Ok(HttpReply { status, body })
}

/// Parses an address and refuses to send tokens and codes unencrypted over a network.
fn checked_url(text: &str) -> Result<Url, HttpError> {
    let url = Url::parse(text).map_err(|error| HttpError::Address(error.to_string()))?;
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) => Ok(url),
        _ => Err(HttpError::Address(format!("{} (https is needed)", without_secrets(url)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_http_is_allowed_only_for_loopback() {
        let check = |url: &str, expected: bool| assert_eq!(checked_url(url).is_ok(), expected, "{url}");
        check("https://auth.example.com/oauth/token", true);
        check("http://127.0.0.1:8080/oauth/token", true);
        check("http://localhost:1/x", true);
        check("http://[::1]:1/x", true);
        check("http://auth.example.com/oauth/token", false);
        check("http://localhost.example.com/x", false);
        check("file:///etc/passwd", false);
        check("auth.example.com", false);
        let error = checked_url("http://user:canary@example.com/?key=canary").unwrap_err().to_string();
        assert_eq!(error, "not a usable address: http://example.com/ (https is needed)");
    }
}
