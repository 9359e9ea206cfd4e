//! What models, commands, files and people write is text: nothing of it becomes an element, an address or a script.

use std::{fs, os::unix::fs::PermissionsExt};

use codicil_protocol::{SessionSource, TurnId, TurnStatus};
use codicil_store::{Record, Store, StoredSettings, ThreadMeta, new_thread_id};
use codicil_testkit::Script;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, article, button, disclosure, textbox},
    stage::{Stage, escalated},
};

/// HTML that would call `hacked` in every place where text could become markup, with bidi and control characters.
const MARKUP: &str = "<script>hacked()</script><img src=x onerror=hacked()><svg onload=hacked()></svg>\
     <iframe srcdoc='<script>parent.hacked()</script>'></iframe></code></pre></td></tr></table></article>\"'><b onmouseover=hacked() \
     style='position:fixed'>bold</b><a href=\"javascript:hacked()\">x</a><form action='https://evil.example'><input name=csrf></form>\
     \u{202e}reversed\u{202c} \u{200b}zero";

/// Markdown that would lead elsewhere.
const MARKDOWN: &str = "[js](javascript:hacked()) [JS](JaVaScRiPt:hacked()) [data](data:text/html,<script>hacked()</script>) \
     [vb](vbscript:hacked()) ![image](https://evil.example/x.png) ![x](javascript:hacked()) <javascript:hacked()> \
     [good](https://example.com/) [ref]\n\n[ref]: javascript:hacked()\n\n```html\n<script>hacked()</script>\n```\n\n\
     | a | b |\n|---|---|\n| <script>hacked()</script> | x |\n";

/// Output of a terminal with colours, a link, a title and a movement of the cursor.
const OUTPUT: &str = "\\033[31m<script>hacked()</script>\\033[0m \\033]8;;javascript:hacked()\\007link\\033]8;;\\007 \\033]0;title\\007 \\033[2J";

/// An id of an item that would lead elsewhere, or end an attribute.
const CALL_ID: &str = "a/../../x?y#z%2f \"'><img src=x onerror=hacked()>\u{202e}";

