//! Items: each kind is an article with its own contents.

use std::fs;

use codicil_testkit::{Reply, Script};
use serde_json::json;

use crate::{
    browser::{Browser, article, button, disclosure, link},
    stage::{Stage, patch},
};

#[tokio::test]
async fn every_kind_of_item_is_shown() {
    let Some(browser) = Browser::start().await else { return };
    let plan = json!({ "explanation": "In order", "plan": [
        { "step": "Look", "status": "completed" }, { "step": "Think", "status": "in_progress" }, { "step": "Act", "status": "pending" }] });
    let script = Script::new()
        .think("**Weighing options**\n\nThe second one is better.")
        .web_search("colour of the sky")
        .call("update_plan", plan)
        .then()
        .call("exec_command", json!({ "cmd": "printf '\\033[31mred\\033[0m\\n'; seq 1000" }))
        .then()
        .say("A [link](https://example.com) and a table:\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```rust\nfn main() {}\n```\n")
        .usage(5000, 0, 100, 0);
    let mut stage =
        Stage::configured(script, "approval_policy = \"never\"\nsandbox_mode = \"read-only\"\n").await;
    let path = stage.start_thread(&browser, "Show everything").await;
    browser.gone([button("Stop")]).await;

    // Reasoning is folded, and opens.
    browser.sees([article("Reasoning")], "Weighing options").await;
    assert!(!browser.text([article("Reasoning")]).await.contains("second one"));
    browser.click([article("Reasoning"), disclosure("Weighing options")]).await;
    browser.sees([article("Reasoning")], "The second one is better.").await;
    browser.sees([article("Web search")], "colour of the sky").await;
    browser.sees([article("Plan")], "In order").await;
    browser.find_all([article("Plan"), ("listitem", "")], 3).await;
    // Output is capped, coloured, and shown as a whole on demand.
    let is_red = "return [...document.querySelectorAll('[aria-label=Output] span')].some((span) => span.textContent === 'red' && getComputedStyle(span).color !== getComputedStyle(document.body).color)";
    browser.until("the colour of the output", is_red, json!([])).await;
    assert!(!browser.text([article("Command")]).await.contains("\n500\n"));
    browser.click([article("Command"), link("Show all output")]).await;
    browser.sees([article("Command")], "\n500\n").await;
    browser.find([article("Agent message"), link("link")]).await;
    browser.find([article("Agent message"), ("table", "")]).await;
    browser.find([("main", "Thread"), ("meter", "Context window")]).await;
    browser.sees([("main", "Thread")], "tokens").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
    // The tokens are stored with the thread.
    stage.kill_and_restart().await;
    stage.visit(&browser, &path).await;
    browser.find([("main", "Thread"), ("meter", "Context window")]).await;
    browser.sees([("main", "Thread")], "tokens").await;
}

#[tokio::test]
async fn subagents_are_a_tree_with_links() {
    let Some(browser) = Browser::start().await else { return };
    let is_child = |request: &codicil_testkit::RecordedRequest| {
        request.last_user_text().is_some_and(|text| text.contains("Count the files"))
    };
    let script = Script::new()
        .reply(Reply::new().say("There are two.").when(is_child))
        .reply(
            Reply::new()
                .call("spawn_agent", json!({ "message": "Count the files", "task_name": "count" }))
                .call_id("spawn"),
        )
        .reply(Reply::new().say("A helper counts."));
    let config =
        "approval_policy = \"never\"\nsandbox_mode = \"read-only\"\n[features]\nmulti_agent = true\n";
    let stage = Stage::configured(script, config).await;
    let path = stage.start_thread(&browser, "How many files?").await;
    browser.sees([article("Agent message")], "A helper counts.").await;
    browser.click([article("Subagents"), ("listitem", ""), link("Subagent *")]).await;
    browser.sees([article("Agent message")], "There are two.").await;
    assert_ne!(browser.address().await, format!("{}{path}", stage.origin));
    browser.click([link("Parent thread")]).await;
    browser.sees([article("Agent message")], "A helper counts.").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn each_change_of_a_file_is_shown_side_by_side() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .custom_call("apply_patch", patch("a.rs", "let a = 1;", "let a = 2;"))
        .then()
        .custom_call("apply_patch", patch("a.rs", "let a = 2;", "let a = 3;"))
        .then()
        .say("Changed twice");
    let stage =
        Stage::configured(script, "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n")
            .await;
    fs::write(stage.home.workspace().join("a.rs"), "let a = 1;\n").unwrap();
    let path = stage.start_thread(&browser, "Change a line twice").await;
    browser.sees([article("Agent message")], "Changed twice").await;
    stage.visit(&browser, &format!("{path}/diff")).await;
    browser.find_all([("main", "Diff"), ("table", "Diff of *")], 2).await;
    browser.script("document.querySelectorAll('[data-diff-layout]')[1].click()", json!([])).await;
    let second = "const tables = document.querySelectorAll('main table'); \
        return tables.length === 2 && !tables[0].matches('.split') && tables[1].matches('.split') && tables[1].innerText.includes('let a = 3;')";
    browser.until("the second change side by side", second, json!([])).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_diff_folds_what_did_not_change() {
    let Some(browser) = Browser::start().await else { return };
    let line = |number: usize| format!("let line_{number} = {number};\n");
    let patch = "*** Begin Patch\n*** Update File: long.rs\n@@\n let line_2 = 2;\n-let line_3 = 3;\n+let line_3 = 33;\n let line_4 = 4;\n\
        @@\n let line_197 = 197;\n-let line_198 = 198;\n+let line_198 = 199;\n let line_199 = 199;\n*** End Patch\n";
    let script = Script::new().custom_call("apply_patch", patch).then().say("Changed");
    let stage =
        Stage::configured(script, "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n")
            .await;
    let content: String = (0..200).map(line).collect();
    fs::write(stage.home.workspace().join("long.rs"), content).unwrap();
    stage.start_thread(&browser, "Change two lines").await;
    browser.sees([article("Agent message")], "Changed").await;

    const DIFF: (&str, &str) = ("table", "Diff of *");
    let address =
        "return [...document.querySelectorAll('[data-diff-layout]')][0].getAttribute('href').split('?')[0]";
    let address = browser.script(address, json!([])).await.as_str().unwrap().to_owned();
    stage.visit(&browser, &address).await;
    browser.sees([("main", "Diff"), DIFF], "let line_198 = 199;").await;
    assert!(!browser.text([DIFF]).await.contains("line_100"), "unchanged lines are folded");
    browser.click([DIFF, ("checkbox", "Show *")]).await;
    browser.sees([("main", "Diff"), DIFF], "let line_100 = 100;").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
