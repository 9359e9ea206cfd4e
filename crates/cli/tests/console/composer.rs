//! The composer: completion, images and the queue.

use std::fs;

use codicil_testkit::Script;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, article, button, disclosure, textbox},
    stage::Stage,
};

const ENTER: &str = "\u{E007}";

/// A picture of one pixel.
const PIXEL: &[u8] = &[
    0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 0x0d, b'I', b'H', b'D', b'R', 0, 0, 0, 1, 0, 0,
    0, 1, 8, 6, 0, 0, 0, 0x1f, 0x15, 0xc4, 0x89, 0, 0, 0, 0x0d, b'I', b'D', b'A', b'T', 0x78, 0x9c, 0x63,
    0xf8, 0xcf, 0xc0, 0xf0, 0x1f, 0, 5, 0, 1, 0xff, 0x89, 0x99, 0x3d, 0x1d, 0, 0, 0, 0, b'I', b'E', b'N',
    b'D', 0xae, 0x42, 0x60, 0x82,
];

#[tokio::test]
async fn files_and_skills_are_completed() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Ready").then().say("Read")).await;
    fs::create_dir(stage.home.workspace().join("notes")).unwrap();
    fs::write(stage.home.workspace().join("notes/shopping.md"), "Milk").unwrap();
    let skill = stage.home.path().join("skills/proofread");
    fs::create_dir_all(&skill).unwrap();
    let text = "---\nname: proofread\ndescription: Finds mistakes in a text\n---\nLook for mistakes.\n";
    fs::write(skill.join("SKILL.md"), text).unwrap();
    stage.start_thread(&browser, "Hello").await;
    browser.sees([article("Agent message")], "Ready").await;

    browser.fill([textbox("Message")], "Look at @shop").await;
    browser.find([("listbox", "Completions"), ("option", "notes/shopping.md")]).await;
    browser.fill([textbox("Message")], ENTER).await;
    browser.fill([textbox("Message")], "with $proof").await;
    browser.sees([("listbox", "Completions"), ("option", "proofread*")], "Finds mistakes in a text").await;
    browser.fill([textbox("Message")], ENTER).await;
    let value = browser.script("return document.getElementById('message').value", json!([])).await;
    assert_eq!(value.as_str().unwrap_or_default().trim(), "Look at @notes/shopping.md with $proofread");

    browser.click([button("Send")]).await;
    browser.sees([article("User message")], "Look at @notes/shopping.md with $proofread").await;
    browser.sees([article("Agent message")], "Read").await;
    let request = stage.model.requests().last().unwrap().input().to_vec();
    assert!(Value::from(request).to_string().contains("Look for mistakes."), "the skill reaches the model");
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

/// Pastes and drops a picture, as a browser reports it.
const PASTE_AND_DROP: &str = r#"
const bytes = Uint8Array.from(arguments[0]);
const picture = (name) => { const data = new DataTransfer(); data.items.add(new File([bytes], name, { type: "image/png" })); return data; };
const message = document.getElementById("message");
message.dispatchEvent(new ClipboardEvent("paste", { clipboardData: picture("pasted.png"), bubbles: true }));
message.dispatchEvent(new DragEvent("drop", { dataTransfer: picture("dropped.png"), bubbles: true, cancelable: true }));
"#;

