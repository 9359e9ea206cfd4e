//! Every kind of question, answered in the browser.

use std::{fs, os::unix::fs::PermissionsExt};

use codicil_sandbox::MachineProbe;
use codicil_testkit::{Script, skipped};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{
    browser::{Browser, article, button, disclosure, link, textbox},
    stage::{Stage, escalated},
};

#[tokio::test]
async fn a_command_is_explained_and_its_prefix_is_always_allowed() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .call("exec_command", escalated("touch one"))
        .then()
        .call("exec_command", escalated("touch one"))
        .then()
        .say("It exists");
    let stage = Stage::start(script).await;
    stage.start_thread(&browser, "Create a file, twice").await;

    const QUESTION: (&str, &str) = article("Run touch one?");
    let directory = stage.home.workspace().display().to_string();
    browser.sees([("main", "Thread"), QUESTION], "May I?").await;
    browser.sees([("main", "Thread"), QUESTION], &format!("in {directory}")).await;
    browser
        .sees([("main", "Thread"), QUESTION], "The sandbox refuses writing files and using the network.")
        .await;
    for name in ["Approve", "Decline", "Cancel turn"] {
        browser.find([QUESTION, button(name)]).await;
    }
    browser.click([QUESTION, button("Always allow touch*")]).await;
    // The second command begins with the same words, and is not asked about.
    browser.sees([article("Agent message")], "It exists").await;
    browser.find_all([article("Command")], 2).await;
    assert!(stage.file("one").is_some());
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_turn_is_cancelled_with_its_question() {
    let Some(browser) = Browser::start().await else { return };
    let stage = Stage::start(Script::new().call("exec_command", escalated("touch one"))).await;
    stage.start_thread(&browser, "Create a file").await;
    browser.click([article("Run touch one?"), button("Cancel turn")]).await;
    browser.sees([("region", "Turn")], "Interrupted").await;
    browser.gone([article("Run touch one?")]).await;
    assert_eq!(stage.file("one"), None);
}

#[tokio::test]
async fn questions_of_the_agent_and_permissions_are_answered() {
    let Some(browser) = Browser::start().await else { return };
    let options =
        json!([{ "label": "Blue", "description": "Calm" }, { "label": "Red", "description": "Loud" }]);
    let questions = json!({ "questions": [
        { "id": "colour", "header": "Colour", "question": "Which colour?", "options": options },
        { "id": "name", "header": "Name", "question": "Which name?", "options": [{ "label": "Sky", "description": "" }] },
    ] });
    let wanted =
        json!({ "permissions": { "network": { "enabled": true } }, "reason": "To fetch the colours" });
    let script = Script::new()
        .call("request_user_input", questions)
        .call_id("asked")
        .then()
        .call("request_permissions", wanted)
        .call_id("wanted")
        .then()
        .say("Painted");
    let config = "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n[features]\n\
        default_mode_request_user_input = true\nrequest_permissions_tool = true\n";
    let stage = Stage::configured(script, config).await;
    stage.start_thread(&browser, "Paint").await;

    const QUESTION: (&str, &str) = article("Which colour?");
    browser.sees([("main", "Thread"), QUESTION], "Calm").await;
    browser.click([QUESTION, ("group", "Which colour?"), ("radio", "Red*")]).await;
    browser.fill([QUESTION, ("group", "Which name?"), textbox("Other answer")], "Evening").await;
    browser.click([QUESTION, button("Answer")]).await;

    const PERMISSIONS: (&str, &str) = article("Grant more permissions?");
    browser.sees([("main", "Thread"), PERMISSIONS], "To fetch the colours").await;
    browser.sees([("main", "Thread"), PERMISSIONS], "using the network").await;
    browser.click([PERMISSIONS, button("Approve for session")]).await;
    browser.sees([article("Agent message")], "Painted").await;

    let requests = stage.model.requests();
    let output = |call: &str| requests.last().unwrap().tool_output(call).unwrap();
    assert!(output("asked").contains("Red") && output("asked").contains("Evening"), "{}", output("asked"));
    assert!(output("wanted").contains("\"enabled\":true"), "{}", output("wanted"));
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

/// An MCP server whose tool `ask` asks the user with a form, and whose tool `visit` asks the user to open a page.
const MCP_SERVER: &str = r#"#!/bin/sh
tool() { printf '{"name":"%s","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}' "$1"; }
form='{"mode":"form","message":"Who are you?","requestedSchema":{"type":"object","required":["name"],"properties":{"name":{"type":"string","title":"Name"},"age":{"type":"integer","title":"Age"},"sure":{"type":"boolean","title":"Sure"},"colour":{"type":"string","title":"Colour","enum":["red","blue"]},"days":{"type":"array","title":"Days","items":{"type":"string","enum":["Monday","Tuesday","Friday"]}}}}}'
url='{"mode":"url","message":"Sign in there","url":"https://example.com/sign-in","elicitationId":"e1"}'
picture='{"type":"image","mimeType":"image/png","data":"iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg=="}'
ask() {
  printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":%s}\n' "$1"
  read -r answer
  text=$(printf '%s' "$answer" | sed 's/\\/\\\\/g; s/"/\\"/g')
  result="{\"content\":[{\"type\":\"text\",\"text\":\"$text\"}]}"
}
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"method":"tools/list"'*) result="{\"tools\":[$(tool ask),$(tool visit)]}";;
    *'"method":"tools/call"'*'"visit"'*) ask "$url"; result="${result%??},$picture]}";;
    *'"method":"tools/call"'*) ask "$form";;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[tokio::test]
