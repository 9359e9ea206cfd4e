//! The HTTP requests of all dialects: address, headers, credentials, and retries without notification.

use std::{sync::Arc, time::Duration};

use codicil_http::{http_client, read_text_prefix, root_cause, without_secrets};
use codicil_telemetry::TracePosition;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use reqwest::Url;
use tokio::time::{Instant, sleep, timeout_at};

use crate::{
    EventStream, ModelError, ModelEvent, ModelProvider, ModelRequest, ProviderConfig, ProviderContext,
    ProviderCredentials, ProviderLimits, WireApi,
    body::{BodyEncoding, RequestBody},
    credentials::{self, CredentialSources},
    endpoint::{chatgpt_endpoint, configured_headers, endpoint},
    status,
    stream::{EventDecoder, HttpSource, LiveResponse, StreamDeadlines},
};

/// Limits for reading the body of an error response.
const MAX_ERROR_BYTES: usize = 64 * 1024;
const MAX_ERROR_TIME: Duration = Duration::from_secs(10);

/// The part of a request that depends on the dialect.
pub(crate) trait HttpDialect: Send + Sync + 'static {
    const WIRE_API: WireApi;
    /// Path below the base URL.
    const PATH: &'static str;

    fn body(&self, request: &ModelRequest, extent: BodyExtent) -> RequestBody;

    fn headers(&self, request: &ModelRequest) -> HeaderMap;

    /// Adds the credentials to the headers.
    fn authorize(&self, credentials: &ProviderCredentials, headers: &mut HeaderMap);

    fn decoder(&self, request: &ModelRequest) -> Box<dyn EventDecoder>;

    /// Returns whether a request that failed with `error` may succeed with a reduced body.
    fn is_worth_reducing(&self, error: &ModelError) -> bool {
        let _ = error;
        false
    }
}

/// How much of the history is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyExtent {
    Full,
    /// Without signed reasoning that the provider rejects because the input before it has changed.
    Reduced,
}

/// A provider that uses dialect `D`.
pub(crate) struct HttpProvider<D> {
    shared: Arc<ProviderShared<D>>,
}

struct ProviderShared<D> {
    id: String,
    url: Url,
    /// Address for requests with a ChatGPT account, if it differs.
    chatgpt_url: Option<Url>,
    headers: HeaderMap,
    limits: ProviderLimits,
    credentials: CredentialSources,
    dialect: D,
}

impl<D: HttpDialect> HttpProvider<D> {
    pub fn new(
        id: &str,
        config: &ProviderConfig,
        context: &ProviderContext,
        dialect: D,
    ) -> Result<Self, ModelError> {
        let shared = ProviderShared {
            id: id.to_owned(),
            url: endpoint(id, config, &context.environment, D::PATH)?,
            chatgpt_url: chatgpt_endpoint(id, config, &context.environment, D::PATH),
            headers: configured_headers(id, config, &context.environment)?,
            limits: config.limits(),
            credentials: CredentialSources::new(config, context),
            dialect,
        };
        Ok(Self { shared: Arc::new(shared) })
    }
}

impl<D: HttpDialect> ModelProvider for HttpProvider<D> {
    fn id(&self) -> &str {
        &self.shared.id
    }

    fn wire_api(&self) -> WireApi {
        D::WIRE_API
    }

    fn limits(&self) -> &ProviderLimits {
        &self.shared.limits
    }

    fn stream(&self, request: ModelRequest) -> EventStream {
        let shared = self.shared.clone();
        EventStream::new(HttpSource::Opening(Box::pin(async move { shared.open(request).await })))
    }
}