/// Looks for everything that foreign text must not be able to add to a page.
const INSPECT: &str = r##"
const found = [];
for (const element of document.querySelectorAll("*")) {
  const path = element.tagName + (element.id ? "#" + element.id : "");
  for (const { name, value } of element.attributes) {
    if (name.startsWith("on")) found.push(`${path} has ${name}`);
    if (name === "style" || name === "srcdoc") found.push(`${path} has ${name}`);
    const isAddress = ["href", "src", "action", "formaction", "data", "poster"].includes(name);
    if (isAddress && !/^(\/|#|https?:|mailto:|blob:|\?)/i.test(value.trim())) found.push(`${path} leads to ${value}`);
    if (isAddress && name !== "href" && /^(https?:)?\/\//i.test(value)) found.push(`${path} loads ${value}`);
  }
  if (["IFRAME", "OBJECT", "EMBED", "BASE", "STYLE"].includes(element.tagName)) found.push(`there is ${path}`);
  if (element.tagName === "SCRIPT" && !element.src.startsWith(location.origin)) found.push("a foreign script");
  if (element.tagName === "IMG" && !element.src.startsWith(location.origin) && !element.src.startsWith("blob:")) found.push(`an image of ${element.src}`);
  if (element.tagName === "A" && element.target === "_blank" && !element.rel.includes("noopener")) found.push(`${path} has an opener`);
  if (element.tagName === "FORM" && new URL(element.action).origin !== location.origin) found.push(`a form to ${element.action}`);
}
const text = document.documentElement.textContent + [...document.querySelectorAll("*")].flatMap((element) => [...element.attributes].filter(({ name }) => name !== "value").map(({ value }) => value)).join("");
for (const hidden of text.matchAll(/[\u202A-\u202E\u2066-\u2069\u200B\u0000-\u0008\u000E-\u001F]/g)) {
  found.push("a hidden character " + hidden[0].codePointAt(0).toString(16) + " in " + text.slice(hidden.index - 20, hidden.index + 20));
}
if (window.isHacked) found.push("a script ran");
return [...new Set(found)];
"##;

async fn check(browser: &Browser, place: &str) {
    let found = browser.script(INSPECT, json!([])).await;
    assert_eq!(found, Value::Array(Vec::new()), "{place}");
    // A violation of the content security policy would show that markup got through.
    assert_eq!(browser.errors().await, Vec::<String>::new(), "{place}");
}

#[tokio::test]
async fn hostile_text_stays_text_in_every_kind_of_item() {
    let Some(browser) = Browser::start().await else { return };
    let plan = json!({ "explanation": MARKUP, "plan": [{ "step": MARKUP, "status": "in_progress" }] });
    let patch = format!("*** Begin Patch\n*** Add File: x<b>{}.html\n+{MARKUP}\n*** End Patch\n", "\u{202e}");
    let script = Script::new()
        .think(MARKUP)
        .say(format!("{MARKUP}\n\n{MARKDOWN}"))
        .web_search(MARKUP)
        .call("update_plan", plan)
        .then()
        .call("exec_command", json!({ "cmd": format!("printf '{OUTPUT}'; cat hostile.txt; seq 500") }))
        .call_id(CALL_ID)
        .then()
        .call("exec_command", json!({ "cmd": format!("touch '{}'", MARKUP.replace('\'', "")), "sandbox_permissions": "require_escalated", "justification": MARKUP }))
        .then()
        .custom_call("apply_patch", patch)
        .then()
        .call("exec_command", escalated(&format!("touch a # {}", MARKUP.replace('\n', " "))))
        .then()
        .fail("server_error", MARKUP);
    let stage = Stage::start(script).await;
    fs::write(stage.home.workspace().join("hostile.txt"), MARKUP).unwrap();
    // A function that hostile text would call, in every page from the beginning.
    let path = stage.start_thread(&browser, "Begin").await;
    browser.script("window.hacked = () => { window.isHacked = true }", json!([])).await;

    browser.sees([article("Agent message")], "<script>hacked()</script>").await;
    browser.sees([article("Agent message")], "U+202E").await;
    browser.find([article("Agent message"), ("link", "good")]).await;
    assert_eq!(browser.count([article("Agent message"), ("link", "js")]).await, 0);
    browser.find([article("Run touch*")]).await;
    browser.sees([article("Command")], "<script>hacked()</script>").await;
    // The id of the item is part of addresses.
    browser.click([article("Command"), ("link", "Show all output")]).await;
    browser.sees([article("Command")], "\n250\n").await;
    check(&browser, "a command question").await;
    browser.click([article("Run touch*"), button("Decline")]).await;

    browser.find([article("Apply these changes?"), ("table", "Diff of *")]).await;
    check(&browser, "a file question").await;
    browser.click([article("Apply these changes?"), button("Approve")]).await;
    browser.find([article("Run touch*")]).await;
    check(&browser, "after a patch").await;
    stage.visit(&browser, "/inbox").await;
    browser.find([article("Run touch*")]).await;
    check(&browser, "the inbox").await;
    browser.click([article("Run touch*"), button("Decline")]).await;

    stage.visit(&browser, &path).await;
    browser.gone([button("Stop")]).await;
    browser.sees([("region", "Turn")], "Failed").await;
    stage.send(&browser, MARKUP).await;
    browser.sees([article("User message")], "<script>hacked()</script>").await;
    for place in [&path, "/", &format!("{path}/diff"), "/status"] {
        stage.visit(&browser, place).await;
        browser.find([("navigation", "Threads")]).await;
        check(&browser, place).await;
    }
}

/// An MCP server whose names, descriptions, results, errors and questions are hostile. `MARKUP` is replaced.
const MCP_SERVER: &str = r#"#!/bin/sh
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"poke","description":MARKUP,"inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}';;
    *'"method":"tools/call"'*)
      printf '%s\n' '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"form","message":MARKUP,"requestedSchema":{"type":"object","properties":{"a":{"type":"string","title":MARKUP,"description":MARKUP,"default":MARKUP},"b":{"type":"string","enum":[MARKUP,"x"],"title":MARKUP}}}}}'
      read -r answer
      result='{"content":[{"type":"text","text":MARKUP},{"type":"resource_link","uri":"javascript:hacked()","name":MARKUP}]}';;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[tokio::test]
async fn hostile_tools_questions_and_names_stay_text() {
    let Some(browser) = Browser::start().await else { return };
    let option = json!({ "label": MARKUP, "description": MARKUP });
    let question = json!({ "id": "q", "header": "H", "question": MARKUP, "options": [option] });
    let script = Script::new()
        .call("mcp__s__poke", json!({ "argument": MARKUP }))
        .then()
        .call("request_user_input", json!({ "questions": [question] }))
        .then()
        .call(
            "request_permissions",
            json!({ "permissions": { "network": { "enabled": true } }, "reason": MARKUP }),
        )
        .then()
        .say("Working")
        .unfinished()
        .gate("end")
        .then()
        .say("Second")
        .then()
        .say(format!("{MARKUP} is reviewed"));
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    // A single quote would end the shell's string.
    let text = json!(MARKUP).to_string().replace('\'', "");
    fs::write(&program, MCP_SERVER.replace("MARKUP", &text)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n[features]\ndefault_mode_request_user_input = true\n\
         request_permissions_tool = true\n[mcp_servers.s]\ncommand = {program:?}\n"
    );
    let stage = Stage::configured(script, &config).await;
    let skill = stage.home.path().join("skills/evil");
    fs::create_dir_all(&skill).unwrap();
    let description = MARKUP.replace(['\'', '\u{202e}', '\u{202c}', '\u{200b}'], "");
    fs::write(skill.join("SKILL.md"), format!("---\nname: evil\ndescription: '{description}'\n---\nText\n"))
        .unwrap();
    fs::write(stage.home.workspace().join("evil<img src=x onerror=hacked()>.txt"), "").unwrap();
    let path = stage.start_thread(&browser, MARKUP).await;
    browser.script("window.hacked = () => { window.isHacked = true }", json!([])).await;

    browser.sees([("main", "Thread"), article("s asks")], "<script>hacked()</script>").await;
    check(&browser, "a form of an MCP server").await;
    browser.click([("main", "Thread"), article("s asks"), button("Submit")]).await;
    browser.find([("main", "Thread"), button("Answer")]).await;
    check(&browser, "a question of the agent").await;
    browser.click([("main", "Thread"), button("Answer")]).await;
    browser.find([article("Grant more permissions?")]).await;
    check(&browser, "permissions").await;
    browser.click([("main", "Thread"), article("Grant more permissions?"), button("Decline")]).await;
    browser.sees([article("Tool call")], "<script>hacked()</script>").await;

    // Names and messages of people, queued messages, completions.
    browser.sees([article("Agent message")], "Working").await;
    browser.fill([textbox("Message")], "<img src=x onerror=hacked()> queued").await;
    browser.click([button("Queue")]).await;
    browser.sees([article("Queued message")], "<img src=x onerror=hacked()> queued").await;
    for (sign, name) in [("@evil", ("option", "evil<img*")), ("$ev", ("option", "evil*"))] {
        browser.fill([textbox("Message")], sign).await;
        browser.find([("listbox", "Completions"), name]).await;
        check(&browser, sign).await;
        browser.script("document.getElementById('message').value = ''", json!([])).await;
    }
    stage.model.release("end");
    browser.sees([article("Agent message")], "Second").await;
    browser.gone([button("Stop")]).await;
    browser.click([disclosure("Actions for *")]).await;
    browser.fill([textbox("Name")], "<img src=x onerror=hacked()>").await;
    browser.click([button("Rename")]).await;
    browser.sees([("navigation", "Threads")], "<img src=x onerror=hacked()>").await;
    browser.click([disclosure("More")]).await;
    browser.fill([("combobox", "Review")], "As I say").await;
    browser.fill([textbox("Branch, commit or instructions")], "<img src=x onerror=hacked()>").await;
    browser.click([button("Start review")]).await;
    browser.sees([article("Review")], "is reviewed").await;
    check(&browser, "a review").await;
    for place in [
        &path,
        "/",
        "/inbox",
        "/status",
        "/new?cwd=%22%3E%3Cimg%20src=x%20onerror=hacked()%3E",
        "/?q=%22%3E%3Cscript%3Ehacked()%3C/script%3E",
    ] {
        stage.visit(&browser, place).await;
        browser.find([("navigation", "Threads")]).await;
        check(&browser, place).await;
    }
}

#[tokio::test]
async fn hostile_stored_items_stay_text() {
    let Some(browser) = Browser::start().await else { return };
    let mut stage = Stage::start(Script::new()).await;
    let id = new_thread_id();
    let turn_id = TurnId::from("turn");
    let agents = json!({ "child": { "status": "errored", "message": MARKUP } });
    let text = json!([{ "type": "inputText", "text": MARKUP }, { "type": "inputImage", "imageUrl": "javascript:hacked()" }]);
    let search = json!({ "type": "openPage", "url": MARKUP });
    let error = json!({ "message": MARKUP });
    let kinds = [
        json!({ "type": "dynamicToolCall", "tool": MARKUP, "arguments": { "a": MARKUP }, "status": "completed", "contentItems": text, "success": true, "durationMs": 1 }),
        json!({ "type": "collabAgentToolCall", "tool": "spawnAgent", "status": "completed", "senderThreadId": id, "receiverThreadIds": ["child"], "prompt": MARKUP, "model": null, "reasoningEffort": null, "agentsStates": agents }),
        json!({ "type": "plan", "text": format!("{MARKUP}\n\n{MARKDOWN}") }),
        json!({ "type": "imageView", "path": format!("/{MARKUP}") }),
        json!({ "type": "imageGeneration", "status": "completed", "revisedPrompt": MARKUP, "result": MARKUP, "inputImages": [] }),
        json!({ "type": "hookPrompt", "fragments": [{ "text": MARKUP, "hookRunId": MARKUP }] }),
        json!({ "type": "contextCompaction" }),
        json!({ "type": "webSearch", "query": MARKUP, "action": search }),
        json!({ "type": "enteredReviewMode", "review": MARKUP }),
        json!({ "type": "exitedReviewMode", "review": format!("{MARKUP}\n\n{MARKDOWN}") }),
        json!({ "type": "mcpToolCall", "server": MARKUP, "tool": MARKUP, "status": "failed", "arguments": MARKUP, "result": null, "error": error, "durationMs": 1 }),
    ];
    let mut records = vec![
        Record::Settings(StoredSettings::without_snapshot("mock-model".to_owned(), None)),
        Record::Turn { turn_id: turn_id.clone(), run: None },
    ];
    for (number, mut item) in kinds.into_iter().enumerate() {
        item["id"] = json!(format!("{number}{CALL_ID}"));
        let item = serde_json::from_value(item).unwrap();
        records.push(Record::Item { turn_id: turn_id.clone(), item });
    }
    records.push(Record::TurnEnd { turn_id, status: TurnStatus::Completed, error: None, cause: None });
    let meta = ThreadMeta::new(id.clone(), "/", SessionSource::AppServer, "mock");
    Store::open(stage.home.path()).unwrap().create_with(meta, records).await.unwrap();
    stage.kill_and_restart().await;
    stage.visit(&browser, &format!("/threads/{id}")).await;
    for kind in
        ["Tool call", "Subagents", "Plan", "Image", "Hook", "Context compaction", "Web search", "Review"]
    {
        browser.find([("main", "Thread"), article(kind)]).await;
    }
    browser.sees([article("Subagents")], "<script>hacked()</script>").await;
    let found = browser.script(INSPECT, json!([])).await;
    assert_eq!(found, Value::Array(Vec::new()));
    // The pictures cannot be shown; nothing else may fail.
    let errors = browser.errors().await;
    assert!(errors.iter().all(|error| error.contains("/images/")), "{errors:?}");
}

/// An MCP server that asks to open pages at hostile addresses, and whose result has hostile images.
const MCP_PAGES: &str = r#"#!/bin/sh
while read -r line; do
  id=${line#*\"id\":}; id=${id%%[,\}]*}
  case $line in
    *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}';;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"visit","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]}';;
    *'"method":"tools/call"'*)
      for url in 'javascript:hacked()' 'https://user:secret@evil.example/\"><img src=x onerror=hacked()>'; do
        printf '{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"Open this","url":"%s","elicitationId":"e"}}\n' "$url"
        read -r answer
      done
      result='{"content":[{"type":"image","mimeType":"image/svg+xml","data":"PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciIG9ubG9hZD0iaGFja2VkKCkiLz4="},{"type":"image","mimeType":"text/html","data":"\"><script>hacked()</script>"}]}';;
    *) continue;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
