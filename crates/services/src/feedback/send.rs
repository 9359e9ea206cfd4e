//! Sending a report to where the configuration says.

use std::time::Duration;

use reqwest::Url;

/// How long connecting may take.
const CONNECT_TIME: Duration = Duration::from_secs(10);

/// How long all of it may take.
const TIME: Duration = Duration::from_secs(60);

/// Why a report did not arrive. The address is left out: it may hold a secret.
#[derive(Debug, thiserror::Error)]
pub(super) enum SendError {
    #[error("feedback.endpoint is no address")]
    Address,
    #[error("{0}")]
    Setup(String),
    #[error("{0}")]
    Http(reqwest::Error),
    #[error("the endpoint answered {0}")]
    Status(reqwest::StatusCode),
}

/// Posts a report as JSON, once.
pub(super) async fn send(endpoint: &str, body: String) -> Result<(), SendError> {
    let url: Url = endpoint.parse().map_err(|_| SendError::Address)?;
    let client = codicil_http::http_client(&url, CONNECT_TIME).await;
    let client = client.map_err(|error| SendError::Setup(error.to_string()))?;
    let request = client.post(url).header("content-type", "application/json").timeout(TIME).body(body);
    let answer = request.send().await.map_err(|error| SendError::Http(error.without_url()))?;
    if answer.status().is_success() { Ok(()) } else { Err(SendError::Status(answer.status())) }
}
