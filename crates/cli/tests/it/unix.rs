//! The unix socket listener of the real binary.

use std::path::Path;

use codicil_testkit::ServerProcess;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
};

use crate::soon;

/// Connects as soon as the server listens. It announces that nowhere else, so this retries.
pub async fn connect(path: &Path) -> UnixStream {
    let connected = async {
        loop {
            match UnixStream::connect(path).await {
                Ok(stream) => break stream,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    soon(connected).await
}

#[tokio::test]
async fn the_socket_is_removed_at_the_end() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("s");
    let listen = format!("unix://{}", path.display());
    let mut process = ServerProcess::spawn(home.path(), ["app-server", "--listen", &listen]);
    let mut stream = BufReader::new(connect(&path).await);
    stream.write_all(b"{\"id\":1,\"method\":\"thread/loaded/list\"}\n").await.unwrap();
    let mut answer = String::new();
    soon(stream.read_line(&mut answer)).await.unwrap();
    assert_eq!(answer.trim(), r#"{"error":{"code":-32600,"message":"Not initialized"},"id":1}"#);
    process.terminate();
    process.expect_success().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_relative_path_is_resolved_in_the_working_directory() {
    let home = tempfile::tempdir().unwrap();
    let change = |command: &mut tokio::process::Command| {
        command.current_dir(home.path());
    };
    let mut process = ServerProcess::spawn_with(home.path(), ["app-server", "--listen", "unix://s"], change);
    let path = home.path().join("s");
    connect(&path).await;
    process.terminate();
    process.expect_success().await;
    assert!(!path.exists());
}
