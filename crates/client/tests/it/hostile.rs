//! Servers that hang, flood, send garbage or crash: every call ends, and memory stays bounded.

use std::{ops::ControlFlow, time::Duration};

use bytes::Bytes;
use codicil_client::{Client, ClientEvent, ClientLimits, ClientTimeouts, Endpoint, protocol::*, turn};
use serde_json::json;
use tokio::sync::mpsc;

use crate::{
    fake::{connected, message, server},
    soon,
};

#[tokio::test(start_paused = true)]
async fn connecting_to_a_silent_server_times_out() {
    let (_fake, endpoint) = server();
    let began = tokio::time::Instant::now();
    let error = Client::builder().connect(endpoint).await.unwrap_err();
    assert_eq!((error.name(), began.elapsed().as_secs()), ("response_timeout", 30));
}

#[tokio::test]
async fn a_server_that_refuses_the_handshake_is_an_error() {
    let (mut fake, endpoint) = server();
    let connecting = tokio::spawn(Client::builder().connect(endpoint));
    let hello = fake.expect("initialize").await;
    fake.refuse(&hello, -32600, "go away").await;
    let error = soon(connecting).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "initialize failed: go away (code -32600)");
    assert_eq!(fake.next().await, None, "and the connection is closed");
}

#[tokio::test]
async fn a_flood_of_notifications_affects_only_the_slow_reader() {
    let limits = ClientLimits { events: 100, ..ClientLimits::default() };
    let (mut fake, client) = connected(Client::builder().limits(limits)).await;
    let mut unread = client.events();
    let delta = json!({ "threadId": "t", "turnId": "u", "itemId": "i", "delta": "x".repeat(1000) });
    for _ in 0..50_000 {
        fake.notify("item/agentMessage/delta", delta.clone()).await;
    }
    // The connection still answers calls.
    let call = tokio::spawn(client.call::<ModelList>(Default::default()));
    let request = fake.expect("model/list").await;
    fake.reply(&request, json!({ "data": [] })).await;
    soon(call).await.unwrap().unwrap();
    assert_eq!(soon(unread.next()).await, Some(ClientEvent::Missed(49_900)));
    for _ in 0..100 {
        assert!(matches!(soon(unread.next()).await, Some(ClientEvent::Notification(_))));
    }
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_items_in_a_turn_is_counted_and_the_turn_still_times_out() {
    let limits = ClientLimits { turn_bytes: 100_000, ..ClientLimits::default() };
    let (mut fake, client) = connected(Client::builder().limits(limits)).await;
    let turning = tokio::spawn(async move { client.run_turn(turn(&"t".into(), "Hi")).await });
    fake.take_turn("t", "u").await;
    for number in 0..5000 {
        fake.item("t", "u", message(&number.to_string(), &"x".repeat(1000))).await;
    }
    let error = turning.await.unwrap().unwrap_err();
    assert_eq!(error.name(), "turn_timeout");
    let so_far = &error.unfinished().unwrap().so_far;
    assert!(so_far.items.len() < 100, "{}", so_far.items.len());
    assert_eq!(so_far.items.len() as u64 + so_far.omitted_items, 5000);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stops_reading_delays_neither_responses_nor_closing() {
    let (to_server, _unread) = mpsc::channel::<Bytes>(1);
    let (to_client, from_server) = mpsc::channel(8);
    let limits = ClientLimits { outgoing: 4, ..ClientLimits::default() };
    let builder = Client::builder().limits(limits);
    to_client.send(r#"{"id":0,"result":{"userAgent":"deaf"}}"#.into()).await.unwrap();
    let client = builder.connect(Endpoint::channels(to_server, from_server)).await.unwrap();
    // More than any queue holds: each caller waits and times out.
    let calls: Vec<_> = (0..50).map(|_| tokio::spawn(client.call::<ModelList>(Default::default()))).collect();
    to_client.send(r#"{"id":1,"result":{"data":[],"nextCursor":"answered"}}"#.into()).await.unwrap();
    let mut outcomes = Vec::new();
    for call in calls {
        outcomes.push(call.await.unwrap().map_or_else(|error| error.name(), |_| "answered"));
    }
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == "answered").count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == "response_timeout").count(), 49);
    let began = tokio::time::Instant::now();
    client.close().await;
    assert_eq!(began.elapsed(), ClientTimeouts::default().close);
}

#[tokio::test]
async fn server_requests_beyond_the_limit_are_refused() {
    struct Never;
    impl codicil_client::RequestHandler for Never {
        async fn call_tool(
            &self,
            _: DynamicToolCallParams,
        ) -> codicil_client::HandlerAnswer<DynamicToolCallResponse> {
            std::future::pending().await
        }
    }
    let limits = ClientLimits { server_requests: 10, ..ClientLimits::default() };
    let (mut fake, client) = connected(Client::builder().limits(limits).handler(Never)).await;
    for id in 0..15 {
        let params = json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": "x", "arguments": {} });
        fake.send(json!({ "id": id, "method": "item/tool/call", "params": params })).await;
    }
    for id in 10..15 {
        let refused = fake.next().await.unwrap();
        assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(id), &json!(-32001)));
    }
    soon(client.close()).await;
    assert_eq!(fake.next().await, None);
}

