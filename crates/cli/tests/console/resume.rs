//! Pages that lose their server and catch up: in the middle of a stream, and with an open question.

use codicil_testkit::Script;
use serde_json::json;

use crate::{
    browser::{Browser, article, button},
    stage::{Stage, escalated},
    wire::CuttableWire,
};

#[tokio::test]
async fn a_page_that_was_offline_has_every_word_once() {
    let Some(browser) = Browser::start().await else { return };
    let word = |number: usize| format!("w{number} ");
    let script = Script::new()
        .say_deltas((0..50).map(word))
        .unfinished()
        .gate("offline")
        .say_deltas((50..200).map(word))
        .unfinished()
        .gate("online")
        .say_deltas((200..250).map(word));
    let mut stage = Stage::start(script).await;
    let wire = CuttableWire::to(stage.origin.trim_start_matches("http://").parse().unwrap()).await;
    stage.origin = wire.origin.clone();
    stage.start_thread(&browser, "Count").await;
    browser.sees([article("Agent message")], "w49").await;

    wire.cut();
    browser
        .until(
            "the page knows that it is offline",
            "return document.body.hasAttribute('data-offline')",
            json!([]),
        )
        .await;
    stage.model.release("offline");
    stage.model.reached("online").await;
    wire.mend();
    browser.sees([article("Agent message")], "w199").await;
    stage.model.release("online");
    browser.sees([article("Agent message")], "w249").await;
    browser.gone([button("Stop")]).await;

    let text = browser
        .script("return document.querySelector('[aria-label=\"Agent message\"]').innerText", json!([]))
        .await;
    let words: Vec<_> =
        text.as_str().unwrap().split_whitespace().filter(|word| word.starts_with('w')).collect();
    assert_eq!(words, (0..250).map(|number| format!("w{number}")).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_killed_server_comes_back_with_its_question() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .say("I will write a line.")
        .call("exec_command", escalated("echo line >> lines"))
        .then()
        .say("It is written");
    let mut stage = Stage::start(script).await;
    stage.start_thread(&browser, "Write").await;
    browser.find([article("Run echo line*"), button("Approve")]).await;

    stage.kill_and_restart().await;
    browser
        .until("the page is connected again", "return !document.body.hasAttribute('data-offline')", json!([]))
        .await;
    browser.find_all([article("Run echo line*")], 1).await;
    browser.click([article("Run echo line*"), button("Approve")]).await;

    browser.sees([article("Agent message")], "It is written").await;
    browser.gone([article("Run echo line*")]).await;
    for (kind, count) in [("User message", 1), ("Agent message", 2), ("Command", 1)] {
        browser.find_all([article(kind)], count).await;
    }
    assert_eq!(stage.file("lines").as_deref(), Some("line\n"));
    // After a reload it is the same.
    browser.reload().await;
    for (kind, count) in [("User message", 1), ("Agent message", 2), ("Command", 1)] {
        browser.find_all([article(kind)], count).await;
    }
}
