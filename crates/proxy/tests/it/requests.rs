//! Requests in absolute form.

use codicil_policy::AddressReach;
use codicil_proxy::{AllowedMethods, GateDecision};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{TestProxy, host, read_all};

#[tokio::test]
async fn a_request_and_its_response_are_forwarded() {
    let (port, received) = host("abc", "HTTP/1.1 200 OK\r\n\r\nhello").await;
    let proxy = TestProxy::open();
    let request = format!("POST http://localhost:{port}/x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(proxy.ask(&request).await, "HTTP/1.1 200 OK\r\n\r\nhello");
    assert_eq!(proxy.asked(), [format!("Http localhost:{port}")]);
    let received = received.await.unwrap();
    assert!(received.starts_with(&format!("POST /x HTTP/1.1\r\nHost: localhost:{port}\r\n")), "{received}");
}

#[tokio::test]
async fn a_second_request_is_not_forwarded() {
    let (port, received) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let proxy = TestProxy::open();
    let request = format!(
        "GET http://localhost:{port}/ HTTP/1.1\r\n\r\nGET /secret HTTP/1.1\r\nHost: other.example\r\n\r\n"
    );
    proxy.ask(&request).await;
    assert!(!received.await.unwrap().contains("secret"));
}

#[tokio::test]
async fn a_refusal_has_its_reason() {
    let proxy = TestProxy::new(GateDecision::Denied("not here".to_owned()), AllowedMethods::All);
    let response = proxy.ask("GET http://example.com/ HTTP/1.1\r\n\r\n").await;
    assert!(response.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{response}");
    assert!(
        response.contains("x-proxy-error: blocked-by-policy\r\n") && response.ends_with("not here\n"),
        "{response}"
    );
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_sending() {
    let proxy = TestProxy::new(GateDecision::Denied("not here".to_owned()), AllowedMethods::All);
    let body = "x".repeat(4 << 20);
    let head = format!("POST http://example.com/ HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    let response = proxy.ask(&(head + &body)).await;
    assert!(response.ends_with("not here\n"), "{response}");
}

#[tokio::test]
async fn names_of_this_machine_are_refused() {
    let (port, _heard) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let proxy = TestProxy::new(GateDecision::Allowed(AddressReach::Public), AllowedMethods::All);
    for name in ["localhost", "127.0.0.1", "127.1", "[::1]", "0.0.0.0"] {
        let response = proxy.ask(&format!("CONNECT {name}:{port} HTTP/1.1\r\n\r\n")).await;
        assert!(
            response.starts_with("HTTP/1.1 403") && response.contains("no public address"),
            "{name}: {response}"
        );
    }
}

#[tokio::test]
async fn an_unreachable_host_is_a_bad_gateway() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let response = TestProxy::open().ask(&format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n")).await;
    assert!(response.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{response}");
}

#[tokio::test]
async fn a_limited_network_allows_only_reading() {
    let (port, _heard) = host("\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n").await;
    let proxy = TestProxy::new(GateDecision::Allowed(AddressReach::Anywhere), AllowedMethods::ReadOnly);
    for line in ["POST http://127.0.0.1:1/", "CONNECT 127.0.0.1:1"] {
        let response = proxy.ask(&format!("{line} HTTP/1.1\r\n\r\n")).await;
        assert!(response.contains("x-proxy-error: blocked-by-method-policy"), "{response}");
    }
    assert_eq!(proxy.exchange(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80]).await[..4], [5, 0, 5, 2]);
    let response = proxy.ask(&format!("HEAD http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n")).await;
    assert!(response.starts_with("HTTP/1.1 204"), "{response}");
    assert_eq!(proxy.asked().len(), 1);
}

#[tokio::test]
async fn a_limited_network_refuses_upgrades_and_bodies() {
    let proxy = TestProxy::new(GateDecision::Allowed(AddressReach::Anywhere), AllowedMethods::ReadOnly);
    for (headers, body) in [
        ("Upgrade: websocket\r\nConnection: upgrade\r\n", "POST /x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("Upgrade: anything\r\n", "DELETE /x HTTP/1.1\r\nHost: a\r\n\r\n"),
        ("Connection: keep-alive, Upgrade\r\n", ""),
        ("Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk\r\n", ""),
        ("HTTP2-Settings: AAMAAABk\r\n", ""),
        ("Content-Length: 3\r\n", "abc"),
        ("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n"),
        ("X-HTTP-Method-Override: DELETE\r\n", ""),
    ] {
        let request = format!("GET http://127.0.0.1:1/ HTTP/1.1\r\n{headers}\r\n{body}");
        let response = proxy.ask(&request).await;
        assert!(response.contains("x-proxy-error: blocked-by-method-policy"), "{request}: {response}");
    }
    assert_eq!(proxy.asked(), [""; 0]);
}

#[tokio::test]
async fn the_gate_decides_about_each_request() {
    for methods in [AllowedMethods::All, AllowedMethods::ReadOnly] {
        let (port, received) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        let proxy = TestProxy::new(GateDecision::Allowed(AddressReach::Anywhere), methods);
        let pipelined = format!(
            "GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\nPOST http://127.0.0.1:{port}/second HTTP/1.1\r\n\r\n"
        );
        proxy.ask(&pipelined).await;
        let received = received.await.unwrap();
        assert!(received.contains("Connection: close\r\n") && !received.contains("second"), "{received}");
        let (port, received) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
        proxy.ask(&format!("GET http://127.0.0.1:{port}/second HTTP/1.1\r\n\r\n")).await;
        assert!(received.await.unwrap().starts_with("GET /second "));
        assert_eq!(proxy.asked().len(), 2);
    }
}

#[tokio::test]
async fn a_second_request_after_chunks_is_not_forwarded() {
    let (port, received) = host("0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let proxy = TestProxy::open();
    let request = format!(
        "POST http://localhost:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0\r\n\r\nGET /secret HTTP/1.1\r\nHost: other.example\r\n\r\n"
    );
    assert_eq!(proxy.ask(&request).await, "HTTP/1.1 200 OK\r\n\r\n");
    let received = received.await.unwrap();
    assert!(received.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{received}");
}

#[tokio::test]
async fn a_second_request_after_a_declined_upgrade_is_not_forwarded() {
    let (port, received) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nplain").await;
    let proxy = TestProxy::open();
    let request = format!(
        "GET http://localhost:{port}/ HTTP/1.1\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\
         GET /secret HTTP/1.1\r\nHost: other.example\r\n\r\n"
    );
    assert_eq!(proxy.ask(&request).await, "HTTP/1.1 200 OK\r\n\r\nplain");
    let received = received.await.unwrap();
    assert!(
        received.contains("Upgrade: x\r\nConnection: upgrade\r\n\r\n") && !received.contains("secret"),
        "{received}"
    );
}

#[tokio::test]
async fn an_accepted_upgrade_forwards_bytes_in_both_directions() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0);
        }
        stream
            .write_all(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\r\n")
            .await
            .unwrap();
        let mut ping = [0; 4];
        stream.read_exact(&mut ping).await.unwrap();
        stream.write_all(b"pong").await.unwrap();
        ping
    });
    let request =
        format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nping");
    let proxy = TestProxy::open();
    let mut stream = proxy.connect_and_send(&request).await;
    let mut response = Vec::new();
    while !response.ends_with(b"pong") {
        assert_ne!(stream.read_buf(&mut response).await.unwrap(), 0, "{response:?}");
    }
    assert!(
        response.starts_with(b"HTTP/1.1 103") && response.ends_with(b"101 Switching Protocols\r\n\r\npong")
    );
    assert_eq!(&host.await.unwrap(), b"ping");
}

#[tokio::test]
async fn ambiguous_requests_reach_no_host() {
    for methods in [AllowedMethods::All, AllowedMethods::ReadOnly] {
        let proxy = TestProxy::new(GateDecision::Allowed(AddressReach::Anywhere), methods);
        for headers in [
            "Content-Length: 3\r\nContent-Length: 4\r\n",
            "Content-Length: 3\r\nContent-Length: 3\r\n",
            "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n",
            "Content-Length: +0\r\n",
            "Transfer-Encoding : chunked\r\n",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n",
            "Transfer-Encoding: gzip, chunked\r\n",
            "X: a\r\n Transfer-Encoding: chunked\r\n",
            "X: a\nTransfer-Encoding: chunked\r\n",
            "X: a\rTransfer-Encoding: chunked\r\n",
            "Host: other.example\r\n",
            "Host: 127.0.0.1:1\r\nHost: other.example\r\n",
            "Host: 127.0.0.1:2\r\n",
        ] {
            let request = format!("GET http://127.0.0.1:1/ HTTP/1.1\r\n{headers}\r\n");
            let response = proxy.ask(&request).await;
            assert!(response.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{request}: {response}");
        }
        assert!(proxy.ask("GET http://127.0.0.1:1/ HTTP/1.1\n\n").await.starts_with("HTTP/1.1 400"));
        assert_eq!(proxy.asked(), [""; 0]);
    }
}

#[tokio::test]
async fn a_malformed_chunked_body_is_not_forwarded() {
    let (port, received) = host("chunked\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let request = format!(
        "POST http://localhost:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
         0x3\r\nabc\r\n0\r\n\r\nGET /secret HTTP/1.1\r\n\r\n"
    );
    TestProxy::open().ask(&request).await;
    let received = received.await.unwrap();
    assert!(!received.contains("abc") && !received.contains("secret"), "{received}");
}

#[tokio::test]
async fn a_response_before_the_end_of_the_body_is_forwarded() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let response = "HTTP/1.1 413 Content Too Large\r\n\r\n";
    let host = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_exact(&mut [0; 64]).await.unwrap();
        stream.write_all(response.as_bytes()).await.unwrap();
        // Dropped with unread input, which resets the connection.
    });
    let proxy = TestProxy::open();
    let mut stream = proxy
        .connect_and_send(&format!(
            "POST http://127.0.0.1:{port}/ HTTP/1.1\r\nContent-Length: {}\r\n\r\n{}",
            8 << 20,
            "x".repeat(1 << 20)
        ))
        .await;
    host.await.unwrap();
    assert_eq!(String::from_utf8(read_all(&mut stream).await).unwrap(), response);
}

#[tokio::test]
async fn malformed_and_oversized_heads_are_refused() {
    let proxy = TestProxy::open();
    assert!(proxy.ask("hello\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let long = format!("GET http://a.example/ HTTP/1.1\r\nX: {}", "x".repeat(64 * 1024));
    assert!(proxy.ask(&long).await.contains("too long"));
    assert_eq!(proxy.asked(), [""; 0]);
}
