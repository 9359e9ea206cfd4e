//! What people do with a thread's history: fork, revert, undo, compact, review, export, links, background terminals.

use std::{fs, process::Command};

use codicil_testkit::{Reply, Script};
use serde_json::json;

use crate::{
    browser::{Browser, article, button, disclosure, link, textbox},
    stage::Stage,
};

/// Runs three turns. Returns the path of the thread.
async fn three_turns(stage: &Stage, browser: &Browser) -> String {
    let path = stage.start_thread(browser, "First question").await;
    for (answer, next) in [("one", Some("Second question")), ("two", Some("Third question")), ("three", None)]
    {
        browser.sees([article("Agent message")], answer).await;
        browser.gone([button("Stop")]).await;
        if let Some(next) = next {
            stage.send(browser, next).await;
        }
    }
    path
}

fn three_answers() -> Script {
    Script::new().say("Answer one").then().say("Answer two").then().say("Answer three").then()
}

#[tokio::test]
async fn a_thread_is_forked_reverted_and_undone() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(three_answers()).await;
    let path = three_turns(&stage, &browser).await;

    // A second browser sees what becomes of the thread.
    let other = browser.another().await;
    stage.visit(&other, &path).await;
    other.find_all([article("User message")], 3).await;

    browser
        .script("document.querySelectorAll('form[action$=\"/fork\"] button.link')[1].click()", json!([]))
        .await;
    browser.until("the fork", "return location.pathname !== arguments[0]", json!(path)).await;
    browser.find_all([article("User message")], 2).await;
    browser.sees([article("Agent message")], "Answer two").await;
    browser.click([link("Forked from")]).await;
    browser.find_all([article("User message")], 3).await;

    browser
        .script("document.querySelectorAll('form[action$=\"/revert\"] button.link')[2].click()", json!([]))
        .await;
    for page in [&browser, &other] {
        page.find_all([article("User message")], 2).await;
    }
    browser.click([disclosure("More")]).await;
    browser.click([button("Undo the last turn")]).await;
    for page in [&browser, &other] {
        page.find_all([article("User message")], 1).await;
        page.sees([article("Agent message")], "Answer one").await;
        assert_eq!(page.errors().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_history_is_compacted_and_exported() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(three_answers().say("They asked three questions.")).await;
    let path = three_turns(&stage, &browser).await;
    browser.click([disclosure("More")]).await;
    browser.click([button("Compact the history")]).await;
    browser.sees([article("Context compaction")], "replaced by a summary").await;
    let export = "const answer = await fetch(arguments[0]); return answer.text()";
    let export = browser.script(export, json!(format!("{path}/export"))).await;
    let export = export.as_str().unwrap_or_default();
    for part in ["First question", "Answer one", "Third question", "Answer three"] {
        assert!(export.contains(part), "{part} is missing: {export}");
    }
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn changes_are_reviewed() {
    let Some(browser) = Browser::start().await else { return };
    let findings = json!({ "findings": [{ "title": "A typo", "body": "Wrod is not a word.", "confidence_score": 0.9,
        "priority": 2, "code_location": { "absolute_file_path": "/a.txt", "line_range": { "start": 1, "end": 1 } } }],
        "overall_correctness": "patch is incorrect", "overall_explanation": "One typo.", "overall_confidence_score": 0.9 });
    let stage = Stage::start(Script::new().say("Ready").then().say(findings.to_string())).await;
    for arguments in [["init", "-q"], ["add", "."]] {
        assert!(
            Command::new("git")
                .args(arguments)
                .current_dir(stage.home.workspace())
                .status()
                .unwrap()
                .success()
        );
    }
    fs::write(stage.home.workspace().join("a.txt"), "Wrod\n").unwrap();
    stage.start_thread(&browser, "Hello").await;
    browser.sees([article("Agent message")], "Ready").await;
    browser.gone([button("Stop")]).await;
    browser.click([disclosure("More")]).await;
    browser.fill([("combobox", "Review")], "As I say").await;
    browser.fill([textbox("Branch, commit or instructions")], "Look for typos").await;
    browser.click([button("Start review")]).await;
    browser.sees([article("User message")], "Look for typos").await;
    browser.sees([article("Review")], "A typo").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_link_leads_to_a_turn_and_an_item() {
    let Some(browser) = Browser::start().await else { return };
    // More than a page has at first, which ends in the middle of a turn.
    let turns = 8;
    let words = "many words ".repeat(1100);
    // The first turn has a plan.
    let plan = json!({ "plan": [{ "step": "Begin well", "status": "completed" }] });
    let script = (0..turns).fold(Script::new().call("update_plan", plan), |script, number| {
        let part = |part: usize| format!("Part {part} of {number}.\n\n{words}");
        script.reply(Reply::new().say(part(0)).say(part(1)).say(format!("Answer {number}.")))
    });
    let mut stage = Stage::start(script).await;
    stage.start_thread(&browser, "Question 0").await;
    let mut first_link = String::new();
    let mut middle_links = Vec::new();
    for number in 0..turns {
        browser.sees([article("Agent message")], &format!("Answer {number}.")).await;
        browser.gone([button("Stop")]).await;
        if number == 0 {
            let address = "return [...document.querySelectorAll('[aria-label=\"Link to this agent message\"]')].at(-1).getAttribute('href')";
            first_link = browser.script(address, json!([])).await.as_str().unwrap().to_owned();
        }
        // The links to the first part of each answer.
        let address = "return [...document.querySelectorAll('[aria-label=\"Link to this agent message\"]')].at(-3).getAttribute('href')";
        middle_links.push(browser.script(address, json!([])).await.as_str().unwrap().to_owned());
        if number + 1 < turns {
            stage.send(&browser, &format!("Question {}", number + 1)).await;
        }
    }
    // For a console that has just been started, the first turn is too old for the page; the link brings it.
    stage.kill_and_restart().await;
    stage.visit(&browser, &first_link).await;
    // The browser reports that the connection was lost.
    browser.errors().await;
    browser.sees([("region", "Linked turn"), article("Agent message")], "Answer 0.").await;
    let is_target =
        "return document.querySelector(':target')?.getAttribute('aria-label') === 'Agent message'";
    browser.until("the item is the target", is_target, json!([])).await;
    browser.sees([("region", "Linked turn"), article("Plan")], "Begin well").await;
    // So does a link to an item in the middle of any turn, also of the one that the page cuts.
    let shows = "const target = document.querySelector(':target'); const { top } = target.getBoundingClientRect(); \
        return target.innerText.includes(arguments[0]) && top >= 0 && top < innerHeight";
    for (number, address) in middle_links.iter().enumerate() {
        stage.visit(&browser, address).await;
        browser.until("the linked item", shows, json!(format!("Part 0 of {number}."))).await;
    }
    // Older turns come on demand.
    let path = first_link.split('?').next().unwrap();
    stage.visit(&browser, path).await;
    while browser.count([link("Show earlier turns")]).await > 0 {
        let shown = browser.count([article("Agent message")]).await;
        browser.click([link("Show earlier turns")]).await;
        let more = "return document.querySelectorAll('[aria-label=\"Agent message\"]').length > arguments[0]";
        browser.until("older turns", more, json!(shown)).await;
    }
    // All of them, in order, each in its turn.
    browser.find_all([article("User message")], turns).await;
    browser.find_all([("region", "Turn")], turns).await;
    browser.sees([("region", "Turn"), article("Plan")], "Begin well").await;
    let texts = "return [...document.querySelectorAll('section.turn')].map((turn) => [...turn.querySelectorAll('[aria-label=\"Agent message\"] .markdown')].map((text) => text.innerText.split('\\n')[0].trim()))";
    let expected: Vec<_> = (0..turns)
        .map(|number| {
            [format!("Part 0 of {number}."), format!("Part 1 of {number}."), format!("Answer {number}.")]
        })
        .collect();
    assert_eq!(browser.script(texts, json!([])).await, json!(expected));
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_background_terminal_is_shown_and_ended() {
    let Some(browser) = Browser::start().await else { return };
    let command = json!({ "cmd": "echo started; sleep 1000", "yield_time_ms": 250 });
    let stage = Stage::configured(
        Script::new().call("exec_command", command).then().say("It runs"),
        "approval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n",
    )
    .await;
    stage.start_thread(&browser, "Start the server").await;
    browser.sees([article("Agent message")], "It runs").await;
    browser.click([disclosure("More")]).await;
    browser.click([link("Background terminals")]).await;
    browser.sees([("main", "Background terminals"), ("listitem", "")], "sleep 1000").await;
    browser.click([("main", "Background terminals"), button("End")]).await;
    // The page shows it until the process has ended.
    while browser.count([("main", "Background terminals"), button("End")]).await > 0 {
        browser.reload().await;
    }
    browser.sees([("main", "Background terminals")], "No command runs in the background.").await;
    browser.click([link("Back to the thread")]).await;
    browser.sees([article("Command")], "started").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