impl<D: HttpDialect> ProviderShared<D> {
    /// Sends the request, with retries, until there is a stream or an error that retries cannot fix.
    async fn open(&self, request: ModelRequest) -> Result<LiveResponse, ModelError> {
        let mut credentials = self.credentials.find(&self.id).await?;
        let mut body = self.body(&request, BodyExtent::Full, credentials.as_ref()).await;
        let mut retry = 0;
        let mut may_refresh = true;
        let mut may_reduce = true;
        loop {
            let sent_at = Instant::now();
            let error = match self.send(&request, &body, credentials.as_ref(), sent_at).await {
                Ok(response) => return Ok(self.read(&request, response, sent_at)),
                Err(error) => error,
            };
            if is_unauthorized(&error)
                && std::mem::take(&mut may_refresh)
                && let Some(fresh) = self.credentials.refresh(credentials.as_ref()).await?
            {
                credentials = Some(fresh);
                continue;
            }
            if self.dialect.is_worth_reducing(&error) && std::mem::take(&mut may_reduce) {
                body = self.body(&request, BodyExtent::Reduced, credentials.as_ref()).await;
                continue;
            }
            retry += 1;
            let Some(wait) = self.limits.request.request_delay(retry, &error) else { return Err(error) };
            tracing::debug!(provider = %self.id, %error, retry, "retrying a model request");
            sleep(wait).await;
        }
    }

    /// Returns the body of a request. The service for ChatGPT accounts is the only one known to accept compressed bodies.
    async fn body(
        &self,
        request: &ModelRequest,
        extent: BodyExtent,
        credentials: Option<&ProviderCredentials>,
    ) -> RequestBody {
        let body = self.dialect.body(request, extent);
        let is_for_account = self.chatgpt_url.as_ref() == Some(self.url_for(credentials));
        if request.may_compress && is_for_account { body.compressed().await } else { body }
    }

    /// Sends the request once.
    async fn send(
        &self,
        request: &ModelRequest,
        body: &RequestBody,
        credentials: Option<&ProviderCredentials>,
        sent_at: Instant,
    ) -> Result<http::Response<reqwest::Body>, ModelError> {
        let mut headers = self.dialect.headers(request);
        headers.insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if body.encoding() == BodyEncoding::Zstd {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("zstd"));
        }
        headers.extend(TracePosition::current().headers());
        headers.extend(self.headers.clone());
        if let Some(credentials) = credentials {
            self.dialect.authorize(credentials, &mut headers);
        }
        let secrets = credentials::secret_values(&headers);
        let url = self.url_for(credentials);
        let client = http_client(url, self.limits.connect).await?;
        let sending =
            client.post(url.clone()).headers(headers).body(reqwest::Body::wrap(body.to_stream())).send();
        let response = timeout_at(sent_at + self.limits.first_token, sending)
            .await
            .map_err(|_| ModelError::FirstTokenTimeout(self.limits.first_token))?
            .map_err(|error| self.send_error(&error))?;
        let response = http::Response::from(response);
        if response.status().is_success() {
            return self.check_is_response(response);
        }
        let (parts, body) = response.into_parts();
        let text = credentials::redact(&secrets, error_text(body, self.limits.idle).await);
        Err(status::failure(parts.status, &parts.headers, &self.shown_url(), &text))
    }

    fn url_for(&self, credentials: Option<&ProviderCredentials>) -> &Url {
        let has_account = credentials.is_some_and(|credentials| credentials.account_id.is_some());
        self.chatgpt_url.as_ref().filter(|_| has_account).unwrap_or(&self.url)
    }

    fn read(
        &self,
        request: &ModelRequest,
        response: http::Response<reqwest::Body>,
        sent_at: Instant,
    ) -> LiveResponse {
        let (parts, body) = response.into_parts();
        let limits = &self.limits;
        let times = StreamDeadlines { sent_at, first_token: limits.first_token, idle: limits.idle };
        LiveResponse::new(head_events(request, &parts.headers), body, self.dialect.decoder(request), times)
    }

    /// Rejects a web page, which means that the base URL is wrong.
    fn check_is_response(
        &self,
        response: http::Response<reqwest::Body>,
    ) -> Result<http::Response<reqwest::Body>, ModelError> {
        let content_type = status::header(response.headers(), "content-type").unwrap_or_default();
        let kind = content_type.split(';').next().unwrap_or_default().trim();
        if kind == "text/html" {
            return Err(ModelError::NotAStream { url: self.shown_url(), content_type: kind.to_owned() });
        }
        Ok(response)
    }

    fn send_error(&self, error: &reqwest::Error) -> ModelError {
        let cause = if error.is_timeout() {
            format!("no connection within {} s", self.limits.connect.as_secs_f32())
        } else {
            root_cause(error)
        };
        if error.is_builder() {
            return ModelError::Config(format!("invalid request for provider `{}`: {cause}", self.id));
        }
        // Without a connection the provider cannot be reached; with one it ended it instead of answering.
        if error.is_connect() || error.is_timeout() {
            return ModelError::Connect { url: self.shown_url(), cause };
        }
        ModelError::NoResponse { url: self.shown_url(), cause }
    }

    /// Returns the address for error texts.
    fn shown_url(&self) -> String {
        without_secrets(self.url.clone()).into()
    }
}

