//! The pages beside threads: status and settings.

use codicil_sandbox::MachineProbe;
use codicil_testkit::Script;

use crate::{
    browser::{Browser, article},
    stage::Stage,
};

#[tokio::test]
async fn the_status_page_shows_the_server() {
    let Some(browser) = Browser::start().await else { return };
    let config = "approval_policy = \"never\"\n[mcp_servers.broken]\ncommand = \"/nonexistent\"\nenv = { KEY = \"s3cret\" }\n";
    let stage = Stage::configured(Script::new().say("Hello").usage(1000, 0, 234, 0), config).await;
    stage.start_thread(&browser, "Hi").await;
    browser.sees([article("Agent message")], "Hello").await;

    stage.visit(&browser, "/status").await;
    browser.sees([("region", "Account")], "The model provider needs no account.").await;
    // What is wrong with a server is visible without opening it.
    browser.sees([("region", "MCP servers")], "/nonexistent").await;
    browser.sees([("region", "Configuration"), ("table", "Configuration")], "approval_policy").await;
    browser.sees([("region", "Configuration"), ("table", "Configuration")], "config.toml").await;
    browser.sees([("region", "Sandbox")], "confined command").await;
    let probe = MachineProbe::cached();
    let (Ok(summary) | Err(summary)) = probe.verdict();
    browser.sees([("region", "Sandbox")], &summary).await;
    for detail in probe.details() {
        browser.sees([("region", "Sandbox"), ("list", "Means of confinement")], &detail).await;
    }
    for chart in [
        ("image", "Tokens, last 14 days: 1,234 tokens in all*"),
        ("image", "Turns, last 14 days: 1 turns in all*"),
        ("image", "Tool calls, last 14 days: 0 calls in all*"),
        ("image", "Errors, last 14 days: 0 errors in all*"),
    ] {
        browser.find([("region", "Usage"), chart]).await;
    }
    let text = browser.text([("main", "Status")]).await;
    assert!(!text.contains("s3cret"), "a secret is shown: {text}");
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
