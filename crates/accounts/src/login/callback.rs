//! The local web server that a browser comes back to: one request a connection, one visit that counts.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use codicil_protocol::Secret;
use http_body_util::Full;
use hyper::{
    Method, Request, Response,
    body::{Bytes, Incoming},
    header::{self, HeaderValue},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use reqwest::Url;
use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::page::LoginPage;

pub(crate) const PATH: &str = "/auth/callback";

/// Browsers open some connections just in case.
const MAX_CONNECTIONS: usize = 16;
const HEADER_TIME: Duration = Duration::from_secs(10);
/// How long the last page may take to leave.
const FLUSH_TIME: Duration = Duration::from_secs(2);
/// How often, and after how long, a port that is taken is tried again.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// What a visit that counts brought.
pub(crate) enum CallbackOutcome {
    Code(Secret),
    /// The issuer says no, and why.
    Refused(String),
    /// Another program wants the port for its own sign-in.
    Cancelled,
}

/// A port of this machine that waits for a browser.
pub(crate) struct CallbackListener {
    listener: TcpListener,
    port: u16,
    state: Arc<Secret>,
    connections: JoinSet<()>,
    visits: (mpsc::Sender<PendingVisit>, mpsc::Receiver<PendingVisit>),
}

/// A visit, and the browser that waits to be told what became of it.
struct PendingVisit {
    visit: CallbackOutcome,
    page: oneshot::Sender<LoginPage>,
    gone: CancellationToken,
}

/// Owed to the browser whose visit counted.
pub(crate) struct BrowserReply {
    page: oneshot::Sender<LoginPage>,
    gone: CancellationToken,
}

impl BrowserReply {
    /// Shows a page and waits until it has left.
    pub async fn show(self, page: LoginPage) {
        if self.page.send(page).is_ok() {
            // A browser that does not read its page has had its chance.
            let _ = timeout(FLUSH_TIME, self.gone.cancelled()).await;
        }
    }
}

impl CallbackListener {
    pub async fn open(port: u16, state: Secret) -> io::Result<Self> {
        let listener = bind(port).await?;
        let port = listener.local_addr()?.port();
        let connections = JoinSet::new();
        Ok(Self { listener, port, state: Arc::new(state), connections, visits: mpsc::channel(1) })
    }

    /// Where the issuer sends the browser.
    pub fn address(&self) -> String {
        format!("http://localhost:{}{PATH}", self.port)
    }

    /// Serves until a visit counts.
    pub async fn visit(&mut self) -> (CallbackOutcome, BrowserReply) {
        loop {
            let room = self.connections.len() < MAX_CONNECTIONS;
            tokio::select! {
                Some(PendingVisit { visit, page, gone }) = self.visits.1.recv() => {
                    return (visit, BrowserReply { page, gone });
                }
                Some(_) = self.connections.join_next() => {}
                accepted = self.listener.accept(), if room => match accepted {
                    Ok((stream, _)) => self.serve(stream),
                    // Out of descriptors, most likely: those in use have to be closed first.
                    Err(_) => sleep(PAUSE).await,
                },
            }
        }
    }

    fn serve(&mut self, stream: TcpStream) {
        let (state, visits) = (self.state.clone(), self.visits.0.clone());
        self.connections.spawn(async move {
            let gone = CancellationToken::new();
            let _gone = gone.clone().drop_guard();
            let service = service_fn(|request| answer(request, state.clone(), visits.clone(), gone.clone()));
            let served = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIME)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // A browser that goes away is none of our business.
            let _ = served.await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<Secret>,
    visits: mpsc::Sender<PendingVisit>,
    gone: CancellationToken,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let page = match read(&request, &state) {
        Err(page) => page,
        Ok(visit) => {
            let (page, shown) = oneshot::channel();
            let _ = visits.send(PendingVisit { visit, page, gone }).await;
            shown.await.unwrap_or_else(|_| LoginPage::stray())
        }
    };
    Ok(respond(&page))
}

/// What a request means; a page when it means nothing.
fn read(request: &Request<Incoming>, state: &Secret) -> Result<CallbackOutcome, LoginPage> {
    if request.method() != Method::GET {
        return Err(LoginPage::not_found());
    }
    match request.uri().path() {
        "/cancel" => Ok(CallbackOutcome::Cancelled),
        PATH => read_query(request.uri().query().unwrap_or_default(), state),
        _ => Err(LoginPage::not_found()),
    }
}

/// The state tells this sign-in from every other, and from pages that would like to take part.
fn read_query(query: &str, state: &Secret) -> Result<CallbackOutcome, LoginPage> {
    let url = Url::parse(&format!("http://localhost/?{query}")).map_err(|_| LoginPage::stray())?;
    let find = |name: &str| {
        let found = url.query_pairs().find(|(key, _)| key == name);
        found.map(|(_, value)| value.into_owned()).filter(|value| !value.is_empty())
    };
    let given = find("state").unwrap_or_default();
    if !bool::from(given.as_bytes().ct_eq(state.reveal().as_bytes())) {
        return Err(LoginPage::stray());
    }
    match (find("code"), find("error")) {
        (_, Some(error)) => Ok(CallbackOutcome::Refused(find("error_description").unwrap_or(error))),
        (Some(code), None) => Ok(CallbackOutcome::Code(code.into())),
        (None, None) => Ok(CallbackOutcome::Refused("the issuer sent no code".to_owned())),
    }
}

fn respond(page: &LoginPage) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(page.html().into()));
    *response.status_mut() = page.status.try_into().unwrap_or_default();
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_TYPE, "text/html; charset=utf-8");
    set(header::CACHE_CONTROL, "no-store");
    // The address of the page holds a code.
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::CONNECTION, "close");
    response
}

/// A port that a sign-in of another program holds is asked for, in the way such programs know.
async fn bind(port: u16) -> io::Result<TcpListener> {
    let mut attempt = 1;
    loop {
        match TcpListener::bind(("127.0.0.1", port)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if attempt == ATTEMPTS {
                    let text = format!("Port 127.0.0.1:{port} is already in use");
                    return Err(io::Error::new(io::ErrorKind::AddrInUse, text));
                }
                if attempt == 1 {
                    let _ = timeout(FLUSH_TIME, ask_for(port)).await;
                }
            }
            other => return other,
        }
        attempt += 1;
        sleep(PAUSE).await;
    }
}

async fn ask_for(port: u16) -> io::Result<()> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET /cancel HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.read_u8().await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_state_counts() {
        let state = Secret::from("s3cret".to_owned());
        let read = |query: &str| match read_query(query, &state) {
            Err(page) => format!("page {}", page.status),
            Ok(CallbackOutcome::Code(code)) => format!("code {}", code.reveal()),
            Ok(CallbackOutcome::Refused(reason)) => format!("refused {reason}"),
            Ok(CallbackOutcome::Cancelled) => "cancelled".to_owned(),
        };
        let check = |query: &str, expected: &str| assert_eq!(read(query), expected, "{query}");
        check("state=s3cret&code=abc", "code abc");
        check("code=a%2Bb&state=s3cret", "code a+b");
        check("code=abc", "page 400");
        check("code=abc&state=", "page 400");
        check("code=abc&state=s3creT", "page 400");
        check("error=access_denied", "page 400");
        check("state=s3cret&error=access_denied", "refused access_denied");
        check("state=s3cret&error=x&error_description=not+today", "refused not today");
        check("state=s3cret", "refused the issuer sent no code");
        check("state=s3cret&code=", "refused the issuer sent no code");
    }
}
