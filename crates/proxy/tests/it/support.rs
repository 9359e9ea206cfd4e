//! A proxy with a gate of the test's own, and a host to reach.

use std::{net, sync::Arc, time::Duration};

use codicil_policy::{AddressReach, NetworkDestination};
use codicil_proxy::{AllowedMethods, CommandProxy, GateDecision, GateFuture, HostGate};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// Lets everything pass, or nothing, and remembers who asked.
pub struct Doorman {
    pass: GateDecision,
    asked: Mutex<Vec<NetworkDestination>>,
}

impl HostGate for Doorman {
    fn pass(&self, to: NetworkDestination) -> GateFuture<'_> {
        self.asked.lock().push(to);
        Box::pin(std::future::ready(self.pass.clone()))
    }
}

pub struct Stage {
    pub proxy: Option<CommandProxy>,
    pub port: u16,
    doorman: Arc<Doorman>,
}

impl Stage {
    pub fn new(pass: GateDecision, methods: AllowedMethods) -> Self {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let doorman = Arc::new(Doorman { pass, asked: Mutex::default() });
        let proxy = CommandProxy::start(listener, doorman.clone(), methods).unwrap();
        Self { proxy: Some(proxy), port, doorman }
    }

    pub fn open() -> Self {
        Self::new(GateDecision::Open(AddressReach::Anywhere), AllowedMethods::All)
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).await.unwrap()
    }

    pub async fn connect_and_send(&self, text: &str) -> TcpStream {
        let mut stream = self.connect().await;
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    /// Sends bytes and reads until the proxy closes.
    pub async fn exchange(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = self.connect().await;
        stream.write_all(bytes).await.unwrap();
        read_all(&mut stream).await
    }

    pub async fn ask(&self, text: &str) -> String {
        String::from_utf8(self.exchange(text.as_bytes()).await).unwrap()
    }

    /// Whom the gate was asked about: host, port and protocol.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.doorman.asked.lock();
        asked.iter().map(|to| format!("{:?} {}:{}", to.protocol, to.host, to.port)).collect()
    }
}

pub async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("it takes too long").unwrap();
    bytes
}

/// A host that answers one connection: it reads what `until` ends, says `answer`, and tells what it has read.
pub async fn host(until: &'static str, answer: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(until.as_bytes()) {
            assert_ne!(stream.read_buf(&mut heard).await.unwrap(), 0, "{heard:?}");
        }
        stream.write_all(answer.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        // What comes after the end does not belong to the request.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut heard)).await;
        String::from_utf8(heard).unwrap()
    });
    (port, heard)
}
