//! Tunnels: `CONNECT` and SOCKS5.

use std::io::ErrorKind;

use codicil_proxy::{AllowedMethods, GateDecision};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::support::{TestProxy, host, read_all};

#[tokio::test]
async fn a_tunnel_forwards_bytes_in_both_directions() {
    let (port, received) = host("ping", "pong").await;
    let proxy = TestProxy::open();
    let request = format!("CONNECT localhost:{port} HTTP/1.1\r\nHost: localhost\r\n\r\nping");
    let response = proxy.ask(&request).await;
    assert_eq!(response, "HTTP/1.1 200 Connection established\r\n\r\npong");
    assert_eq!(proxy.asked(), [format!("Https localhost:{port}")]);
    assert_eq!(received.await.unwrap(), "ping");
}

/// Connects through SOCKS5 to a name or an address. Returns the stream and the reply code.
async fn socks(proxy: &TestProxy, kind: &[u8], port: u16) -> (TcpStream, u8) {
    let mut stream = proxy.connect().await;
    stream.write_all(&[5, 2, 0, 2]).await.unwrap();
    let mut chosen = [0; 2];
    stream.read_exact(&mut chosen).await.unwrap();
    assert_eq!(chosen, [5, 0]);
    let request = [&[5, 1, 0], kind, &port.to_be_bytes()].concat();
    stream.write_all(&request).await.unwrap();
    let mut response = [0; 10];
    stream.read_exact(&mut response).await.unwrap();
    (stream, response[1])
}

#[tokio::test]
async fn socks_forwards_bytes() {
    let (port, _heard) = host("ping", "pong").await;
    let proxy = TestProxy::open();
    let (mut stream, code) = socks(&proxy, b"\x03\x09localhost", port).await;
    assert_eq!(code, 0);
    stream.write_all(b"ping").await.unwrap();
    assert_eq!(read_all(&mut stream).await, b"pong");
    assert_eq!(proxy.asked(), [format!("Socks5Tcp localhost:{port}")]);
}

#[tokio::test]
async fn socks_refuses_what_it_does_not_support() {
    let proxy = TestProxy::new(GateDecision::Denied("no".to_owned()), AllowedMethods::All);
    assert_eq!(socks(&proxy, &[1, 127, 0, 0, 1], 1).await.1, 2);
    assert_eq!(socks(&proxy, b"\x03\x03a b", 1).await.1, 8);
    // An unknown authentication method, and UDP.
    assert_eq!(proxy.exchange(&[5, 1, 2]).await, [5, 0xff]);
    assert_eq!(proxy.exchange(&[5, 1, 0, 5, 3, 0, 1, 0, 0, 0, 0, 0, 0]).await[..4], [5, 0, 5, 7]);
}

#[tokio::test]
async fn connections_end_with_the_proxy() {
    let (port, _heard) = host("never", "").await;
    let mut proxy = TestProxy::open();
    let mut stream = proxy.connect().await;
    stream.write_all(format!("CONNECT 127.0.0.1:{port} HTTP/1.1\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = [0; 12];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.1 200");
    drop(proxy.proxy.take());
    // A dropped connection is closed or reset.
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest).await {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
    }
    let refused = TcpStream::connect(("127.0.0.1", proxy.port)).await;
    assert!(refused.is_err() || read_all(&mut refused.unwrap()).await.is_empty());
}
