//! A proxy with a test gate, and a host to reach.

use std::{net, sync::Arc, time::Duration};

use codicil_policy::{AddressReach, NetworkDestination};
use codicil_proxy::{AllowedMethods, CommandProxy, GateDecision, GateFuture, HostGate, ProxyRules};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};

/// The time after which a test fails. Far more than any step takes on a loaded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A gate that gives the same decision for every host, and records the destinations.
pub struct FixedGate {
    decision: GateDecision,
    asked: Mutex<Vec<NetworkDestination>>,
}

impl HostGate for FixedGate {
    fn decide(&self, to: NetworkDestination) -> GateFuture<'_> {
        self.asked.lock().push(to);
        Box::pin(std::future::ready(self.decision.clone()))
    }
}

pub struct TestProxy {
    pub proxy: Option<CommandProxy>,
    pub port: u16,
    gate: Arc<FixedGate>,
}

impl TestProxy {
    pub fn new(decision: GateDecision, methods: AllowedMethods) -> Self {
        Self::with_rules(decision, ProxyRules { methods, ..ProxyRules::default() })
    }

    pub fn with_rules(decision: GateDecision, rules: ProxyRules) -> Self {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let gate = Arc::new(FixedGate { decision, asked: Mutex::default() });
        let proxy = CommandProxy::start(vec![listener], gate.clone(), rules).unwrap();
        Self { proxy: Some(proxy), port, gate }
    }

    pub fn open() -> Self {
        Self::new(GateDecision::Allowed(AddressReach::Anywhere), AllowedMethods::All)
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

    /// Returns the destinations that the gate was asked about: protocol, host and port.
    pub fn asked(&self) -> Vec<String> {
        let asked = self.gate.asked.lock();
        asked.iter().map(|to| format!("{:?} {}:{}", to.protocol, to.host, to.port)).collect()
    }
}

pub async fn read_all(stream: &mut TcpStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("it takes too long").unwrap();
    bytes
}

/// Starts a host for one connection: it reads up to `until`, sends `response`, and returns all that it has read.
pub async fn host(until: &'static str, response: &'static str) -> (u16, tokio::task::JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let received = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = Vec::new();
        while !received.ends_with(until.as_bytes()) {
            assert_ne!(stream.read_buf(&mut received).await.unwrap(), 0, "{received:?}");
        }
        stream.write_all(response.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        // Bytes after `until` do not belong to the request; the test looks for them.
        let _ = timeout(PATIENCE, stream.read_to_end(&mut received)).await;
        String::from_utf8(received).unwrap()
    });
    (port, received)
}
