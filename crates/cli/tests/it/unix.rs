//! The unix socket of the real binary.

use codicil_testkit::Process;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use crate::soon;

#[tokio::test]
async fn it_serves_and_leaves_nothing_behind() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let listen = format!("unix://{}", path.display());
    let mut process = Process::spawn(home.path(), ["app-server", "--listen", &listen]);
    let connected = soon(async {
        loop {
            match UnixStream::connect(&path).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    });
    let mut stream = BufReader::new(connected.await);
    stream.write_all(b"{\"id\":1,\"method\":\"thread/loaded/list\"}\n").await.unwrap();
    let mut answer = String::new();
    soon(stream.read_line(&mut answer)).await.unwrap();
    assert_eq!(answer.trim(), r#"{"error":{"code":-32600,"message":"Not initialized"},"id":1}"#);
    process.terminate();
    process.expect_success().await;
    assert!(!path.exists());
}
