//! What pages look like: names of all controls, contrast in both schemes, and the width of a phone.

use std::fs;

use codicil_testkit::Script;
use serde_json::{Value, json};

use crate::{
    browser::{Browser, article, button},
    stage::{Stage, escalated, patch},
};

/// Returns controls without a name.
const UNNAMED: &str = r#"
const controls = document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0'], img, svg[role]");
return [...controls].filter((element) => element.checkVisibility() && !element.computedName.trim() && element.computedRole !== "none"
    && !(element.tagName === "PRE" && !element.getAttribute("role"))).map((element) => element.outerHTML.slice(0, 200));
"#;

/// Returns what is wrong with the outline of a page, and controls that the keyboard does not reach in their order.
const OUTLINE: &str = r#"
const problems = [];
const count = (selector, expected) => {
  const found = document.querySelectorAll(selector).length;
  if (found !== expected) problems.push(`${found} ${selector}`);
};
count("html[lang]", 1);
count("main", 1);
count("h1", 1);
count("meta[name=viewport]", 1);
if (!document.title.trim()) problems.push("no title");
const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
problems.push(...ids.filter((id, index) => ids.indexOf(id) !== index).map((id) => `the id ${id} twice`));
for (const control of document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary")) {
  if (control.checkVisibility() && !control.disabled && control.tabIndex !== 0) problems.push(control.outerHTML.slice(0, 200));
}
let level = 0;
for (const heading of document.querySelector("main").querySelectorAll("h1, h2, h3, h4")) {
  if (heading.closest(".markdown") || !heading.checkVisibility()) continue;
  const next = Number(heading.localName[1]);
  if (level > 0 && next > level + 2) problems.push(`${heading.localName} after h${level}`);
  level = next;
}
return problems;
"#;

/// Returns texts whose contrast with their background is below WCAG's 4.5 (3 for large text).
const CONTRAST: &str = r#"
const parse = (colour) => {
  const canvas = document.createElement("canvas"); canvas.width = canvas.height = 1;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.clearRect(0, 0, 1, 1); context.fillStyle = colour; context.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
const light = ([r, g, b]) => [r, g, b].map((v) => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; })
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const isDark = matchMedia("(prefers-color-scheme: dark)").matches;
const background = (element) => {
  const layers = [];
  for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
  return layers.reverse().reduce((below, layer) => over(layer, below), isDark ? [0, 0, 0, 1] : [255, 255, 255, 1]);
};
const bad = new Set();
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
  const element = walker.currentNode.parentElement;
  if (!walker.currentNode.textContent.trim() || !element.checkVisibility({ opacityProperty: true }) || element.closest("svg, [disabled], option, .visually-hidden, script, title")) continue;
  const style = getComputedStyle(element);
  const back = background(element);
  const [a, b] = [light(over(parse(style.color), back)), light(back)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  const size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && parseInt(style.fontWeight) >= 700);
  if (ratio < (isLarge ? 3 : 4.5)) bad.add(`${ratio.toFixed(2)} ${element.tagName}.${element.className} ${walker.currentNode.textContent.trim().slice(0, 30)}`);
}
return [...bad];
"#;

/// Returns what is wider than the page.
const OVERFLOW: &str = r#"
const width = document.documentElement.clientWidth;
const isScrolled = (element) => { for (let at = element.parentElement; at; at = at.parentElement) {
  if (["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(at).overflowX) && at !== document.documentElement && at !== document.body) return true; } return false; };
const wide = [...document.body.querySelectorAll("*")].filter((element) => element.checkVisibility() && !element.closest(".visually-hidden, .skip")
  && element.getBoundingClientRect().right > width + 1 && !isScrolled(element));
return document.documentElement.scrollWidth > width ? wide.map((element) => element.outerHTML.slice(0, 120)).concat("the page is wider than the window") : [];
"#;

async fn nothing(browser: &Browser, script: &str, place: &str) {
    assert_eq!(browser.script(script, json!([])).await, Value::Array(Vec::new()), "{place}");
}

#[tokio::test]
async fn pages_are_readable_in_both_schemes_and_on_a_phone() {
    let Some(browser) = Browser::start().await else { return };
    let script = Script::new()
        .think("**Thinking** about colours")
        .say("# Heading\n\nSome `code`, a [link](https://example.com), **bold** text.\n\n```rust\nfn main() { println!(\"hi\"); } // end\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n")
        .call("exec_command", json!({ "cmd": "printf '\\033[31mred\\033[32mgreen\\033[33myellow\\033[34mblue\\033[35mmagenta\\033[36mcyan\\033[1;31mbold\\033[0m plain\\n'; seq 200; echo a-very-long-line-without-any-spaces-that-cannot-be-broken-and-would-make-a-phone-scroll-sideways-if-it-were-not-contained" }))
        .then()
        .custom_call("apply_patch", patch("a.rs", "let a = 1; // one", "let a = 2; // two"))
        .then()
        .call("exec_command", escalated("touch done"))
        .then()
        .say("Done");
    let stage = Stage::start(script).await;
    fs::write(stage.home.workspace().join("a.rs"), "let a = 1; // one\n").unwrap();
    let path = stage.start_thread(&browser, "Show me everything").await;
    browser.find([article("Apply these changes?")]).await;
    browser.click([article("Apply these changes?"), button("Approve")]).await;
    browser.find([article("Run touch done*")]).await;

    for scheme in ["light", "dark"] {
        browser.prefer(scheme).await;
        for place in [path.as_str(), "/", "/inbox", "/new", "/status", &format!("{path}/diff?layout=split")] {
            stage.visit(&browser, place).await;
            browser.find([("navigation", "Threads")]).await;
            nothing(&browser, UNNAMED, &format!("controls without a name, {scheme} {place}")).await;
            nothing(&browser, CONTRAST, &format!("contrast, {scheme} {place}")).await;
            nothing(&browser, OUTLINE, &format!("outline, {scheme} {place}")).await;
        }
    }
    let background = "return getComputedStyle(document.documentElement).backgroundColor";
    let dark = browser.script(background, json!([])).await;
    browser.prefer("light").await;
    assert_ne!(browser.script(background, json!([])).await, dark);

    browser.resize(390, 844).await;
    for place in [path.as_str(), "/", "/inbox", "/new", "/status", &format!("{path}/diff")] {
        stage.visit(&browser, place).await;
        browser.find([("navigation", "Threads")]).await;
        nothing(&browser, OVERFLOW, place).await;
    }
    // A thread opens at its own end, not at the questions of other threads below it. A question is answered on the phone.
    stage.visit(&browser, &path).await;
    let is_at_end = "const { bottom } = document.querySelector('main').getBoundingClientRect(); return Math.abs(bottom - innerHeight) < 60";
    browser.until("the end of the thread", is_at_end, json!([])).await;
    browser.click([("main", "Thread"), article("Run touch done*"), button("Approve")]).await;
    browser.sees([article("Agent message")], "Done").await;
    assert_eq!(browser.errors().await, Vec::<String>::new());
    assert_eq!(browser.foreign_requests(&stage.origin).await, Vec::<String>::new());
}
