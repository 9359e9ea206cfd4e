//! Many turns at once through one client.

use std::{net::TcpListener, time::Duration};

use codicil_client::{Client, RetryOptions, WebSocket, turn};
use codicil_server::{ListenAddress, ListenError, WsAuth};
use codicil_testkit::{Reply, Script};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::timeout,
};

use crate::{in_process::Host, soon};

/// The server accepts 128 requests of a connection at a time and refuses the others, which are repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_turns_through_one_websocket_complete() {
    let host = Host::start(Script::new().repeat(Reply::new().say_deltas(["Hel", "lo"]))).await;
    let (client, serving) = served(&host).await;
    let mut turns = JoinSet::new();
    for _ in 0..1000 {
        let client = client.clone();
        turns.spawn(async move {
            let thread = client.start_thread(Default::default()).await?;
            client.run_turn(turn(&thread.id, "Hi")).await
        });
    }
    let mut complete = 0;
    while let Some(done) = timeout(Duration::from_secs(240), turns.join_next()).await.unwrap() {
        assert_eq!(done.unwrap().unwrap().agent_message, "Hello");
        complete += 1;
    }
    assert_eq!(complete, 1000);
    soon(client.close()).await;
    host.server.begin_stop();
    soon(serving).await.unwrap().unwrap();
}

/// Starts a listener at a free port and connects to it. Another process may take the port in between; then the next port
/// is tried.
async fn served(host: &Host) -> (Client, JoinHandle<Result<(), ListenError>>) {
    loop {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let server = host.server.clone();
        let url = format!("ws://{address}");
        let listen: ListenAddress = url.parse().unwrap();
        let mut serving = tokio::spawn(async move { server.serve(listen, WsAuth::None).await });
        tokio::select! {
            client = connected(&url) => return (client, serving),
            failed = &mut serving => assert!(failed.unwrap().is_err(), "the listener does not end by itself"),
        }
    }
}

/// Connects as soon as the listener is ready.
async fn connected(url: &str) -> Client {
    soon(async {
        loop {
            let patient = RetryOptions { max_retries: 1000, ..RetryOptions::default() };
            let builder = Client::builder().retry(patient).request_timeout(Duration::from_secs(200));
            match builder.connect(WebSocket::new(url)).await {
                Ok(client) => return client,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await
}
