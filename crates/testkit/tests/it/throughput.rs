//! A stream without a pace is sent in large chunks.

use codicil_testkit::{ModelServer, Script};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

const DELTAS: usize = 50_000;

/// Returns the sizes of the HTTP chunks of a body.
fn chunk_sizes(mut body: &[u8]) -> Vec<usize> {
    let mut sizes = Vec::new();
    loop {
        let line = body.windows(2).position(|end| end == b"\r\n").unwrap();
        let size = usize::from_str_radix(std::str::from_utf8(&body[..line]).unwrap(), 16).unwrap();
        if size == 0 {
            return sizes;
        }
        sizes.push(size);
        body = &body[line + 2 + size + 2..];
    }
}

#[tokio::test]
async fn many_deltas_are_sent_in_few_large_chunks() {
    let server = ModelServer::start(Script::new().say_deltas((0..DELTAS).map(|_| "word "))).await;
    let mut socket = TcpStream::connect(server.address()).await.unwrap();
    let head = "POST /v1/responses HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 15\r\n\r\n";
    socket.write_all(format!("{head}{{\"stream\":true}}").as_bytes()).await.unwrap();

    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).await.unwrap();

    let head = answer.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    let body = &answer[head + 4..];
    let sizes = chunk_sizes(body);
    let delta = b"event: response.output_text.delta\n";
    assert_eq!(body.windows(delta.len()).filter(|window| window == delta).count(), DELTAS);
    let (last, others) = sizes.split_last().unwrap();
    assert!(*last > 0 && others.iter().all(|size| *size >= 64 << 10), "{sizes:?}");
}
