//! The SDK's transport over our HTTP client.

use std::{sync::Arc, time::Duration};

use codicil_exec::ProcessEnvironment;
use codicil_http::Backoff;
use http::{HeaderValue, header};
use reqwest::Url;
use rmcp::transport::{
    StreamableHttpClientTransport, common::client_side_sse::SseRetryPolicy,
    streamable_http_client::StreamableHttpClientTransportConfig,
};
use thiserror::Error;

use super::{
    clients::{USER_AGENT, client_for},
    headers,
    requests::HttpRequests,
};
use crate::{
    config::HttpConfig,
    oauth::BearerSource,
    start_error::{StartError, root},
};

/// Why a request brought nothing back.
#[derive(Debug, Error)]
pub(crate) enum HttpError {
    #[error("{0}")]
    Network(String),
    #[error("the server answered with HTTP status {0}")]
    Status(u16),
    #[error("the server's answer is not a message")]
    Unreadable,
    #[error("signing in failed: {0}")]
    SignIn(String),
}

impl From<reqwest::Error> for HttpError {
    /// Without the address, which may hold a secret; with the cause, which says what happened.
    fn from(error: reqwest::Error) -> Self {
        let error = error.without_url();
        let cause = root(&error);
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

/// A transport to a server. Nothing is sent yet.
pub(crate) async fn transport(
    config: &HttpConfig,
    environment: &ProcessEnvironment,
    bearer: BearerSource,
) -> Result<StreamableHttpClientTransport<HttpRequests>, StartError> {
    let url = Url::parse(&config.url).map_err(|error| StartError::Failed(error.to_string()))?;
    let client = client_for(&url).await.map_err(StartError::Failed)?;
    let mut headers = headers::of(config, environment);
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
