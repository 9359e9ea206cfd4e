//! What servers report about their models, asked over HTTP.

use std::{collections::HashMap, sync::Arc};

use codicil_model::{ModelError, ProviderConfig, ServedModels, ServedModelsError, WindowReport, WireApi};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};

use crate::support::{config, context};

/// A server that answers each path with the same JSON, and all others with 404.
struct PathServer {
    base_url: String,
    /// The first lines of the requests, and their authorization.
    requests: Arc<Mutex<Vec<String>>>,
    pages: Arc<Mutex<HashMap<&'static str, Value>>>,
    serving: JoinHandle<()>,
}

impl PathServer {
    async fn start(pages: impl IntoIterator<Item = (&'static str, Value)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let pages: Arc<Mutex<HashMap<_, _>>> = Arc::new(Mutex::new(pages.into_iter().collect()));
        let serving = tokio::spawn({
            let requests = requests.clone();
            let pages = pages.clone();
            async move {
                while let Ok((mut socket, _)) = listener.accept().await {
                    let mut head = vec![0; 4096];
                    let length = socket.read(&mut head).await.unwrap_or(0);
                    let head = String::from_utf8_lossy(&head[..length]).into_owned();
                    let mut words = head.split(' ');
                    let method = words.next().unwrap_or_default();
                    let path = words.next().unwrap_or_default();
                    let token = head.lines().find_map(|line| line.strip_prefix("authorization: "));
                    requests
                        .lock()
                        .push(format!("{method} {path} {}", token.unwrap_or_default()).trim().to_owned());
                    let page = pages.lock().get(path).cloned();
                    let status = if page.is_some() { "200 OK" } else { "404 Not Found" };
                    let body = page.unwrap_or_default().to_string();
                    let answer = format!(
                        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                        body.len()
                    );
                    let _ = socket.write_all(answer.as_bytes()).await;
                }
            }
        });
        Self { base_url, requests, pages, serving }
    }

    fn models(&self) -> ServedModels {
        let config = ProviderConfig { wire_api: WireApi::Chat, ..config(&self.base_url) };
        ServedModels::of("mine", &config, &context(&[])).unwrap()
    }

    fn requests(&self) -> Vec<String> {
        self.requests.lock().clone()
    }
}

impl Drop for PathServer {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

fn list(entries: Value) -> (&'static str, Value) {
    ("/v1/models", json!({ "object": "list", "data": entries }))
}

#[tokio::test]
async fn each_server_is_asked_in_its_own_way() {
    let check = async |pages: Vec<(&'static str, Value)>, expected: u32, asked: &[&str]| {
        let server = PathServer::start(pages).await;
        assert_eq!(server.models().context_window("m").await, WindowReport::Tokens(expected));
        assert_eq!(server.requests(), asked);
    };
    let vllm = json!([{ "id": "m", "owned_by": "vllm", "max_model_len": 32768 }]);
    check(vec![list(vllm)], 32768, &["GET /v1/models"]).await;

    let llama = json!([{ "id": "m.gguf", "owned_by": "llamacpp", "meta": { "n_ctx_train": 131072 } }]);
    let props = json!({ "default_generation_settings": { "n_ctx": 8192 } });
    check(vec![list(llama), ("/props", props)], 8192, &["GET /v1/models", "GET /props"]).await;

    let lm_studio = json!({ "data": [
        { "id": "m", "state": "loaded", "loaded_context_length": 4096, "max_context_length": 131072 },
        { "id": "n", "state": "not-loaded", "max_context_length": 8192 },
    ] });
    let ids = json!([{ "id": "m", "owned_by": "organization_owner" }, { "id": "n" }]);
    let pages = vec![list(ids), ("/api/v0/models", lm_studio)];
    check(pages, 4096, &["GET /v1/models", "GET /api/v0/models"]).await;

    let ollama = json!([{ "id": "m:latest", "owned_by": "library" }, { "id": "other" }]);
    let loaded = json!({ "models": [{ "model": "m:latest", "context_length": 16384 }] });
    check(vec![list(ollama.clone()), ("/api/ps", loaded)], 16384, &["GET /v1/models", "GET /api/ps"]).await;

    let shown = json!({ "model_info": { "qwen3.context_length": 40960 } });
    let pages = vec![list(ollama), ("/api/ps", json!({ "models": [] })), ("/api/show", shown)];
    check(pages, 40960, &["GET /v1/models", "GET /api/ps", "POST /api/show"]).await;
}

#[tokio::test]
async fn a_certain_answer_is_kept_and_a_preliminary_one_is_asked_again() {
    let pages = [list(json!([{ "id": "m", "owned_by": "vllm", "max_model_len": 1000 }]))];
    let server = PathServer::start(pages).await;
    let models = server.models();
    assert_eq!(models.known_window("m"), None);
    models.context_window("m").await;
    models.context_window("m").await;
    assert_eq!((models.known_window("m"), server.requests().len()), (Some(1000), 1));

    let server = PathServer::start([
        list(json!([{ "id": "m", "owned_by": "library" }])),
        ("/api/ps", json!({ "models": [] })),
        ("/api/show", json!({ "model_info": { "x.context_length": 40960 } })),
    ])
    .await;
    let models = server.models();
    assert_eq!(models.context_window("m").await, WindowReport::Tokens(40960));
    let loaded = json!({ "models": [{ "model": "m", "context_length": 4096 }] });
    server.pages.lock().insert("/api/ps", loaded);
    assert_eq!(models.context_window("m").await, WindowReport::Tokens(4096), "it is loaded now");
}

#[tokio::test]
async fn a_server_may_not_report_the_window_or_not_answer() {
    let server = PathServer::start([list(json!([{ "id": "m" }]))]).await;
    assert_eq!(server.models().context_window("m").await, WindowReport::NotReported);
    let models = server.models();
    server.serving.abort();
    // The listener is closed once its task has ended.
    while !server.serving.is_finished() {
        tokio::task::yield_now().await;
    }
    assert_eq!(models.context_window("m").await, WindowReport::Unanswered);
    let error = models.list().await.unwrap_err();
    assert!(matches!(error, ServedModelsError::Provider(ModelError::Connect { .. })), "{error}");
}

#[tokio::test]
async fn lists_come_with_the_providers_credentials() {
    let server = PathServer::start([list(json!([{ "id": "a" }, { "id": "b" }]))]).await;
    let config = ProviderConfig { env_key: Some("KEY".to_owned()), ..config(&server.base_url) };
    let models = ServedModels::of("mine", &config, &context(&[("KEY", "sk-1234567890")])).unwrap();
    assert_eq!(models.list().await.unwrap(), ["a", "b"]);
    assert_eq!(models.list().await.unwrap(), ["a", "b"]);
    assert_eq!(server.requests(), ["GET /v1/models Bearer sk-1234567890"], "the list is kept");

    let server = PathServer::start([("/api/tags", json!({ "models": [{ "name": "llama3:latest" }] }))]).await;
    assert_eq!(server.models().list().await.unwrap(), ["llama3:latest"]);
    let server = PathServer::start([]).await;
    let error = server.models().list().await.unwrap_err().to_string();
    assert_eq!(error, format!("{}/models answered 404 Not Found", server.base_url));
}
