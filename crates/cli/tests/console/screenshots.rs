//! Pictures of the main pages for the README.
//!
//! Ignored, because it changes files. After a change of the pages:
//! `cargo test -p codicil-cli --test console -- --ignored screenshots`, then look at `docs/images`.

use std::{fs, path::Path};

use codicil_testkit::Script;
use serde_json::json;

use crate::{
    browser::{Browser, article, button},
    stage::{Stage, escalated},
};

#[tokio::test]
#[ignore = "changes the pictures in docs/images"]
async fn screenshots() {
    let Some(browser) = Browser::start().await else { return };
    let patch = "*** Begin Patch\n*** Update File: src/greeting.rs\n@@\n-pub fn greeting(name: &str) -> String {\n\
        -    format!(\"Hello {name}\")\n+/// Greets a person, or everyone.\n+pub fn greeting(name: Option<&str>) -> String {\n\
        +    format!(\"Hello {}\", name.unwrap_or(\"world\"))\n }\n*** End Patch\n";
    let script = Script::new()
        .think("**Reading the code** before changing it")
        .say("I will make the name **optional** and run the tests.")
        .call("exec_command", json!({ "cmd": "printf '\\033[1;32m   Compiling\\033[0m greeting v0.1.0\\n\\033[1;32m    Finished\\033[0m test profile\\n\\ntest greets_everyone ... \\033[31mFAILED\\033[0m\\ntest greets_a_person ... \\033[32mok\\033[0m\\n'" }))
        .then()
        .custom_call("apply_patch", patch)
        .then()
        .call("exec_command", escalated("git push origin main"))
        .then()
        .say("Done.");
    let stage = Stage::start(script).await;
    let source = stage.home.workspace().join("src");
    fs::create_dir(&source).unwrap();
    fs::write(
        source.join("greeting.rs"),
        "pub fn greeting(name: &str) -> String {\n    format!(\"Hello {name}\")\n}\n",
    )
    .unwrap();
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    fs::create_dir_all(&images).unwrap();
    let picture = async |name: &str| fs::write(images.join(name), browser.screenshot().await).unwrap();

    browser.resize(1280, 860).await;
    let path = stage.start_thread(&browser, "Let greeting() greet everyone when there is no name").await;
    browser.find([article("Apply these changes?")]).await;
    browser.script("window.scrollTo(0, document.body.scrollHeight)", json!([])).await;
    picture("console-approval.png").await;
    browser.click([article("Apply these changes?"), button("Approve")]).await;
    browser.find([article("Run git push*")]).await;
    stage.visit(&browser, &format!("{path}/diff?layout=split")).await;
    browser.find([("table", "Diff of *")]).await;
    picture("console-diff.png").await;
    stage.visit(&browser, &path).await;
    browser.prefer("dark").await;
    picture("console-thread-dark.png").await;
    stage.visit(&browser, "/status").await;
    browser.find([("main", "Status")]).await;
    picture("console-status.png").await;
    browser.prefer("light").await;
    browser.resize(390, 844).await;
    stage.visit(&browser, "/inbox").await;
    browser.find([article("Run git push*")]).await;
    picture("console-phone.png").await;
}
