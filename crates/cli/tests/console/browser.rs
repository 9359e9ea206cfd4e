//! A headless browser, driven by roles and names.
//!
//! The browser itself computes roles and names: `ComputedAccessibilityInfo` shows scripts what assistive technology sees.

use std::{
    fmt::Debug,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use fantoccini::{
    Client, ClientBuilder, Locator,
    actions::{InputSource, KeyAction, KeyActions},
    elements::{Element, ElementRef},
    error::CmdError,
    wd::WebDriverCompatibleCommand,
};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::sleep;
use url::Url;

use crate::driver::DriverProcess;

/// Maximum time to wait for something on a page. Generous, because machines are busy.
const PATIENCE: Duration = Duration::from_secs(90);

/// Time between two attempts to find, click or watch something, for example while a page is being loaded.
const RETRY_TIME: Duration = Duration::from_millis(50);

/// Waits within the page until `CONDITION` holds: it is looked at after every change of the page, and now and then for what
/// is not part of it. Looking from outside all the time would slow the page down.
const WATCH: &str = r#"
const given = arguments[0];
const done = arguments[arguments.length - 1];
const condition = function () { CONDITION };
const isMet = () => { try { return condition(given) === true; } catch { return false; } };
if (isMet()) return done(true);
let planned = null;
let pause = 10;
const end = (result) => { observer.disconnect(); clearInterval(looking); clearTimeout(planned); clearTimeout(ending); done(result); };
// The page has most of the time, also if looking takes long.
const look = () => {
  const began = performance.now();
  planned = null;
  if (isMet()) return end(true);
  pause = Math.max(10, 3 * (performance.now() - began));
};
const observer = new MutationObserver(() => { planned ??= setTimeout(look, pause); });
observer.observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
const looking = setInterval(look, 250);
const ending = setTimeout(() => end(false), 5000);
"#;

/// Returns the visible elements on a path of roles and names, each below the one before. A `*` in a name stands for any text.
const FIND: &str = r#"
const pattern = (name) => new RegExp("^" + name.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&")).join("[^]*") + "$");
// Roles that only some elements can have. Computing the role of every element takes long.
const candidates = { article: "article", button: "button, summary, a[role]", link: "a", textbox: "input, textarea", main: "main", navigation: "nav",
  complementary: "aside", form: "form", region: "section", listitem: "li", table: "table", image: "img, svg", radio: "input", checkbox: "input",
  combobox: "input, select", option: "li, option", listbox: "ul, select", dialog: "dialog", "": "summary" };
let scopes = [document];
for (const [role, name] of arguments[0]) {
  const expected = pattern(name);
  scopes = scopes.flatMap((scope) => [...scope.querySelectorAll(candidates[role] ?? "*")].filter((element) =>
    // What is cheap comes first: the browser computes roles and names anew after every change of the page.
    element.checkVisibility({ visibilityProperty: true }) && expected.test(element.ariaLabel ?? element.computedName)
      && element.computedRole === role && expected.test(element.computedName)));
}
return [...new Set(scopes)];
"#;

/// WebDriver's code of the control key.
const CONTROL: char = '\u{E009}';

/// A role and a name.
pub type Part = (&'static str, &'static str);

pub const fn article(name: &'static str) -> Part {
    ("article", name)
}

pub const fn button(name: &'static str) -> Part {
    ("button", name)
}

/// The summary of a part that opens. The browser computes no role for it.
pub const fn disclosure(name: &'static str) -> Part {
    ("", name)
}

pub const fn link(name: &'static str) -> Part {
    ("link", name)
}

pub const fn textbox(name: &'static str) -> Part {
    ("textbox", name)
}

/// A browser with an empty profile. It ends with its driver.
pub struct Browser {
    client: Client,
    driver: Arc<DriverProcess>,
    _profile: TempDir,
}

/// A request that WebDriver leaves to browsers.
#[derive(Debug)]
struct VendorCommand {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for VendorCommand {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, url::ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or_default(), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (http::Method, Option<String>) {
        (http::Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Starts a browser. Returns `None` where none is installed.
    pub async fn start() -> Option<Self> {
        Some(Self::with(DriverProcess::start().await?).await)
    }

    /// Starts another browser, which shares nothing with this one.
    pub async fn another(&self) -> Self {
        Self::with(self.driver.clone()).await
    }

    async fn with(driver: Arc<DriverProcess>) -> Self {
        let profile = tempfile::tempdir().expect("a temporary directory");
        let data = format!("--user-data-dir={}", profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-dev-shm-usage",
            "--force-prefers-reduced-motion",
            "--window-size=1280,900",
            "--enable-blink-features=ComputedAccessibilityInfo",
            // The browser ends when the driver does, also after a failed test.
            "--remote-debugging-pipe",
            &data,
        ];
        let capabilities = json!({
            "goog:chromeOptions": { "args": arguments },
            "goog:loggingPrefs": { "browser": "ALL", "performance": "ALL" },
            "unhandledPromptBehavior": "accept",
        });
        let Value::Object(capabilities) = capabilities else { unreachable!() };
        let client =
            ClientBuilder::new(HttpConnector::new()).capabilities(capabilities).connect(&driver.url).await;
        Self { client: client.expect("a browser starts"), driver, _profile: profile }
    }

    pub async fn open(&self, url: &str) {
        self.client.goto(url).await.expect("the page loads");
    }

    pub async fn address(&self) -> String {
        self.client.current_url().await.expect("a page is open").to_string()
    }

    /// Runs a script and returns its result.
    pub async fn script(&self, script: &str, arguments: Value) -> Value {
        self.try_script(script, &arguments).await.unwrap_or_else(|error| panic!("{error}: {script}"))
    }

    async fn try_script(&self, script: &str, arguments: &Value) -> Result<Value, String> {
        self.client.execute(script, vec![arguments.clone()]).await.map_err(|error| error.to_string())
    }

    /// Waits until a script returns `true`. A page that is being loaded counts as not yet.
    pub async fn until(&self, what: impl Debug, script: &str, arguments: Value) {
        let began = Instant::now();
        let watch = WATCH.replace("CONDITION", script);
        while self.client.execute_async(&watch, vec![arguments.clone()]).await.ok() != Some(Value::Bool(true))
        {
            if began.elapsed() > PATIENCE {
                let seen = self
                    .try_script("return location.href + '\\n' + document.body.innerText", &json!([]))
                    .await;
                panic!(
                    "not seen: {what:?}\nin {}",
                    seen.as_ref().ok().and_then(Value::as_str).unwrap_or("no page")
                );
            }
            sleep(RETRY_TIME).await;
        }
    }

    async fn elements(&self, path: &[Part]) -> Vec<Element> {
        let found = self.try_script(FIND, &json!(path)).await.unwrap_or_default();
        let found = found.as_array().cloned().unwrap_or_default();
        let id = |element: &Value| element.as_object()?.values().next()?.as_str().map(str::to_owned);
        let element = |id: String| Element::from_element_id(self.client.clone(), ElementRef::from(id));
        found.iter().filter_map(id).map(element).collect()
    }

    pub async fn count<const N: usize>(&self, path: [Part; N]) -> usize {
        let count = self.script(&format!("{}.length", as_expression()), json!(path.as_slice())).await;
        count.as_u64().unwrap_or_else(|| panic!("{count} is not a number of {path:?}")) as usize
    }

    /// Waits for an element.
    pub async fn find<const N: usize>(&self, path: [Part; N]) -> Element {
        let script = format!("{}.length > 0", as_expression());
        self.until(path, &script, json!(path.as_slice())).await;
        self.elements(&path).await.into_iter().next().unwrap_or_else(|| panic!("{path:?} has gone again"))
    }

    /// Waits until there are this many elements.
    pub async fn find_all<const N: usize>(&self, path: [Part; N], count: usize) {
        let script = format!("{}.length === {count}", as_expression());
        self.until((count, path), &script, json!(path.as_slice())).await;
    }

    pub async fn gone<const N: usize>(&self, path: [Part; N]) {
        self.find_all(path, 0).await;
    }

    /// Waits until the text of an element contains a text.
    pub async fn sees<const N: usize>(&self, path: [Part; N], text: &str) {
        let script =
            format!("{}.some((element) => element.innerText.includes({}))", as_expression(), json!(text));
        self.until((path, text), &script, json!(path.as_slice())).await;
    }

    /// Returns the text of the first element, as people see it.
    pub async fn text<const N: usize>(&self, path: [Part; N]) -> String {
        self.find(path).await.text().await.expect("an element has a text")
    }

    /// Clicks an element. A page may replace it meanwhile; then it is looked for again.
    pub async fn click<const N: usize>(&self, path: [Part; N]) {
        let began = Instant::now();
        while let Err(error) = self.try_click(path).await {
            assert!(began.elapsed() < PATIENCE, "{path:?} cannot be clicked: {error}");
            sleep(RETRY_TIME).await;
        }
    }

    async fn try_click<const N: usize>(&self, path: [Part; N]) -> Result<(), CmdError> {
        let element = self.find(path).await;
        // As a person does, who would not click what the composer covers.
        let element_value = serde_json::to_value(&element).map_err(CmdError::from)?;
        self.client.execute("arguments[0].scrollIntoView({ block: 'center' })", vec![element_value]).await?;
        element.click().await
    }

    /// Writes into a field.
    pub async fn fill<const N: usize>(&self, path: [Part; N], text: &str) {
        self.find(path).await.send_keys(text).await.unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }

    /// Writes into a field, in place of what it contains.
    pub async fn replace<const N: usize>(&self, path: [Part; N], text: &str) {
        self.find(path).await.clear().await.unwrap_or_else(|error| panic!("{path:?}: {error}"));
        self.fill(path, text).await;
    }

    /// Chooses a file in the field of a label.
    pub async fn choose_file(&self, label: &str, file: &Path) {
        let path = format!("//label[contains(., {label:?})]//input[@type='file']");
        let field = self.client.find(Locator::XPath(&path)).await.expect("the label has a field");
        field.send_keys(&file.display().to_string()).await.expect("a file can be chosen");
    }

    /// Presses a key, wherever the focus is. Special keys are those of WebDriver.
    pub async fn press(&self, key: char) {
        let actions = KeyActions::new("keys".to_owned())
            .then(KeyAction::Down { value: key })
            .then(KeyAction::Up { value: key });
        self.client.perform_actions(actions).await.expect("a key can be pressed");
    }

    /// Presses a key together with the control key.
    pub async fn press_with_control(&self, key: char) {
        let actions = KeyActions::new("keys".to_owned())
            .then(KeyAction::Down { value: CONTROL })
            .then(KeyAction::Down { value: key })
            .then(KeyAction::Up { value: key })
            .then(KeyAction::Up { value: CONTROL });
        self.client.perform_actions(actions).await.expect("keys can be pressed");
    }

    /// Opens another tab and goes there.
    pub async fn open_tab(&self) {
        let tab = self.client.new_window(true).await.expect("a tab can be opened");
        self.client.switch_to_window(tab.handle).await.expect("the tab is there");
    }

    pub async fn go_to_first_tab(&self) {
        let tabs = self.client.windows().await.expect("there are tabs");
        let first = tabs.into_iter().next().expect("one tab is always open");
        self.client.switch_to_window(first).await.expect("the tab is there");
    }

    pub async fn reload(&self) {
        self.client.refresh().await.expect("the page loads");
    }

    /// Makes the page as wide as a phone or a screen.
    pub async fn resize(&self, width: u32, height: u32) {
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.devtools("Emulation.setDeviceMetricsOverride", metrics).await;
    }

    /// Makes the system ask for a dark or a light page.
    pub async fn prefer(&self, scheme: &str) {
        let features = json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.devtools("Emulation.setEmulatedMedia", features).await;
    }

    async fn devtools(&self, command: &str, params: Value) -> Value {
        let body = json!({ "cmd": command, "params": params });
        let command = VendorCommand { path: "goog/cdp/execute", body };
        self.client.issue_cmd(command).await.expect("the browser knows the command")
    }

    /// Returns the messages of the browser's console that report an error since the last call.
    pub async fn errors(&self) -> Vec<String> {
        let entries = self.log("browser").await;
        let errors = entries.iter().filter(|entry| entry["level"] == "SEVERE");
        errors.map(|entry| entry["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Returns the addresses that the browser has requested since the last call.
    async fn requests(&self) -> Vec<String> {
        let entries = self.log("performance").await;
        let messages =
            entries.iter().filter_map(|entry| serde_json::from_str::<Value>(entry["message"].as_str()?).ok());
        let requests = messages.filter(|message| message["message"]["method"] == "Network.requestWillBeSent");
        requests
            .filter_map(|message| Some(message["message"]["params"]["request"]["url"].as_str()?.to_owned()))
            .collect()
    }

    /// Returns the addresses of other origins that the browser has requested since the last call.
    pub async fn foreign_requests(&self, origin: &str) -> Vec<String> {
        let is_own = |url: &String| {
            url.starts_with(origin)
                || ["data:", "blob:", "chrome:"].iter().any(|scheme| url.starts_with(scheme))
        };
        self.requests().await.into_iter().filter(|url| !is_own(url)).collect()
    }

    async fn log(&self, kind: &str) -> Vec<Value> {
        let command = VendorCommand { path: "se/log", body: json!({ "type": kind }) };
        let entries = self.client.issue_cmd(command).await.expect("the browser keeps a log");
        entries.as_array().cloned().unwrap_or_default()
    }

    /// Returns the cookies of the page, as a header has them.
    pub async fn cookies(&self) -> String {
        let cookies = self.client.get_all_cookies().await.expect("a page is open");
        let pairs: Vec<_> =
            cookies.iter().map(|cookie| format!("{}={}", cookie.name(), cookie.value())).collect();
        pairs.join("; ")
    }

    /// Returns a picture of what is visible.
    pub async fn screenshot(&self) -> Vec<u8> {
        self.client.screenshot().await.expect("a page can be pictured")
    }
}

/// Returns the search as an expression, for conditions.
fn as_expression() -> String {
    format!("return (function() {{ {FIND} }})(arguments[0])")
}
