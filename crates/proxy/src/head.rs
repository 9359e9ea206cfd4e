//! The head of an HTTP request to a proxy: where it goes, and how it is passed on.

use std::borrow::Cow;

use codicil_command::{Destination, Host};
use codicil_protocol::NetworkApprovalProtocol as Protocol;
use url::Url;

/// The most header lines that a request has.
const MOST_HEADERS: usize = 128;

/// What the proxy is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub method: String,
    pub to: Destination,
    pub way: Way,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Bytes in both directions.
    Tunnel,
    /// One request, with the head that the host gets, and what follows it.
    Forward { head: Vec<u8>, body: Body },
}

/// What belongs to a request after its head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// So many bytes; none for most.
    Length(u64),
    /// Until it says that it is over, or another protocol.
    Open,
}

/// Reads a head. `None` while it is not complete; an error is for the client to read. The number is where the
/// head ends.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(Head, usize)>, Cow<'static, str>> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let end = match request.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("no HTTP request: {error}").into()),
    };
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err("no HTTP request".into());
    };
    let head = match method {
        "CONNECT" => tunnel(target)?,
        _ => forward(method, target, request.headers)?,
    };
    Ok(Some((head, end)))
}

fn tunnel(target: &str) -> Result<Head, Cow<'static, str>> {
    let parts = target.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let host = parts.and_then(|(host, port)| Some((Host::parse(host)?, port)));
    let Some((host, port)) = host else { return Err("CONNECT wants a host and a port".into()) };
    let to = Destination { host, port, protocol: Protocol::Https };
    Ok(Head { method: "CONNECT".to_owned(), to, way: Way::Tunnel })
}

