//! Questions: approving, declining, the diff before an approval, the inbox over several threads.

use std::fs;

use codicil_testkit::{Reply, Script};

use crate::{
    browser::{Browser, article, button},
    stage::{Stage, escalated, patch},
};

#[tokio::test]
async fn commands_are_approved_and_declined() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .call("exec_command", escalated("echo one > one"))
        .then()
        .call("exec_command", escalated("echo two > two"))
        .then()
        .say("Both are answered");
    let stage = Stage::start(script).await;
    let path = stage.start_thread(&browser, "Write two files").await;
    let other = browser.another().await;
    stage.visit(&other, &path).await;

    for page in [&browser, &other] {
        page.sees([("main", "Thread"), article("Run echo one*")], "echo one > one").await;
    }
    assert_eq!(stage.file("one"), None);
    for name in ["Approve", "Decline"] {
        let name: &'static str = name;
        browser.find([article("Run echo one*"), button(name)]).await;
    }
    let title = browser.script("return document.title", serde_json::json!([])).await;
    assert!(title.as_str().unwrap_or_default().starts_with("(1) "), "{title}");
    browser.click([article("Run echo one*"), button("Approve")]).await;
    // The other browser sees it resolved, and the next question.
    for page in [&other, &browser] {
        page.gone([article("Run echo one*")]).await;
        page.find([article("Run echo two*")]).await;
    }
    assert_eq!(stage.file("one").as_deref(), Some("one\n"));

    other.click([article("Run echo two*"), button("Decline")]).await;
    for page in [&browser, &other] {
        page.gone([article("Run echo two*")]).await;
        page.sees([article("Agent message")], "Both are answered").await;
        page.sees([article("Command")], "Declined").await;
        assert_eq!(page.errors().await, Vec::<String>::new());
    }
    assert_eq!(stage.file("two"), None);
}

#[tokio::test]
async fn a_diff_is_read_before_it_is_approved() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .custom_call(
            "apply_patch",
            patch("colour.rs", "const SKY: &str = \"blue\";", "const SKY: &str = \"grey\";"),
        )
        .then()
        .say("Painted");
    let stage = Stage::start(script).await;
    fs::write(stage.home.workspace().join("colour.rs"), "const SKY: &str = \"blue\";\n").unwrap();
    stage.start_thread(&browser, "Paint the sky").await;

    const QUESTION: (&str, &str) = article("Apply these changes?");
    const DIFF: (&str, &str) = ("table", "Diff of *");
    browser.sees([QUESTION, DIFF], "const SKY: &str = \"grey\";").await;
    browser.sees([QUESTION, DIFF], "const SKY: &str = \"blue\";").await;
    assert!(stage.file("colour.rs").unwrap().contains("blue"), "nothing is changed before the answer");
    // The changed word is marked, in both layouts.
    browser.find([QUESTION, DIFF, ("mark", "")]).await;
    browser.click([QUESTION, button("Side by side")]).await;
    browser.find([QUESTION, DIFF, ("columnheader", "After")]).await;

    browser.click([QUESTION, button("Approve")]).await;
    browser.sees([article("Agent message")], "Painted").await;
    browser.sees([article("File change")], "Applied").await;
    assert!(stage.file("colour.rs").unwrap().contains("grey"));

    // The same changes as a page: of the turn and of the thread.
    browser.click([("region", "Turn"), ("link", "Changes*")]).await;
    browser.sees([("main", "Diff"), DIFF], "grey").await;
    browser.click([("main", "Diff"), ("link", "Back to the thread")]).await;
    browser.click([("link", "All changes")]).await;
    browser.sees([("main", "Diff"), DIFF], "grey").await;
    browser.click([("main", "Diff"), button("Side by side")]).await;
    browser.find([("main", "Diff"), DIFF, ("columnheader", "After")]).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_inbox_has_the_questions_of_three_threads() {
    let Some(browser) = Browser::start().await else { return };
    let command = |name: &'static str| {
        let reply = Reply::new().call("exec_command", escalated(&format!("echo {name} > {name}")));
        let wanted = format!("write {name}");
        reply.when(move |request| request.last_user_text().is_some_and(|text| text.contains(&wanted)))
    };
    let done = |name: &'static str| Reply::new().say(format!("{name} is done"));
    let script =
        ["red", "green", "blue"].into_iter().fold(Script::new(), |script, name| script.reply(command(name)));
    let script = script.reply(done("a")).reply(done("b")).reply(done("c"));
    let stage = Stage::start(script).await;
    for name in ["red", "green", "blue"] {
        stage.start_thread(&browser, &format!("Please write {name}")).await;
    }

    stage.visit(&browser, "/inbox").await;
    browser.find_all([("complementary", "Inbox"), article("Run echo *")], 3).await;
    let inbox = browser.text([("complementary", "Inbox")]).await;
    let positions: Vec<_> =
        ["Run echo red", "Run echo green", "Run echo blue"].iter().map(|title| inbox.find(title)).collect();
    assert!(positions.is_sorted() && positions[0].is_some(), "the oldest comes first: {inbox}");

    browser.click([("complementary", "Inbox"), article("Run echo green*"), button("Approve")]).await;
    browser.find_all([("complementary", "Inbox"), article("Run echo *")], 2).await;
    browser.click([("complementary", "Inbox"), article("Run echo red*"), button("Decline")]).await;
    browser.find_all([("complementary", "Inbox"), article("Run echo *")], 1).await;
    let title = browser.script("return document.title", serde_json::json!([])).await;
    assert!(title.as_str().unwrap_or_default().starts_with("(1) "), "{title}");
    // The icon has the number too: it is a picture of its own for each.
    let icon = "const icon = await fetch(document.querySelector('link[rel=icon]').href); return icon.text()";
    let icon = browser.script(icon, serde_json::json!([])).await;
    assert!(icon.as_str().unwrap_or_default().contains(">1</text>"), "{icon}");
    assert_eq!((stage.file("green").as_deref(), stage.file("red")), (Some("green\n"), None));
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
