//! The web server behind a callback address: one request per connection.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use codicil_protocol::Secret;
use http_body_util::Full;
use hyper::{
    Method, Request, Response,
    body::Incoming,
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{CallbackOutcome, CallbackPage, StateCheck, port::CANCEL_PATH, query::parse_response};

/// Browsers open spare connections.
const MAX_CONNECTIONS: usize = 16;
const HEADER_TIME: Duration = Duration::from_secs(10);
/// Time that a browser has to read its page.
const FLUSH_TIME: Duration = Duration::from_secs(2);
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Waits for the browser of one login. Dropping it closes the port and all connections.
pub struct CallbackListener {
    listener: TcpListener,
    routes: Arc<CallbackRoutes>,
    connections: JoinSet<()>,
    visit_sender: mpsc::Sender<CallbackVisit>,
    visits: mpsc::Receiver<CallbackVisit>,
}

/// The requests that a listener accepts.
pub(super) struct CallbackRoutes {
    pub path: String,
    pub state: Secret,
    pub check: StateCheck,
    pub is_cancellable: bool,
}

/// A browser that brought an outcome and waits for its page.
pub struct CallbackVisit {
    pub outcome: CallbackOutcome,
    page: oneshot::Sender<CallbackPage>,
    /// Cancelled when the connection is closed.
    closed: CancellationToken,
}

impl CallbackVisit {
    /// Sends the page and waits until the browser has it. The listener must outlive this call: it owns the
    /// connection.
    pub async fn show(self, page: CallbackPage) {
        if self.page.send(page).is_ok() {
            // A browser that does not read its page in time does not get it.
            let _ = timeout(FLUSH_TIME, self.closed.cancelled()).await;
        }
    }
}

impl CallbackListener {
    pub(super) fn new(listener: TcpListener, routes: CallbackRoutes) -> Self {
        let (visit_sender, visits) = mpsc::channel(1);
        Self { listener, routes: Arc::new(routes), connections: JoinSet::new(), visit_sender, visits }
    }

    /// Serves requests until one belongs to the login. All others are answered with an error page.
    pub async fn next_visit(&mut self) -> CallbackVisit {
        loop {
            let has_room = self.connections.len() < MAX_CONNECTIONS;
            tokio::select! {
                Some(visit) = self.visits.recv() => return visit,
                Some(_) = self.connections.join_next() => {}
                accepted = self.listener.accept(), if has_room => match accepted {
                    Ok((stream, _)) => {
                        self.connections.spawn(serve(stream, self.routes.clone(), self.visit_sender.clone()));
                    }
                    // Most likely out of file descriptors: wait until some are closed.
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                },
            }
        }
    }
}

async fn serve(stream: TcpStream, routes: Arc<CallbackRoutes>, visits: mpsc::Sender<CallbackVisit>) {
    let closed = CancellationToken::new();
    let _cancel_on_close = closed.clone().drop_guard();
    let service = service_fn(|request| respond(request, &routes, &visits, closed.clone()));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    // An error means that the browser closed the connection; the login goes on.
    let _ = connection.await;
}

async fn respond(
    request: Request<Incoming>,
    routes: &CallbackRoutes,
    visits: &mpsc::Sender<CallbackVisit>,
    closed: CancellationToken,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let outcome = match routes.find(&request) {
        Ok(outcome) => outcome,
        Err(page) => return Ok(response(&page)),
    };
    let (page, shown) = oneshot::channel();
    // The channel is full while another visit waits to be handled.
    let page = match visits.try_send(CallbackVisit { outcome, page, closed }) {
        Ok(()) => shown.await.unwrap_or_else(|_| CallbackPage::unexpected()),
        Err(_) => CallbackPage::unexpected(),
    };
    Ok(response(&page))
}

impl CallbackRoutes {
    /// Returns the outcome that a request brings, or the page that rejects it.
    fn find(&self, request: &Request<Incoming>) -> Result<CallbackOutcome, CallbackPage> {
        if request.method() != Method::GET {
            return Err(CallbackPage::not_found());
        }
        let path = request.uri().path();
        if path == self.path {
            let query = request.uri().query().unwrap_or_default();
            return parse_response(query, &self.state, self.check).ok_or_else(CallbackPage::unexpected);
        }
        if path == CANCEL_PATH && self.is_cancellable {
            return Ok(CallbackOutcome::Cancelled);
        }
        Err(CallbackPage::not_found())
    }
}

fn response(page: &CallbackPage) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(page.html().into()));
    *response.status_mut() = page.status.try_into().unwrap_or_default();
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "text/html; charset=utf-8");
    set(header::CACHE_CONTROL, "no-store");
    // The page's own address holds the code.
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CONNECTION, "close");
    response
}
