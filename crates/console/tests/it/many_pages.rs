//! Many pages on one busy thread: they share what is rendered, and get few events however many deltas there are.

use tokio::task::JoinSet;

use crate::fixture::{Fixture, read_until};

const PAGES: usize = 50;
const WORDS: usize = 2000;

#[tokio::test]
async fn fifty_pages_follow_a_busy_thread_with_few_events() {
    let text: String = (0..WORDS).map(|number| format!("word{number} ")).collect();
    let script = format!("[[reply]]\nwhen = {{}}\nsteps = [{{ say = {text:?} }}]\n");
    let fixture = Fixture::start(&script).await;
    let thread = fixture.new_thread("").await;
    let mut pages = JoinSet::new();
    for _ in 0..PAGES {
        let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
        pages.spawn(
            async move { read_until(&mut events, |event| event.data.to_string().contains("Done")).await },
        );
    }
    let sent =
        fixture.browser.post(&format!("/threads/{thread}/input"), &[("text", "Talk"), ("do", "send")]).await;
    assert_eq!(sent.status, 303, "{sent:?}");
    let last = format!("word{}", WORDS - 1);
    for read in pages.join_all().await {
        let events = read.iter().filter(|event| event.id.is_some()).count();
        assert!(events < WORDS / 4, "{events} events for {WORDS} deltas");
        assert!(read.iter().any(|event| event.data.to_string().contains(&last)));
    }
    fixture.stop().await;
}
