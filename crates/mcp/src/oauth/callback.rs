//! The local address that a browser comes back to. It listens on loopback only, answers one path, and is gone
//! when the sign-in is over.

use std::{convert::Infallible, io, net::Ipv4Addr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::timeout,
};
use url::form_urlencoded;

use super::pages::CallbackPage;
use crate::text::cut;

/// How many browsers may be connected; they keep spare connections.
const CONNECTIONS: usize = 16;

/// How long a browser may take to ask, and to take its page.
const SLOW: Duration = Duration::from_secs(10);
const FAREWELL: Duration = Duration::from_secs(1);

pub(super) struct CallbackServer {
    listener: TcpListener,
    expected: Arc<ExpectedVisit>,
    connections: JoinSet<()>,
    visits: mpsc::Receiver<BrowserVisit>,
    visitors: mpsc::Sender<BrowserVisit>,
}

/// What tells the visit that is waited for from any other.
struct ExpectedVisit {
    path: String,
    state: String,
}

/// A browser that came back. It is shown the page that it is answered with.
pub(super) struct BrowserVisit {
    pub(super) callback: CallbackParams,
    pub(super) page: oneshot::Sender<CallbackPage>,
}

/// What it brought.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum CallbackParams {
    Code { code: String, issuer: Option<String> },
    Error { error: Option<String>, description: Option<String> },
}

/// A bound address that nothing is waited for at yet.
pub(super) struct BoundAddress {
    listener: TcpListener,
}

impl BoundAddress {
    /// Binds a loopback port; 0 is any that is free.
    pub(super) async fn new(port: u16) -> io::Result<BoundAddress> {
        Ok(BoundAddress { listener: TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await? })
    }

    pub(super) fn port(&self) -> io::Result<u16> {
        Ok(self.listener.local_addr()?.port())
    }

    pub(super) fn expect(self, path: String, state: String) -> CallbackServer {
        let (visitors, visits) = mpsc::channel(1);
        let expected = Arc::new(ExpectedVisit { path, state });
        CallbackServer { listener: self.listener, expected, connections: JoinSet::new(), visits, visitors }
    }
}

impl CallbackServer {
    /// Waits for the browser. Others are turned away meanwhile.
    pub(super) async fn visit(&mut self) -> BrowserVisit {
        loop {
            tokio::select! {
                Some(visit) = self.visits.recv() => return visit,
                Some(_) = self.connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) if self.connections.len() < CONNECTIONS => {
                        self.connections.spawn(serve(stream, self.expected.clone(), self.visitors.clone()));
                    }
                    Ok(_) => {}
                    // Out of descriptors, most likely; there may be some in a moment.
                    Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                },
            }
        }
    }

    /// Lets browsers take the pages that they were answered with.
    pub(super) async fn finish(mut self) {
        drop(self.listener);
        let _ = timeout(FAREWELL, async { while self.connections.join_next().await.is_some() {} }).await;
    }
}

async fn serve(stream: TcpStream, expected: Arc<ExpectedVisit>, visitors: mpsc::Sender<BrowserVisit>) {
    let service = service_fn(move |request| {
        let (expected, visitors) = (expected.clone(), visitors.clone());
        async move { Ok::<_, Infallible>(response(answer(&request, &expected, &visitors).await)) }
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(SLOW);
    // A browser that hangs up has nothing to be told.
    let _ = http.serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: &Request<Incoming>,
    expected: &ExpectedVisit,
    visitors: &mpsc::Sender<BrowserVisit>,
) -> CallbackPage {
    if request.uri().path() != expected.path {
        return CallbackPage::not_found();
    }
    let Some(callback) = read(request.uri().query().unwrap_or_default(), &expected.state) else {
        return CallbackPage::unexpected();
    };
    let (page, shown) = oneshot::channel();
    match visitors.try_send(BrowserVisit { callback, page }) {
        Ok(()) => shown.await.unwrap_or_else(|_| CallbackPage::unexpected()),
        Err(_) => CallbackPage::unexpected(),
    }
}

/// What a query says, if it belongs to the sign-in with this state. Errors may come without a state; nothing
/// but the sign-in itself is lost when they are believed.
fn read(query: &str, state: &str) -> Option<CallbackParams> {
    let parameter = |name: &str| {
        form_urlencoded::parse(query.as_bytes())
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.into_owned())
    };
    let given = parameter("state");
    if given.as_deref().is_some_and(|given| given != state) {
        return None;
    }
    let (error, description) = (parameter("error"), parameter("error_description"));
    if error.is_some() || description.is_some() {
        let short = |text: Option<String>| text.map(|text| cut(&text, 300));
        return Some(CallbackParams::Error { error: short(error), description: short(description) });
    }
    given?;
    Some(CallbackParams::Code { code: parameter("code")?, issuer: parameter("iss") })
}

fn response(page: CallbackPage) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(page.html()));
    *response.status_mut() = http::StatusCode::from_u16(page.status).unwrap_or(http::StatusCode::OK);
    let headers = response.headers_mut();
    headers.insert("content-type", http::HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert("cache-control", http::HeaderValue::from_static("no-store"));
    headers.insert("referrer-policy", http::HeaderValue::from_static("no-referrer"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_belongs_to_the_sign_in_is_believed() {
        let check = |query: &str, expected: Option<CallbackParams>| {
            assert_eq!(read(query, "st"), expected, "{query}")
        };
        let code = |issuer: Option<&str>| CallbackParams::Code {
            code: "c d".to_owned(),
            issuer: issuer.map(str::to_owned),
        };
        let error = |error: &str| CallbackParams::Error { error: Some(error.to_owned()), description: None };
        check("code=c+d&state=st", Some(code(None)));
        check("code=c%20d&state=st&iss=https%3A%2F%2Fx", Some(code(Some("https://x"))));
        check("code=c+d&state=other", None);
        check("code=c+d", None);
        check("state=st", None);
        check("", None);
        check("error=access_denied", Some(error("access_denied")));
        check("error=access_denied&state=st", Some(error("access_denied")));
        check("error=access_denied&state=other", None);
    }
}
