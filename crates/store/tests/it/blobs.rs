//! Large strings, stored once.

use std::fs;

use codicil_protocol::{ContentItem, ItemId, ResponseItem, ThreadItem, UserInput};
use codicil_store::{BLOB_MIN, LoadProblem, Record};

use crate::support::{Home, begun, message, output, turn, user};

fn blobs(home: &Home) -> Vec<String> {
    home.files().into_iter().filter(|file| file.starts_with("blobs/")).collect()
}

#[tokio::test]
async fn large_output_and_images_are_stored_once_and_come_back() {
    let home = Home::new();
    let big = "0123456789\n\"quoted\" äöü ".repeat(BLOB_MIN / 8);
    let image = format!("data:image/png;base64,{}", "QUJD".repeat(BLOB_MIN));
    let mut log = home.begin().await;
    log.append(&begun("t1", "look at this")).await.unwrap();
    let picture = ResponseItem::Message {
        role: "user".to_owned(),
        content: vec![ContentItem::image(image.clone(), None)],
        end_turn: None,
        phase: None,
        id: None,
    };
    let shown = ThreadItem::UserMessage {
        id: ItemId::from("image"),
        content: vec![UserInput::image(image)],
        client_id: None,
    };
    let item = ThreadItem::Plan { id: ItemId::from("plan"), text: big.clone() };
    let records = [
        Record::Item { turn_id: "t1".into(), item: shown.clone() },
        Record::Context { turn_id: Some("t1".into()), item: picture.clone() },
        Record::Item { turn_id: "t1".into(), item: item.clone() },
        Record::Context { turn_id: Some("t1".into()), item: output("c", &big) },
        Record::Context { turn_id: Some("t1".into()), item: message("user", &big) },
    ];
    log.append(&records).await.unwrap();
    log.sync().await.unwrap();

    assert_eq!(blobs(&home).len(), 2);
    assert!(fs::metadata(log.path()).unwrap().len() < 4096);
    let loaded = home.another_store().load(log.id()).await.unwrap();
    assert_eq!(loaded.thread.turns()[0].items[1..], [shown, item]);
    assert_eq!(loaded.history[1..], [picture, message("user", &big)]);
    assert_eq!(loaded.thread.warnings.total, 0);
    // The same strings in another thread are not stored again.
    home.thread(&big).await;
    assert_eq!(blobs(&home).len(), 2);
}

#[tokio::test]
async fn a_large_first_message_is_found_by_lists() {
    let mut home = Home::new();
    let text = format!("needle{}", " hay".repeat(BLOB_MIN));
    home.thread(&text).await;
    assert_eq!(home.previews().await, [text.as_str()]);
    home.restart().await;
    fs::remove_file(home.path().join("codicil_index.sqlite")).unwrap();
    assert_eq!(home.previews().await, [text]);
}

#[tokio::test]
async fn a_lost_blob_does_not_lose_the_thread() {
    let home = Home::new();
    let big = "x".repeat(BLOB_MIN * 2);
    let mut log = home.thread("one").await;
    log.append(&turn("t2", "two", &big)).await.unwrap();
    fs::remove_dir_all(home.path().join("blobs")).unwrap();
    let loaded = home.store.load(log.id()).await.unwrap();
    assert_eq!(loaded.thread.turns.len(), 2);
    assert_eq!(loaded.thread.turns()[0].items[0], user("turn-1", "one"));
    assert_eq!(loaded.thread.warnings.list[0].problem, LoadProblem::MissingBlob);
    assert!(loaded.thread.turns[1].items[1].get().contains("is missing"));
}

#[tokio::test]
async fn a_damaged_blob_is_written_again() {
    let home = Home::new();
    let big = "x".repeat(BLOB_MIN * 2);
    let log = home.thread(&big).await;
    let blob = home.path().join(&blobs(&home)[0]);
    fs::write(&blob, "short").unwrap();
    home.thread(&big).await;
    assert_eq!(home.store.read(log.id()).await.unwrap().preview, Some(big));
}
