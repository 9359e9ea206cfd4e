//! A thread of 10,000 items: the page shows its end, and the rest on demand.

use std::time::Instant;

use codicil_client::protocol::*;
use serde_json::json;

use crate::fixture::Fixture;

const SCRIPT: &str = "[[reply]]\nwhen = {}\nsteps = [{ say = \"Hello\" }]\n";

/// Starts a thread with many turns.
async fn long_thread(fixture: &Fixture, turns: usize) -> ThreadId {
    let client = fixture.client().await;
    let thread = client.call::<ThreadStart>(Default::default()).await.unwrap().thread;
    for number in 0..turns {
        let input = json!([{ "type": "text", "text": format!("question {number}") }]);
        let params = json!({ "threadId": thread.id, "input": input });
        let params: TurnStartParams = serde_json::from_value(params).unwrap();
        client.run_turn(params).await.unwrap();
    }
    thread.id
}

#[tokio::test]
async fn older_turns_are_shown_on_demand() {
    let fixture = Fixture::start(SCRIPT).await;
    let thread = long_thread(&fixture, 30).await;
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    assert!(page.contains("question 29") && !page.contains("question 5</p>"), "the end of the thread");
    let mut next = link(&page);
    let mut older = String::new();
    while let Some(address) = next {
        let part = fixture.browser.get(&address).await.body;
        next = link(&part);
        older.push_str(&part);
    }
    for number in 0..30 {
        // The first question is also the name of the thread, in the heading and in the list.
        let question = format!("<p class=\"text\">question {number}</p>");
        let shown = page.matches(&question).count() + older.matches(&question).count();
        assert_eq!(shown, 1, "{question}");
    }
    fixture.stop().await;
}

fn link(page: &str) -> Option<String> {
    let part = page.split("data-older=\"\" href=\"").nth(1)?;
    Some(part.split('"').next()?.replace("&amp;", "&"))
}

#[tokio::test]
async fn a_page_of_a_long_thread_is_small() {
    let fixture = Fixture::start(SCRIPT).await;
    let client = fixture.client().await;
    let thread = client.call::<ThreadStart>(Default::default()).await.unwrap().thread;
    let mut steps = String::new();
    for number in 0..400 {
        steps.push_str(&format!("{{ say = \"message {number} {}\" }},\n", "text ".repeat(40)));
    }
    std::fs::write(
        fixture.home.path().join("script.toml"),
        format!("[[reply]]\nwhen = {{}}\nsteps = [{steps}]\n"),
    )
    .unwrap();
    let input = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "Go" }] });
    client.run_turn(serde_json::from_value(input).unwrap()).await.unwrap();
    let began = Instant::now();
    let page = fixture.browser.get(&format!("/threads/{}", thread.id)).await;
    eprintln!("{} bytes in {:?}", page.body.len(), began.elapsed());
    assert!(page.body.len() < 300_000, "{} bytes", page.body.len());
    assert!(page.body.contains("message 399") && page.body.contains("earlier items"));
    let address = page.body.split("data-more=\"\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let older = fixture.browser.get(&address.replace("&amp;", "&")).await;
    assert!(older.body.contains("aria-label=\"Agent message\""), "{}", older.body);
    fixture.stop().await;
}
