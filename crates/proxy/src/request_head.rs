//! Parses the head of an HTTP request to a proxy: where the request goes, and the head to forward.

use std::{borrow::Cow, io};

use codicil_policy::{HostName, NetworkDestination};
use codicil_protocol::NetworkApprovalProtocol as Protocol;
use url::Url;

/// How many header lines a request may have.
const MAX_HEADERS: usize = 128;

/// A parsed request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RequestHead {
    pub to: NetworkDestination,
    pub kind: RequestKind,
    /// What a network limited to reading does not allow about this request, as the subject of a sentence.
    pub read_only_violation: Option<Cow<'static, str>>,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// A tunnel: bytes in both directions.
    Tunnel,
    /// One request, with the head for the host and the length of the body.
    Forward { head: Vec<u8>, body: BodyLength },
}

/// The length of a request's body. Bytes after the body are not forwarded: they could be a second request, about which
/// the gate has not decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyLength {
    /// A number of bytes, 0 without a body.
    Length(u64),
    /// Chunks, up to the empty one.
    Chunked,
    /// No body. Bytes in both directions once the host has agreed to another protocol.
    Upgrade,
}

/// Parses a head. Returns it with the position of its end, or `None` while it is incomplete. The error is a text for the
/// client.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<(RequestHead, usize)>, Cow<'static, str>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    let end = match request.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => end,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(error) => return Err(format!("not an HTTP request: {error}").into()),
    };
    if !bytes.get(..end).is_some_and(has_strict_lines) {
        return Err("every line of the head must end with CR and LF, and none may be folded".into());
    }
    let (Some(method), Some(target)) = (request.method, request.path) else {
        return Err("not an HTTP request".into());
    };
    let head = match method {
        "CONNECT" => tunnel(target)?,
        _ => forward(method, target, request.version, &HeaderLines(request.headers))?,
    };
    Ok(Some((head, end)))
}

/// Parses the head of a response. Returns its status and the position of its end, or `None` while it is incomplete.
pub(crate) fn parse_response(bytes: &[u8]) -> io::Result<Option<(u16, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    match response.parse(bytes) {
        Ok(httparse::Status::Complete(end)) => Ok(response.code.map(|status| (status, end))),
        Ok(httparse::Status::Partial) => Ok(None),
        Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error)),
    }
}

/// Returns whether all parsers agree where the lines of a head end: CR and LF occur only together, and no line begins with
/// a blank, which some parsers take for the continuation of the line before.
fn has_strict_lines(head: &[u8]) -> bool {
    let mut before = None;
    let mut bytes = head.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        let is_strict = match byte {
            b'\r' => bytes.peek() == Some(&b'\n'),
            b'\n' => before == Some(b'\r') && !matches!(bytes.peek(), Some(b' ' | b'\t')),
            _ => true,
        };
        if !is_strict {
            return false;
        }
        before = Some(byte);
    }
    true
}

/// The header lines of a request.
struct HeaderLines<'a>(&'a [httparse::Header<'a>]);

impl<'a> HeaderLines<'a> {
    fn values(&self, name: &str) -> Vec<&'a [u8]> {
        let matching = self.0.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
        matching.map(|header| header.value).collect()
    }

    fn has(&self, name: &str) -> bool {
        !self.values(name).is_empty()
    }

    /// Returns whether a list, such as the value of `Connection`, contains a word.
    fn lists(&self, name: &str, word: &str) -> bool {
        let is_word = |part: &[u8]| part.trim_ascii().eq_ignore_ascii_case(word.as_bytes());
        self.values(name).iter().any(|value| value.split(|byte| *byte == b',').any(is_word))
    }
}

fn tunnel(target: &str) -> Result<RequestHead, Cow<'static, str>> {
    let parts = target.rsplit_once(':').and_then(|(host, port)| Some((host, port.parse().ok()?)));
    let host = parts.and_then(|(host, port)| Some((HostName::parse(host)?, port)));
    let Some((host, port)) = host else {
        return Err("the target of CONNECT is not a host and a port".into());
    };
    let to = NetworkDestination { host, port, protocol: Protocol::Https };
    Ok(RequestHead { to, kind: RequestKind::Tunnel, read_only_violation: Some("CONNECT".into()) })
}

fn forward(
    method: &str,
    target: &str,
    version: Option<u8>,
    headers: &HeaderLines<'_>,
) -> Result<RequestHead, Cow<'static, str>> {
    let url = Url::parse(target).ok().filter(|url| url.scheme() == "http");
    let Some(url) = url else {
        return Err("the target is not an absolute http URL; use CONNECT for other protocols".into());
    };
    let host = url.host_str().and_then(HostName::parse);
    let (Some(host), Some(port)) = (host, url.port_or_known_default()) else {
        return Err("the URL has no host".into());
    };
    match headers.values("host").as_slice() {
        [] => {}
        [named] if is_authority_of(&url, named) => {}
        _ => return Err("the Host header does not match the URL".into()),
    }
    let body = body_length(version, headers)?;
    let head = forwarded_head(method, &url, headers, body);
    let to = NetworkDestination { host, port, protocol: Protocol::Http };
    let read_only_violation = read_only_violation(method, headers, body);
    Ok(RequestHead { to, kind: RequestKind::Forward { head, body }, read_only_violation })
}

