//! The console without a mouse.

use codicil_testkit::{Reply, Script};
use serde_json::json;

use crate::{
    browser::{Browser, article, button, textbox},
    stage::{Stage, escalated},
};

/// WebDriver's code of the Escape key.
const ESCAPE: char = '\u{E00C}';

const ENTER: char = '\u{E007}';

const TAB: char = '\u{E004}';

#[tokio::test]
async fn everything_important_works_with_the_keyboard() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .call("exec_command", escalated("echo one > one"))
        .then()
        .call("exec_command", escalated("echo two > two"))
        .then()
        .say("Answered")
        .unfinished()
        .hang();
    let stage = Stage::start(script).await;
    stage.start_thread(&browser, "Write").await;

    browser.find([article("Run echo one*")]).await;
    browser.press('a').await;
    browser.find([article("Run echo two*")]).await;
    browser.press('d').await;
    browser.sees([article("Agent message")], "Answered").await;
    assert_eq!((stage.file("one").as_deref(), stage.file("two")), (Some("one\n"), None));

    // Every item can be reached.
    browser.press('j').await;
    let focused = "return document.activeElement.computedRole === 'article' && document.activeElement.computedName === arguments[0]";
    browser.until("the first item has the focus", focused, json!("User message")).await;
    browser.press('j').await;
    browser.until("the second item has the focus", focused, json!("Command")).await;
    browser.press('k').await;
    browser.until("the first item has the focus again", focused, json!("User message")).await;

    browser.press('?').await;
    browser.find([("dialog", "Keyboard")]).await;
    browser.press(ESCAPE).await;
    browser.gone([("dialog", "Keyboard")]).await;

    // Esc interrupts, after a confirmation that the test's browser gives.
    assert_eq!(browser.count([button("Stop")]).await, 1);
    browser.press(ESCAPE).await;
    browser.gone([button("Stop")]).await;

    browser.press('/').await;
    let searches = "return document.activeElement.computedRole === 'searchbox'";
    browser.until("the search has the focus", searches, json!([])).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_is_written_and_sent_with_the_keyboard() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Hello").then().say("Once")).await;
    stage.start_thread(&browser, "Hi").await;
    browser.sees([article("Agent message")], "Hello").await;
    browser.gone([button("Stop")]).await;

    browser.press('c').await;
    let writes = "return document.activeElement.computedRole === 'textbox' && document.activeElement.computedName === 'Message'";
    browser.until("the message has the focus", writes, json!([])).await;
    browser.fill([textbox("Message")], "Say it").await;
    browser.press_with_control(ENTER).await;
    browser.sees([article("Agent message")], "Once").await;
    browser.find_all([article("User message")], 2).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_text_that_is_typed_does_not_answer_another_question() {
    let Some(browser) = Browser::start().await else { return };
    let about = |text: &'static str, reply: Reply| {
        reply.when(move |request| request.last_user_text().is_some_and(|last| last.contains(text)))
    };
    let name = json!({ "id": "name", "header": "Name", "question": "Which name?", "options": [{ "label": "Sky", "description": "" }] });
    let script = Script::new()
        .reply(about("Ask", Reply::new().call("request_user_input", json!({ "questions": [name] }))))
        .reply(about("Write", Reply::new().call("exec_command", escalated("touch one"))));
    let config = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n[features]\n\
        default_mode_request_user_input = true\n";
    let stage = Stage::configured(script, config).await;
    stage.start_thread(&browser, "Ask").await;
    const QUESTION: (&str, &str) = article("Which name?");
    const FIELD: (&str, &str) = textbox("Other answer");
    browser.fill([("main", "Thread"), QUESTION, FIELD], "B").await;

    // Another question opens while the person types. The field keeps its text and the focus.
    let cookie = stage.sign_in().await;
    stage.post(&cookie, "/new", "text=Write").await;
    browser.find([article("Run touch one?")]).await;
    for _ in 0..3 {
        browser.press('a').await;
    }
    let typed = "return document.activeElement.computedName === 'Other answer' && document.activeElement.value === 'Baaa'";
    browser.until("the text is in its field", typed, json!([])).await;
    assert_eq!(browser.count([article("Run touch one?")]).await, 1);

    // Without the focus on a question, the key only goes to the first one.
    browser.press(ESCAPE).await;
    browser.press('a').await;
    let focused = "return document.activeElement.computedRole === 'article' && document.activeElement.computedName === 'Which name?'";
    browser.until("the first question has the focus", focused, json!([])).await;
    assert_eq!(browser.count([article("Run touch one?")]).await, 1);
    assert_eq!(stage.file("one"), None);
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_focus_is_visible_and_leads_through_the_page() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Hello")).await;
    stage.start_thread(&browser, "Hi").await;
    browser.sees([article("Agent message")], "Hello").await;
    browser.reload().await;

    browser.press(TAB).await;
    let skips = "return document.activeElement.computedName === 'Skip to content'";
    browser.until("the first stop leads to the content", skips, json!([])).await;
    browser.press(ENTER).await;
    // From there, everything that can be used is reached, and shows that it has the focus.
    let has_outline = "const style = getComputedStyle(document.activeElement); \
        return style.outlineStyle !== 'none' || style.boxShadow !== 'none'";
    let mut names = Vec::new();
    for _ in 0..40 {
        browser.press(TAB).await;
        let name = browser.script("return document.activeElement.computedName", json!([])).await;
        let name = name.as_str().unwrap_or_default().to_owned();
        if document_end(&name) {
            break;
        }
        assert_eq!(browser.script(has_outline, json!([])).await, json!(true), "{name} shows no focus");
        names.push(name);
    }
    assert!(names.iter().any(|name| name == "Message"), "{names:?}");
    assert!(names.iter().any(|name| name == "Send"), "{names:?}");
}

/// The browser's own controls follow the page.
fn document_end(name: &str) -> bool {
    name.is_empty() || name.ends_with("· Codicil")
}
