//! The requests of the SDK: post a message, open a stream, end a session.

use std::{collections::HashMap, sync::Arc};

use codicil_http::{BodyError, read_body};
use codicil_protocol::Secret;
use codicil_telemetry::TracePosition;
use futures_util::stream::BoxStream;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE},
};
use reqwest::{Client, Response, Url};
use rmcp::{
    model::{ClientJsonRpcMessage, GetExtensions, JsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        AuthRequiredError, InsufficientScopeError, StreamableHttpClient, StreamableHttpError,
        StreamableHttpPostResponse,
    },
};
use sse_stream::{Error as SseError, Sse};

use super::{events::events, headers::with_protocol, transport::HttpError};
use crate::{
    limits::MESSAGE_BYTES,
    oauth::{AuthChallenge, BearerSource},
    wire,
};

type RequestFailure = StreamableHttpError<HttpError>;

const EVENTS: &str = "text/event-stream";
const JSON: &str = "application/json";
const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// Longest body of an error response.
const MAX_ERROR_BYTES: usize = 256 * 1024;

/// An HTTP client with the headers and credentials of a server. Clones share them.
#[derive(Clone)]
pub(crate) struct HttpRequests(Arc<RequestsInner>);

struct RequestsInner {
    client: Client,
    headers: HeaderMap,
    bearer: BearerSource,
}

/// A request without its credentials.
struct RequestDraft {
    method: Method,
    url: Arc<str>,
    headers: HeaderMap,
    body: Option<Vec<u8>>,
}

impl HttpRequests {
    pub(super) fn new(client: Client, headers: HeaderMap, bearer: BearerSource) -> HttpRequests {
        HttpRequests(Arc::new(RequestsInner { client, headers, bearer }))
    }

