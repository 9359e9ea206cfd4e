//! An HTTP server that refuses its only request.

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::TcpListener,
    task::JoinHandle,
};

/// A server that answers the first request with 404 and records its head.
pub struct RefusingServer {
    address: String,
    serving: JoinHandle<Vec<String>>,
}

impl RefusingServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let serving = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut lines = BufReader::new(stream).lines();
            let mut head = Vec::new();
            while let Some(line) = lines.next_line().await.unwrap().filter(|line| !line.is_empty()) {
                head.push(line.to_lowercase());
            }
            let answer = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            lines.into_inner().write_all(answer).await.unwrap();
            head
        });
        Self { address, serving }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Waits for the request. Returns the lines of its head in lower case.
    pub async fn request_head(self) -> Vec<String> {
        self.serving.await.unwrap()
    }
}
