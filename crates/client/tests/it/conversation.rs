//! Calls: their order, the named methods, and methods outside the protocol's table.

use codicil_client::{Client, IncludeTurns, command, fork, protocol::*};
use serde_json::{Value, json};

use crate::{
    fake::{connected, server},
    soon,
};

#[tokio::test]
async fn calls_are_sent_in_order_whether_or_not_they_are_awaited() {
    let (mut fake, client) = connected(Client::builder()).await;
    let interrupt = |turn: &str| {
        client.call::<TurnInterrupt>(TurnInterruptParams { thread_id: "t".into(), turn_id: turn.into() })
    };
    let first = interrupt("1");
    let second = interrupt("2");
    let third = interrupt("3");
    // Awaited in reverse order.
    let waiting = tokio::spawn(async move { (third.await, second.await, first.await) });
    for turn in ["1", "2", "3"] {
        let request = fake.expect("turn/interrupt").await;
        assert_eq!(request["params"]["turnId"], turn);
        fake.reply(&request, json!({})).await;
    }
    let (third, second, first) = soon(waiting).await.unwrap();
    assert!(third.is_ok() && second.is_ok() && first.is_ok());
}

#[tokio::test]
async fn the_common_methods_have_named_calls() {
    let (mut fake, client) = connected(Client::builder()).await;
    let id = ThreadId::from("t");
    let opened = json!({ "thread": { "id": "t" } });
    let mut answer = async |method: &str, params: Value, result: Value| {
        let request = fake.expect(method).await;
        for (name, value) in params.as_object().unwrap() {
            assert_eq!(&request["params"][name], value, "{method}: {name}");
        }
        fake.reply(&request, result).await;
    };
    let thread = json!({ "threadId": "t" });

    let (forked, ()) =
        tokio::join!(client.fork_thread(fork(&id)), answer("thread/fork", thread.clone(), opened.clone()));
    assert_eq!(&*forked.unwrap().id, "t");
    let with_turns = json!({ "threadId": "t", "includeTurns": true });
    let (read, ()) =
        tokio::join!(client.read_thread(&id, IncludeTurns::Yes), answer("thread/read", with_turns, opened));
    assert_eq!(&*read.unwrap().id, "t");
    let page = json!({ "data": [{ "id": "t" }], "nextCursor": "c" });
    let limited = ThreadListParams { limit: Some(3), ..Default::default() };
    let (list, ()) =
        tokio::join!(client.list_threads(limited), answer("thread/list", json!({ "limit": 3 }), page));
    let list = list.unwrap();
    assert_eq!((&*list.data[0].id, list.next_cursor.as_deref()), ("t", Some("c")));
    let (archived, ()) =
        tokio::join!(client.archive_thread(&id), answer("thread/archive", thread.clone(), json!({})));
    archived.unwrap();
    let (compacted, ()) =
        tokio::join!(client.compact_thread(&id), answer("thread/compact/start", thread, json!({})));
    compacted.unwrap();
    let ran = json!({ "exitCode": 1, "stdout": "out", "stderr": "" });
    let wanted = json!({ "command": ["ls", "-l"] });
    let (ran, ()) =
        tokio::join!(client.exec_command(command(["ls", "-l"])), answer("command/exec", wanted, ran));
    assert_eq!(ran.unwrap().exit_code, 1);
}

#[tokio::test(start_paused = true)]
async fn exec_command_waits_for_the_commands_own_timeout() {
    let (_fake, client) = connected(Client::builder()).await;
    let began = tokio::time::Instant::now();
    let params = CommandExecParams { timeout_ms: Some(600_000), ..command(["sleep", "inf"]) };
    let error = client.exec_command(params).await.unwrap_err();
    assert_eq!((error.name(), began.elapsed().as_secs()), ("response_timeout", 630));
    let endless = CommandExecParams { disable_timeout: Some(true), ..command(["sleep", "inf"]) };
    let year = std::time::Duration::from_secs(300 * 24 * 60 * 60);
    assert!(tokio::time::timeout(year, client.exec_command(endless)).await.is_err());
}

#[tokio::test]
async fn methods_outside_the_table_can_be_called() {
    let (mut fake, client) = connected(Client::builder()).await;
    let call = tokio::spawn(client.call_raw("future/method", json!({ "a": 1 })));
    let request = fake.expect("future/method").await;
    assert_eq!(request["params"], json!({ "a": 1 }));
    fake.reply(&request, json!([1, 2])).await;
    assert_eq!(soon(call).await.unwrap().unwrap(), json!([1, 2]));
}

#[tokio::test]
async fn a_response_of_the_wrong_form_is_response_invalid() {
    let (mut fake, client) = connected(Client::builder()).await;
    let call = tokio::spawn(
        client.call::<ThreadRead>(ThreadReadParams { thread_id: "t".into(), include_turns: false }),
    );
    let request = fake.expect("thread/read").await;
    fake.reply(&request, json!({ "thread": { "name": "no id" } })).await;
    let error = soon(call).await.unwrap().unwrap_err();
    assert_eq!(error.name(), "response_invalid");
    assert!(error.to_string().contains("thread/read cannot be read: missing field"), "{error}");
}

#[tokio::test]
async fn notifications_can_be_opted_out() {
    let (mut fake, endpoint) = server();
    let builder = Client::builder().stable_only().opt_out(["item/agentMessage/delta", "thread/started"]);
    let connecting = tokio::spawn(builder.connect(endpoint));
    let hello = fake.expect("initialize").await;
    let opted_out = json!(["item/agentMessage/delta", "thread/started"]);
    let expected = json!({ "experimentalApi": false, "optOutNotificationMethods": opted_out });
    assert_eq!(hello["params"]["capabilities"], expected);
    fake.reply(&hello, json!({})).await;
    soon(connecting).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_connection_can_be_opened_without_the_handshake() {
    let (mut fake, endpoint) = server();
    let client = soon(Client::builder().name("early", "1").open(endpoint)).await.unwrap();
    assert!(client.is_connected() && client.server().is_none());
    let (greeted, ()) = soon(async { tokio::join!(client.initialize(), fake.greet()) }).await;
    greeted.unwrap();
    assert_eq!(client.server().unwrap().user_agent, "fake/1.0");
    // The caller can close a connection whose server does not answer the handshake.
    let (mut silent, endpoint) = server();
    let client = soon(Client::builder().open(endpoint)).await.unwrap();
    let server_sees_end = async move { assert_eq!(silent.next().await, None) };
    let (disconnected, ()) = soon(async { tokio::join!(client.close(), server_sees_end) }).await;
    assert_eq!(disconnected.cause, codicil_client::DisconnectCause::ClosedByClient);
}
