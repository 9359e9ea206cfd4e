//! Many pages on one busy thread: what they get is rendered and encoded once, and collected for a moment, so that its size does
//! not depend on the number of deltas.

use std::time::Instant;

use tokio::task::JoinSet;

use crate::fixture::{Fixture, read_until};

const PAGES: usize = 50;
const WORDS: usize = 2000;

/// How long text is collected.
const COLLECTING_MS: usize = 50;

/// Events that do not wait: the beginning and the end of turns and items, status and usage.
const OTHER_EVENTS: usize = 24;

#[tokio::test]
async fn fifty_pages_follow_a_busy_thread_with_few_events() {
    let text: String = (0..WORDS).map(|number| format!("word{number} ")).collect();
    let script = format!("[[reply]]\nwhen = {{}}\nsteps = [{{ say = {text:?} }}]\n");
    let fixture = Fixture::start(&script).await;
    let thread = fixture.new_thread("").await;
    // One page never reads. Neither the turn nor the other pages wait for it.
    let idle = fixture.browser.events(&format!("thread={thread}"), None).await;
    let mut pages = JoinSet::new();
    for _ in 0..PAGES {
        let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
        pages.spawn(
            async move { read_until(&mut events, |event| event.data.to_string().contains("Done")).await },
        );
    }
    let began = Instant::now();
    let sent =
        fixture.browser.post(&format!("/threads/{thread}/input"), &[("text", "Talk"), ("do", "send")]).await;
    assert_eq!(sent.status, 303, "{sent:?}");
    let last = format!("word{}", WORDS - 1);
    let mut of_all_pages = Vec::new();
    for read in pages.join_all().await {
        assert!(read.iter().any(|event| event.data.to_string().contains(&last)));
        // The first event is the page as it was when it connected.
        let own = read.into_iter().filter_map(|event| Some((event.id?, event.data.to_string())));
        of_all_pages.push(own.skip(1).collect::<Vec<_>>());
    }
    let most = WORDS.min(began.elapsed().as_millis() as usize / COLLECTING_MS + OTHER_EVENTS);
    for events in &of_all_pages {
        assert!(events.len() <= most, "{} events for {WORDS} deltas, at most {most}", events.len());
        assert_eq!(events, &of_all_pages[0], "all pages get the same bytes");
    }
    drop(idle);
    fixture.stop().await;
}
