//! A websocket to a provider for realtime conversations. The messages are left to the caller.

use std::time::Duration;

use codicil_http::{http_client, without_secrets};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::{Upgraded, Url};
use tokio::time::timeout;
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{
        handshake::{client::generate_key, derive_accept_key},
        protocol::{Role, WebSocketConfig},
    },
};

use crate::{
    ModelError, ProviderConfig, ProviderContext,
    credentials::{self, CredentialSources, insert_bearer},
    endpoint::{configured_headers, parse},
    http::error_text,
    status,
};

/// Time for the handshake.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);
/// Longest message of a provider. A second of audio has about 64 KB.
const MAX_MESSAGE: usize = 16 << 20;

/// An open connection to the realtime API.
pub type RealtimeSocket = WebSocketStream<Upgraded>;

/// The parts of the connection request that the caller chooses.
#[derive(Clone, Debug, Default)]
pub struct RealtimeRequest {
    /// Overrides the provider's own base URL.
    pub base_url: Option<String>,
    pub query: Vec<(&'static str, String)>,
    pub headers: HeaderMap,
}

/// Connects to the `/realtime` endpoint of a provider. Requires an API key, since the endpoint rejects accounts.
pub async fn open_realtime(
    id: &str,
    config: &ProviderConfig,
    context: &ProviderContext,
    request: RealtimeRequest,
) -> Result<RealtimeSocket, ModelError> {
    let key = CredentialSources::new(config, context).api_key().await?;
    let missing = || ModelError::Unauthorized("realtime conversation requires API key auth".to_owned());
    let key = key.ok_or_else(missing)?;
    let url = address(id, config, &request)?;
    let mut headers = configured_headers(id, config, &context.environment)?;
    headers.extend(request.headers);
    insert_bearer(&key, &mut headers);
    let opening = upgrade(&url, headers, config.limits().connect);
    let stream = timeout(HANDSHAKE_TIME, opening).await.map_err(|_| ModelError::Connect {
        url: shown(&url),
        cause: format!("no websocket within {} s", HANDSHAKE_TIME.as_secs()),
    })??;
    let limits = WebSocketConfig::default()
        .max_message_size(Some(MAX_MESSAGE))
        .max_frame_size(Some(MAX_MESSAGE))
        .max_write_buffer_size(4 * MAX_MESSAGE);
    Ok(WebSocketStream::from_raw_socket(stream, Role::Client, Some(limits)).await)
}

/// Performs the handshake with the shared HTTP client, so that it uses the same proxies and certificates.
async fn upgrade(url: &Url, mut headers: HeaderMap, connect: Duration) -> Result<Upgraded, ModelError> {
    let key = generate_key();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_VERSION, HeaderValue::from_static("13"));
    if let Ok(key) = HeaderValue::try_from(&key) {
        headers.insert(header::SEC_WEBSOCKET_KEY, key);
    }
    let failed = |error: reqwest::Error| ModelError::Connect {
        url: shown(url),
        cause: error.without_url().to_string(),
    };
    let secrets = credentials::secret_values(&headers);
    let client = http_client(url, connect).await?;
    let response = client.get(url.clone()).headers(headers).send().await.map_err(failed)?;
    let status = response.status();
    let response_headers = response.headers().clone();
    if status != StatusCode::SWITCHING_PROTOCOLS {
        let (_, body) = http::Response::from(response).into_parts();
        let text = credentials::redact(&secrets, error_text(body, connect).await);
        return Err(status::failure(status, &response_headers, &shown(url), &text));
    }
    let accepted = response_headers.get(header::SEC_WEBSOCKET_ACCEPT).map(HeaderValue::as_bytes);
    if accepted != Some(derive_accept_key(key.as_bytes()).as_bytes()) {
        let cause = "the answer to the handshake is not that of a websocket".to_owned();
        return Err(ModelError::Connect { url: shown(url), cause });
    }
    response.upgrade().await.map_err(failed)
}

fn address(id: &str, config: &ProviderConfig, request: &RealtimeRequest) -> Result<Url, ModelError> {
    let default = || config.default_base_url().map(|(url, _)| url.to_owned());
    let base = request.base_url.clone().or_else(|| config.base_url.clone()).or_else(default);
    // The schemes of websockets correspond to those of HTTP.
    let base = base.map(|base| match base.split_once("://") {
        Some(("ws", rest)) => format!("http://{rest}"),
        Some(("wss", rest)) => format!("https://{rest}"),
        _ => base,
    });
    let mut url = parse(id, base, "")?;
    url.set_path(&path(url.path()));
    url.query_pairs_mut().extend_pairs(&request.query).extend_pairs(config.query_params.iter().flatten());
    Ok(url)
}

/// Completes the path. Base URLs come with and without the version, and some name the endpoint itself.
fn path(base: &str) -> String {
    match base.trim_end_matches('/') {
        "" => "/v1/realtime".to_owned(),
        whole if whole.ends_with("/realtime") => whole.to_owned(),
        base => format!("{base}/realtime"),
    }
}

fn shown(url: &Url) -> String {
    without_secrets(url.clone()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_is_found_for_every_form_of_the_base_url() {
        let config = ProviderConfig::builtin("openai").unwrap();
        let check = |base: Option<&str>, expected: &str| {
            let query = vec![("intent", "x y".to_owned())];
            let request =
                RealtimeRequest { base_url: base.map(str::to_owned), query, ..RealtimeRequest::default() };
            assert_eq!(address("openai", &config, &request).unwrap().as_str(), expected);
        };
        check(None, "https://api.openai.com/v1/realtime?intent=x+y");
        check(Some("http://127.0.0.1:1"), "http://127.0.0.1:1/v1/realtime?intent=x+y");
        check(Some("ws://127.0.0.1:1/v1/"), "http://127.0.0.1:1/v1/realtime?intent=x+y");
        check(Some("wss://example.com/api/realtime?a=b"), "https://example.com/api/realtime?a=b&intent=x+y");
    }
}
