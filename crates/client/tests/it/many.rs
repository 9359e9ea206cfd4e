//! Many turns at once through one client.

use std::time::Duration;

use codicil_client::{Client, Retry, WebSocket, turn};
use codicil_server::{Listen, WsAuth};
use codicil_testkit::{Reply, Script};
use tokio::{task::JoinSet, time::timeout};

use crate::{in_process::Host, soon};

/// The server takes 128 requests of a connection at a time; the rest of the 1,000 come back later.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_turns_through_one_websocket_complete() {
    let host = Host::start(Script::new().repeat(Reply::new().say_deltas(["Hel", "lo"]))).await;
    let address = free_address();
    let serving = tokio::spawn({
        let (server, listen) = (host.server.clone(), format!("ws://{address}").parse::<Listen>().unwrap());
        async move { server.serve(listen, WsAuth::None).await }
    });
    let client = connected(&format!("ws://{address}")).await;
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

fn free_address() -> std::net::SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// The listener may not be there yet.
async fn connected(url: &str) -> Client {
    soon(async {
        loop {
            let patient = Retry { max_retries: 1000, ..Retry::default() };
            let builder = Client::builder().retry(patient).request_timeout(Duration::from_secs(200));
            match builder.connect(WebSocket::new(url)).await {
                Ok(client) => return client,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    })
    .await
}
