//! Serves HTTP requests in absolute form, and `CONNECT` tunnels.

use std::{future::pending, io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader, copy, copy_bidirectional},
    net::TcpStream,
    time::{sleep, timeout},
};

use crate::{
    AllowedMethods, HostGate,
    chunks::copy_chunks,
    connect::{ConnectError, reach},
    proxy::HEAD_TIME,
    request_head::{self, BodyLength, RequestHead, RequestKind},
};

/// The size of the largest request head.
const LONGEST_HEAD: usize = 64 * 1024;

/// How long a response is forwarded after the host has stopped receiving the body.
const RESPONSE_TIME: Duration = Duration::from_secs(5);

/// A response of the proxy itself.
struct RequestRefusal {
    status: &'static str,
    /// A code for programs, as the reference server names it.
    code: &'static str,
    text: String,
}

impl RequestRefusal {
    fn bad(text: impl Into<String>) -> Self {
        Self { status: "400 Bad Request", code: "bad-request", text: text.into() }
    }
}

impl From<ConnectError> for RequestRefusal {
    fn from(error: ConnectError) -> Self {
        let (status, code) = match error {
            ConnectError::Denied(_) | ConnectError::NotPublic(_) => ("403 Forbidden", "blocked-by-policy"),
            ConnectError::LookUp(..) | ConnectError::Unreachable(..) => ("502 Bad Gateway", "unreachable"),
        };
        Self { status, code, text: error.to_string() }
    }
}

/// Serves one request or tunnel.
pub(crate) async fn serve(
    client: &mut TcpStream,
    gate: &dyn HostGate,
    methods: AllowedMethods,
) -> io::Result<()> {
    let read = match timeout(HEAD_TIME, read_head(client)).await {
        Ok(read) => read?,
        Err(_) => return Ok(()),
    };
    let (head, rest) = match read {
        Ok(Some(read)) => read,
        Ok(None) => return Ok(()),
        Err(refusal) => return refuse(client, refusal).await,
    };
    if let Some(refusal) = forbidden(&head, methods) {
        return refuse(client, refusal).await;
    }
    let mut host = match reach(head.to, gate).await {
        Ok(host) => host,
        Err(error) => return refuse(client, error.into()).await,
    };
    match head.kind {
        RequestKind::Tunnel => {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            host.write_all(&rest).await?;
            copy_bidirectional(client, &mut host).await.map(|_| ())
        }
        RequestKind::Forward { head, body } => {
            host.write_all(&head).await?;
            forward(client, &mut host, &rest, body).await
        }
    }
}

fn forbidden(head: &RequestHead, methods: AllowedMethods) -> Option<RequestRefusal> {
    let subject = head.read_only_violation.as_ref().filter(|_| methods == AllowedMethods::ReadOnly)?;
    Some(RequestRefusal {
        status: "403 Forbidden",
        code: "blocked-by-method-policy",
        text: format!("{subject} is not allowed: the network is limited to GET, HEAD and OPTIONS"),
    })
}

/// Reads a head, and the bytes that came with it. Returns `None` if the client disconnects.
async fn read_head(
    client: &mut TcpStream,
) -> io::Result<Result<Option<(RequestHead, Vec<u8>)>, RequestRefusal>> {
    let mut bytes = Vec::new();
    loop {
        match request_head::parse(&bytes) {
            Ok(Some((head, end))) => {
                let rest = bytes.split_off(end);
                return Ok(Ok(Some((head, rest))));
            }
            Ok(None) if bytes.len() >= LONGEST_HEAD => {
                return Ok(Err(RequestRefusal::bad("the head of the request is too long")));
            }
            Ok(None) => {}
            Err(text) => return Ok(Err(RequestRefusal::bad(text))),
        }
        let room = (LONGEST_HEAD - bytes.len()) as u64;
        if (&mut *client).take(room).read_buf(&mut bytes).await? == 0 {
            return Ok(Ok(None));
        }
    }
}

/// Forwards the body to the host and the response to the client at the same time. Ends with the response. A host may
/// refuse a body before it has received all of it, so a failure to send does not end the response.
async fn forward(
    client: &mut TcpStream,
    host: &mut TcpStream,
    rest: &[u8],
    body: BodyLength,
) -> io::Result<()> {
    if body == BodyLength::Upgrade {
        return upgrade(client, host, rest).await;
    }
    let (mut from_client, mut to_client) = client.split();
    let (mut from_host, mut to_host) = host.split();
    let up = async {
        let mut from_client = BufReader::new(rest.chain(&mut from_client));
        let sent = match body {
            BodyLength::Length(length) => copy(&mut from_client.take(length), &mut to_host).await.map(|_| ()),
            BodyLength::Chunked => copy_chunks(&mut from_client, &mut to_host).await,
            BodyLength::Upgrade => Ok(()),
        };
        match sent {
            // The request is complete; the response may take longer.
            Ok(()) => pending().await,
            Err(error) if is_disconnect(&error) => {
                sleep(RESPONSE_TIME).await;
                Err(error)
            }
            Err(error) => Err(error),
        }
    };
    let down = async {
        copy(&mut from_host, &mut to_client).await?;
        Ok(())
    };
    tokio::select! {
        done = up => done,
        done = down => done,
    }
}

/// Returns whether one side has closed its connection.
fn is_disconnect(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Forwards the response to a request for another protocol. What the client sends after its request is forwarded only once
/// the host has agreed with status 101. Before that, the host could take it for a second request.
async fn upgrade(client: &mut TcpStream, host: &mut TcpStream, rest: &[u8]) -> io::Result<()> {
    let mut response = Vec::new();
    loop {
        let Some((status, end)) = request_head::parse_response(&response)? else {
            let room = LONGEST_HEAD.saturating_sub(response.len()) as u64;
            if (&mut *host).take(room).read_buf(&mut response).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            continue;
        };
        match status {
            101 => {
                client.write_all(&response).await?;
                host.write_all(rest).await?;
                return copy_bidirectional(client, host).await.map(|_| ());
            }
            // An interim response such as `103 Early Hints`; the final one follows.
            100..200 => client.write_all(&response.drain(..end).collect::<Vec<_>>()).await?,
            _ => {
                client.write_all(&response).await?;
                return copy(host, client).await.map(|_| ());
            }
        }
    }
}

async fn refuse(client: &mut TcpStream, refusal: RequestRefusal) -> io::Result<()> {
    let RequestRefusal { status, code, text } = refusal;
    let length = text.len() + 1;
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         x-proxy-error: {code}\r\nConnection: close\r\n\r\n{text}\n"
    );
    client.write_all(response.as_bytes()).await
}
