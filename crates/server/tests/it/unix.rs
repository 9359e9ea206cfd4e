//! The unix socket, with lines or a websocket.

use std::{
    fs,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
};

use codicil_config::{ConfigSources, ConfigStore, HomeDirectory, SystemFiles};
use codicil_server::{ListenAddress, ListenError, ProtocolDefaults, Server, ServerSetup, WsAuth};
use codicil_store::Store;
use futures_util::{SinkExt, StreamExt};
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::UnixStream,
    task::JoinHandle,
};
use tokio_tungstenite::{client_async, tungstenite::Message};

const HELLO: &str = r#"{"id":0,"method":"initialize","params":{"clientInfo":{"name":"x","version":"1"}}}"#;

struct Listener {
    server: Server,
    path: PathBuf,
    serving: JoinHandle<Result<(), ListenError>>,
    folder: TempDir,
}

impl Listener {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        Self::start_at(folder, path).await
    }

    async fn start_at(folder: TempDir, path: PathBuf) -> Self {
        let server = server(folder.path());
        let serving = tokio::spawn({
            let server = server.clone();
            let listen = ListenAddress::Unix(path.clone());
            async move { server.serve(listen, WsAuth::None).await }
        });
        let mut listener = Self { server, path, serving, folder };
        listener.until_ready().await;
        listener
    }

    /// Waits until a connection is served, or panics if the server ends.
    async fn until_ready(&mut self) {
        let connected = async {
            while UnixStream::connect(&self.path).await.is_err() {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = connected => {}
            ended = &mut self.serving => panic!("the listener ended: {ended:?}"),
        }
    }

    async fn stop(self) -> TempDir {
        self.server.stop().await;
        self.serving.await.unwrap().unwrap();
        self.folder
    }
}

fn server(home: &Path) -> Server {
    let system = SystemFiles { config: Vec::new(), requirements: Vec::new() };
    Server::new(ServerSetup {
        config: ConfigStore::new(ConfigSources {
            system,
            ..ConfigSources::of(HomeDirectory::new(home).unwrap())
        }),
        store: Store::open(home).unwrap(),
        cwd: home.to_owned(),
        protocol: ProtocolDefaults::default(),
        allow_unauthenticated: false,
    })
}

