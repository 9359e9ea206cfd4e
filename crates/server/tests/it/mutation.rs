//! Thousands of broken messages: each that has a usable id is answered, and nothing else happens.

use codicil_testkit::{App, MessageMutations};
use serde_json::json;

const SEED: u64 = 0x000c_0d1c;
const COUNT: usize = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_mutated_messages_are_survived() {
    let mut app = App::builder().experimental().start().await;
    let answered = app.flood_answered(MessageMutations::new(SEED).take(COUNT).collect()).await;
    assert!(answered > COUNT / 10, "{answered} messages can be answered");

    let answer = app.exchange(json!({ "id": "alive", "method": "mock/experimentalMethod" })).await;
    assert_eq!(answer, json!({ "id": "alive", "result": { "echoed": null } }));
    app.ignore_rest();
}
