//! What models, commands, files and people write is text: nothing of it becomes an element, an address or a script.

use std::fs;

use codicil_testkit::Script;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, article, button},
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
const text = document.documentElement.textContent + [...document.querySelectorAll("*")].flatMap((element) => [...element.attributes].map(({ value }) => value)).join("");
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
        .call("exec_command", json!({ "cmd": format!("printf '{OUTPUT}'; cat hostile.txt") }))
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