/// Returns whether the value of a `Host` header names the same host and port as the address.
fn is_authority_of(url: &Url, named: &[u8]) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
    let Some(named) = std::str::from_utf8(named).ok().filter(|named| named.as_bytes().iter().all(is_plain))
    else {
        return false;
    };
    Url::parse(&format!("http://{named}/")).is_ok_and(|named| {
        named.host() == url.host() && named.port_or_known_default() == url.port_or_known_default()
    })
}

/// Returns the length of the body. A request must have at most one length or encoding: with several, two parsers could
/// disagree where it ends.
fn body_length(version: Option<u8>, headers: &HeaderLines<'_>) -> Result<BodyLength, Cow<'static, str>> {
    let is_chunked = |encoding: &[u8]| version == Some(1) && encoding.eq_ignore_ascii_case(b"chunked");
    let lengths = headers.values("content-length");
    let encodings = headers.values("transfer-encoding");
    let body = match (lengths.as_slice(), encodings.as_slice()) {
        ([], []) => BodyLength::Length(0),
        ([length], []) => BodyLength::Length(parse_digits(length).ok_or("Content-Length is not a number")?),
        ([], [encoding]) if is_chunked(encoding) => BodyLength::Chunked,
        ([], _) => return Err("the only supported transfer encoding is `chunked`".into()),
        _ => return Err("the request has more than one Content-Length or Transfer-Encoding".into()),
    };
    if !headers.has("upgrade") {
        return Ok(body);
    }
    if body != BodyLength::Length(0) {
        return Err("an upgrade request must not have a body".into());
    }
    Ok(BodyLength::Upgrade)
}

/// Parses a number without a sign or separators, which parsers treat differently.
fn parse_digits(text: &[u8]) -> Option<u64> {
    let text =
        std::str::from_utf8(text).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?;
    text.parse().ok()
}

/// Returns what a network limited to reading does not allow about a request.
fn read_only_violation(
    method: &str,
    headers: &HeaderLines<'_>,
    body: BodyLength,
) -> Option<Cow<'static, str>> {
    const OVERRIDES: [&str; 3] = ["x-http-method", "x-http-method-override", "x-method-override"];
    if !matches!(method, "GET" | "HEAD" | "OPTIONS") {
        return Some(method.to_owned().into());
    }
    let is_upgrade = body == BodyLength::Upgrade
        || headers.lists("connection", "upgrade")
        || headers.has("http2-settings");
    if is_upgrade {
        return Some("another protocol".into());
    }
    if OVERRIDES.iter().any(|name| headers.has(name)) {
        return Some("another method in a header".into());
    }
    (body != BodyLength::Length(0)).then(|| "a request with a body".into())
}

