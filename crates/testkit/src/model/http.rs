//! Accepts connections, reads requests, and answers them with replies of the script.

use std::{
    any::Any,
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http_body_util::{BodyExt, Either, Full, LengthLimitError, Limited};
use hyper::{
    Method, Request, Response, StatusCode,
    body::Incoming,
    header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, HeaderValue},
    http::request::Parts,
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

use super::{
    cuttable_socket::{CutHandle, CuttableSocket},
    dialect::{CONTEXT_WINDOW, CREATED, MODEL, ModelDialect, RequestOptions, openai_error},
    play::{PlayingReply, ReplyPlayer},
    reply::{self, PlainBody, Reply, ReplyStream},
    state::{ModelActivity, ModelShared},
};

/// Maximum number of open connections. Further ones wait to be accepted.
const MAX_CONNECTIONS: usize = 4_096;
/// Maximum size of a request.
const MAX_BODY: usize = 64 << 20;

type HttpAnswer = Response<Either<Full<Bytes>, PlayingReply>>;
type AnswerResult = Result<HttpAnswer, HungUp>;

/// Makes the HTTP layer close the connection instead of answering.
#[derive(Debug)]
pub(super) struct HungUp;

impl fmt::Display for HungUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("hung up by the script")
    }
}

impl std::error::Error for HungUp {}

/// Serves until the task is aborted, which also ends the connections.
pub(super) async fn serve(listener: TcpListener, shared: Arc<ModelShared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.len() < MAX_CONNECTIONS => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(connection(socket, shared.clone()));
                }
                // Probably out of file descriptors. Retried after other connections had time to close.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn connection(socket: TcpStream, shared: Arc<ModelShared>) {
    // Deltas are small and must not be delayed. Without the option they are only slower.
    let _ = socket.set_nodelay(true);
    let cut_handle = CutHandle::default();
    let socket = CuttableSocket::new(socket, cut_handle.clone());
    let service = service_fn(|request| answer(request, shared.clone(), cut_handle.clone()));
    // An error means that the client disconnected, or that the script cut the connection.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(socket), service).await;
}

async fn answer(request: Request<Incoming>, shared: Arc<ModelShared>, cut_handle: CutHandle) -> AnswerResult {
    let activity = shared.activity();
    let (parts, body) = request.into_parts();
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            shared.fault(format!("{} {}: body above {MAX_BODY} bytes", parts.method, parts.uri.path()));
            return Ok(error_answer(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large"));
        }
        // The client disconnected while it was sending.
        Err(_) => return Err(HungUp),
    };
    match ModelDialect::at(parts.uri.path()) {
        Some(dialect) if parts.method == Method::POST => {
            ModelExchange { dialect, shared, cut_handle, activity }.answer(&parts, body).await
        }
        _ => {
            shared.others.add(&parts, body);
            let page = shared.pages.lock().get(parts.uri.path()).cloned();
            Ok(page.map_or_else(|| other(&parts), |page| json_answer(StatusCode::OK, &page)))
        }
    }
}

/// Answers requests that are not for the model.
fn other(parts: &Parts) -> HttpAnswer {
    if parts.method == Method::GET && parts.uri.path().ends_with("/models") {
        let model = json!({
            "id": MODEL, "object": "model", "created": CREATED, "owned_by": "codicil",
            "type": "model", "display_name": MODEL, "max_model_len": CONTEXT_WINDOW,
        });
        return json_answer(StatusCode::OK, &json!({ "object": "list", "data": [model], "has_more": false }));
    }
    let message = format!("nothing at {} {}", parts.method, parts.uri.path());
    error_answer(StatusCode::NOT_FOUND, &message)
}

/// One request to the model and its answer.
struct ModelExchange {
    dialect: ModelDialect,
    shared: Arc<ModelShared>,
    cut_handle: CutHandle,
    activity: ModelActivity,
}

