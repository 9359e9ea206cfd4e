//! Reviews.

use codicil_client::{Client, ClientEvent, CompletedReview, protocol::*, review};
use serde_json::json;

use crate::{
    fake::{connected, message, running},
    soon,
};

fn mode(kind: &str, text: &str) -> serde_json::Value {
    json!({ "type": kind, "id": kind, "review": text })
}

#[tokio::test]
async fn an_inline_review_is_collected_under_any_turn_id() {
    let (mut fake, client) = connected(Client::builder()).await;
    let params = review(&"t".into(), ReviewTarget::UncommittedChanges);
    let reviewing = tokio::spawn(async move { client.run_review(params).await });
    let request = fake.expect("review/start").await;
    assert_eq!(request["params"], json!({ "threadId": "t", "target": { "type": "uncommittedChanges" } }));
    fake.reply(&request, json!({ "turn": running("u"), "reviewThreadId": "t" })).await;
    // The reference server uses one turn id in its response and another one in the notifications.
    fake.item("t", "0", mode("enteredReviewMode", "current changes")).await;
    fake.item("t", "0", mode("exitedReviewMode", "Looks good.")).await;
    fake.complete("t", "0").await;
    let done = soon(reviewing).await.unwrap().unwrap();
    assert_eq!((done.review_text.as_str(), &*done.review_thread_id), ("Looks good.", "t"));
    assert_eq!(done.run.items.len(), 2);
}

#[tokio::test]
async fn a_detached_review_is_collected_from_its_own_thread() {
    let (mut fake, client) = connected(Client::builder()).await;
    let delivery = Some(ReviewDelivery::Detached);
    let params = ReviewStartParams {
        delivery,
        ..review(&"t".into(), ReviewTarget::Custom { instructions: "Be kind".into() })
    };
    let reviewing = tokio::spawn(async move { client.run_review(params).await });
    let request = fake.expect("review/start").await;
    assert_eq!(request["params"]["delivery"], "detached");
    // The client learns the thread only from the response.
    fake.item("new", "u", mode("enteredReviewMode", "Be kind")).await;
    fake.reply(&request, json!({ "turn": running("u"), "reviewThreadId": "new" })).await;
    fake.item("t", "v", message("x", "Another thread's")).await;
    fake.item("new", "u", mode("exitedReviewMode", "Kind enough.")).await;
    fake.complete("new", "u").await;
    let done = soon(reviewing).await.unwrap().unwrap();
    assert_eq!((done.review_text.as_str(), &*done.review_thread_id), ("Kind enough.", "new"));
    assert_eq!(done.run.items.len(), 2);
}

#[tokio::test]
async fn a_review_can_be_followed_while_it_runs() {
    let (mut fake, client) = connected(Client::builder()).await;
    let params = review(&"t".into(), ReviewTarget::UncommittedChanges);
    let starting = tokio::spawn(async move { client.review(params).await });
    let request = fake.expect("review/start").await;
    fake.reply(&request, json!({ "turn": running("u"), "reviewThreadId": "t" })).await;
    let mut reviewing = soon(starting).await.unwrap().unwrap();
    fake.item("t", "u", mode("exitedReviewMode", "Looks good.")).await;
    let event = soon(reviewing.next()).await;
    assert!(
        matches!(event, Some(ClientEvent::Notification(ServerNotification::ItemCompleted(_)))),
        "{event:?}"
    );
    fake.complete("t", "u").await;
    let done = CompletedReview::from(soon(reviewing.finish()).await.unwrap());
    assert_eq!((done.review_text.as_str(), &*done.review_thread_id), ("Looks good.", "t"));
}
