//! The websocket listener: health probes, requests of web pages, many clients.

use codicil_protocol::{
    MockExperimentalMethod, MockExperimentalMethodParams, ThreadList, ThreadListParams, ThreadStarted,
};
use codicil_testkit::{App, ServerProcess, TestTransport};
use futures_util::future::join_all;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_tungstenite::{
    client_async,
    tungstenite::{Error, client::IntoClientRequest, http::HeaderValue},
};

use crate::soon;

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

pub async fn listener(arguments: &[&str]) -> (ServerProcess, String, tempfile::TempDir) {
    let home = tempfile::tempdir().unwrap();
    let listen = ["app-server", "--listen", "ws://127.0.0.1:0"];
    let mut process = ServerProcess::spawn(home.path(), listen.iter().chain(arguments));
    let address = process.announced_address().await;
    (process, address, home)
}

/// Returns the status of the response to a request with these header lines.
async fn status(address: &str, request: &str, headers: &str) -> u16 {
    status_without_host(address, request, &format!("Host: localhost\r\n{headers}")).await
}

async fn status_without_host(address: &str, request: &str, headers: &str) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("{request} HTTP/1.1\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut line = [0; 12];
    soon(stream.read_exact(&mut line)).await.unwrap();
    std::str::from_utf8(&line[9..]).unwrap().parse().unwrap()
}

/// Returns the status of a websocket handshake; 101 is a success.
pub async fn handshake(address: &str, header: Option<(&'static str, &str)>) -> u16 {
    let stream = TcpStream::connect(address).await.unwrap();
    let mut request = format!("ws://{address}/").into_client_request().unwrap();
    if let Some((name, value)) = header {
        request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
    }
    match client_async(request, stream).await {
        Ok((_, response)) => response.status().as_u16(),
        Err(Error::Http(response)) => response.status().as_u16(),
        Err(error) => panic!("{error}"),
    }
}

#[tokio::test]
async fn probes_are_answered_and_web_pages_are_rejected() {
    let (mut process, address, _home) = listener(&[]).await;
    for (request, headers, expected) in [
        ("GET /readyz", "", 200),
        ("GET /healthz", "", 200),
        ("GET /readyz?verbose", "", 200),
        ("GET /readyz", "Origin: http://localhost\r\n", 403),
        ("GET /healthz", "origin: null\r\n", 403),
        ("GET /", "Origin: http://evil.example\r\n", 403),
        ("GET /other", "", 404),
        ("GET /", "", 404),
        ("POST /readyz", "Content-Length: 0\r\n", 404),
        ("GET /", UPGRADE, 101),
        ("GET /any/path", UPGRADE, 101),
        ("GET /", &format!("{UPGRADE}Origin: http://localhost\r\n"), 403),
        ("GET /", &UPGRADE.replace("13", "12"), 404),
        ("GET /", &UPGRADE.replace("websocket\r\n", "h2c\r\n"), 404),
    ] {
        assert_eq!(status(&address, request, headers).await, expected, "{request} {headers}");
    }
    assert_eq!(handshake(&address, None).await, 101);
    assert_eq!(handshake(&address, Some(("origin", "http://evil.example"))).await, 403);
    process.terminate();
    process.expect_success().await;
}

/// The host name of a web page may resolve to this machine, and its requests then have no `Origin`.
#[tokio::test]
async fn a_listener_without_authentication_accepts_only_local_hosts() {
    let (mut process, address, _home) = listener(&[]).await;
    let own_host = format!("Host: {address}\r\n");
    for (request, headers, expected) in [
        ("GET /", own_host.as_str(), 101),
        ("GET /", "Host: localhost:4500\r\n", 101),
        ("GET /", "Host: [::1]:4500\r\n", 101),
        ("GET http://localhost/", "Host: localhost\r\n", 101),
        ("GET /", "Host: evil.example\r\n", 403),
        ("GET /", "Host: localhost\r\nHost: evil.example\r\n", 403),
        ("GET http://evil.example/", "Host: localhost\r\n", 403),
        ("GET /readyz", "Host: evil.example\r\n", 403),
        ("GET /", "", 403),
    ] {
        let headers = format!("{headers}{UPGRADE}");
        assert_eq!(status_without_host(&address, request, &headers).await, expected, "{request} {headers}");
    }
    process.terminate();
    process.expect_success().await;
}

#[tokio::test]
async fn two_hundred_clients_are_served_at_once() {
    let mut app = App::builder().experimental().over(TestTransport::WebSocket).start().await;
    let mut clients = Vec::new();
    for _ in 1..200 {
        clients.push(app.another_client().await);
    }
    let talks = clients.iter_mut().enumerate().map(|(number, client)| async move {
        for round in 0..10 {
            let value = Some(format!("{number}/{round}"));
            let params = MockExperimentalMethodParams { value: value.clone() };
            assert_eq!(client.call::<MockExperimentalMethod>(params).await.echoed, value);
        }
    });
    join_all(talks).await;

    // Among so many clients, those that have listed threads follow the threads of others.
    let (listing, others) = clients.split_at_mut(100);
    for client in &mut *listing {
        assert_eq!(client.call::<ThreadList>(ThreadListParams::default()).await.data, []);
    }
    let thread = app.start_thread().await;
    for client in listing {
        assert_eq!(client.until::<ThreadStarted>().await.thread.id, thread.id);
        client.ignore_rest();
    }
    for client in others {
        let value = Some("after the start".to_owned());
        let params = MockExperimentalMethodParams { value: value.clone() };
        assert_eq!(client.call::<MockExperimentalMethod>(params).await.echoed, value);
        assert_eq!(client.rest().await, "", "a client without a list of threads");
    }
    app.ignore_rest();
}

#[tokio::test]
async fn a_client_that_violates_the_protocol_does_not_affect_others() {
    let mut app = App::builder().over(TestTransport::WebSocket).start().await;
    let address = app.process().announced_address().await;
    for garbage in [&b"\0\0\0\0"[..], b"GET", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01"] {
        let mut stream = TcpStream::connect(&address).await.unwrap();
        stream.write_all(garbage).await.unwrap();
        stream.shutdown().await.unwrap();
        // The server closes the connection, with or without an answer.
        soon(stream.read_to_end(&mut Vec::new())).await.unwrap();
    }
    let mut socket = TcpStream::connect(&address).await.unwrap();
    socket.write_all(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{UPGRADE}\r\n").as_bytes()).await.unwrap();
    let mut head = vec![0; 12];
    socket.read_exact(&mut head).await.unwrap();
    // A frame that no client may send: a reserved opcode, unmasked.
    socket.write_all(b"\xff\x00").await.unwrap();
    soon(socket.read_to_end(&mut Vec::new())).await.unwrap();
    app.start_thread().await;
    app.rest().await;
}
