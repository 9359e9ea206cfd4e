//! Live pages: nothing is missing and nothing arrives twice, whatever happens to the connection.

use std::collections::BTreeMap;

use codicil_client::protocol::ThreadStart;
use serde_json::Value;

use crate::{
    browser::PageEvent,
    fixture::{Fixture, read_until, soon},
};

/// Streams a long answer in small pieces.
fn long_answer(words: usize) -> (String, String) {
    let text: String = (0..words).map(|number| format!("word{number} ")).collect();
    let script = format!("pace_ms = 1\n[[reply]]\nwhen = {{}}\nsteps = [{{ say = {text:?} }}]\n");
    (script, text)
}

/// The texts that a page shows of open items, by the ids of their elements.
#[derive(Clone, Debug, Default)]
struct ShownPage {
    texts: BTreeMap<String, String>,
    last_event: Option<String>,
    is_done: bool,
}

impl ShownPage {
    fn carry_out(&mut self, event: &PageEvent) {
        for op in event.data.as_array().unwrap() {
            let text = |name: &str| op.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            match op["op"].as_str().unwrap() {
                "text" => self.texts.entry(text("id")).or_default().push_str(&text("text")),
                "put" => self.show(&text("html")),
                "sync" if text("id") == "turns" => {
                    self.texts.clear();
                    self.show(&text("html"));
                }
                _ => {}
            }
        }
        self.last_event = event.id.clone().or(self.last_event.take());
    }

    fn show(&mut self, html: &str) {
        for part in html.split("<div class=\"streaming\" id=\"").skip(1) {
            let (id, rest) = part.split_once("\">").unwrap();
            let (text, _) = rest.split_once("</div>").unwrap();
            self.texts.insert(id.to_owned(), text.to_owned());
        }
        for part in html.split("<div class=\"markdown\" id=\"").skip(1) {
            let (id, rest) = part.split_once("\">").unwrap();
            let (text, _) = rest.split_once("</div>").unwrap();
            self.texts.insert(id.to_owned(), text.replace("<p>", "").replace("</p>", "").trim().to_owned());
            self.is_done |= text.contains("word");
        }
    }
}

#[tokio::test]
async fn a_page_that_reconnects_again_and_again_shows_the_whole_answer() {
    let (script, text) = long_answer(400);
    let fixture = Fixture::start(&script).await;
    let thread = fixture.new_thread("Talk").await;
    let page = fixture.browser.get(&format!("/threads/{thread}")).await;
    let after = page.body.split("&amp;after=").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let mut shown = ShownPage::default();
    shown.show(&page.body);
    shown.last_event = Some(after);
    while !shown.is_done {
        let mut events =
            fixture.browser.events(&format!("thread={thread}"), shown.last_event.as_deref()).await;
        // A few events of each connection, then the connection is cut.
        for _ in 0..6 {
            let event = soon(events.next()).await.unwrap();
            shown.carry_out(&event);
        }
    }
    let said: Vec<_> = shown.texts.values().filter(|shown| shown.contains("word0 ")).collect();
    assert_eq!(said, [text.trim()]);
    fixture.stop().await;
}

