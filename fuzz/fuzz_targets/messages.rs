//! A message that can be parsed keeps its params.
#![no_main]

use codicil_protocol::rpc::Message;
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|text: &str| {
    let Ok(Message::Request { params, .. } | Message::Notification { params, .. }) = Message::parse(text) else {
        return;
    };
    let message: Value = serde_json::from_str(text).expect("the envelope was parsed");
    let given = message.get("params").filter(|params| !params.is_null());
    let kept = params.map(|params| serde_json::from_str::<Value>(params.get()).expect("raw JSON"));
    assert_eq!(kept.as_ref().filter(|params| !params.is_null()), given);
});