/// Returns the head for the host: without the headers for the proxy, and with the host that the gate has decided about.
/// It closes the connection after the response, so that the gate decides about the next request as well.
fn forwarded_head(method: &str, url: &Url, headers: &HeaderLines<'_>, body: BodyLength) -> Vec<u8> {
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    let authority = match url.port() {
        Some(port) => format!("{}:{port}", url.host_str().unwrap_or_default()),
        None => url.host_str().unwrap_or_default().to_owned(),
    };
    let mut head = format!("{method} {}{query} HTTP/1.1\r\nHost: {authority}\r\n", url.path()).into_bytes();
    let dropped = ["host", "connection", "keep-alive", "proxy-connection", "proxy-authorization"];
    let is_dropped = |name: &str| dropped.iter().any(|dropped| name.eq_ignore_ascii_case(dropped));
    for header in headers.0.iter().filter(|header| !is_dropped(header.name)) {
        head.extend_from_slice(header.name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(header.value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(if body == BodyLength::Upgrade {
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

    fn read(text: &str) -> Result<Option<(RequestHead, usize)>, Cow<'static, str>> {
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
    fn a_request_goes_to_the_host_of_its_address_without_the_proxys_headers() {
        let text = "POST http://Example.com:8080/a?b=c#d HTTP/1.1\r\nHost: example.COM:8080\r\n\
                    Proxy-Authorization: secret\r\nConnection: keep-alive\r\nContent-Length: 3\r\nX-A: b\r\n\r\nabc";
        let (head, end) = read(text).unwrap().unwrap();
        assert_eq!((head.to.host.as_str(), head.to.port, &text[end..]), ("example.com", 8080, "abc"));
        let RequestKind::Forward { head, body } = head.kind else { panic!("no request") };
        assert_eq!(body, BodyLength::Length(3));
        assert_eq!(
            String::from_utf8(head).unwrap(),
            "POST /a?b=c HTTP/1.1\r\nHost: example.com:8080\r\nContent-Length: 3\r\nX-A: b\r\nConnection: close\r\n\r\n"
        );
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        let refused = |text: &str| assert!(read(text).is_err(), "{text}");
        refused("GET /path HTTP/1.1\r\nHost: a.example\r\n\r\n");
        refused("GET https://a.example/ HTTP/1.1\r\n\r\n");
        refused("GET ftp://a.example/ HTTP/1.1\r\n\r\n");
        refused("GET http://b\u{fc}cher/ HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n");
        refused("GET http://a.example/ HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n");
        refused("GET http://a.example/ HTTP/1.1\r\nContent-Length: x\r\n\r\n");
        refused("nonsense\r\n\r\n");
        for header in [
            "Content-Length: 3\r\nContent-Length: 3",
            "Content-Length: 3, 3",
            "Content-Length: +3",
            "Content-Length: -3",
            "Content-Length: 0x3",
            "Content-Length:",
            "Content-Length: 99999999999999999999",
            "Content-Length : 3",
            "Transfer-Encoding : chunked",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: identity",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: \x0bchunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 3",
            "Upgrade: websocket\r\nContent-Length: 3",
            "Upgrade: websocket\r\nTransfer-Encoding: chunked",
            "X: a\r\n b",
            "X: a\r\n\tb",
            " X: a",
            "X: a\nY: b",
            "X: a\rY: b",
            "X: a\r\r\nY: b",
            "X: a\0b",
            "X a",
            ": a",
            "Host: b.example",
            "Host: a.example:81",
            "Host: a.example\r\nHost: a.example",
            "Host: a.example, b.example",
            "Host: a.example@b.example",
            "Host: a.example/x",
            "Host:",
        ] {
            refused(&format!("GET http://a.example/ HTTP/1.1\r\n{header}\r\n\r\n"));
        }
        refused("GET http://a.example/ HTTP/1.1\nHost: a.example\n\n");
        refused("GET http://a.example/ HTTP/1.1\r\nHost: a.example\n\r\n");
        refused("GET http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n");
        refused("GET http://a.example/ HTTP/2.0\r\n\r\n");
        assert_eq!(read("GET http://a.example/ HTTP/1.1\r\nHos"), Ok(None));
    }

    #[test]
    fn a_host_header_that_agrees_with_the_address_is_accepted() {
        for (address, host) in [
            ("a.example", "A.example"),
            ("a.example:80", "a.example"),
            ("a.example", "a.example:80"),
            ("a.example:8080", "a.example:8080"),
            ("127.1", "127.0.0.1"),
            ("[::1]:81", "[::1]:81"),
        ] {
            let text = format!("GET http://{address}/ HTTP/1.1\r\nHost: {host}\r\n\r\n");
            assert!(read(&text).is_ok_and(|head| head.is_some()), "{text}");
        }
    }

    #[test]
    fn requests_that_do_more_than_read_are_recognised() {
        let violation = |method: &str, headers: &str| {
            let text = format!("{method} http://a.example/ HTTP/1.1\r\n{headers}\r\n");
            read(&text).unwrap().unwrap().0.read_only_violation
        };
        for method in ["GET", "HEAD", "OPTIONS"] {
            assert_eq!(violation(method, ""), None);
            assert_eq!(violation(method, "Content-Length: 0\r\nConnection: keep-alive\r\n"), None);
        }
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "get", "PURGE"] {
            assert_eq!(violation(method, "").as_deref(), Some(method));
        }
        for header in [
            "Upgrade: websocket",
            "upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AAMAAABk",
            "Connection: keep-alive, UPGRADE",
            "Connection: keep-alive\r\nConnection:upgrade ",
            "HTTP2-Settings: AAMAAABk",
            "Content-Length: 1",
            "Transfer-Encoding: chunked",
            "X-HTTP-Method-Override: DELETE",
            "x-http-method: PUT",
            "X-Method-Override: POST",
        ] {
            assert!(violation("GET", &format!("{header}\r\n")).is_some(), "{header}");
        }
    }

    #[test]
    fn other_notations_of_addresses_are_recognised() {
        let host = |target: &str| read(&format!("GET {target} HTTP/1.1\r\n\r\n")).unwrap().unwrap().0.to.host;
        for target in ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://[::ffff:127.0.0.1]/"]
        {
            assert_eq!(host(target).as_str(), "127.0.0.1", "{target}");
        }
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in vec(any::<u8>(), 0..300)) {
            let _ = parse(&bytes);
        }

        #[test]
        fn the_forwarded_head_is_one_head_for_the_host_of_the_address(
            method in "[A-Z]{1,8}", path in "[!-~]{0,40}", name in "[a-zA-Z-]{1,12}", value in "[ -~]{0,30}",
        ) {
            let text = format!("{method} http://a.example/{path} HTTP/1.1\r\n{name}: {value}\r\n\r\n");
            if let Ok(Some((RequestHead { to, kind: RequestKind::Forward { head, .. }, .. }, end))) = parse(text.as_bytes()) {
                let head = String::from_utf8(head).unwrap();
                prop_assert_eq!((to.host.as_str(), to.port, end), ("a.example", 80, text.len()));
                prop_assert!(head.starts_with(&format!("{method} /")), "{}", head);
                prop_assert_eq!(head.find("\r\n\r\n"), Some(head.len() - 4));
                prop_assert_eq!(head.to_lowercase().matches("\r\nhost:").count(), 1);
            }
        }
    }
}