#[tokio::test]
async fn event_ids_increase() {
    let (script, _) = long_answer(50);
    let fixture = Fixture::start(&script).await;
    let thread = fixture.new_thread("").await;
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    let sent =
        fixture.browser.post(&format!("/threads/{thread}/input"), &[("text", "Talk"), ("do", "send")]).await;
    assert_eq!(sent.status, 303, "{sent:?}");
    let read = read_until(&mut events, |event| event.data.to_string().contains("Done")).await;
    let ids: Vec<u64> = read.iter().filter_map(|event| event.id.as_ref()?.parse().ok()).collect();
    assert!(ids.len() > 3 && ids.is_sorted(), "{ids:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn a_page_of_an_earlier_process_gets_everything_again() {
    let (script, text) = long_answer(20);
    let fixture = Fixture::start(&script).await;
    let thread = fixture.new_thread("Talk").await;
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    read_until(&mut events, |event| event.data.to_string().contains("Done")).await;
    let fixture = fixture.restart().await;
    let mut events = fixture.browser.events(&format!("thread={thread}"), Some("7")).await;
    let mut shown = ShownPage::default();
    read_until(&mut events, |event| {
        shown.carry_out(event);
        shown.is_done
    })
    .await;
    assert!(shown.texts.values().any(|shown| *shown == text.trim()), "{shown:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn a_page_that_does_not_read_is_dropped_and_catches_up() {
    let (script, text) = long_answer(3000);
    let fixture = Fixture::start(&script).await;
    let thread = fixture.new_thread("").await;
    // Never read: its queue and the buffers of the connection fill up.
    let slow = fixture.browser.events(&format!("thread={thread}"), None).await;
    let mut quick = fixture.browser.events(&format!("thread={thread}"), None).await;
    fixture.browser.post(&format!("/threads/{thread}/input"), &[("text", "Talk"), ("do", "send")]).await;
    read_until(&mut quick, |event| event.data.to_string().contains("Done")).await;
    drop(slow);
    let mut again = fixture.browser.events(&format!("thread={thread}"), Some("1")).await;
    let mut shown = ShownPage::default();
    read_until(&mut again, |event| {
        shown.carry_out(event);
        shown.is_done
    })
    .await;
    assert!(shown.texts.values().any(|shown| *shown == text.trim()));
    fixture.stop().await;
}

#[tokio::test]
async fn a_message_that_is_steered_past_ends_where_it_was() {
    let words: String = (0..5000).map(|number| format!("word{number} ")).collect();
    let script = format!(
        "pace_ms = 5\n[[reply]]\nwhen = {{ user = \"Count\" }}\nsteps = [{{ say = {words:?} }}]\n\
         [[reply]]\nwhen = {{ user = \"Enough\" }}\nsteps = [{{ say = \"Silence\" }}]\n"
    );
    let fixture = Fixture::start(&script).await;
    let thread = fixture.new_thread("Count").await;
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    read_until(&mut events, |event| event.data.to_string().contains("word3 ")).await;
    let input = [("text", "Enough"), ("do", "send")];
    let sent = fixture.browser.post(&format!("/threads/{thread}/input"), &input).await;
    assert_eq!(sent.status, 303, "{sent:?}");
    let read = read_until(&mut events, |event| event.data.to_string().contains("Done")).await;

    // Live and on a new page: the beginning of the message as a complete one, the input, and the next message.
    let live: String = read.iter().map(|event| event.data.to_string().replace("\\\"", "\"")).collect();
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    for text in [live, page] {
        let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing: {text}"));
        let complete = text.split("class=\"markdown\"").skip(1).find(|part| part.contains("word3 "));
        assert!(complete.is_some_and(|part| !part.contains("word4999")), "{text}");
        assert!(place("word3 ") < place("<p class=\"text\">Enough</p>"));
        assert!(place("<p class=\"text\">Enough</p>") < place("Silence"));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_page_that_is_opened_after_a_plan_was_made_shows_it() {
    let script = r#"
[[reply]]
when = { step = 0 }
steps = [{ call = "update_plan", args = { explanation = "In order", plan = [{ step = "Look around", status = "completed" }] } }]

[[reply]]
when = {}
steps = [{ say = "Planned" }]
"#;
    let fixture = Fixture::start(script).await;
    // The turn is over before any page has asked for the thread.
    let client = fixture.client().await;
    let thread = client.call::<ThreadStart>(Default::default()).await.unwrap().thread.id;
    let input = serde_json::json!({ "threadId": thread, "input": [{ "type": "text", "text": "Plan" }] });
    client.run_turn(serde_json::from_value(input).unwrap()).await.unwrap();
    let shows_plan = |page: &str| page.contains("In order") && page.contains("Look around");
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    assert!(shows_plan(&page), "{page}");
    let fixture = fixture.restart().await;
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    assert!(shows_plan(&page), "after a restart: {page}");
    fixture.stop().await;
}
