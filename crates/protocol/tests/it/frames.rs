//! Merging deltas.

use codicil_protocol::{
    AgentMessageDelta, CommandExecutionOutputDelta, Frame, NotificationMethod, ThreadClosed,
    ThreadClosedNotification,
};
use proptest::prelude::*;
use serde_json::{Value, json};

fn delta<N: NotificationMethod>(item: &str, delta: &str) -> Frame {
    let params = json!({ "threadId": "t", "turnId": "u", "itemId": item, "delta": delta });
    Frame::notification::<N>(&serde_json::from_value(params).unwrap())
}

fn message(item: &str, text: &str) -> Frame {
    delta::<AgentMessageDelta>(item, text)
}

fn output(item: &str, text: &str) -> Frame {
    delta::<CommandExecutionOutputDelta>(item, text)
}

/// Merges two deltas of one item.
fn join(first: &Frame, second: &Frame) -> Option<Value> {
    let more = second.continuation(first.bytes())?;
    let kept = &first.bytes()[..first.bytes().len() - Frame::DELTA_END_LEN];
    Some(serde_json::from_slice(&[kept, more].concat()).unwrap())
}

#[test]
fn only_deltas_of_one_item_are_merged() {
    let closed = Frame::notification::<ThreadClosed>(&ThreadClosedNotification { thread_id: "t".into() });
    assert!(join(&message("i", "a"), &message("i", "b")).is_some());
    assert!(join(&message("i", "a"), &message("j", "b")).is_none());
    assert!(join(&message("i", "a"), &output("i", "b")).is_none());
    assert!(join(&closed, &closed).is_none());
    assert!(join(&message("i", "a"), &closed).is_none());
}

proptest! {
    #[test]
    fn a_merged_delta_has_both_texts(item in any::<String>(), one in any::<String>(), two in any::<String>()) {
        for make in [message, output] {
            let joined = join(&make(&item, &one), &make(&item, &two)).unwrap();
            prop_assert_eq!(&joined["params"]["delta"], &format!("{one}{two}"));
            prop_assert_eq!(&joined["params"]["itemId"], &item);
        }
    }

    #[test]
    fn an_id_that_looks_like_a_delta_is_not_one(end in any::<String>()) {
        let item = format!("\"delta\":\"{end}");
        let joined = join(&message(&item, "a\"}}"), &message(&item, "b")).unwrap();
        prop_assert_eq!(&joined["params"]["delta"], "a\"}}b");
        prop_assert_eq!(&joined["params"]["itemId"], &item);
    }
}