#[tokio::test]
async fn lines_are_served_to_several_clients() {
    let listener = Listener::start().await;
    for _ in 0..3 {
        let mut stream = BufReader::new(UnixStream::connect(&listener.path).await.unwrap());
        let request = "{\"id\":1,\"method\":\"thread/loaded/list\"}";
        // The last line has no newline.
        stream.write_all(format!("{HELLO}\n\nnot json\n{request}").as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].starts_with(r#"{"id":0,"result":{"userAgent":"x/"#), "{text}");
        assert_eq!(lines[1], r#"{"id":1,"result":{"data":[],"nextCursor":null}}"#);
    }
    listener.stop().await;
}

#[tokio::test]
async fn long_lines_are_accepted_only_after_initialize() {
    let listener = Listener::start().await;
    let stream = UnixStream::connect(&listener.path).await.unwrap();
    let (reader, mut writer) = stream.into_split();
    let padding = " ".repeat(2 << 20);
    let request = |id: u32| format!(r#"{{"id":{id},{padding}"method":"thread/loaded/list"}}"#);
    let lines = format!("{}\n{HELLO}\n{}\n", request(1), request(2));
    let writing = tokio::spawn(async move { writer.write_all(lines.as_bytes()).await.map(|()| writer) });
    let mut answers = BufReader::new(reader).lines();
    let first = answers.next_line().await.unwrap().unwrap();
    assert!(first.starts_with(r#"{"id":0,"result":"#), "the first line was skipped: {first}");
    let second = answers.next_line().await.unwrap().unwrap();
    assert_eq!(second, r#"{"id":2,"result":{"data":[],"nextCursor":null}}"#);
    writing.await.unwrap().unwrap();
    listener.stop().await;
}

#[tokio::test]
async fn an_upgrade_request_gets_a_websocket() {
    let listener = Listener::start().await;
    let stream = UnixStream::connect(&listener.path).await.unwrap();
    let (mut socket, _) = client_async("ws://localhost/", stream).await.unwrap();
    socket.send(Message::text(HELLO)).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap();
    assert!(answer.to_text().unwrap().starts_with(r#"{"id":0,"result":"#), "{answer}");
    listener.stop().await;
}

#[tokio::test]
async fn probes_are_answered() {
    let listener = Listener::start().await;
    let mut stream = BufReader::new(UnixStream::connect(&listener.path).await.unwrap());
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
    let mut status = String::new();
    stream.read_line(&mut status).await.unwrap();
    assert_eq!(status.trim(), "HTTP/1.1 200 OK");
    listener.stop().await;
}

#[tokio::test]
async fn the_socket_file_is_private_and_removed_with_the_server() {
    let listener = Listener::start().await;
    let metadata = fs::metadata(&listener.path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.permissions().mode() & 0o777, 0o600);
    let path = listener.path.clone();
    let _folder = listener.stop().await;
    assert!(!path.exists());
}

#[tokio::test]
async fn listeners_are_registered_before_they_accept() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("real")).unwrap();
    std::os::unix::fs::symlink("real", folder.path().join("link")).unwrap();
    let path = folder.path().join("link/s");
    // The listener has accepted a connection.
    let listener = Listener::start_at(folder, path).await;
    let canonical = fs::canonicalize(listener.folder.path()).unwrap().join("real/s");
    assert_eq!(listener.server.places().listeners().sockets, [canonical]);
    listener.stop().await;
}

#[tokio::test]
async fn a_port_chosen_by_the_system_is_registered() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(folder.path());
    let places = server.places().clone();
    assert!(places.listeners().open_ports.is_empty());
    let serving = tokio::spawn({
        let server = server.clone();
        let listen = "ws://127.0.0.1:0".parse().unwrap();
        async move { server.serve(listen, WsAuth::None).await }
    });
    let port = loop {
        match places.listeners().open_ports[..] {
            [port] => break port,
            _ => tokio::task::yield_now().await,
        }
    };
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        tokio::task::yield_now().await;
    }
    server.stop().await;
    serving.await.unwrap().unwrap();
}

/// On other systems a full backlog refuses connections, like a dead server.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_server_with_a_full_backlog_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    // This socket listens and never accepts. With a full backlog, a connection attempt fails.
    let socket = tokio::net::UnixSocket::new_stream().unwrap();
    socket.bind(&path).unwrap();
    let _busy = socket.listen(0).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = UnixStream::connect(&path).await {
        waiting.push(stream);
    }
    let error =
        server(folder.path()).serve(ListenAddress::Unix(path.clone()), WsAuth::None).await.unwrap_err();
    assert!(matches!(error, ListenError::InUse(_)), "{error}");
    assert!(path.exists());
}

#[tokio::test]
async fn the_socket_file_of_a_dead_server_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s");
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "the file of a killed server");
    Listener::start_at(folder, path).await.stop().await;
}

#[tokio::test]
async fn a_listening_server_is_not_replaced() {
    let listener = Listener::start().await;
    let second = server(listener.folder.path());
    let error = second.serve(ListenAddress::Unix(listener.path.clone()), WsAuth::None).await.unwrap_err();
    assert_eq!(error.to_string(), format!("another server is listening on {}", listener.path.display()));
    UnixStream::connect(&listener.path).await.expect("the first server goes on");
    listener.stop().await;
}

#[tokio::test]
async fn a_file_that_is_not_a_socket_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notes.txt");
    fs::write(&path, "precious").unwrap();
    let listen = ListenAddress::Unix(path.clone());
    let error = server(folder.path()).serve(listen, WsAuth::None).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot listen on unix://"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[tokio::test]
async fn authentication_needs_a_websocket_listener() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "s3cret").unwrap();
    let auth = WsAuth::capability(&token).unwrap();
    let error = server(folder.path()).serve(ListenAddress::Unix("/x".into()), auth).await.unwrap_err();
    assert_eq!(error.to_string(), "--ws-auth is for websocket listeners, not for unix:///x");
}