    fn draft(
        &self,
        method: Method,
        url: Arc<str>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> RequestDraft {
        RequestDraft { method, url, headers: with_protocol(&self.0.headers, protocol), body: None }
    }

    /// Sends a request. A response that requires a login or more scopes is an error.
    async fn send(&self, draft: RequestDraft) -> Result<Response, RequestFailure> {
        let response = self.send_renewing(&draft).await?;
        let Ok(url) = Url::parse(&draft.url) else { return Ok(response) };
        let Some(challenge) = AuthChallenge::of(&response, &url) else { return Ok(response) };
        // The stream of events is opened beside the messages, and its challenge may be older than theirs.
        if draft.method == Method::POST {
            self.0.bearer.note_challenge(&challenge);
        }
        Err(refused(&response, challenge))
    }

    /// Sends a request. If the server rejects the token, sends it once more with a renewed one.
    async fn send_renewing(&self, draft: &RequestDraft) -> Result<Response, RequestFailure> {
        let bearer = &self.0.bearer;
        let token = bearer.token().await.map_err(sign_in_error)?;
        let response = self.send_with(draft, token.as_ref()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let renewed = match &token {
            Some(token) => bearer.renew(token).await.map_err(sign_in_error)?,
            None => None,
        };
        match renewed {
            Some(token) => self.send_with(draft, Some(&token)).await,
            None => Ok(response),
        }
    }

    async fn send_with(
        &self,
        draft: &RequestDraft,
        token: Option<&Secret>,
    ) -> Result<Response, RequestFailure> {
        let mut request =
            self.0.client.request(draft.method.clone(), &*draft.url).headers(draft.headers.clone());
        if let Some(token) = token {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", token.reveal()))
                .map_err(|_| sign_in_error("the token cannot be sent".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        if let Some(body) = &draft.body {
            request = request.header(CONTENT_TYPE, JSON).body(body.clone());
        }
        request.send().await.map_err(|error| RequestFailure::Client(error.into()))
    }

    async fn post(
        &self,
        url: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, RequestFailure> {
        let mut draft = self.draft(Method::POST, url, protocol);
        draft.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        insert(&mut draft.headers, SESSION, session.as_deref());
        draft.headers.extend(trace_headers(&message));
        draft.body = Some(serde_json::to_vec(&message)?);
        let response = self.send(draft).await?;
        if response.status() == StatusCode::NOT_FOUND && session.is_some() {
            return Err(RequestFailure::SessionExpired);
        }
        read_response(response, &message).await
    }

    async fn stream(
        &self,
        url: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, RequestFailure> {
        let mut draft = self.draft(Method::GET, url, protocol);
        draft.headers.insert(ACCEPT, HeaderValue::from_static(EVENTS));
        insert(&mut draft.headers, SESSION, session.as_deref());
        insert(&mut draft.headers, LAST_EVENT, last_event.as_deref());
        let response = self.send(draft).await?;
        match response.status() {
            StatusCode::METHOD_NOT_ALLOWED => Err(RequestFailure::ServerDoesNotSupportSse),
            status if !status.is_success() => Err(RequestFailure::Client(HttpError::Status(status.as_u16()))),
            _ if !has_content_type(&response, EVENTS) => Err(RequestFailure::UnexpectedContentType(None)),
            _ => Ok(events(response, None)),
        }
    }

    async fn delete(
        &self,
        url: Arc<str>,
        session: Arc<str>,
        protocol: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), RequestFailure> {
        let mut draft = self.draft(Method::DELETE, url, protocol);
        insert(&mut draft.headers, SESSION, Some(&session));
        // The status is ignored: servers that do not support this respond in different ways.
        self.send_renewing(&draft).await.map(drop)
    }
}

/// Returns the headers that place a request in a trace.
fn trace_headers(message: &ClientJsonRpcMessage) -> HeaderMap {
    let JsonRpcMessage::Request(request) = message else { return HeaderMap::new() };
    let position = request.request.extensions().get::<TracePosition>();
    position.map(TracePosition::headers).unwrap_or_default()
}

/// Reads the response to a posted message.
async fn read_response(
    response: Response,
    message: &ClientJsonRpcMessage,
) -> Result<StreamableHttpPostResponse, RequestFailure> {
    let status = response.status();
    let session = response.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Ok(StreamableHttpPostResponse::Accepted);
    }
    if !status.is_success() {
        let body = read_body(response, MAX_ERROR_BYTES).await.unwrap_or_default();
        return match decode(&body, message).filter(|message| matches!(message, JsonRpcMessage::Error(_))) {
            Some(error) => Ok(StreamableHttpPostResponse::Json(error, session)),
            None => Err(RequestFailure::Client(HttpError::Status(status.as_u16()))),
        };
    }
    // Only requests have responses; a body in response to any other message is ignored.
    let JsonRpcMessage::Request(request) = message else { return Ok(StreamableHttpPostResponse::Accepted) };
    let too_large = || wire::too_large(request.id.clone());
    if has_content_type(&response, EVENTS) {
        return Ok(StreamableHttpPostResponse::Sse(events(response, Some(too_large())), session));
    }
    let body = match read_body(response, MESSAGE_BYTES).await {
        Ok(body) => body,
        Err(BodyError::TooLarge) => return Ok(StreamableHttpPostResponse::Json(too_large(), session)),
        Err(BodyError::Transport(error)) => return Err(RequestFailure::Client(error.into())),
    };
    match decode(&body, message) {
        Some(message) => Ok(StreamableHttpPostResponse::Json(message, session)),
        None => Err(RequestFailure::Client(HttpError::Unreadable)),
    }
}

/// Returns the SDK's error for a refused request.
fn refused(response: &Response, challenge: AuthChallenge) -> RequestFailure {
    let header = response.headers().get(WWW_AUTHENTICATE).and_then(|header| header.to_str().ok());
    let header = header.unwrap_or("Bearer").to_owned();
    if response.status() == StatusCode::UNAUTHORIZED {
        return RequestFailure::AuthRequired(AuthRequiredError::new(header));
    }
    let scopes = challenge.scopes.join(" ");
    RequestFailure::InsufficientScope(InsufficientScopeError::new(header, Some(scopes)))
}

/// Decodes the response in a body: the only message, or the first response of several.
fn decode(body: &[u8], message: &ClientJsonRpcMessage) -> Option<ServerJsonRpcMessage> {
    let mut decoder = wire::MessageDecoder::default();
    decoder.note_sent(message);
    let messages = decoder.decode(body).ok()?;
    messages
        .into_iter()
        .find(|message| matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)))
}

fn insert(headers: &mut HeaderMap, name: HeaderName, value: Option<&str>) {
    if let Some(value) = value.and_then(|value| HeaderValue::from_str(value).ok()) {
        headers.insert(name, value);
    }
}

fn has_content_type(response: &Response, content_type: &str) -> bool {
    let given = response.headers().get(CONTENT_TYPE).and_then(|given| given.to_str().ok());
    given.is_some_and(|given| given.trim_start().to_ascii_lowercase().starts_with(content_type))
}

fn sign_in_error(reason: String) -> RequestFailure {
    RequestFailure::Client(HttpError::SignIn(reason))
}

impl StreamableHttpClient for HttpRequests {
    type Error = HttpError;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, RequestFailure> {
        self.post(uri, message, session_id, custom_headers).await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), RequestFailure> {
        self.delete(uri, session_id, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        _: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, RequestFailure> {
        self.stream(uri, session_id, last_event_id, custom_headers).await
    }
}