"#;

#[tokio::test]
async fn hostile_directories_models_pages_and_pictures_stay_text() {
    let Some(browser) = Browser::start().await else { return };
    const NAME: &str = "<img src=x onerror=hacked()>\u{202e}\"'";
    let wanted =
        json!({ "permissions": { "file_system": { "write": [format!("/tmp/{NAME}")] } }, "reason": MARKUP });
    let script = Script::new()
        .call("mcp__s__visit", json!({}))
        .then()
        .call("request_permissions", wanted)
        .then()
        .say("Done");
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("server");
    fs::write(&program, MCP_PAGES).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "approval_policy = \"on-request\"\nsandbox_mode = \"read-only\"\n[features]\nrequest_permissions_tool = true\n\
         [mcp_servers.s]\ncommand = {program:?}\n"
    );
    let stage = Stage::configured(script, &config).await;
    let directory = stage.home.workspace().join(NAME);
    fs::create_dir_all(directory.join("below")).unwrap();
    let cookie = stage.sign_in().await;
    let field = |text: &str| url::form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let cwd = directory.display().to_string();
    let path =
        stage.post(&cookie, "/new", &format!("text=Begin&model={}&cwd={}", field(NAME), field(&cwd))).await;
    stage.visit(&browser, &path).await;
    browser.script("window.hacked = () => { window.isHacked = true }", json!([])).await;

    // The first address is text; the second is a link that leads where it says.
    browser.sees([("main", "Thread"), article("s asks")], "javascript:hacked()").await;
    assert_eq!(browser.count([article("s asks"), ("link", "javascript*")]).await, 0);
    check(&browser, "a page at a script").await;
    browser.click([("main", "Thread"), article("s asks"), button("Done")]).await;
    browser.sees([("main", "Thread"), article("s asks")], "evil.example").await;
    check(&browser, "a page at a hostile address").await;
    browser.click([("main", "Thread"), article("s asks"), button("Decline")]).await;
    browser
        .sees([("main", "Thread"), article("Grant more permissions?")], "<img src=x onerror=hacked()>")
        .await;
    // Pictures that are none are not shown, and are not served as anything else.
    let images = "return Promise.all([...document.querySelectorAll('article img')].map(async (image) => { const answer = await fetch(image.src); \
        return `${answer.status} ${(await answer.text()).includes('hacked')}`; }))";
    assert_eq!(browser.script(images, json!([])).await, json!(["415 false", "404 false"]));
    browser.errors().await;
    browser.click([("main", "Thread"), article("Grant more permissions?"), button("Decline")]).await;
    browser.sees([article("Agent message")], "Done").await;
    browser.errors().await;
    for place in ["/", "/inbox", "/status", &format!("{path}/diff"), &format!("{path}/terminals")] {
        stage.visit(&browser, place).await;
        browser.find([("navigation", "Threads")]).await;
        check(&browser, place).await;
    }
    // The picker of directories shows their names as they are.
    stage.visit(&browser, "/new").await;
    browser.click([("combobox", "Directory")]).await;
    browser.find([("listbox", "Directories"), ("option", "*<img src=x*")]).await;
    let injected = "return document.querySelectorAll('#directories img, #directories [onerror]').length + Number(!!window.isHacked)";
    assert_eq!(browser.script(injected, json!([])).await, json!(0));
}
