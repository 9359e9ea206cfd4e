//! A scripted server, and a client connected to it.

use codicil_client::{Client, ClientBuilder, Endpoint};
use codicil_testkit::FakeServer;
use serde_json::{Value, json};

/// Returns a server and its endpoint.
pub fn server() -> (FakeServer, Endpoint) {
    let (fake, to_server, from_server) = FakeServer::new();
    (fake, Endpoint::channels(to_server, from_server))
}

/// Returns a server and a client that have completed the handshake.
pub async fn connected(builder: ClientBuilder) -> (FakeServer, Client) {
    let (mut fake, endpoint) = server();
    let (client, ()) = tokio::join!(builder.connect(endpoint), fake.greet());
    (fake, client.unwrap())
}

pub fn running(turn: &str) -> Value {
    json!({ "id": turn, "items": [], "status": "inProgress", "error": null })
}

pub fn message(id: &str, text: &str) -> Value {
    json!({ "type": "agentMessage", "id": id, "text": text, "phase": null, "memoryCitation": null })
}
