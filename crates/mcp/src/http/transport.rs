//! The SDK's transport with this program's HTTP client.

use std::{sync::Arc, time::Duration};

use codicil_exec::ProcessEnvironment;
use codicil_http::{Backoff, RedirectPolicy, http_client_with};
use http::{HeaderValue, header};
use reqwest::{Client, Url};
use rmcp::transport::{
    StreamableHttpClientTransport, common::client_side_sse::SseRetryPolicy,
    streamable_http_client::StreamableHttpClientTransportConfig,
};
use thiserror::Error;

use super::{headers, requests::HttpRequests};
use crate::{
    config::HttpConfig,
    oauth::BearerSource,
    start_error::{StartError, root_cause},
};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// User agent of requests that do not set their own.
pub(crate) const USER_AGENT: &str = concat!("codicil/", env!("CARGO_PKG_VERSION"));

/// The reason why a request has no response.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("{0}")]
    Network(String),
    #[error("the server responded with HTTP status {0}")]
    Status(u16),
    #[error("the server's response is not a valid message")]
    Unreadable,
    #[error("signing in failed: {0}")]
    SignIn(String),
}

impl From<reqwest::Error> for HttpError {
    /// Omits the URL, which may hold a secret, and includes the root cause.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let cause = root_cause(&error);
        let what = if error.is_connect() { "the server cannot be reached" } else { "the request failed" };
        HttpError::Network(format!("{what}: {cause}"))
    }
}

/// Resumes a stream that breaks a few times, then gives up.
#[derive(Debug)]
struct ResumeBudget;

impl ResumeBudget {
    const MAX_RETRIES: u32 = 8;
    const BACKOFF: Backoff =
        Backoff { first: Duration::from_secs(1), max: Duration::from_secs(32), jitter: 0.0 };
}

impl SseRetryPolicy for ResumeBudget {
    fn retry(&self, times: usize) -> Option<Duration> {
        let retry = u32::try_from(times).ok()?.checked_add(1)?;
        (retry <= Self::MAX_RETRIES).then(|| Self::BACKOFF.delay(retry))
    }
}

/// Returns the client for requests to a URL. It follows redirects within the server.
pub(crate) async fn client_for(url: &Url) -> Result<Client, String> {
    let client = http_client_with(url, CONNECT_TIMEOUT, RedirectPolicy::WithinServer).await;
    client.map_err(|error| error.to_string())
}

/// Creates the transport of a server without sending anything.
pub(crate) async fn transport(
    config: &HttpConfig,
    environment: &ProcessEnvironment,
    bearer: BearerSource,
) -> Result<StreamableHttpClientTransport<HttpRequests>, StartError> {
    let url = Url::parse(&config.url).map_err(|error| StartError::Failed(error.to_string()))?;
    let client = client_for(&url).await.map_err(StartError::Failed)?;
    let mut headers = headers::configured(config, environment);
    headers.entry(header::USER_AGENT).or_insert(HeaderValue::from_static(USER_AGENT));
    let requests = HttpRequests::new(client, headers, bearer);
    let mut options = StreamableHttpClientTransportConfig::with_uri(config.url.as_str());
    options.retry_config = Arc::new(ResumeBudget);
    Ok(StreamableHttpClientTransport::with_client(requests, options))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_resumed_eight_times() {
        let delays: Vec<u64> =
            (0..).map_while(|times| ResumeBudget.retry(times)).map(|delay| delay.as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 32, 32]);
    }
}
