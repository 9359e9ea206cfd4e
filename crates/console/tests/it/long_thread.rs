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

/// Stores a thread whose turns have these numbers of items. Writing them through turns would take minutes.
async fn stored_thread(fixture: &Fixture, turns: &[usize], item: impl Fn(usize) -> ThreadItem) -> ThreadId {
    let id = new_thread_id();
    let cwd = fixture.work.path().to_str().unwrap();
    let meta = ThreadMeta::new(id.clone(), cwd, SessionSource::AppServer, "script");
    let mut records = vec![Record::Settings(StoredSettings::without_snapshot("scripted".to_owned(), None))];
    let mut number = 0;
    for (turn, items) in turns.iter().enumerate() {
        let turn_id = TurnId::from(format!("turn{turn}"));
        records.push(Record::Turn { turn_id: turn_id.clone(), run: None });
        for _ in 0..*items {
            records.push(Record::Item { turn_id: turn_id.clone(), item: item(number) });
            number += 1;
        }
        let plan = json!({ "turnId": turn_id, "explanation": null, "plan": [{ "step": format!("Plan of turn{turn}."), "status": "completed" }] });
        records.push(Record::plan(&serde_json::from_value(plan).unwrap()));
        records.push(Record::TurnEnd { turn_id, status: TurnStatus::Completed, error: None, cause: None });
    }
    let store = Store::open(fixture.home.path()).unwrap();
    store.create_with(meta, records).await.unwrap();
    id
}

/// Loads everything that is older than a page. Returns the parts.
async fn older_parts(fixture: &Fixture, page: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut next = link(page);
    while let Some(address) = next {
        let part = fixture.browser.get(&address).await;
        assert_eq!(part.status, 200, "{address}: {}", part.body);
        next = link(&part.body);
        parts.push(part.body);
    }
    parts
}

#[tokio::test]
async fn older_items_are_loaded_in_parts_of_one_size_whatever_their_turns() {
    let fixture = Fixture::start(SCRIPT).await;
    let turns: Vec<usize> = [1, 170, 2, 1, 90].into_iter().chain([2; 40]).collect();
    let thread = stored_thread(&fixture, &turns, item).await;
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    assert_eq!(item_numbers(&page).len(), 120, "the end of the thread");
    let parts = older_parts(&fixture, &page).await;
    let sizes: Vec<_> = parts.iter().map(|part| item_numbers(part).len()).collect();
    assert_eq!(sizes, [60, 60, 60, 44], "of 344 items");
    let all: String = [page].into_iter().chain(parts).collect();
    for number in 0..turns.iter().sum() {
        assert_eq!(all.matches(&format!("-item{number}\" aria-label=\"Link")).count(), 1, "item {number}");
    }
    for turn in 0..turns.len() {
        // The end of a turn is there once, also if its items are in several parts.
        assert_eq!(all.matches(&format!("id=\"turn-turn{turn}-end\"")).count(), 1, "turn {turn}");
        // So is its plan.
        assert_eq!(all.matches(&format!("Plan of turn{turn}.")).count(), 1, "turn {turn}");
    }
    // The long turns begin on one page and continue with the next ones.
    assert_eq!(all.matches("data-continued").count(), 4);
    fixture.stop().await;
}

#[tokio::test]
async fn a_link_leads_to_any_item_and_turn() {
    let fixture = Fixture::start(SCRIPT).await;
    let turns = [3, 400, 250, 1];
    let thread = stored_thread(&fixture, &turns, item).await;
    let ends = || {
        turns.iter().scan(0, |end, items| {
            *end += items;
            Some(*end)
        })
    };
    let turn_of = |number: usize| ends().position(|end| number < end).unwrap();
    // In the first turn, within the second, before and behind the place where the page cuts the third one, and the last item.
    for number in [0, 2, 3, 200, 402, 403, 500, 533, 534, 600, 653] {
        let turn = format!("turn{}", turn_of(number));
        let page =
            fixture.browser.get(&format!("/threads/{thread}?turn={turn}&item=item{number}")).await.body;
        assert!(page.len() < MAX_PAGE, "{number}: {} bytes", page.len());
        let target = format!("id=\"item-{turn}-item{number}\"");
        assert_eq!(page.matches(&target).count(), 1, "{number}");
        assert_unique_ids(&page);
        let shown = linked_items(&page);
        assert_eq!(shown.is_empty(), number >= 534, "{number}: the end of the thread has {shown:?}");
        assert!(shown.is_empty() || shown.contains(&number), "{number}: {shown:?}");
        // Everything else of the turn is loaded on demand, once.
        let mut all = shown;
        for side in ["before", "after"] {
            let mut next = more(&page, side);
            while let Some(address) = next {
                let part = fixture.browser.get(&address).await.body;
                all.extend(item_numbers(&part));
                next = more(&part, side);
            }
        }
        all.sort_unstable();
        let own = (0..654).filter(|other| turn_of(*other) == turn_of(number));
        let expected: Vec<_> = own.filter(|other| *other < 534 || turn_of(*other) != 2).collect();
        assert!(all.is_empty() || all == expected || all.starts_with(&expected), "{number}: {all:?}");
    }
    // A link to a turn leads to its beginning.
    let page = fixture.browser.get(&format!("/threads/{thread}?turn=turn1")).await.body;
    assert_eq!(page.matches("id=\"turn-turn1\"").count(), 1);
    assert_eq!(linked_items(&page).first(), Some(&3));
    assert!(page.contains("Plan of turn1."), "a linked turn has its plan");
    for gone in ["turn=nothing", "turn=turn1&item=nothing", "turn=turn1&item=item0"] {
        let page = fixture.browser.get(&format!("/threads/{thread}?{gone}")).await;
        assert!(
            page.status == 200 && page.body.contains("not part of this thread any more"),
            "{gone}: {page:?}"
        );
    }
    fixture.stop().await;
}

