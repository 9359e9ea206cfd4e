//! A small HTTP client that behaves like a browser: it keeps its cookie, sends `Origin`, and reads server-sent events.

use std::net::SocketAddr;

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

/// A browser without scripts.
#[derive(Clone, Debug)]
pub struct Browser {
    pub address: SocketAddr,
    pub cookie: String,
    pub csrf: String,
}

/// A response: the status, the lines of the head, and the body.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Response {
    /// Returns a header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends a request with exactly these headers. Reads the whole response.
pub async fn send(address: SocketAddr, line: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut connection = TcpStream::connect(address).await.unwrap();
    connection.write_all(request(line, headers, body).as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    connection.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let (head, rest) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunk(rest) } else { rest.to_owned() };
    Response { status, head: head.to_owned(), body }
}

fn request(line: &str, headers: &[(&str, &str)], body: &str) -> String {
    let mut request = format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    request + "\r\n" + body
}

fn unchunk(mut text: &str) -> String {
    let mut body = String::new();
    while let Some((size, rest)) = text.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        body.push_str(&rest[..size]);
        text = rest[size..].trim_start_matches("\r\n");
    }
    body
}

impl Browser {
    /// Signs in with a link.
    pub async fn sign_in(link: &str) -> Self {
        let rest = link.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_at(rest.find('/').unwrap());
        let address: SocketAddr = host.parse().unwrap();
        let response = send(address, &format!("GET {path}"), &[("Host", host)], "").await;
        assert_eq!(response.status, 200, "{response:?}");
        let cookie = response.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
        let mut browser = Self { address, cookie, csrf: String::new() };
        let page = browser.get("/").await;
        let token = page.body.split("name=\"csrf\" content=\"").nth(1).unwrap();
        browser.csrf = token.split('"').next().unwrap().to_owned();
        browser
    }

    pub async fn get(&self, path: &str) -> Response {
        let host = self.address.to_string();
        send(self.address, &format!("GET {path}"), &[("Host", &host), ("Cookie", &self.cookie)], "").await
    }

    /// Sends a form as a browser does, with the token of the session.
    pub async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        let host = self.address.to_string();
        let origin = format!("http://{host}");
        let body = url::form_urlencoded::Serializer::new(String::new())
            .append_pair("csrf", &self.csrf)
            .extend_pairs(fields)
            .finish();
        let headers = [
            ("Host", host.as_str()),
            ("Origin", &origin),
            ("Cookie", &self.cookie),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ];
        send(self.address, &format!("POST {path}"), &headers, &body).await
    }

    /// Opens a stream of events.
    pub async fn events(&self, query: &str, last_event: Option<&str>) -> EventReader {
        let host = self.address.to_string();
        let mut headers = vec![("Host", host.as_str()), ("Cookie", &self.cookie)];
        headers.extend(last_event.map(|id| ("Last-Event-ID", id)));
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        let request = request(&format!("GET /events?{query}"), &headers, "");
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut lines = BufReader::new(connection);
        let mut status = String::new();
        lines.read_line(&mut status).await.unwrap();
        assert!(status.contains("200"), "{status}");
        EventReader { lines }
    }
}

/// Reads server-sent events.
#[derive(Debug)]
pub struct EventReader {
    lines: BufReader<TcpStream>,
}

/// An event with its id.
#[derive(Clone, Debug)]
pub struct PageEvent {
    pub id: Option<String>,
    pub data: serde_json::Value,
}

impl EventReader {
    /// Returns the next event with data; `None` at the end of the stream.
    pub async fn next(&mut self) -> Option<PageEvent> {
        let mut id = None;
        loop {
            let mut line = String::new();
            if self.lines.read_line(&mut line).await.ok()? == 0 {
                return None;
            }
            let line = line.trim_end();
            if let Some(found) = line.strip_prefix("id: ") {
                id = Some(found.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some(PageEvent { id, data: serde_json::from_str(data).unwrap() });
            }
        }
    }
}
