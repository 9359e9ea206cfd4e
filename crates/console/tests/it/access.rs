//! Who may use the console: sign-in, sessions, `Host`, `Origin` and the session's token.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    browser::{Browser, send},
    fixture::{Fixture, read_until, soon},
};

const SCRIPT: &str = "[[reply]]\nwhen = {}\nsteps = [{ say = \"Hello\" }]\n";

#[tokio::test]
async fn a_link_signs_in_once() {
    let fixture = Fixture::start(SCRIPT).await;
    let address = fixture.browser.address;
    let host = address.to_string();
    for path in ["/", "/inbox", "/events", "/threads/x", "/complete/directories"] {
        let refused = send(address, &format!("GET {path}"), &[("Host", &host)], "").await;
        assert_eq!(refused.status, 401, "{path}");
    }
    let second = Browser::sign_in(&fixture.link).await;
    assert_eq!(second.get("/").await.status, 200);
    let path = fixture.link.split_once(&host).unwrap().1;
    let again = send(address, &format!("GET {path}"), &[("Host", &host)], "").await;
    assert_eq!((again.status, again.header("set-cookie")), (401, None));
    fixture.stop().await;
}

#[tokio::test]
async fn the_cookie_is_for_this_site_and_not_for_scripts() {
    let fixture = Fixture::start(SCRIPT).await;
    let host = fixture.browser.address.to_string();
    let path = fixture.link.split_once(&host).unwrap().1;
    let response = send(fixture.browser.address, &format!("GET {path}"), &[("Host", &host)], "").await;
    let cookie = response.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly") && cookie.contains("; SameSite=Strict"), "{cookie}");
    let forged = Browser { cookie: format!("{}x", fixture.browser.cookie), ..fixture.browser.clone() };
    assert_eq!(forged.get("/").await.status, 401);
    fixture.stop().await;
}

#[tokio::test]
async fn a_browser_stays_signed_in_over_a_restart() {
    let fixture = Fixture::start(SCRIPT).await;
    let before = fixture.browser.clone();
    let fixture = fixture.restart().await;
    // The name of the cookie has the port, which is another one here.
    let value = before.cookie.split_once('=').unwrap().1;
    let cookie = format!("codicil_console_{}={value}", fixture.browser.address.port());
    let after = Browser { address: fixture.browser.address, cookie, csrf: before.csrf };
    assert_eq!(after.get("/").await.status, 200);
    assert_eq!(after.post("/new", &[]).await.status, 303, "the token is valid too");
    fixture.stop().await;
}

#[tokio::test]
async fn a_session_that_was_signed_out_is_over() {
    let fixture = Fixture::start(SCRIPT).await;
    let mut events = fixture.browser.events("", None).await;
    assert!(soon(events.next()).await.is_some());
    assert_eq!(fixture.browser.post("/sign-out", &[]).await.status, 303);
    // Its streams end, and a copy of the cookie is of no use.
    while soon(events.next()).await.is_some() {}
    assert_eq!(fixture.browser.get("/").await.status, 401);
    let other = Browser::sign_in(&fixture.link).await;
    assert_eq!(other.get("/").await.status, 200);
    fixture.stop().await;
}

