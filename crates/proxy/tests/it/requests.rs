//! Requests that name their host.

use codicil_command::Reach;
use codicil_proxy::{Methods, Pass};

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
    let stage = Stage::new(Pass::Shut("not here".to_owned()), Methods::All);
    let answer = stage.ask("GET http://example.com/ HTTP/1.1\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{answer}");
    assert!(
        answer.contains("x-proxy-error: blocked-by-policy\r\n") && answer.ends_with("not here\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_refusal_reaches_a_client_that_is_still_talking() {
    let stage = Stage::new(Pass::Shut("not here".to_owned()), Methods::All);
    let body = "x".repeat(4 << 20);
    let head = format!("POST http://example.com/ HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    let answer = stage.ask(&(head + &body)).await;
    assert!(answer.ends_with("not here\n"), "{answer}");
}

#[tokio::test]
async fn names_that_lead_to_this_machine_lead_nowhere() {
    let (port, _heard) = host("\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n").await;
    let stage = Stage::new(Pass::Open(Reach::Public), Methods::All);
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
    let stage = Stage::new(Pass::Open(Reach::Anywhere), Methods::ReadOnly);
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
async fn nonsense_is_refused_and_endless_heads_are_not_read() {
    let stage = Stage::open();
    assert!(stage.ask("hello\r\n\r\n").await.starts_with("HTTP/1.1 400"));
    let long = format!("GET http://a.example/ HTTP/1.1\r\nX: {}", "x".repeat(64 * 1024));
    assert!(stage.ask(&long).await.contains("too long"));
    assert_eq!(stage.asked(), [""; 0]);
}