/// Returns the events that the headers of a response imply.
fn head_events(request: &ModelRequest, headers: &HeaderMap) -> Vec<ModelEvent> {
    let mut events = Vec::new();
    let model = status::header(headers, "openai-model").filter(|model| !model.is_empty());
    if let Some(model) = model.filter(|model| !model.eq_ignore_ascii_case(&request.model)) {
        events.push(ModelEvent::Rerouted(model));
    }
    events.extend(status::rate_limits(headers).map(|limits| ModelEvent::RateLimits(Box::new(limits))));
    events
}

fn is_unauthorized(error: &ModelError) -> bool {
    matches!(error, ModelError::Status(failure) if failure.status == StatusCode::UNAUTHORIZED)
}

/// Returns the `user-agent` alone. Other providers do not receive the ids of threads and turns.
pub(crate) fn user_agent(request: &ModelRequest) -> HeaderMap {
    let agent = request.headers.get(header::USER_AGENT);
    agent.map(|agent| (header::USER_AGENT, agent.clone())).into_iter().collect()
}

/// Reads the beginning of an error response's body.
pub(crate) async fn error_text(body: reqwest::Body, max_time: Duration) -> String {
    read_text_prefix(body, MAX_ERROR_BYTES, max_time.min(MAX_ERROR_TIME)).await
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;
    use crate::{AccountAuth, StreamFlow, pairs::tests::history, responses::ResponsesDialect};

    /// Sends one request and returns the head with which it arrives.
    async fn sent_head(credentials: ProviderCredentials, request: ModelRequest) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/responses", listener.local_addr().unwrap());
        let serving = tokio::spawn(async move {
            let (mut socket, _) = listener.accept().await.unwrap();
            let mut received = Vec::new();
            while !received.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
                socket.read_buf(&mut received).await.unwrap();
            }
            let _ =
                socket.write_all(b"HTTP/1.1 400 Bad\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").await;
            String::from_utf8_lossy(&received).into_owned()
        });
        let auth: Arc<dyn AccountAuth> = Arc::new(credentials);
        let context = ProviderContext { auth: Some(auth), ..ProviderContext::default() };
        let config = ProviderConfig {
            base_url: Some(address.trim_end_matches("/responses").to_owned()),
            requires_openai_auth: true,
            request_max_retries: Some(0),
            ..ProviderConfig::default()
        };
        let mut provider = HttpProvider::new("openai", &config, &context, ResponsesDialect).unwrap();
        // The address of the service for accounts is fixed, so the test puts its own in its place.
        Arc::get_mut(&mut provider.shared).unwrap().chatgpt_url =
            Url::parse(&format!("{address}?account")).ok();
        let mut events = Vec::new();
        let mut stream = provider.stream(request);
        while matches!(stream.next(&mut events).await, Ok(flow) if flow != StreamFlow::Done) {}
        serving.await.unwrap()
    }

    #[tokio::test]
    async fn only_large_requests_for_accounts_are_compressed() {
        let large = ModelRequest {
            instructions: "Be helpful. ".repeat(4000).into(),
            input: history("u"),
            may_compress: true,
            ..ModelRequest::default()
        };
        let account =
            ProviderCredentials { account_id: Some("a".into()), ..ProviderCredentials::api_key("k") };
        let is_compressed = async |credentials: &ProviderCredentials, request: &ModelRequest| {
            sent_head(credentials.clone(), request.clone()).await.contains("content-encoding: zstd")
        };
        assert!(is_compressed(&account, &large).await);
        assert!(!is_compressed(&ProviderCredentials::api_key("k"), &large).await, "other services");
        let off = ModelRequest { may_compress: false, ..large.clone() };
        assert!(!is_compressed(&account, &off).await, "switched off");
        let small = ModelRequest { may_compress: true, ..ModelRequest::default() };
        assert!(!is_compressed(&account, &small).await, "small");
    }
}
