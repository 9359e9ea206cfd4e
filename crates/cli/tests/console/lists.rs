//! The list of threads: filters, tokens, actions, and the form of a new thread.

use std::fs;

use codicil_testkit::{Reply, Script};
use serde_json::json;

use crate::{
    browser::{Browser, article, button, disclosure, link, textbox},
    stage::{Stage, escalated},
};

const ARROW_DOWN: &str = "\u{E015}";
const ENTER: &str = "\u{E007}";

const ROW: [(&str, &str); 2] = [("main", "Threads"), ("listitem", "")];

#[tokio::test]
async fn the_list_is_live_and_has_filters() {
    let Some(browser) = Browser::start().await else { return };
    let about = |text: &'static str, reply: Reply| {
        reply.when(move |request| request.last_user_text().is_some_and(|last| last.contains(text)))
    };
    let script = Script::new()
        .reply(about("idle", Reply::new().say("Done").usage(1200, 0, 34, 0)))
        .reply(about("running", Reply::new().say("Working").unfinished().gate("run")))
        .reply(about("waiting", Reply::new().call("exec_command", escalated("touch it"))));
    let stage = Stage::start(script).await;
    let list = browser.another().await;
    stage.visit(&list, "/").await;
    list.sees([("main", "Threads")], "There are no threads yet.").await;

    stage.start_thread(&browser, "The idle one").await;
    browser.sees([article("Agent message")], "Done").await;
    stage.start_thread(&browser, "The running one").await;
    browser.sees([article("Agent message")], "Working").await;
    stage.start_thread(&browser, "The waiting one").await;
    browser.find([article("Run touch it?")]).await;

    // The list in the other browser has changed by itself.
    list.find_all(ROW, 3).await;
    list.sees(ROW, "Waiting for you").await;
    list.sees(ROW, "Running").await;
    list.sees(ROW, "1.2k tokens").await;
    list.sees(ROW, "mock-model").await;
    // A filter is applied as soon as it is chosen.
    list.click([("radio", "Running")]).await;
    list.find_all(ROW, 2).await;
    list.click([("radio", "Waiting for me")]).await;
    list.find_all(ROW, 1).await;
    list.sees(ROW, "The waiting one").await;
    list.click([("radio", "All")]).await;
    list.find_all(ROW, 3).await;
    list.fill([("combobox", "Directory")], "/nowhere").await;
    list.click([button("Search")]).await;
    list.find_all(ROW, 0).await;
    list.sees([("main", "Threads")], "No threads match.").await;
    list.click([link("Show all threads")]).await;
    list.find_all(ROW, 3).await;
    // The content is searched, not only names.
    stage.visit(&list, "/").await;
    list.fill([("searchbox", "Search")], "Done").await;
    list.click([button("Search")]).await;
    list.find_all(ROW, 1).await;
    list.sees(ROW, "The idle one").await;
    assert_eq!(list.errors().await, Vec::<String>::new());
    stage.model.release("run");
}

#[tokio::test]
async fn threads_are_forked_archived_restored_and_deleted() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Blue")).await;
    let path = stage.start_thread(&browser, "Which colour?").await;
    browser.sees([article("Agent message")], "Blue").await;
    browser.gone([button("Stop")]).await;

    stage.visit(&browser, "/").await;
    browser.click([disclosure("Actions for Which colour?")]).await;
    browser.click([("main", "Threads"), button("Fork")]).await;
    browser.until("the fork", "return location.pathname.startsWith('/threads/')", json!([])).await;
    browser.sees([article("Agent message")], "Blue").await;
    assert_ne!(browser.address().await, format!("{}{path}", stage.origin));

    // The fork is archived and restored.
    browser.click([disclosure("Actions for Which colour?")]).await;
    browser.click([button("Archive")]).await;
    browser.find_all(ROW, 1).await;
    stage.visit(&browser, "/?show=archived").await;
    browser.find_all(ROW, 1).await;
    browser.click([("main", "Threads"), link("Which colour?")]).await;
    browser.sees([("main", "Thread")], "This thread is archived.").await;
    browser.click([disclosure("Actions for Which colour?")]).await;
    browser.click([button("Restore")]).await;
    browser.find([textbox("Message")]).await;
    browser.sees([article("Agent message")], "Blue").await;

    browser.click([disclosure("Actions for Which colour?")]).await;
    browser.click([("checkbox", "For ever")]).await;
    browser.click([button("Delete")]).await;
    browser.find([("main", "Threads")]).await;
    browser.find_all(ROW, 1).await;
    stage.visit(&browser, "/?show=archived").await;
    browser.find_all(ROW, 0).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_new_thread_has_what_the_form_says() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().say("Here")).await;
    for name in ["apples", "apricots", "bananas", "apples/green", "apples/red"] {
        fs::create_dir(stage.home.workspace().join(name)).unwrap();
    }
    stage.visit(&browser, "/new").await;
    // Directories of the server are completed, with the keyboard and with a click, deeper with each choice.
    const DIRECTORY: (&str, &str) = ("combobox", "Directory");
    const OPTION: (&str, &str) = ("option", "*");
    let workspace = stage.home.workspace().display().to_string();
    browser.fill([DIRECTORY], &format!("{workspace}/ap")).await;
    browser.find_all([("listbox", "Directories"), OPTION], 2).await;
    browser.fill([DIRECTORY], ARROW_DOWN).await;
    browser.fill([DIRECTORY], ENTER).await;
    browser.find([("listbox", "Directories"), ("option", "*/apples/red")]).await;
    let value = "return document.getElementById('cwd').value === arguments[0]";
    browser.until("the chosen directory", value, json!(format!("{workspace}/apples"))).await;
    browser.click([("listbox", "Directories"), ("option", "*/apples/green")]).await;
    browser.until("the directory below", value, json!(format!("{workspace}/apples/green"))).await;
    browser.replace([DIRECTORY], &format!("{workspace}/apples")).await;
    browser.fill([textbox("Message")], "Where are you?").await;
    browser.fill([("combobox", "Model")], "chosen-model").await;
    browser.fill([("combobox", "Effort")], "Low").await;
    browser.fill([("combobox", "Sandbox")], "Write in the workspace").await;
    browser.fill([("combobox", "Approvals")], "Never ask").await;
    browser.click([button("Start thread")]).await;
    browser.sees([article("Agent message")], "Here").await;
    browser.sees([("main", "Thread")], "chosen-model · low").await;
    browser.sees([("main", "Thread")], "/apples").await;
    let values = "return ['policy', 'sandbox'].map((name) => document.querySelector(`.next-turn [name=${name}]`).value)";
    assert_eq!(browser.script(values, json!([])).await, json!(["never", "workspace-write"]));
    let requests = stage.model.requests();
    assert_eq!(requests[0].model(), Some("chosen-model"));
    // An empty field offers the directories of the last threads.
    stage.visit(&browser, "/new").await;
    browser.click([DIRECTORY]).await;
    browser.sees([("listbox", "Directories"), ("option", "*/apples*")], "used before").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