#[tokio::test]
async fn images_are_chosen_pasted_and_dropped() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Ready").then().say("Three dots")).await;
    let path = stage.start_thread(&browser, "Hello").await;
    browser.sees([article("Agent message")], "Ready").await;
    let file = stage.home.workspace().join("chosen.png");
    fs::write(&file, PIXEL).unwrap();

    browser.choose_file("Add images", &file).await;
    browser.find([("image", "chosen.png")]).await;
    browser.script(PASTE_AND_DROP, json!(PIXEL)).await;
    for name in [("image", "pasted.png"), ("image", "dropped.png")] {
        browser.find([name]).await;
    }
    browser.click([button("Remove dropped.png")]).await;
    browser.gone([("image", "dropped.png")]).await;
    stage.send(&browser, "What is this?").await;
    browser.sees([article("Agent message")], "Three dots").await;
    browser.find_all([article("User message"), ("image", "Attached image")], 2).await;
    let are_loaded = "return [...document.querySelectorAll('article img')].every((image) => image.complete && image.naturalWidth === 1)";
    browser.until("the images are loaded", are_loaded, json!([])).await;
    let request = Value::from(stage.model.requests().last().unwrap().input().to_vec()).to_string();
    assert_eq!(request.matches("data:image/png;base64,").count(), 2, "{request}");
    // They are still there after a reload.
    stage.visit(&browser, &path).await;
    browser.find_all([article("User message"), ("image", "Attached image")], 2).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_message_is_sent_once_and_what_is_written_meanwhile_stays() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Ready").then().say("Received")).await;
    stage.start_thread(&browser, "Hello").await;
    browser.sees([article("Agent message")], "Ready").await;
    browser.gone([button("Stop")]).await;
    browser.fill([textbox("Message")], "Go on").await;
    // The image is still being read when the form is sent, twice, and the person writes on.
    let send_twice = r#"
        const form = document.getElementById("composer");
        const data = new DataTransfer();
        data.items.add(new File([Uint8Array.from(arguments[0])], "pasted.png", { type: "image/png" }));
        const message = document.getElementById("message");
        message.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
        const button = form.querySelector("button[value=send]");
        form.requestSubmit(button);
        form.requestSubmit(button);
        window.setTimeout(() => { message.value += ", please"; });
    "#;
    browser.script(send_twice, json!(PIXEL)).await;
    browser.sees([article("Agent message")], "Received").await;
    let is_kept = "return document.getElementById('message').value.endsWith(', please')";
    browser.until("what was written meanwhile", is_kept, json!([])).await;
    browser.find_all([article("User message")], 2).await;
    browser.find_all([article("User message"), ("image", "Attached image")], 1).await;
    browser.gone([("image", "pasted.png")]).await;
    assert_eq!(stage.model.requests().len(), 2);
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn messages_wait_for_the_end_of_the_turn() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new().say("First").unfinished().gate("first").then().say("Second");
    let stage = Stage::start(script).await;
    stage.start_thread(&browser, "Begin").await;
    browser.sees([article("Agent message")], "First").await;
    for text in ["Then this", "Not this"] {
        browser.fill([textbox("Message")], text).await;
        browser.click([button("Queue")]).await;
        browser.sees([article("Queued message")], text).await;
    }
    browser
        .script("document.querySelectorAll('[aria-label=\"Queued message\"] button')[1].click()", json!([]))
        .await;
    browser.find_all([article("Queued message")], 1).await;
    stage.model.release("first");
    browser.sees([article("User message")], "Then this").await;
    browser.sees([article("Agent message")], "Second").await;
    browser.gone([article("Queued message")]).await;
    browser.gone([button("Stop")]).await;
    assert_eq!(stage.model.requests().len(), 2);
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn the_settings_of_the_next_turn_reach_the_model() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .say("Ready")
        .then()
        .call("exec_command", json!({ "cmd": "echo free > free" }))
        .then()
        .say("Written")
        .then()
        .say("<proposed_plan>\n- Look twice\n</proposed_plan>");
    let config = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n\
        model_supports_reasoning_summaries = true\n";
    let stage = Stage::configured(script, config).await;
    let path = stage.start_thread(&browser, "Hello").await;
    browser.sees([article("Agent message")], "Ready").await;
    browser.gone([button("Stop")]).await;
    let other = browser.another().await;
    stage.visit(&other, &path).await;

    const SETTINGS: (&str, &str) = ("form", "Settings of the next turn");
    browser.click([disclosure("Next turn: mock-model")]).await;
    browser.replace([SETTINGS, ("combobox", "Model")], "other-model").await;
    browser.fill([SETTINGS, ("combobox", "Effort")], "High").await;
    browser.fill([SETTINGS, ("combobox", "Approvals")], "Never ask").await;
    browser.fill([SETTINGS, ("combobox", "Sandbox")], "Full access").await;
    browser.click([SETTINGS, button("Apply")]).await;
    for page in [&browser, &other] {
        page.sees([("main", "Thread")], "other-model · high").await;
        page.find([disclosure("Next turn: other-model")]).await;
    }
    stage.send(&browser, "Write").await;
    browser.sees([article("Agent message")], "Written").await;
    browser.gone([button("Stop")]).await;
    assert_eq!(stage.file("free").as_deref(), Some("free\n"), "the command may write and is not asked about");
    let request = stage.model.requests().last().unwrap().body().clone();
    assert_eq!((&request["model"], &request["reasoning"]["effort"]), (&json!("other-model"), &json!("high")));

    browser.fill([SETTINGS, ("combobox", "Mode")], "Plan first").await;
    browser.click([SETTINGS, button("Apply")]).await;
    // The other browser, and a page that is loaded later, have the new setting.
    let is_plan = "return document.querySelector('#next-turn [name=mode]').value === 'plan'";
    other.until("the mode in the other browser", is_plan, json!([])).await;
    other.reload().await;
    other.until("the mode after a reload", is_plan, json!([])).await;
    stage.send(&other, "Plan").await;
    for page in [&browser, &other] {
        page.sees([article("Plan")], "Look twice").await;
        assert_eq!(page.errors().await, Vec::<String>::new());
    }
}
