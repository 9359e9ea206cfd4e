//! The console without a mouse.

use codicil_testkit::Script;
use serde_json::json;

use crate::{
    browser::{Browser, article, button},
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
