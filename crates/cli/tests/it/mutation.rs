//! Thousands of broken messages over stdio: answered where they can be, survived where not.

use std::{collections::HashMap, ops::ControlFlow};

use codicil_protocol::rpc::RequestId;
use codicil_testkit::{App, Mutations, Transport, usable_id};
use serde_json::{Value, json};

const SEED: u64 = 0x5eed_57d1;
const COUNT: usize = 20_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_mutated_messages_are_survived() {
    let mut app = App::builder().experimental().over(Transport::Stdio).start().await;
    let messages: Vec<_> = Mutations::new(SEED).take(COUNT).collect();
    let mut owed: HashMap<RequestId, usize> = HashMap::new();
    for id in messages.iter().filter_map(|message| usable_id(message)) {
        *owed.entry(id).or_default() += 1;
    }
    let before = app.process().resident_kib();

    app.flood(messages, |message: Value| {
        if message.get("method").is_none()
            && let Ok(id) = serde_json::from_value(message["id"].clone())
            && let Some(count) = owed.get_mut(&id)
        {
            *count -= 1;
            if *count == 0 {
                owed.remove(&id);
            }
        }
        if owed.is_empty() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })
    .await;

    let answer = app.exchange(json!({ "id": "alive", "method": "mock/experimentalMethod" })).await;
    assert_eq!(answer, json!({ "id": "alive", "result": { "echoed": null } }));
    let grown = app.process().peak_kib().saturating_sub(before) >> 10;
    assert!(grown <= 100, "{grown} MiB more");
    app.disconnect();
    app.process().expect_success().await;
}
