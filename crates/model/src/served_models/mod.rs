//! The models that a provider serves, as its server reports them.
//!
//! A server knows two things that the catalogue cannot know: which models are installed, and how long a conversation may
//! be with the options it was started with. llama.cpp, Ollama, LM Studio, vLLM and LiteLLM report both, each in its own
//! way; `reports.rs` reads what they answer.
//!
//! The vendors' own addresses are not asked, because the catalogue has their models. A server elsewhere on the network is
//! asked beside the turn, so only servers of this machine and its network can delay a turn, and only for
//! [`WINDOW_TIME`].

mod reports;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
    time::Duration,
};

use codicil_http::{http_client, read_body, root_cause, without_secrets};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use parking_lot::Mutex;
use reqwest::{Method, Url};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use self::reports::{ContextWindow, ModelEntry, WindowKind};
use crate::{
    ModelError, ProviderConfig, ProviderContext, WireApi,
    credentials::{CredentialSources, insert_bearer, sensitive_value},
    endpoint::{configured_headers, endpoint},
};

/// Longest time for all questions about one model.
const WINDOW_TIME: Duration = Duration::from_millis(1500);
/// Longest time for a list of models, and for a question that no turn waits for.
const LIST_TIME: Duration = Duration::from_secs(5);
/// How long an answer about a model counts. A local server may be restarted with other options.
const KEEP_WINDOW: Duration = Duration::from_secs(600);
/// How long a list counts. Clients ask for it page by page.
const KEEP_LIST: Duration = Duration::from_secs(30);
/// Lists of hosted gateways have hundreds of models with prices and descriptions.
const MAX_ANSWER_BYTES: usize = 8 << 20;
/// Models whose window is remembered.
const MAX_WINDOWS: usize = 256;
/// Addresses whose models the catalogue has.
const VENDOR_HOSTS: [&str; 3] = ["api.openai.com", "api.anthropic.com", "chatgpt.com"];

/// What a server says about the context window of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowReport {
    Tokens(u32),
    /// The server answers and does not report it.
    NotReported,
    /// The server has not answered.
    Unanswered,
}

/// The reason why a provider's models cannot be listed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ServedModelsError {
    #[error("{0}")]
    Provider(#[from] ModelError),
    #[error("{url} answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("{0} did not answer with a list of models")]
    NotAList(String),
    #[error("no answer within {} s", LIST_TIME.as_secs())]
    TimedOut,
}

/// Asks one provider about its models, and keeps the answers for a while. Clones share them.
#[derive(Clone)]
pub struct ServedModels(Arc<ServedModelsInner>);

struct ServedModelsInner {
    id: String,
    /// The base URL, with the provider's query parameters.
    base: Url,
    wire_api: WireApi,
    headers: HeaderMap,
    credentials: CredentialSources,
    connect_timeout: Duration,
    windows: Mutex<HashMap<String, KeptWindow>>,
    list: Mutex<Option<(Instant, ListReport)>>,
}

type ListReport = Result<Vec<String>, ServedModelsError>;

#[derive(Clone, Copy)]
struct KeptWindow {
    asked_at: Instant,
    report: WindowReport,
    /// Whether the next turn asks again, because the model is not loaded yet or an answer is missing.
    is_preliminary: bool,
}

impl ServedModels {
    /// Returns `None` for providers that are not asked: the vendors' own, and those without a network address.
    pub fn of(id: &str, config: &ProviderConfig, context: &ProviderContext) -> Option<Self> {
        if config.wire_api == WireApi::Scripted {
            return None;
        }
        let base = endpoint(id, config, &context.environment, "").ok()?;
        if base.host_str().is_some_and(|host| VENDOR_HOSTS.contains(&host)) {
            return None;
        }
        Some(Self(Arc::new(ServedModelsInner {
            id: id.to_owned(),
            base,
            wire_api: config.wire_api,
            headers: configured_headers(id, config, &context.environment).ok()?,
            credentials: CredentialSources::new(config, context),
            connect_timeout: config.limits().connect,
            windows: Mutex::default(),
            list: Mutex::default(),
        })))
    }

    /// Returns the names of the models, as requests use them.
    pub async fn list(&self) -> Result<Vec<String>, ServedModelsError> {
        if let Some((asked_at, report)) = &*self.0.list.lock()
            && asked_at.elapsed() < KEEP_LIST
        {
            return report.clone();
        }
        let entries = timeout(LIST_TIME, self.0.entries()).await.unwrap_or(Err(ServedModelsError::TimedOut));
        let report = entries.map(|entries| entries.into_iter().map(|entry| entry.id).collect());
        *self.0.list.lock() = Some((Instant::now(), report.clone()));
        report
    }