#[tokio::test]
async fn garbage_is_skipped() {
    let (mut fake, client) = connected(Client::builder()).await;
    let turning = tokio::spawn({
        let client = client.clone();
        async move { client.run_turn(turn(&"t".into(), "Hi")).await }
    });
    fake.take_turn("t", "u").await;
    let mut seed = fastrand::Rng::with_seed(7);
    let words =
        ["method", "params", "id", "turn/completed", "threadId", "turnId", "t", "error", "item/started"];
    for _ in 0..5000 {
        let mut text = String::new();
        for _ in 0..seed.usize(1..12) {
            match seed.u8(0..7) {
                0 => text.push('{'),
                1 => text.push('}'),
                2 => text.push(':'),
                3 => text.push(','),
                4 => text.push_str(&seed.i64(..).to_string()),
                _ => text.push_str(&format!("{:?}", words[seed.usize(..words.len())])),
            }
        }
        fake.send_raw(text).await;
    }
    // Valid JSON-RPC with params that the protocol does not allow.
    for params in [json!(null), json!([]), json!("x"), json!({ "turn": 7 }), json!({ "threadId": {} })] {
        fake.notify("item/started", params.clone()).await;
        fake.notify("turn/started", params.clone()).await;
        fake.notify("serverRequest/resolved", params).await;
    }
    fake.complete("t", "u").await;
    soon(turning).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_crash_during_a_turn_ends_it() {
    let (mut fake, client) = connected(Client::builder()).await;
    let mut running = {
        let starting = tokio::spawn(async move { client.turn(turn(&"t".into(), "Hi")).await });
        fake.take_turn("t", "u").await;
        soon(starting).await.unwrap().unwrap()
    };
    fake.item("t", "u", message("i", "Half")).await;
    drop(fake);
    assert!(matches!(soon(running.next()).await, Some(ClientEvent::Notification(_))));
    assert_eq!(soon(running.next()).await, None);
    assert_eq!(soon(running.finish()).await.unwrap_err().name(), "port_exit");
}

#[tokio::test(start_paused = true)]
async fn a_followed_turn_that_hangs_times_out() {
    let (mut fake, client) = connected(Client::builder()).await;
    let starting = tokio::spawn(async move { client.turn(turn(&"t".into(), "Hi")).await });
    fake.take_turn("t", "u").await;
    let mut running = starting.await.unwrap().unwrap();
    let mut seen = 0;
    fake.item("t", "u", message("i", "Half")).await;
    let flow: ControlFlow<()> = loop {
        match running.next().await {
            Some(_) => seen += 1,
            None => break ControlFlow::Break(()),
        }
    };
    assert_eq!((flow, seen), (ControlFlow::Break(()), 1));
    assert_eq!(running.finish().await.unwrap_err().name(), "turn_timeout");
    let request = tokio::time::timeout(Duration::from_secs(1), fake.expect("turn/interrupt")).await;
    assert!(request.is_ok());
}

#[tokio::test]
async fn no_task_outlives_the_client() {
    let alive = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = alive();
    for behaviour in
        ["hangs", "floods", "sends garbage", "sends requests", "crashes", "answers unknown calls"]
    {
        let (mut fake, client) = connected(Client::builder()).await;
        let mut running = {
            let client = client.clone();
            let starting = tokio::spawn(async move { client.turn(turn(&"t".into(), "Hi")).await });
            fake.take_turn("t", "u").await;
            soon(starting).await.unwrap().unwrap()
        };
        let _unread = (client.events(), client.thread_events(&"t".into()));
        let waiting = client.call_within::<ModelList>(Default::default(), Duration::from_millis(50));
        fake.expect("model/list").await;
        match behaviour {
            "floods" => {
                for _ in 0..1000 {
                    fake.item("t", "u", message("i", &"x".repeat(1000))).await;
                }
            }
            "sends garbage" => fake.send_raw("{\"id\":[],\"method\":{}}").await,
            "sends requests" => {
                for id in 0..50 {
                    let params = json!({ "threadId": "t", "turnId": "u", "callId": "c", "tool": "x" });
                    fake.send(json!({ "id": id, "method": "item/tool/call", "params": params })).await;
                }
            }
            "crashes" => {
                drop(fake);
                assert_eq!(soon(waiting).await.unwrap_err().name(), "port_exit");
                soon(running.finish()).await.unwrap_err();
                continue;
            }
            "answers unknown calls" => fake.send(json!({ "id": 4711, "result": {} })).await,
            _ => {}
        }
        let error = soon(waiting).await.unwrap_err();
        assert_eq!(error.name(), "response_timeout", "{behaviour}");
        if behaviour == "floods" {
            soon(running.next()).await.unwrap();
        }
        drop((running, client));
        while fake.next().await.is_some() {}
    }
    soon(async {
        while alive() > before {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
