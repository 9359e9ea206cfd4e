//! Who may use the console: sign-in, sessions, `Host`, `Origin` and the session's token.

use crate::{
    browser::{Browser, send},
    fixture::Fixture,
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
