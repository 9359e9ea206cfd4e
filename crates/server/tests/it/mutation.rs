//! Thousands of mutated messages: each one with a valid id gets a response, and the server goes on.

use codicil_testkit::{App, MessageMutations};
use serde_json::json;

const SEED: u64 = 0x000c_0d1c;
const COUNT: usize = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_survives_twenty_thousand_mutated_messages() {
    let mut app = App::builder().experimental().start().await;
    let answered = app.flood_answered(MessageMutations::new(SEED).take(COUNT).collect()).await;
    assert!(answered > COUNT / 10, "{answered} messages can be answered");

    let answer = app.exchange(json!({ "id": "alive", "method": "mock/experimentalMethod" })).await;
    assert_eq!(answer, json!({ "id": "alive", "result": { "echoed": null } }));
    app.ignore_rest();
}