#[tokio::test]
async fn other_host_names_are_refused() {
    let fixture = Fixture::start(SCRIPT).await;
    for host in ["evil.example", "localhost.evil.example:4510", ""] {
        let headers = [("Host", host), ("Cookie", fixture.browser.cookie.as_str())];
        let response = send(fixture.browser.address, "GET /", &headers, "").await;
        assert_eq!(response.status, 421, "{host}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_change_needs_the_token_and_the_origin() {
    let fixture = Fixture::start(SCRIPT).await;
    let Browser { address, cookie, csrf } = &fixture.browser;
    let host = address.to_string();
    let own = format!("http://{host}");
    let good = format!("csrf={csrf}");
    let cases = [
        (Some(own.as_str()), good.as_str(), 303),
        (Some(own.as_str()), "csrf=wrong", 403),
        (Some(own.as_str()), "", 403),
        (Some("http://evil.example"), good.as_str(), 403),
        (Some("null"), good.as_str(), 403),
        (None, good.as_str(), 403),
    ];
    for (origin, body, expected) in cases {
        let mut headers = vec![("Host", host.as_str()), ("Cookie", cookie.as_str())];
        headers.extend(origin.map(|origin| ("Origin", origin)));
        let response = send(*address, "POST /new", &headers, body).await;
        assert_eq!(response.status, expected, "{origin:?} {body}: {}", response.body);
    }
    fixture.stop().await;
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let fixture = Fixture::start(SCRIPT).await;
    let thread = fixture.new_thread("").await;
    for path in
        ["/", "/inbox", "/new", "/sign-in", "/assets/console.css", "/nothing", &format!("/threads/{thread}")]
    {
        let response = fixture.browser.get(path).await;
        let policy = response.header("content-security-policy").unwrap_or_else(|| panic!("{path}"));
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}");
        assert!(!policy.contains("unsafe"), "{policy}");
        assert_eq!(response.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(response.header("referrer-policy"), Some("same-origin"), "{path}");
        assert!(!response.body.contains(" style=") && !response.body.contains(" onclick="), "{path}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn only_the_embedded_files_are_assets() {
    let fixture = Fixture::start(SCRIPT).await;
    let host = fixture.browser.address.to_string();
    for path in [
        "/assets/../console.key",
        "/assets/%2e%2e%2fconsole.key",
        "/assets/..%2f..%2fetc%2fpasswd",
        "/assets//etc/passwd",
        "/assets/console.key",
        "/assets/",
        "/assets/console.css/..",
    ] {
        let response = send(fixture.browser.address, &format!("GET {path}"), &[("Host", &host)], "").await;
        assert!(matches!(response.status, 401 | 404), "{path}: {}", response.status);
        assert!(!response.body.contains("root:"), "{path}");
    }
    let style = send(fixture.browser.address, "GET /assets/console.css", &[("Host", &host)], "").await;
    let etag = style.header("etag").unwrap().to_owned();
    let headers = [("Host", host.as_str()), ("If-None-Match", &etag)];
    assert_eq!(send(fixture.browser.address, "GET /assets/console.css", &headers, "").await.status, 304);
    fixture.stop().await;
}

#[tokio::test]
async fn a_session_is_worth_nothing_to_another_one() {
    let fixture = Fixture::start(SCRIPT).await;
    let thread = fixture.new_thread("").await;
    let second = Browser::sign_in(&fixture.link).await;
    assert_ne!(second.csrf, fixture.browser.csrf);
    // The token of one session with the cookie of the other.
    let mixed = Browser { csrf: second.csrf.clone(), ..fixture.browser.clone() };
    assert_eq!(mixed.post("/new", &[]).await.status, 403);
    // A token in the address does not count, and neither does one of a request without a session.
    let Browser { address, cookie, csrf } = &fixture.browser;
    let host = address.to_string();
    let origin = format!("http://{host}");
    let headers = [("Host", host.as_str()), ("Origin", &origin), ("Cookie", cookie)];
    assert_eq!(send(*address, &format!("POST /new?csrf={csrf}"), &headers, "").await.status, 403);
    let headers = [("Host", host.as_str()), ("Origin", &origin), ("X-Csrf-Token", csrf)];
    assert_eq!(send(*address, "POST /new", &headers, "").await.status, 401);
    // Events, pages and parts of pages need the session too.
    for path in ["/events", &format!("/events?thread={thread}"), &format!("/threads/{thread}/export")] {
        for cookie in ["", "codicil_console_1=x", &format!("{cookie}x")] {
            let headers = [("Host", host.as_str()), ("Cookie", cookie)];
            assert_eq!(
                send(*address, &format!("GET {path}"), &headers, "").await.status,
                401,
                "{path} {cookie}"
            );
        }
    }
    // Other methods count as changes.
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS"] {
        let headers = [("Host", host.as_str()), ("Cookie", cookie)];
        let response = send(*address, &format!("{method} /threads/{thread}"), &headers, "").await;
        assert_eq!(response.status, 403, "{method}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn large_forms_are_refused() {
    let fixture = Fixture::start(SCRIPT).await;
    let thread = fixture.new_thread("").await;
    let Browser { address, cookie, .. } = &fixture.browser;
    let host = address.to_string();
    let origin = format!("http://{host}");
    let signed_in = [("Host", host.as_str()), ("Origin", &origin), ("Cookie", cookie)];
    // What is announced is enough: the body is not read.
    let large = (25usize << 20).to_string();
    let cases = [
        (format!("POST /threads/{thread}/input"), signed_in.to_vec(), large.as_str()),
        ("POST /sign-in".to_owned(), vec![("Host", host.as_str()), ("Origin", &origin)], "5000"),
    ];
    for (line, mut headers, length) in cases {
        headers.push(("Content-Length", length));
        let response = announce(*address, &line, &headers).await;
        assert!(response.starts_with("HTTP/1.1 413"), "{line}: {response}");
    }
    // Other files than images are refused.
    let path = format!("/threads/{thread}/input");
    let refused = fixture.browser.post(&path, &[("image", "data:text/html;base64,PGI+")]).await;
    assert!(refused.status == 400 && refused.body.contains("not an image"), "{refused:?}");
    fixture.stop().await;
}

/// Sends the head of a request with a body that is longer than the limit. Returns the response.
async fn announce(address: SocketAddr, line: &str, headers: &[(&str, &str)]) -> String {
    let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all((request + "\r\n").as_bytes()).await.unwrap();
    let mut response = vec![0; 64];
    let count = soon(connection.read(&mut response)).await.unwrap();
    String::from_utf8_lossy(&response[..count]).into_owned()
}

#[tokio::test]
async fn images_are_pictures_or_nothing() {
    let fixture = Fixture::start(SCRIPT).await;
    let pixel =
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==";
    let markup = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iYWxlcnQoMSkiLz4=";
    let thread = fixture.new_thread("").await;
    let (picture, drawing) =
        (format!("data:image/png;base64,{pixel}"), format!("data:image/svg+xml;base64,{markup}"));
    let sent = [("text", "Look"), ("image", &picture), ("image", &drawing), ("do", "send")];
    assert_eq!(fixture.browser.post(&format!("/threads/{thread}/input"), &sent).await.status, 303);
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    read_until(&mut events, |event| event.data.to_string().contains("Done")).await;
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    let images: Vec<_> = page.split(" src=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let images: Vec<_> = images.into_iter().filter(|address| address.contains("/images/")).collect();
    assert_eq!(images.len(), 2, "{page}");
    let picture = fixture.browser.get(images[0]).await;
    assert_eq!((picture.status, picture.header("content-type")), (200, Some("image/png")));
    let drawing = fixture.browser.get(images[1]).await;
    assert_eq!(drawing.status, 415, "{drawing:?}");
    assert!(!drawing.body.contains("svg"));
    fixture.stop().await;
}
