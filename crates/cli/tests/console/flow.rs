//! Reading and talking: the first run, a streamed answer, steering, stopping, two browsers.

use codicil_testkit::Script;
use serde_json::json;

use crate::{
    browser::{Browser, article, button, link, textbox},
    stage::Stage,
};

#[tokio::test]
async fn the_first_run_leads_from_the_link_to_an_answer() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().think("**Looking** around").say("Hello, *you*. `x < y`")).await;

    browser.open(&stage.link).await;
    browser.find([("main", "Threads")]).await;
    browser.find([("navigation", "Threads")]).await;
    browser.find([("complementary", "Inbox")]).await;
    stage.start_thread(&browser, "Say hello").await;

    browser.sees([("main", "Thread"), article("User message")], "Say hello").await;
    browser.sees([("main", "Thread"), article("Agent message")], "Hello, you. x < y").await;
    browser.sees([("main", "Thread"), article("Reasoning")], "Looking").await;
    browser.find([("main", "Thread"), article("Agent message"), ("emphasis", "")]).await;
    browser.gone([button("Stop")]).await;
    browser.sees([("navigation", "Threads")], "Say hello").await;

    // A link works once.
    let other = browser.another().await;
    other.open(&stage.link).await;
    other.sees([("alert", "")], "A link works once").await;
    assert_eq!(other.count([("navigation", "Threads")]).await, 0);

    assert_eq!(browser.foreign_requests(&stage.origin).await, Vec::<String>::new());
    assert_eq!(browser.errors().await, Vec::<String>::new());

    // After signing out, the page of the thread is not shown.
    let thread = browser.address().await;
    browser.click([("navigation", "Threads"), button("Sign out")]).await;
    browser.find([textbox("Token")]).await;
    browser.open(&thread).await;
    browser.find([textbox("Token")]).await;
    assert_eq!(browser.count([article("Agent message")]).await, 0);
}

#[tokio::test]
async fn an_answer_streams_and_a_running_turn_is_steered_and_stopped() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .say("The first half")
        .unfinished()
        .hang()
        .then()
        .say("About the tests:")
        .unfinished()
        .hang();
    let stage = Stage::start(script).await;
    let path = stage.start_thread(&browser, "Go").await;
    browser.sees([article("Agent message")], "The first half").await;
    assert_eq!(browser.count([button("Stop")]).await, 1);

    // A second browser shows the same, and what the first one does.
    let other = browser.another().await;
    stage.visit(&other, &path).await;
    other.sees([article("Agent message")], "The first half").await;

    // Input for a running turn ends the answer that is being written, and is part of the next request.
    stage.send(&browser, "Look at the tests as well").await;
    for page in [&browser, &other] {
        page.sees([article("User message")], "Look at the tests as well").await;
        page.sees([article("Agent message")], "About the tests:").await;
        page.sees([article("Agent message")], "The first half").await;
        page.find_all([article("Agent message")], 2).await;
        page.find_all([("region", "Turn")], 1).await;
    }

    other.click([button("Stop")]).await;
    for page in [&browser, &other] {
        page.gone([button("Stop")]).await;
        page.sees([("region", "Turn")], "Interrupted").await;
        assert_eq!(page.count([article("User message")]).await, 2);
        assert_eq!(page.errors().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn threads_are_searched_renamed_and_exported() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Blue").then().say("Green")).await;
    let path = stage.start_thread(&browser, "Which colour has the sky?").await;
    browser.sees([article("Agent message")], "Blue").await;
    stage.start_thread(&browser, "Which colour has the grass?").await;
    browser.sees([article("Agent message")], "Green").await;

    stage.visit(&browser, "/").await;
    browser.find_all([("main", "Threads"), ("listitem", "")], 2).await;
    browser.fill([("searchbox", "Search")], "sky").await;
    browser.click([("search", "Threads"), button("Search")]).await;
    browser.find_all([("main", "Threads"), ("listitem", "")], 1).await;
    browser.sees([("main", "Threads"), ("listitem", "")], "Which colour has the sky?").await;

    // The actions are behind a menu of the row.
    browser.script("document.querySelector('main details').open = true", json!([])).await;
    browser
        .script("const name = document.querySelector('main [name=name]'); name.value = ''", json!([]))
        .await;
    browser.fill([("main", "Threads"), textbox("Name")], "Colours").await;
    browser.click([("main", "Threads"), button("Rename")]).await;
    browser.sees([("navigation", "Threads")], "Colours").await;

    let export = browser
        .script(
            "const answer = await fetch(arguments[0]); return answer.text()",
            json!(format!("{path}/export")),
        )
        .await;
    let export = export.as_str().unwrap_or_default();
    assert!(export.contains("Which colour has the sky?") && export.contains("Blue"), "{export}");
    browser.click([("navigation", "Threads"), link("Colours*")]).await;
    browser.sees([article("Agent message")], "Blue").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
