//! The example `desktop` of the crate `agents`: windows of a pool in a browser, behind the console's session layer.

use std::process::Stdio;

use codicil_testkit::{built_program, skipped};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::browser::{Browser, button, textbox};

/// Starts the example, if it is built. Returns it with its link; it ends when dropped.
async fn start() -> Option<(Child, String)> {
    let Some((example, codicil)) = built_program("examples/desktop").zip(built_program("codicil")) else {
        skipped("the example desktop or the codicil binary is not built");
        return None;
    };
    let mut command = Command::new(example);
    command.arg(codicil).stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let line = lines.next_line().await.unwrap().expect("the example prints its link");
    Some((child, line.split_once("The desktop is at ").unwrap().1.to_owned()))
}

#[tokio::test]
async fn three_windows_ask_and_are_answered() {
    let Some(browser) = Browser::start().await else { return };
    let Some((_desktop, link)) = start().await else { return };
    browser.open(&link).await;
    const NOTES: (&str, &str) = ("region", "Notes");
    const MAIL: (&str, &str) = ("region", "Mail");
    for window in [NOTES, MAIL, ("region", "Calendar")] {
        browser.find([("main", "Desktop"), window]).await;
    }

    // Two windows ask at the same time, each in a dialog of its own.
    for (window, field) in [(NOTES, textbox("Message to Notes")), (MAIL, textbox("Message to Mail"))] {
        browser.fill([window, field], "Please save the time").await;
        browser.click([window, button("Send")]).await;
        browser.find([window, ("dialog", "Run *date*"), button("Approve")]).await;
    }
    // A second browser cannot use the link again, and cannot answer.
    let other = browser.another().await;
    other.open(&link).await;
    other.sees([("alert", "")], "A link works once").await;

    browser.click([NOTES, ("dialog", "Run *date*"), button("Approve")]).await;
    browser.sees([NOTES], "Saved.").await;
    browser.gone([NOTES, ("dialog", "Run *date*")]).await;
    browser.click([MAIL, ("dialog", "Run *date*"), button("Decline")]).await;
    browser.sees([MAIL], "Then I leave it.").await;
    browser.fill([("region", "Calendar"), textbox("Message to Calendar")], "Hello <b>there</b>").await;
    browser.click([("region", "Calendar"), button("Send")]).await;
    browser.sees([("region", "Calendar")], "You said: Hello <b>there</b>").await;

    // After a reload, the windows show the same.
    browser.reload().await;
    browser.sees([NOTES], "Saved.").await;
    browser.sees([MAIL], "Then I leave it.").await;
    browser.gone([("dialog", "Run *date*")]).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