impl ModelExchange {
    async fn answer(self, parts: &Parts, body: Bytes) -> AnswerResult {
        let options = match read_options(parts, &body) {
            Ok(options) => options,
            Err((status, why)) => {
                let request = self.shared.requests.add(parts, body);
                return self.refuse(status, &format!("{request:?}: {why}"));
            }
        };
        // The script may run closures of the test. A panic in one is reported as a fault.
        let admitted = catch_unwind(AssertUnwindSafe(|| self.shared.admit(parts, body)));
        let (request, reply) = match admitted {
            Ok(admitted) => admitted,
            Err(panic) => {
                let why = format!("the script panicked: {}", panic_text(panic.as_ref()));
                return self.refuse(StatusCode::INTERNAL_SERVER_ERROR, &why);
            }
        };
        let Some(reply) = reply else {
            let why = format!("script has no reply left for {request:?}");
            return self.refuse(StatusCode::INTERNAL_SERVER_ERROR, &why);
        };
        if self.dialect != ModelDialect::Responses && reply.is_for_responses_only() {
            let why = format!("item() belongs to Responses and cannot answer {request:?}");
            return self.refuse(StatusCode::INTERNAL_SERVER_ERROR, &why);
        }
        self.perform(reply, &options).await
    }

    /// Answers a request that the script has no reply for, and records a fault.
    fn refuse(&self, status: StatusCode, why: &str) -> AnswerResult {
        self.shared.fault(why);
        Ok(json_answer(status, &self.dialect.error("script_error", why)))
    }

    async fn perform(self, reply: Reply, options: &RequestOptions) -> AnswerResult {
        if let Some(gate) = &reply.hold {
            self.shared.gates.pass(gate).await;
        }
        let mut response = match reply.answer {
            reply::ReplyAnswer::HangUp => return Err(HungUp),
            reply::ReplyAnswer::Plain { status, body } => self.plain(status, body),
            reply::ReplyAnswer::Stream(stream) => self.play(stream, options).await?,
        };
        // A header of the script replaces the server's own, and may occur more than once.
        for (name, _) in &reply.headers {
            response.headers_mut().remove(name);
        }
        for (name, value) in reply.headers {
            response.headers_mut().append(name, value);
        }
        Ok(response)
    }

    fn plain(&self, status: StatusCode, body: PlainBody) -> HttpAnswer {
        match body {
            PlainBody::Json(json) => json_answer(status, &json),
            PlainBody::Text(text) => plain_answer(status, "text/plain; charset=utf-8", text.into()),
            PlainBody::Error => {
                let message = format!("the script answers {status}");
                json_answer(status, &self.dialect.error("scripted_status", &message))
            }
        }
    }

    async fn play(self, stream: Arc<ReplyStream>, options: &RequestOptions) -> AnswerResult {
        let encoder = self.dialect.encoder(options, self.shared.ids.clone());
        let player = ReplyPlayer::new(self.shared, encoder);
        if options.stream != Some(true) {
            let (status, json) = player.into_whole(&stream).await.ok_or(HungUp)?;
            return Ok(json_answer(status, &json));
        }
        let body = player.into_body(stream, self.cut_handle, self.activity);
        let mut response = Response::new(Either::Right(body));
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        Ok(response)
    }
}

fn read_options(parts: &Parts, body: &Bytes) -> Result<RequestOptions, (StatusCode, String)> {
    if let Some(encoding) = parts.headers.get(CONTENT_ENCODING) {
        let why = format!("bodies with content-encoding {encoding:?} are not read");
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    let read = serde_json::from_slice(body);
    read.map_err(|error| (StatusCode::BAD_REQUEST, format!("not a request to a model: {error}")))
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default()
}

fn error_answer(status: StatusCode, message: &str) -> HttpAnswer {
    json_answer(status, &openai_error("invalid_request_error", message))
}

fn json_answer(status: StatusCode, json: &Value) -> HttpAnswer {
    plain_answer(status, "application/json", json.to_string().into())
}

fn plain_answer(status: StatusCode, content_type: &'static str, body: Bytes) -> HttpAnswer {
    let mut response = Response::new(Either::Left(Full::new(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
