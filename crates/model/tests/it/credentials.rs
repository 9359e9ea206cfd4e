//! The sources of credentials, the headers that carry them, and the errors without them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use codicil_model::{
    AccountAuth, AuthFuture, ModelError, ModelProvider, ProviderConfig, ProviderContext, ProviderCredentials,
    WireApi, connect,
};
use serde_json::json;

use crate::{
    server::{Answer, Server},
    support::{config, context, drain, error, events, hello},
};

fn done() -> Answer {
    Answer::sse([json!({"type": "response.completed", "response": {"id": "r"}})])
}

fn with(id: &str, config: &ProviderConfig, context: &ProviderContext) -> Arc<dyn ModelProvider> {
    connect(id, config, context).unwrap()
}

#[tokio::test]
async fn the_error_for_a_missing_key_names_the_variable() {
    let signed_out = context(&[("OPENAI_API_KEY", "  ")]);
    let openai = with("openai", &ProviderConfig::builtin("openai").unwrap(), &signed_out);
    let turn_error = error(&openai, hello()).await.to_turn_error();
    assert_eq!(
        turn_error.message,
        "no credentials for model provider `openai`: set the environment variable OPENAI_API_KEY or run `codicil login`"
    );
    assert_eq!(json!(turn_error.codex_error_info), json!("unauthorized"));

    let anthropic = with("anthropic", &ProviderConfig::builtin("anthropic").unwrap(), &signed_out);
    assert_eq!(
        error(&anthropic, hello()).await.to_string(),
        "no credentials for model provider `anthropic`: set the environment variable ANTHROPIC_API_KEY"
    );

    let custom = ProviderConfig {
        env_key: Some("MY_KEY".into()),
        env_key_instructions: Some("Get one at the front desk.".into()),
        ..config("http://127.0.0.1:9/v1")
    };
    assert_eq!(
        error(&with("mine", &custom, &signed_out), hello()).await.to_string(),
        "no credentials for model provider `mine`: set the environment variable MY_KEY. Get one at the front desk."
    );
}

#[tokio::test]
async fn a_key_from_the_environment_is_sent() {
    let server = Server::start([done(), done()]).await;
    let keyed = ProviderConfig { env_key: Some("MY_KEY".into()), ..config(&server.base_url) };
    let context = context(&[("MY_KEY", "sk-env\n")]);
    events(&with("mine", &keyed, &context), hello()).await;
    let anthropic = ProviderConfig { wire_api: WireApi::Anthropic, ..keyed };
    let _ = drain(with("mine", &anthropic, &context).stream(hello())).await;

    let [bearer, api_key] = &server.requests()[..] else { panic!("two requests") };
    assert_eq!(bearer.header("authorization"), Some("Bearer sk-env"));
    assert_eq!(api_key.header("x-api-key"), Some("sk-env"));
    assert_eq!(api_key.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(api_key.header("authorization"), None);
}

#[tokio::test]
async fn a_base_url_from_the_environment_is_used_by_its_provider_only() {
    let server = Server::start([done()]).await;
    let root = server.base_url.trim_end_matches("/v1").to_owned();
    let context = context(&[("OPENAI_BASE_URL", root.as_str()), ("OPENAI_API_KEY", "sk-1")]);
    let openai =
        ProviderConfig { request_max_retries: Some(0), ..ProviderConfig::builtin("openai").unwrap() };
    events(&with("openai", &openai, &context), hello()).await;
    assert_eq!(server.requests()[0].path, "/v1/responses");

    let no_url = ProviderConfig { wire_api: WireApi::Chat, ..ProviderConfig::default() };
    let refused = connect("mine", &no_url, &context).err().unwrap();
    assert_eq!(refused, ModelError::Config("model provider `mine` has no base_url".into()));
    let bad_url = ProviderConfig { base_url: Some("not a url".into()), ..ProviderConfig::default() };
    let refused = connect("mine", &bad_url, &context).err().unwrap().to_string();
    assert_eq!(refused, "model provider `mine` has an invalid base_url: not a url");
}

/// An account whose first token has expired.
struct SignedIn {
    refreshes: AtomicUsize,
}

impl AccountAuth for SignedIn {
    fn credentials(&self) -> AuthFuture<'_> {
        Box::pin(async { Ok(Some(token("old"))) })
    }

    fn refresh<'a>(&'a self, refused: &'a ProviderCredentials) -> AuthFuture<'a> {
        assert_eq!(refused, &token("old"));
        self.refreshes.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(Some(token("new"))) })
    }
}

fn token(text: &str) -> ProviderCredentials {
    ProviderCredentials { token: text.to_owned().into(), account_id: Some("acc-1".into()) }
}

fn signed_in() -> (Arc<SignedIn>, ProviderContext) {
    let auth = Arc::new(SignedIn { refreshes: AtomicUsize::new(0) });
    let context = ProviderContext { auth: Some(auth.clone()), ..context(&[]) };
    (auth, context)
}

#[tokio::test]
async fn an_expired_login_is_refreshed_once() {
    let refuse = || Answer::status(401, &[], r#"{"error": {"message": "expired"}}"#);
    let server = Server::start([refuse(), done(), refuse(), refuse()]).await;
    let (auth, context) = signed_in();
    let login = ProviderConfig { requires_openai_auth: true, ..config(&server.base_url) };
    let provider = with("mock", &login, &context);

    events(&provider, hello()).await;
    let [old, new] = &server.requests()[..] else { panic!("two requests") };
    assert_eq!(old.header("authorization"), Some("Bearer old"));
    assert_eq!(new.header("authorization"), Some("Bearer new"));
    assert_eq!(new.header("chatgpt-account-id"), Some("acc-1"));

    let turn_error = error(&provider, hello()).await.to_turn_error();
    let info = json!({ "httpConnectionFailed": { "httpStatusCode": 401 } });
    assert_eq!(json!(turn_error.codex_error_info), info);
    assert_eq!((server.requests().len(), auth.refreshes.load(Ordering::SeqCst)), (4, 2));
}

#[tokio::test]
async fn a_login_is_not_sent_to_other_providers() {
    let server = Server::start([done()]).await;
    let (_, context) = signed_in();
    events(&with("mock", &config(&server.base_url), &context), hello()).await;
    assert_eq!(server.requests()[0].header("authorization"), None);
}

#[tokio::test]
async fn https_is_set_up_when_it_is_needed() {
    let secure = ProviderConfig { request_max_retries: Some(0), ..config("https://127.0.0.1:9/v1") };
    match error(&with("mine", &secure, &context(&[])), hello()).await {
        ModelError::Connect { url, .. } => assert_eq!(url, "https://127.0.0.1:9/v1/responses"),
        // On a machine without certificates the error names them.
        ModelError::Config(text) => assert!(text.contains("ca-certificates"), "{text}"),
        other => panic!("{other}"),
    }
}