fn forward(method: &str, target: &str, headers: &[httparse::Header<'_>]) -> Result<Head, Cow<'static, str>> {
    let url = Url::parse(target).ok().filter(|url| url.scheme() == "http");
    let Some(url) = url else { return Err("this is a proxy: it wants an http address, or CONNECT".into()) };
    let host = url.host_str().and_then(Host::parse);
    let (Some(host), Some(port)) = (host, url.port_or_known_default()) else {
        return Err("the address names no host".into());
    };
    let body = body(headers)?;
    let head = passed_on(method, &url, headers);
    let to = Destination { host, port, protocol: Protocol::Http };
    Ok(Head { method: method.to_owned(), to, way: Way::Forward { head, body } })
}

/// One length or one encoding: with several, two readers would disagree where the request ends.
fn body(headers: &[httparse::Header<'_>]) -> Result<Body, Cow<'static, str>> {
    let values = |name: &str| {
        let matching = headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name));
        matching.map(|header| header.value).collect::<Vec<_>>()
    };
    let length = values("content-length");
    let is_open = !values("transfer-encoding").is_empty() || !values("upgrade").is_empty();
    match (length.as_slice(), is_open) {
        ([], true) => Ok(Body::Open),
        ([], false) => Ok(Body::Length(0)),
        ([one], false) => {
            let length = std::str::from_utf8(one).ok().and_then(|text| text.trim().parse().ok());
            length.map(Body::Length).ok_or_else(|| "the length of the body is no number".into())
        }
        _ => Err("the length of the body is said more than once".into()),
    }
}

/// As the host expects it: without what is meant for the proxy, and with the host that was decided about. A
/// request is the last of its connection, so that the next one is decided about as well.
fn passed_on(method: &str, url: &Url, headers: &[httparse::Header<'_>]) -> Vec<u8> {
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let mut head = format!("{method} {}{query} HTTP/1.1\r\nHost: {authority}\r\n", url.path()).into_bytes();
    let is = |header: &httparse::Header<'_>, name: &str| header.name.eq_ignore_ascii_case(name);
    let upgrades = headers.iter().any(|header| is(header, "upgrade"));
    let dropped = ["host", "connection", "keep-alive", "proxy-connection", "proxy-authorization"];
    for header in headers.iter().filter(|header| !dropped.iter().any(|name| is(header, name))) {
        head.extend_from_slice(header.name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(header.value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(if upgrades {
        b"Connection: upgrade\r\n\r\n"
    } else {
        b"Connection: close\r\n\r\n"
    });
    head
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;

    fn read(text: &str) -> Result<Option<(Head, usize)>, Cow<'static, str>> {
        parse(text.as_bytes())
    }

    #[test]
    fn a_tunnel_names_host_and_port() {
        let check = |target: &str, expected: Option<(&str, u16)>| {
            let found = read(&format!("CONNECT {target} HTTP/1.1\r\n\r\n"));
            let found = found.ok().flatten().map(|(head, _)| (head.to.host.to_string(), head.to.port));
            assert_eq!(found, expected.map(|(host, port)| (host.to_owned(), port)), "{target}");
        };
        check("Example.com:443", Some(("example.com", 443)));
        check("[::1]:8443", Some(("::1", 8443)));
        check("example.com", None);
        check("example.com:99999", None);
        check("user@example.com:443", None);
        check("a/b:1", None);
    }

    #[test]
    fn a_request_goes_to_the_host_of_its_address_whatever_its_headers_say() {
        let text = "POST http://Example.com:8080/a?b=c#d HTTP/1.1\r\nHost: other.example\r\n\
                    Proxy-Authorization: secret\r\nConnection: keep-alive\r\nContent-Length: 3\r\nX-A: b\r\n\r\nabc";
        let (head, end) = read(text).unwrap().unwrap();
        assert_eq!((head.to.host.as_str(), head.to.port, &text[end..]), ("example.com", 8080, "abc"));
        let Way::Forward { head, body } = head.way else { panic!("no request") };
        assert_eq!(body, Body::Length(3));
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "POST /a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nContent-Length: 3\r\nX-A: b\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        let refused = |text: &str| assert!(read(text).is_err(), "{text}");
        refused("GET /path HTTP/1.1\r\nHost: a.example\r\n\r\n");
        refused("GET https://a.example/ HTTP/1.1\r\n\r\n");
        refused("GET ftp://a.example/ HTTP/1.1\r\n\r\n");
        refused("GET http://b\u{fc}cher/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n");
        refused("GET http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
        refused("GET http://a.example/ HTTP/1.1\r\nContent-Length: x\r\n\r\n");
        refused("nonsense\r\n\r\n");
        assert_eq!(read("GET http://a.example/ HTTP/1.1\r\nHos"), Ok(None));
    }

    #[test]
    fn names_that_are_addresses_in_disguise_are_known_as_such() {
        let host = |target: &str| read(&format!("GET {target} HTTP/1.1\r\n\r\n")).unwrap().unwrap().0.to.host;
        for disguise in
            ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/"]
        {
            assert_eq!(host(disguise).as_str(), "127.0.0.1", "{disguise}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn what_is_passed_on_is_one_head_for_the_host_of_the_address(
            method in "[A-Z]{1,8}", path in "[!-~]{0,40}", name in "[a-zA-Z-]{1,12}", value in "[ -~]{0,30}",
        ) {
            let text = format!("{method} http://a.example/{path} HTTP/1.1\r\n{name}: {value}\r\n\r\n");
            if let Ok(Some((Head { to, way: Way::Forward { head, .. }, .. }, end))) = parse(text.as_bytes()) {
                let head = String::from_utf8(head).unwrap();
                prop_assert_eq!((to.host.as_str(), to.port, end), ("a.example", 80, text.len()));
                prop_assert!(head.starts_with(&format!("{method} /")), "{}", head);
                prop_assert_eq!(head.find("\r\n\r\n"), Some(head.len() - 4));
                prop_assert_eq!(head.to_lowercase().matches("\r\nhost:").count(), 1);
            }
        }
    }
}
