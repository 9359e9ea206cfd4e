//! What people do with threads and questions, over HTTP without scripts.

use crate::fixture::{Fixture, read_until};

const COMMAND: &str = r#"
[[reply]]
when = { step = 0 }
steps = [{ say = "Let me look." }, { run = "touch made && echo from-the-command" }]

[[reply]]
when = {}
steps = [{ say = "All **done**." }]
"#;

/// Waits until a thread's question is on the board. Returns its key.
async fn question(fixture: &Fixture, thread: &str) -> String {
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    let mut key = None;
    read_until(&mut events, |event| {
        let text = event.data.to_string();
        key = text.split("data-key=\\\"").nth(1).and_then(|rest| rest.split('\\').next()).map(str::to_owned);
        key.is_some()
    })
    .await;
    key.unwrap()
}

#[tokio::test]
async fn a_command_is_approved_in_the_browser_and_disappears_everywhere() {
    let fixture = Fixture::start(COMMAND).await;
    let thread = fixture.new_thread("Go").await;
    let mut other = fixture.browser.events("", None).await;
    let key = question(&fixture, &thread).await;
    read_until(&mut other, |event| event.data.to_string().contains(&key)).await;

    let inbox = fixture.browser.get("/inbox").await.body;
    assert!(
        inbox.contains("Run touch made &amp;&amp; echo from-the-command?")
            && inbox.contains(">Approve</button>"),
        "{inbox}"
    );
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    let answered = fixture.browser.post(&format!("/questions/{key}"), &[("decision", "accept")]).await;
    assert_eq!(answered.status, 303, "{answered:?}");
    read_until(&mut other, |event| {
        event.data.to_string().contains(r#"{"op":"count","questions":0}"#)
            && !event.data.to_string().contains(&key)
    })
    .await;
    read_until(&mut events, |event| event.data.to_string().contains("<strong>done</strong>")).await;
    let again = fixture.browser.post(&format!("/questions/{key}"), &[("decision", "decline")]).await;
    assert_eq!(again.status, 400);
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    assert!(page.contains("from-the-command") && page.contains("aria-label=\"Command\""), "{page}");
    fixture.stop().await;
}

#[tokio::test]
async fn a_question_outlives_server_and_console() {
    let fixture = Fixture::start(COMMAND).await;
    let thread = fixture.new_thread("Go").await;
    let before = question(&fixture, &thread).await;
    let fixture = fixture.restart().await;
    let after = question(&fixture, &thread).await;
    assert_eq!(before, after);
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    let answered = fixture.browser.post(&format!("/questions/{after}"), &[("decision", "accept")]).await;
    assert_eq!(answered.status, 303, "{answered:?}");
    read_until(&mut events, |event| event.data.to_string().contains("<strong>done</strong>")).await;
    fixture.stop().await;
}

#[tokio::test]
async fn threads_are_found_renamed_forked_archived_and_deleted() {
    let fixture = Fixture::start("[[reply]]\nwhen = {}\nsteps = [{ say = \"Hello\" }]\n").await;
    let thread = fixture.new_thread("Water the plants").await;
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    read_until(&mut events, |event| event.data.to_string().contains("Done")).await;
    let browser = &fixture.browser;
    assert!(browser.get("/?q=plants").await.body.contains(&format!("id=\"row-{thread}\"")));
    assert!(!browser.get("/?q=unheardof").await.body.contains(&format!("id=\"row-{thread}\"")));

    let action = |name: &str| format!("/threads/{thread}/{name}");
    assert_eq!(browser.post(&action("rename"), &[("name", "Garden <b>")]).await.status, 303);
    assert!(browser.get(&action("")[..action("").len() - 1]).await.body.contains("Garden &lt;b&gt;"));
    let forked = browser.post(&action("fork"), &[]).await;
    let copy = forked.header("location").unwrap().to_owned();
    assert!(browser.get(&copy).await.body.contains("Hello"));
    let exported = browser.get(&action("export")).await;
    assert!(
        exported.body.contains("> Water the plants") && exported.body.contains("Hello"),
        "{}",
        exported.body
    );

    assert_eq!(browser.post(&action("archive"), &[]).await.status, 303);
    assert!(browser.get("/?show=archived").await.body.contains(&format!("id=\"row-{thread}\"")));
    assert_eq!(browser.post(&action("unarchive"), &[]).await.status, 303);
    assert_eq!(browser.post(&action("delete"), &[]).await.status, 400, "not without a confirmation");
    assert_eq!(browser.post(&action("delete"), &[("sure", "on")]).await.status, 303);
    assert!(!browser.get("/").await.body.contains(&format!("id=\"row-{thread}\"")));
    fixture.stop().await;
}

#[tokio::test]
async fn hostile_text_is_never_markup() {
    let hostile = "<script>alert(1)</script><img src=x onerror=alert(2)> [x](javascript:alert(3))";
    let script =
        format!("[[reply]]\nwhen = {{}}\nsteps = [{{ think = {hostile:?} }}, {{ say = {hostile:?} }}]\n");
    let fixture = Fixture::start(&script).await;
    let thread = fixture.new_thread(hostile).await;
    let mut events = fixture.browser.events(&format!("thread={thread}"), None).await;
    let read = read_until(&mut events, |event| event.data.to_string().contains("Done")).await;
    let page = fixture.browser.get(&format!("/threads/{thread}")).await.body;
    let live: String = read.iter().map(|event| event.data.to_string()).collect();
    for text in [page, live] {
        assert!(!text.contains("<script>alert"), "{text}");
        assert!(!text.contains("<img src=x"), "{text}");
        assert!(!text.contains("href=\"javascript:"), "{text}");
    }
    fixture.stop().await;
}
