//! Requests that name their host.

use codicil_policy::AddressReach;
use codicil_proxy::{AllowedMethods, GateDecision};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Stage, host};

#[tokio::test]
async fn a_request_is_passed_on_and_its_answer_comes_back() {
    let (port, heard) = host("abc", "HTTP/1.1 200 OK\r\n\r\nhello").await;
    let stage = Stage::open();
    let request = format!("POST http://localhost:{port}/x HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc");
    assert_eq!(stage.ask(&request).await, "HTTP/1.1 200 OK\r\n\r\nhello");
    assert_eq!(stage.asked(), [format!("Http localhost:{port}")]);
    let heard = heard.await.unwrap();
    assert!(heard.starts_with(&format!("POST /x HTTP/1.1\r\nHost: localhost:{port}\r\n")), "{heard}");
}

#[tokio::test]
async fn a_second_request_does_not_ride_along() {
    let (port, heard) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let stage = Stage::open();
    let request = format!(
        "GET http://localhost:{port}/ HTTP/1.1\r\n\r\nGET /secret HTTP/1.1\r\nHost: other.example\r\n\r\n"
    );
    stage.ask(&request).await;
    assert!(!heard.await.unwrap().contains("secret"));
}

#[tokio::test]
async fn what_is_refused_is_told_why() {
    let stage = Stage::new(GateDecision::Shut("not here".to_owned()), AllowedMethods::All);
    let answer = stage.ask("GET http://example.com/ HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(
        answer.contains("x-proxy-error: blocked-by-policy\r\n") && answer.ends_with("not here\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_talking() {
    let stage = Stage::new(GateDecision::Shut("not here".to_owned()), AllowedMethods::All);
    let body = "x".repeat(4 << 20);
    let head = format!("POST http://example.com/ HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = stage.ask(&(head + &body)).await;
    assert!(answer.ends_with("not here\n"), "{answer}");
}

#[tokio::test]
async fn names_that_lead_to_this_machine_lead_nowhere() {
    let (port, _heard) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let stage = Stage::new(GateDecision::Open(AddressReach::Public), AllowedMethods::All);
    for name in ["localhost", "127.0.0.1", "127.1", "[::1]", "0.0.0.0"] {
        let answer = stage.ask(&format!("CONNECT {name}:{port} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 403") && answer.contains("not public"), "{name}: {answer}");
    }
}

#[tokio::test]
async fn a_host_that_is_not_there_is_said_to_be_so() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    drop(listener);
    let answer = Stage::open().ask(&format!("GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
}

#[tokio::test]
async fn a_limited_network_lets_only_reading_through() {
    let (port, _heard) = host("\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n").await;
    let stage = Stage::new(GateDecision::Open(AddressReach::Anywhere), AllowedMethods::ReadOnly);
    for line in ["POST http://127.0.0.1:1/", "CONNECT 127.0.0.1:1"] {
        let answer = stage.ask(&format!("{line} HTTP/1.1\r\n\r\n")).await;
        assert!(answer.contains("x-proxy-error: blocked-by-method-policy"), "{answer}");
    }
    assert_eq!(stage.exchange(&[5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80]).await[..4], [5, 0, 5, 2]);
    let answer = stage.ask(&format!("HEAD http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\n")).await;
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    assert_eq!(stage.asked().len(), 1);
}

#[tokio::test]
async fn a_limited_network_lets_no_other_protocol_and_no_body_through() {
    let stage = Stage::new(GateDecision::Open(AddressReach::Anywhere), AllowedMethods::ReadOnly);
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
        let answer = stage.ask(&request).await;
        assert!(answer.contains("x-proxy-error: blocked-by-method-policy"), "{request}: {answer}");
    }
    assert_eq!(stage.asked(), [""; 0]);
}

#[tokio::test]
async fn a_second_request_is_not_passed_on_and_a_new_one_is_decided_about() {
    for methods in [AllowedMethods::All, AllowedMethods::ReadOnly] {
        let (port, heard) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        let stage = Stage::new(GateDecision::Open(AddressReach::Anywhere), methods);
        let pipelined = format!(
            "GET http://127.0.0.1:{port}/ HTTP/1.1\r\n\r\nPOST http://127.0.0.1:{port}/second HTTP/1.1\r\n\r\n"
        );
        stage.ask(&pipelined).await;
        let heard = heard.await.unwrap();
        assert!(heard.contains("Connection: close\r\n") && !heard.contains("second"), "{heard}");
        let (port, heard) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
        stage.ask(&format!("GET http://127.0.0.1:{port}/second HTTP/1.1\r\n\r\n")).await;
        assert!(heard.await.unwrap().starts_with("GET /second "));
        assert_eq!(stage.asked().len(), 2);
    }
}

#[tokio::test]
async fn a_second_request_does_not_ride_along_with_chunks() {
    let (port, heard) = host("0\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let stage = Stage::open();
    let request = format!(
        "POST http://localhost:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
         3\r\nabc\r\n0\r\n\r\nGET /secret HTTP/1.1\r\nHost: other.example\r\n\r\n"
    );
    assert_eq!(stage.ask(&request).await, "HTTP/1.1 200 OK\r\n\r\n");
    let heard = heard.await.unwrap();
    assert!(heard.ends_with("\r\n\r\n3\r\nabc\r\n0\r\n\r\n"), "{heard}");
}

#[tokio::test]
async fn a_second_request_does_not_ride_along_with_an_upgrade_that_the_host_declines() {
    let (port, heard) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\nplain").await;
    let stage = Stage::open();
    let request = format!(
        "GET http://localhost:{port}/ HTTP/1.1\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n\
         GET /secret HTTP/1.1\r\nHost: other.example\r\n\r\n"
    );
    assert_eq!(stage.ask(&request).await, "HTTP/1.1 200 OK\r\n\r\nplain");
    let heard = heard.await.unwrap();
    assert!(
        heard.contains("Upgrade: x\r\nConnection: upgrade\r\n\r\n") && !heard.contains("secret"),
        "{heard}"
    );
}

#[tokio::test]
async fn an_upgrade_that_the_host_agrees_to_carries_bytes_both_ways() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"\r\n\r\n") {
            assert_ne!(stream.read_buf(&mut heard).await.unwrap(), 0);
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
    let stage = Stage::open();
    let mut stream = stage.connect_and_send(&request).await;
    let mut answer = Vec::new();
    while !answer.ends_with(b"pong") {
        assert_ne!(stream.read_buf(&mut answer).await.unwrap(), 0, "{answer:?}");
    }
    assert!(answer.starts_with(b"HTTP/1.1 103") && answer.ends_with(b"101 Switching Protocols\r\n\r\npong"));
    assert_eq!(&host.await.unwrap(), b"ping");
}

#[tokio::test]
async fn requests_that_could_be_read_in_two_ways_reach_no_host() {
    for methods in [AllowedMethods::All, AllowedMethods::ReadOnly] {
        let stage = Stage::new(GateDecision::Open(AddressReach::Anywhere), methods);
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
            let answer = stage.ask(&request).await;
            assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{request}: {answer}");
        }
        assert!(stage.ask("GET http://127.0.0.1:1/ HTTP/1.1\n\n").await.starts_with("HTTP/1.1 400"));
        assert_eq!(stage.asked(), [""; 0]);
    }
}

#[tokio::test]
async fn a_body_that_is_not_in_chunks_as_it_says_goes_no_further() {
    let (port, heard) = host("chunked\r\nConnection: close\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let request = format!(
        "POST http://localhost:{port}/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\
         0x3\r\nabc\r\n0\r\n\r\nGET /secret HTTP/1.1\r\n\r\n"
    );
    Stage::open().ask(&request).await;
    let heard = heard.await.unwrap();
    assert!(!heard.contains("abc") && !heard.contains("secret"), "{heard}");
}

#[tokio::test]
async fn nonsense_is_refused_and_endless_heads_are_not_read() {
    let stage = Stage::open();
    assert!(stage.ask("hello\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let long = format!("GET http://a.example/ HTTP/1.1\r\nX: {}", "x".repeat(64 * 1024));
    assert!(stage.ask(&long).await.contains("too long"));
    assert_eq!(stage.asked(), [""; 0]);
}
