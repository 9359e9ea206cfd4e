//! The HTTP requests of a login, limited in size and time.

use std::time::Duration;

use codicil_http::{BodyError, read_body};
use http::{Method, header::USER_AGENT};
use reqwest::{RequestBuilder, Response, Url};
use serde_json::Value;

use super::error::OauthError;
use crate::http::{self as web, HttpError, client_for};

/// Longest body of a response.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Fetches a document. Returns the status and, if it is JSON, the body.
pub(super) async fn get(url: &Url) -> Result<(u16, Option<Value>), OauthError> {
    let request = draft(Method::GET, url).await?.header("accept", "application/json");
    status_and_json(request.send().await.map_err(network)?).await
}

/// Sends a request without credentials and returns the response without its body, which may be an endless stream.
pub(super) async fn probe(url: &Url) -> Result<Response, OauthError> {
    let request = draft(Method::GET, url).await?;
    request.header("accept", "text/event-stream").send().await.map_err(network)
}

pub(super) async fn post_json(url: &Url, body: &Value) -> Result<(u16, Option<Value>), OauthError> {
    let request = draft(Method::POST, url).await?;
    let request = request.header("content-type", "application/json").header("accept", "application/json");
    status_and_json(request.body(body.to_string()).send().await.map_err(network)?).await
}

/// Sends a request of the `oauth2` crate.
pub(super) async fn execute(request: oauth2::HttpRequest) -> Result<oauth2::HttpResponse, OauthError> {
    let (parts, body) = request.into_parts();
    let url =
        Url::parse(&parts.uri.to_string()).map_err(|error| OauthError::Unreadable(error.to_string()))?;
    let request = draft(parts.method, &url).await?.headers(parts.headers);
    let response = request.body(body).send().await.map_err(network)?;
    let mut converted = http::Response::new(Vec::new());
    *converted.status_mut() = response.status();
    *converted.headers_mut() = response.headers().clone();
    *converted.body_mut() = body_of(response).await?;
    Ok(converted)
}

/// Begins a request with the common headers and timeout.
async fn draft(method: Method, url: &Url) -> Result<RequestBuilder, OauthError> {
    let client = client_for(url).await.map_err(OauthError::Network)?;
    Ok(client.request(method, url.clone()).header(USER_AGENT, web::USER_AGENT).timeout(TIMEOUT))
}

async fn status_and_json(response: Response) -> Result<(u16, Option<Value>), OauthError> {
    let status = response.status().as_u16();
    let body = body_of(response).await?;
    Ok((status, serde_json::from_slice(&body).ok()))
}

async fn body_of(response: Response) -> Result<Vec<u8>, OauthError> {
    read_body(response, MAX_BODY_BYTES).await.map_err(|error| match error {
        BodyError::TooLarge => OauthError::Unreadable("the response is too long".to_owned()),
        BodyError::Transport(error) => network(error),
    })
}

fn network(error: reqwest::Error) -> OauthError {
    OauthError::Network(HttpError::from(error).to_string())
}
