//! Thousands of corrupted messages over stdio: answered if they are valid requests, ignored otherwise.

use codicil_testkit::{App, MessageMutations, TestTransport};
use serde_json::json;

const SEED: u64 = 0x5eed_57d1;
const COUNT: usize = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_survives_twenty_thousand_mutated_messages() {
    let mut app = App::builder().experimental().over(TestTransport::Stdio).start().await;
    let before = app.process().resident_kib();

    app.flood_answered(MessageMutations::new(SEED).take(COUNT).collect()).await;

    let answer = app.exchange(json!({ "id": "alive", "method": "mock/experimentalMethod" })).await;
    assert_eq!(answer, json!({ "id": "alive", "result": { "echoed": null } }));
    let grown = app.process().peak_kib().saturating_sub(before) >> 10;
    assert!(grown <= 100, "{grown} MiB more");
    app.disconnect();
    app.process().expect_success().await;
}