    /// Returns the context window of a model. Asks a server on this machine or network if there is no recent answer;
    /// asks any other server in the background, for later turns.
    pub async fn context_window(&self, model: &str) -> WindowReport {
        let kept = self.0.windows.lock().get(model).copied();
        if let Some(kept) = kept
            && !kept.is_preliminary
            && kept.asked_at.elapsed() < KEEP_WINDOW
        {
            return kept.report;
        }
        if is_nearby(&self.0.base) {
            self.0.learn_window(model, WINDOW_TIME).await;
        } else {
            // The mark keeps other turns from asking the same meanwhile.
            let report = kept.map_or(WindowReport::Unanswered, |kept| kept.report);
            self.0.keep_window(model, report, WindowKind::Actual);
            let inner = self.0.clone();
            let model = model.to_owned();
            // Detached: it ends by itself within its deadline.
            tokio::spawn(async move { inner.learn_window(&model, LIST_TIME).await });
        }
        self.last_report(model)
    }

    /// Returns the last answer about a model.
    pub fn last_report(&self, model: &str) -> WindowReport {
        self.0.windows.lock().get(model).map_or(WindowReport::Unanswered, |kept| kept.report)
    }

    /// Returns the context window of a model if its server has reported it.
    pub fn known_window(&self, model: &str) -> Option<u32> {
        match self.last_report(model) {
            WindowReport::Tokens(tokens) => Some(tokens),
            WindowReport::NotReported | WindowReport::Unanswered => None,
        }
    }
}

impl ServedModelsInner {
    /// Asks for the window and keeps the answer. Without an answer in time, what was known before stays.
    async fn learn_window(&self, model: &str, max_time: Duration) {
        match timeout(max_time, self.ask_window(model)).await {
            Ok(Ok(Some(window))) => {
                self.keep_window(model, WindowReport::Tokens(window.tokens), window.kind);
            }
            Ok(Ok(None)) => self.keep_window(model, WindowReport::NotReported, WindowKind::Actual),
            Ok(Err(error)) => {
                tracing::debug!(provider = %self.id, %error, "cannot ask for the context window")
            }
            Err(_) => tracing::debug!(provider = %self.id, "no answer about the context window in time"),
        }
    }

    fn keep_window(&self, model: &str, report: WindowReport, kind: WindowKind) {
        let mut windows = self.windows.lock();
        if windows.len() >= MAX_WINDOWS && !windows.contains_key(model) {
            windows.clear();
        }
        let is_preliminary = kind == WindowKind::Limit;
        windows.insert(model.to_owned(), KeptWindow { asked_at: Instant::now(), report, is_preliminary });
    }

    /// Asks the server in the ways that fit what its list of models says about it.
    async fn ask_window(&self, model: &str) -> Result<Option<ContextWindow>, ServedModelsError> {
        let entries = match self.entries().await {
            Ok(entries) => entries,
            Err(ServedModelsError::Provider(error)) => return Err(error.into()),
            // A server without this list may answer other questions.
            Err(_) => Vec::new(),
        };
        let entry = reports::find_entry(&entries, model);
        let listed = entry.and_then(|entry| entry.window);
        if listed.is_some_and(|window| window.kind == WindowKind::Actual) || !is_nearby(&self.base) {
            return Ok(listed);
        }
        let owner = entry.and_then(|entry| entry.owner.as_deref());
        let mut window = listed;
        for server in likely_servers(owner) {
            let answer = match server {
                LocalServer::LmStudio => self.ask_lm_studio(model).await,
                LocalServer::Ollama => self.ask_ollama(model).await,
                LocalServer::LlamaCpp => self.ask_llama_cpp().await,
                LocalServer::LiteLlm => self.ask_litellm(model).await,
            };
            window = answer.or(window);
            if answer.is_some_and(|answer| answer.kind == WindowKind::Actual) {
                break;
            }
        }
        Ok(window)
    }

    async fn ask_llama_cpp(&self) -> Option<ContextWindow> {
        reports::llama_cpp_window(&self.get(self.at_root("/props")).await.ok()?)
    }

    async fn ask_lm_studio(&self, model: &str) -> Option<ContextWindow> {
        let list = self.get(self.at_root("/api/v0/models")).await.ok()?;
        reports::find_entry(&reports::read_list(&list)?, model)?.window
    }

    async fn ask_ollama(&self, model: &str) -> Option<ContextWindow> {
        // Reports the models that are loaded, with the context that they were loaded with.
        let loaded = self.get(self.at_root("/api/ps")).await.ok()?;
        if let Some(window) = reports::ollama_loaded_window(&loaded, model) {
            return Some(window);
        }
        let question = json!({ "model": model });
        let shown = self.ask(Method::POST, self.at_root("/api/show"), Some(&question)).await.ok()?;
        reports::ollama_window(&shown)
    }

    async fn ask_litellm(&self, model: &str) -> Option<ContextWindow> {
        reports::litellm_window(&self.get(self.at_root("/model/info")).await.ok()?, model)
    }

    /// Returns the provider's list of models, in the form of OpenAI's API or else of Ollama's own.
    async fn entries(&self) -> Result<Vec<ModelEntry>, ServedModelsError> {
        let url = self.below_base("/models");
        let error = match self.get(url.clone()).await {
            Ok(list) => match reports::read_list(&list) {
                Some(entries) => return Ok(entries),
                None => ServedModelsError::NotAList(shown(&url)),
            },
            Err(ServedModelsError::Provider(error)) => return Err(error.into()),
            Err(error) => error,
        };
        let installed = self.get(self.at_root("/api/tags")).await;
        installed.ok().and_then(|list| reports::read_list(&list)).ok_or(error)
    }

