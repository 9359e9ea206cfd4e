//! A thread of 10,000 items: the page shows its end, and the rest on demand.

use std::time::Instant;

use codicil_client::protocol::*;
use codicil_store::{Record, Store, StoredSettings, ThreadMeta, new_thread_id};
use serde_json::json;

use crate::fixture::Fixture;

const SCRIPT: &str = "[[reply]]\nwhen = {}\nsteps = [{ say = \"Hello\" }]\n";

const ITEMS: usize = 10_000;

/// The largest page, in bytes.
const MAX_PAGE: usize = 300_000;

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

/// Stores a thread with one turn of 10,000 items. Writing them through a turn would take minutes.
async fn stored_thread(fixture: &Fixture) -> ThreadId {
    let id = new_thread_id();
    let cwd = fixture.work.path().to_str().unwrap();
    let meta = ThreadMeta::new(id.clone(), cwd, SessionSource::AppServer, "script");
    let turn_id = TurnId::from("turn");
    let mut records = vec![
        Record::Settings(StoredSettings::without_snapshot("scripted".to_owned(), None)),
        Record::Turn { turn_id: turn_id.clone(), run: None },
    ];
    for number in 0..ITEMS {
        records.push(Record::Item { turn_id: turn_id.clone(), item: item(number) });
    }
    records.push(Record::TurnEnd { turn_id, status: TurnStatus::Completed, error: None, cause: None });
    let store = Store::open(fixture.home.path()).unwrap();
    store.create_with(meta, records).await.unwrap();
    id
}

/// Returns a question, an answer, or a command with output.
fn item(number: usize) -> ThreadItem {
    let id = format!("item-{number}");
    let text = format!("message {number}: {}", "some words of **text** ".repeat(10));
    let item = match number {
        0 => json!({ "type": "userMessage", "id": id, "content": [{ "type": "text", "text": text }] }),
        _ if number.is_multiple_of(4) => json!({
            "type": "commandExecution", "id": id, "command": "cargo test", "cwd": "/", "processId": null, "source": "agent",
            "status": "completed", "commandActions": [], "aggregatedOutput": "a line of output\n".repeat(30), "exitCode": 0,
            "durationMs": 5,
        }),
        _ => json!({ "type": "agentMessage", "id": id, "text": text, "phase": null, "memoryCitation": null }),
    };
    serde_json::from_value(item).unwrap()
}

#[tokio::test]
async fn a_thread_of_ten_thousand_items_opens_with_a_small_page() {
    let fixture = Fixture::start(SCRIPT).await;
    let thread = stored_thread(&fixture).await;
    let began = Instant::now();
    let page = fixture.browser.get(&format!("/threads/{thread}")).await;
    let (bytes, articles) = (page.body.len(), page.body.matches("<article").count());
    eprintln!("{ITEMS} items: {bytes} bytes, {articles} items, {:?}", began.elapsed());
    assert_eq!(page.status, 200);
    assert!(bytes < MAX_PAGE, "{bytes} bytes");
    assert!((100..=240).contains(&articles), "{articles} items");
    assert!(page.body.contains("message 9999:"), "the end of the thread is shown");
    assert!(page.body.contains("earlier items"), "the rest is there on demand");
    fixture.stop().await;
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
    assert!(page.body.len() < MAX_PAGE, "{} bytes", page.body.len());
    assert!(page.body.contains("message 399") && page.body.contains("earlier items"));
    let address = page.body.split("data-more=\"\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    let older = fixture.browser.get(&address.replace("&amp;", "&")).await;
    assert!(older.body.contains("aria-label=\"Agent message\""), "{}", older.body);
    fixture.stop().await;
}
