//! HTTP: requests that name their host, and tunnels.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader, copy, copy_bidirectional},
    net::TcpStream,
    time::timeout,
};

use crate::{
    AllowedMethods, HostGate,
    chunks::copy_chunks,
    connect::{NoConnection, reach},
    head::{self, BodyLength, RequestHead, RequestWay},
    proxy::HEAD_TIME,
};

/// The longest head of a request.
const LONGEST_HEAD: usize = 64 * 1024;

/// Why there is an answer of our own.
struct RequestRefusal {
    status: &'static str,
    /// For programs; the words are the reference's.
    code: &'static str,
    text: String,
}

impl RequestRefusal {
    fn bad(text: impl Into<String>) -> Self {
        Self { status: "400 Bad Request", code: "bad-request", text: text.into() }
    }
}

impl From<NoConnection> for RequestRefusal {
    fn from(error: NoConnection) -> Self {
        let (status, code) = match error {
            NoConnection::Shut(_) | NoConnection::NotPublic(_) => ("403 Forbidden", "blocked-by-policy"),
            NoConnection::Unknown(..) | NoConnection::Unreachable(..) => ("502 Bad Gateway", "unreachable"),
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
    match head.way {
        RequestWay::Tunnel => {
            client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await?;
            host.write_all(&rest).await?;
            copy_bidirectional(client, &mut host).await.map(|_| ())
        }
        RequestWay::Forward { head, body } => {
            host.write_all(&head).await?;
            pass_on(client, &mut host, &rest, body).await
        }
    }
}

fn forbidden(head: &RequestHead, methods: AllowedMethods) -> Option<RequestRefusal> {
    let subject = head.beyond_reading.as_ref().filter(|_| methods == AllowedMethods::ReadOnly)?;
    Some(RequestRefusal {
        status: "403 Forbidden",
        code: "blocked-by-method-policy",
        text: format!("{subject} is not allowed: the network is limited to GET, HEAD and OPTIONS"),
    })
}

/// The head, and what came with it. `None` when the client went away.
async fn read_head(
    client: &mut TcpStream,
) -> io::Result<Result<Option<(RequestHead, Vec<u8>)>, RequestRefusal>> {
    let mut bytes = Vec::new();
    loop {
        match head::parse(&bytes) {
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

/// The body goes up while the answer comes down. The answer's end is the end.
async fn pass_on(
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
        match body {
            BodyLength::Length(length) => {
                copy(&mut from_client.take(length), &mut to_host).await.map(|_| ())?
            }
            BodyLength::Chunked => copy_chunks(&mut from_client, &mut to_host).await?,
            BodyLength::Upgrade => {}
        }
        // Nothing more is sent, but the answer may take its time.
        std::future::pending::<io::Result<()>>().await
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

/// Passes on the answer to a request for another protocol. What the client sends behind its request reaches the
/// host only once the host has agreed: before, it could be taken for a second request.
async fn upgrade(client: &mut TcpStream, host: &mut TcpStream, rest: &[u8]) -> io::Result<()> {
    let mut answer = Vec::new();
    loop {
        let Some((status, end)) = head::parse_answer(&answer)? else {
            let room = LONGEST_HEAD.saturating_sub(answer.len()) as u64;
            if (&mut *host).take(room).read_buf(&mut answer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            continue;
        };
        match status {
            101 => {
                client.write_all(&answer).await?;
                host.write_all(rest).await?;
                return copy_bidirectional(client, host).await.map(|_| ());
            }
            // Such as `103 Early Hints`; the answer itself follows.
            100..200 => client.write_all(&answer.drain(..end).collect::<Vec<_>>()).await?,
            _ => {
                client.write_all(&answer).await?;
                return copy(host, client).await.map(|_| ());
            }
        }
    }
}

async fn refuse(client: &mut TcpStream, refusal: RequestRefusal) -> io::Result<()> {
    let RequestRefusal { status, code, text } = refusal;
    let length = text.len() + 1;
    let answer = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {length}\r\n\
         x-proxy-error: {code}\r\nConnection: close\r\n\r\n{text}\n"
    );
    client.write_all(answer.as_bytes()).await
}
