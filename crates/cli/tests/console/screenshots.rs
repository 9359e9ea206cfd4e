//! Pictures of the main pages for the README and `docs/console.md`.
//!
//! Ignored, because it changes files. After a change of the pages run `just screenshots`, and look at `docs/images`.

use std::{fs, path::Path};

use codicil_testkit::{Reply, Script};
use serde_json::json;

use crate::{
    browser::{Browser, article, button},
    stage::{Stage, escalated},
};

const PATCH: &str = "*** Begin Patch\n*** Update File: src/greeting.rs\n@@\n-pub fn greeting(name: &str) -> String {\n\
    -    format!(\"Hello {name}\")\n+/// Greets a person, or everyone.\n+pub fn greeting(name: Option<&str>) -> String {\n\
    +    format!(\"Hello {}\", name.unwrap_or(\"world\"))\n }\n*** End Patch\n";

const TESTS: &str = "printf '\\033[1;32m   Compiling\\033[0m greeting v0.1.0\\n\\033[1;32m    Finished\\033[0m test profile\\n\\n\
    test greets_a_person ... \\033[32mok\\033[0m\\ntest greets_everyone ... \\033[31mFAILED\\033[0m\\n'";

fn script() -> Script {
    let plan = json!({ "plan": [
        { "step": "Run the tests", "status": "completed" },
        { "step": "Make the name optional", "status": "in_progress" },
        { "step": "Push the change", "status": "pending" }] });
    let about = |text: &'static str, reply: Reply| {
        reply.when(move |request| request.last_user_text().is_some_and(|last| last.contains(text)))
    };
    Script::new()
        .reply(about(
            "changelog",
            Reply::new().say("The changelog has a new entry.").usage(18_400, 0, 420, 0),
        ))
        .reply(about(
            "flaky",
            Reply::new()
                .say("Looking at the last 20 runs…")
                .unfinished()
                .gate("later")
                .usage(9_100, 0, 80, 0),
        ))
        .reply(Reply::new().call("update_plan", plan).usage(3_200, 0, 120, 0))
        .reply(
            Reply::new()
                .think("**Reading the code** before changing it")
                .say("I will make the name **optional**. First, what do the tests say?")
                .call("exec_command", json!({ "cmd": TESTS }))
                .usage(7_300, 2_000, 260, 40),
        )
        .reply(
            Reply::new()
                .say("`greets_everyone` fails, as expected. This fixes it:")
                .custom_call("apply_patch", PATCH)
                .usage(9_900, 6_000, 310, 0),
        )
        .reply(
            Reply::new().call("exec_command", escalated("git push origin main")).usage(12_000, 9_000, 90, 0),
        )
        .reply(Reply::new().say("Done."))
}

#[tokio::test]
#[ignore = "changes the pictures in docs/images"]
async fn screenshots() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(script()).await;
    let project = stage.home.workspace().join("greeting");
    let source = project.join("src");
    fs::create_dir_all(&source).unwrap();
    let before = "pub fn greeting(name: &str) -> String {\n    format!(\"Hello {name}\")\n}\n";
    fs::write(source.join("greeting.rs"), before).unwrap();
    let images = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/images");
    fs::create_dir_all(&images).unwrap();
    let picture = async |name: &str| fs::write(images.join(name), browser.screenshot().await).unwrap();

    browser.resize(1360, 850).await;
    stage.start_thread_in(&browser, &project, "Add an entry to the changelog").await;
    browser.sees([article("Agent message")], "new entry").await;
    stage.start_thread_in(&browser, &project, "Find the flaky test").await;
    browser.sees([article("Agent message")], "last 20 runs").await;
    let path = stage
        .start_thread_in(&browser, &project, "Let greeting() greet everyone when there is no name")
        .await;
    browser.find([article("Apply these changes?")]).await;
    browser.script("window.scrollTo(0, document.body.scrollHeight)", json!([])).await;
    picture("console-approval.png").await;
    browser.prefer("dark").await;
    picture("console-approval-dark.png").await;
    browser.click([article("Apply these changes?"), button("Approve")]).await;
    browser.find([article("Run git push*")]).await;
    stage.visit(&browser, "/").await;
    browser.find_all([("main", "Threads"), ("listitem", "")], 3).await;
    picture("console-threads-dark.png").await;
    browser.prefer("light").await;
    picture("console-threads.png").await;
    stage.visit(&browser, &format!("{path}/diff?layout=split")).await;
    browser.find([("table", "Diff of *")]).await;
    picture("console-diff.png").await;
    stage.visit(&browser, "/status").await;
    browser.find([("main", "Status")]).await;
    picture("console-status.png").await;
    browser.resize(390, 844).await;
    stage.visit(&browser, "/inbox").await;
    browser.find([article("Run git push*")]).await;
    picture("console-phone.png").await;
    stage.visit(&browser, &path).await;
    browser.find([("main", "Thread"), article("Run git push*")]).await;
    browser.prefer("dark").await;
    picture("console-phone-dark.png").await;
}