#[track_caller]
fn assert_unique_ids(page: &str) {
    let mut ids: Vec<_> = page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    ids.sort_unstable();
    let twice: Vec<_> = ids.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
    assert_eq!(twice, Vec::<&str>::new());
}

/// Returns the numbers of the items in the section of a linked turn.
fn linked_items(page: &str) -> Vec<usize> {
    let section = page
        .split("<section class=\"linked\"")
        .nth(1)
        .and_then(|rest| rest.split("<div id=\"turns\"").next());
    section.map(item_numbers).unwrap_or_default()
}

/// Returns the numbers of the items of a part, in order.
fn item_numbers(part: &str) -> Vec<usize> {
    let ids = part.split("<article class=\"item ").skip(1).filter_map(|rest| rest.split("id=\"item-").nth(1));
    ids.filter_map(|id| id.split('"').next()?.rsplit_once("-item")?.1.parse().ok()).collect()
}

/// Returns the address of more items of a linked turn, on one side.
fn more(page: &str, side: &str) -> Option<String> {
    let mut addresses =
        page.split("data-more=\"\" href=\"").skip(1).filter_map(|rest| rest.split('"').next());
    addresses.find(|address| address.contains(&format!("?{side}="))).map(str::to_owned)
}

#[tokio::test]
async fn parts_of_large_items_are_small() {
    let fixture = Fixture::start(SCRIPT).await;
    let large = |number: usize| message(number, &"many words ".repeat(2000));
    let thread = stored_thread(&fixture, &[30, 30], large).await;
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    let parts = older_parts(&fixture, &page).await;
    let all: Vec<String> = [page].into_iter().chain(parts).collect();
    assert!(all.len() > 5, "{} parts", all.len());
    for part in &all {
        assert!(part.len() < MAX_PAGE, "{} bytes", part.len());
    }
    let all = all.concat();
    for number in 0..60 {
        assert_eq!(all.matches(&format!("-item{number}\" aria-label=\"Link")).count(), 1, "item {number}");
    }
    fixture.stop().await;
}

fn link(page: &str) -> Option<String> {
    let part = page.split("data-older=\"\" href=\"").nth(1)?;
    Some(part.split('"').next()?.replace("&amp;", "&"))
}

fn message(number: usize, text: &str) -> ThreadItem {
    let id = format!("item{number}");
    let item =
        json!({ "type": "agentMessage", "id": id, "text": text, "phase": null, "memoryCitation": null });
    serde_json::from_value(item).unwrap()
}

/// Returns a question, an answer, or a command with output.
fn item(number: usize) -> ThreadItem {
    let id = format!("item{number}");
    let text = format!("message {number}: {}", "some words of **text** ".repeat(10));
    let item = match number {
        0 => json!({ "type": "userMessage", "id": id, "content": [{ "type": "text", "text": text }] }),
        _ if number.is_multiple_of(4) => json!({
            "type": "commandExecution", "id": id, "command": "cargo test", "cwd": "/", "processId": null, "source": "agent",
            "status": "completed", "commandActions": [], "aggregatedOutput": "a line of output\n".repeat(30), "exitCode": 0,
            "durationMs": 5,
        }),
        _ => return message(number, &text),
    };
    serde_json::from_value(item).unwrap()
}

#[tokio::test]
async fn a_thread_of_ten_thousand_items_opens_with_a_small_page() {
    let fixture = Fixture::start(SCRIPT).await;
    let thread = stored_thread(&fixture, &[ITEMS], item).await;
    let began = Instant::now();
    let page = fixture.browser.get(&format!("/threads/{thread}")).await;
    let (bytes, articles) = (page.body.len(), page.body.matches("<article").count());
    eprintln!("{ITEMS} items: {bytes} bytes, {articles} items, {:?}", began.elapsed());
    assert_eq!(page.status, 200);
    assert!(bytes < MAX_PAGE, "{bytes} bytes");
    assert!((100..=240).contains(&articles), "{articles} items");
    assert!(page.body.contains("message 9999:"), "the end of the thread is shown");
    let older = fixture.browser.get(&link(&page.body).expect("the rest is there on demand")).await;
    assert!(
        older.body.contains("data-continued") && older.body.len() < MAX_PAGE,
        "{} bytes",
        older.body.len()
    );
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
    assert!(page.body.contains("message 399"));
    let all: String = older_parts(&fixture, &page.body).await.into_iter().chain([page.body]).collect();
    for number in 0..400 {
        assert_eq!(all.matches(&format!("message {number} text")).count(), 1, "message {number}");
    }
    fixture.stop().await;
}