    async fn get(&self, url: Url) -> Result<Value, ServedModelsError> {
        self.ask(Method::GET, url, None).await
    }

    async fn ask(&self, method: Method, url: Url, body: Option<&Value>) -> Result<Value, ServedModelsError> {
        let client = http_client(&url, self.connect_timeout).await.map_err(ModelError::from)?;
        let mut request = client.request(method, url.clone()).headers(self.request_headers().await?);
        if let Some(body) = body {
            request = request.body(body.to_string());
        }
        let unreachable =
            |cause: String| ServedModelsError::from(ModelError::Connect { url: shown(&url), cause });
        let response = request.send().await.map_err(|error| unreachable(root_cause(&error)))?;
        let status = response.status();
        if !status.is_success() {
            return Err(ServedModelsError::Status { url: shown(&url), status });
        }
        let bytes =
            read_body(response, MAX_ANSWER_BYTES).await.map_err(|error| unreachable(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|_| ServedModelsError::NotAList(shown(&url)))
    }

    async fn request_headers(&self) -> Result<HeaderMap, ModelError> {
        let mut headers = self.headers.clone();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let credentials = self.credentials.find(&self.id).await?;
        if self.wire_api == WireApi::Anthropic {
            headers
                .insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
            let key =
                credentials.as_ref().and_then(|credentials| sensitive_value(credentials.token.reveal()));
            headers.extend(key.map(|key| (HeaderName::from_static("x-api-key"), key)));
        } else if let Some(credentials) = &credentials {
            insert_bearer(credentials, &mut headers);
        }
        Ok(headers)
    }

    /// Returns the address of `path` below the base URL.
    fn below_base(&self, path: &str) -> Url {
        let mut url = self.base.clone();
        url.set_path(&format!("{}{path}", self.base.path().trim_end_matches('/')));
        url
    }

    /// Returns the address of `path` beside the versioned API, where servers have their own endpoints.
    fn at_root(&self, path: &str) -> Url {
        let base = self.base.path().trim_end_matches('/');
        let root = base.strip_suffix("/v1").unwrap_or(base);
        let mut url = self.base.clone();
        url.set_path(&format!("{root}{path}"));
        url
    }
}

/// A server with endpoints of its own for what it knows about models.
#[derive(Clone, Copy)]
enum LocalServer {
    LmStudio,
    Ollama,
    LlamaCpp,
    LiteLlm,
}

/// Returns the servers that may have listed a model with this owner.
fn likely_servers(owner: Option<&str>) -> &'static [LocalServer] {
    use LocalServer::{LiteLlm, LlamaCpp, LmStudio, Ollama};
    match owner {
        Some("llamacpp") => &[LlamaCpp],
        Some("library") => &[Ollama],
        Some("vllm") => &[],
        _ => &[LmStudio, Ollama, LlamaCpp, LiteLlm],
    }
}

fn shown(url: &Url) -> String {
    without_secrets(url.clone()).into()
}

/// Returns whether a server is on this machine or its network, where an answer takes milliseconds.
fn is_nearby(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => ip.is_loopback() || ip.is_private() || ip.is_link_local(),
        Ok(IpAddr::V6(ip)) => ip == Ipv6Addr::LOCALHOST || ip.is_unique_local() || ip.is_unicast_link_local(),
        Err(_) => {
            let local = [".local", ".localhost", ".lan", ".internal", ".home.arpa"];
            !host.contains('.') || local.iter().any(|suffix| host.ends_with(suffix))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_this_machine_and_its_network_are_nearby() {
        let check = |url: &str, expected| assert_eq!(is_nearby(&url.parse().unwrap()), expected, "{url}");
        check("http://localhost:11434/v1", true);
        check("http://127.0.0.1:8080/v1", true);
        check("http://[::1]:8080/v1", true);
        check("http://192.168.1.7:1234/v1", true);
        check("http://gpu-box:8000/v1", true);
        check("http://gpu.local:8000/v1", true);
        check("http://host.docker.internal:8080/v1", true);
        check("https://openrouter.ai/api/v1", false);
        check("https://8.8.8.8/v1", false);
    }

    #[test]
    fn the_vendors_are_not_asked() {
        let context = ProviderContext::default();
        let asked = |id: &str, base_url: Option<&str>| {
            let builtin = ProviderConfig::builtin(id).unwrap_or_default();
            let base_url = base_url.map(str::to_owned).or(builtin.base_url.clone());
            ServedModels::of(id, &ProviderConfig { base_url, ..builtin }, &context).is_some()
        };
        assert!(!asked("openai", Some("https://api.openai.com/v1")));
        assert!(!asked("anthropic", Some("https://api.anthropic.com/v1")));
        assert!(!asked("scripted", None));
        assert!(asked("openai", Some("http://localhost:4000/v1")));
        assert!(asked("ollama", None));
        assert!(asked("mine", Some("http://localhost:8080/v1")));
    }
}