async fn forms_and_pages_of_mcp_servers_are_answered() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .call("mcp__people__ask", json!({ "about": "you" }))
        .then()
        .call("mcp__people__visit", json!({}))
        .then()
        .say("Now I know you");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    fs::write(&program, MCP_SERVER).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!("approval_policy = \"on-request\"\n[mcp_servers.people]\ncommand = {program:?}\n");
    let stage = Stage::configured(script, &config).await;
    stage.start_thread(&browser, "Who am I?").await;

    const QUESTION: (&str, &str) = article("people asks");
    browser.sees([("main", "Thread"), QUESTION], "Who are you?").await;
    browser.fill([QUESTION, textbox("Name")], "Ada").await;
    browser.fill([QUESTION, ("spinbutton", "Age")], "36").await;
    browser.click([QUESTION, ("checkbox", "Sure")]).await;
    browser.fill([QUESTION, ("combobox", "Colour")], "blue").await;
    for day in [("checkbox", "Monday"), ("checkbox", "Friday")] {
        browser.click([QUESTION, ("group", "Days"), day]).await;
    }
    browser.click([QUESTION, button("Submit")]).await;

    browser.sees([("main", "Thread"), QUESTION], "Sign in there").await;
    browser.find([QUESTION, link("https://example.com/sign-in")]).await;
    browser.click([QUESTION, button("Done")]).await;
    browser.sees([article("Agent message")], "Now I know you").await;

    // The call is shown with its arguments and its result.
    browser.sees([article("Tool call")], "people · ask").await;
    browser.sees([article("Tool call")], "Ada").await;
    browser.click([article("Tool call"), disclosure("Arguments")]).await;
    browser.sees([article("Tool call")], "\"about\": \"you\"").await;
    let shown = browser.text([article("Tool call")]).await;
    for part in [
        r#""age":36"#,
        r#""sure":true"#,
        r#""colour":"blue""#,
        r#""days":["Monday","Friday"]"#,
        r#""action":"accept""#,
    ] {
        assert!(shown.contains(part), "{part} is missing: {shown}");
    }
    // So is it in the export.
    let export = "const answer = await fetch(`${location.pathname}/export`); return answer.text()";
    let export = browser.script(export, json!([])).await;
    let export = export.as_str().unwrap_or_default();
    assert!(export.contains("Tool call `people/ask`") && export.contains(r#""age":36"#), "{export}");
    // An image of a result is shown as one.
    browser.find([article("Tool call"), ("image", "Image of the result")]).await;
    let is_loaded = "const image = document.querySelector('article img'); image.scrollIntoView(); return image.complete && image.naturalWidth === 1";
    browser.until("the image is loaded", is_loaded, json!([])).await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
}

#[tokio::test]
async fn a_host_is_allowed() {
    if let Err(reason) = MachineProbe::cached().proxy() {
        return skipped(reason);
    }
    let Some(browser) = Browser::start().await else { return };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let target = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut received = [0; 4];
        stream.read_exact(&mut received).await.unwrap();
        stream.write_all(b"pong").await.unwrap();
    });
    let tunnel = format!("CONNECT localhost:{port} HTTP/1.1\\r\\n\\r\\nping");
    let line = format!(
        "bash -c 'a=${{HTTPS_PROXY#http://}}; exec 3<>/dev/tcp/${{a%:*}}/${{a#*:}}; printf \"{tunnel}\" >&3; cat <&3'"
    );
    let script = Script::new()
        .call("exec_command", json!({ "cmd": line, "yield_time_ms": 30_000 }))
        .then()
        .say("It answers");
    let config = "approval_policy = \"on-request\"\nsandbox_mode = \"workspace-write\"\ndefault_permissions = \"p\"\n\
        [permissions.p.network]\nenabled = true\nallow_local_binding = true\n";
    let stage = Stage::configured(script, config).await;
    stage.start_thread(&browser, "Ask the server").await;

    const QUESTION: (&str, &str) = article("Connect to localhost?");
    browser.sees([("main", "Thread"), QUESTION], "The command wants to reach localhost.").await;
    browser.find([QUESTION, button("Always allow localhost")]).await;
    browser.click([QUESTION, button("Approve")]).await;
    browser.sees([article("Agent message")], "It answers").await;
    browser.sees([article("Command")], "pong").await;
    target.await.unwrap();
    assert_eq!(browser.errors().await, Vec::<String>::new());
}
