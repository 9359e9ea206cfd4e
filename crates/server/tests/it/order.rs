//! Requests of a connection are handled in order of arrival.

use std::ops::ControlFlow;

use bytes::Bytes;
use codicil_protocol::{TurnCompleted, TurnInterrupt, TurnInterruptParams, TurnStart, TurnStatus};
use codicil_testkit::{App, Reply, Script};
use serde_json::json;

use crate::NO_THREAD;

#[tokio::test]
async fn a_thousand_pairs_of_requests_are_answered_in_order() {
    let mut app = App::builder().experimental().start().await;
    let pairs = (0..1000).flat_map(|pair| {
        let first =
            json!({ "id": 2 * pair, "method": "mock/experimentalMethod", "params": { "value": pair.to_string() } });
        let second = json!({ "id": 2 * pair + 1, "method": "turn/interrupt",
            "params": { "threadId": NO_THREAD, "turnId": "t" } });
        [first, second].map(|message| Bytes::from(message.to_string()))
    });
    let mut next = 0;
    app.flood(pairs, |answer| {
        assert_eq!(answer["id"], next, "{answer}");
        match next % 2 {
            0 => assert_eq!(answer["result"]["echoed"], (next / 2).to_string()),
            _ => assert_eq!(answer["error"]["code"], -32600, "{answer}"),
        }
        next += 1;
        if next == 2000 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .await;
}

#[tokio::test]
async fn a_turn_can_be_interrupted_right_after_its_request() {
    let mut app = App::start(Script::new().repeat(Reply::new().hang())).await;
    let thread = app.start_thread().await;
    for pair in 0..1000 {
        let params = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "go" }] });
        let start = app.send::<TurnStart>(serde_json::from_value(params).unwrap()).await;
        let params = TurnInterruptParams { thread_id: thread.id.clone(), turn_id: "".into() };
        let interrupt = app.send::<TurnInterrupt>(params).await;

        let turn = app.answer(start).await.unwrap().turn;
        app.answer(interrupt).await.unwrap_or_else(|error| panic!("pair {pair}: {error:?}"));
        let completed = app.until::<TurnCompleted>().await.turn;
        assert_eq!((completed.id, completed.status), (turn.id, TurnStatus::Interrupted), "pair {pair}");
    }
    app.ignore_rest();
}
