//! Settings that depend on the model: efforts, tiers, personalities, the context window, the list of models.

use codicil_protocol::{
    ConfigWarning, ModelList, ModelListParams, ServerNotification, Thread, ThreadStartParams,
    ThreadTokenUsageUpdated, TurnCompleted, WarningReported,
};
use codicil_testkit::{App, AppBuilder, Reply, Script};
use serde_json::{Value, json};

fn app() -> AppBuilder {
    App::builder().experimental().script(Script::new().repeat(Reply::new().say("Hi")))
}

/// Runs a turn with these settings. Returns the body of its request and the summaries of the warnings.
async fn turn(app: &mut App, thread: &Thread, settings: Value) -> (Value, Vec<String>) {
    let mut params = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "go" }] });
    params.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
    let answer = app.exchange(json!({ "id": "turn", "method": "turn/start", "params": params })).await;
    assert!(answer.get("result").is_some(), "{answer}");
    let mut warnings = Vec::new();
    while let Some(event) = app.next_notification().await {
        match event {
            ServerNotification::ConfigWarning(warning) => warnings.push(warning.summary),
            ServerNotification::TurnCompleted(_) => break,
            _ => {}
        }
    }
    (app.model().requests().pop().unwrap().body().clone(), warnings)
}

async fn thread_with(app: &mut App, settings: Value) -> Thread {
    app.start_thread_with(serde_json::from_value::<ThreadStartParams>(settings).unwrap()).await
}

#[tokio::test]
async fn a_config_of_today_reaches_the_model() {
    let config = "model_reasoning_effort = \"max\"\nservice_tier = \"priority\"";
    let mut app = app().config(config).start().await;
    let thread = thread_with(&mut app, json!({ "model": "gpt-6-sol" })).await;
    let (sent, warnings) = turn(&mut app, &thread, json!({})).await;
    assert_eq!((&sent["reasoning"]["effort"], &sent["service_tier"]), (&json!("max"), &json!("priority")));
    assert_eq!(warnings, Vec::<String>::new());
}

#[tokio::test]
async fn efforts_and_tiers_reach_chat_completions_too() {
    let mut app = app().config("model_supports_reasoning_summaries = true").start().await;
    let chat = json!({ "config": { "model_providers.mock.wire_api": "chat" } });
    let thread = thread_with(&mut app, chat).await;
    let (sent, _) = turn(&mut app, &thread, json!({ "effort": "whatever", "serviceTier": "flex" })).await;
    assert_eq!((&sent["reasoning_effort"], &sent["service_tier"]), (&json!("whatever"), &json!("flex")));
}

#[tokio::test]
async fn efforts_and_tiers_reach_anthropics_api_or_are_reported() {
    let mut app = app().config("model_supports_reasoning_summaries = true").start().await;
    let anthropic = json!({ "config": { "model_providers.mock.wire_api": "anthropic" } });
    let thread = thread_with(&mut app, anthropic).await;
    let (sent, warnings) =
        turn(&mut app, &thread, json!({ "effort": "low", "serviceTier": "priority" })).await;
    assert_eq!((&sent["thinking"]["budget_tokens"], &sent["service_tier"]), (&json!(4096), &json!("auto")));
    assert_eq!(warnings, Vec::<String>::new());
    let settings = json!({ "effort": "whatever", "serviceTier": "made-up" });
    let (sent, warnings) = turn(&mut app, &thread, settings).await;
    assert_eq!((&sent["thinking"]["type"], sent.get("service_tier")), (&json!("enabled"), None));
    assert_eq!(
        warnings,
        [
            "model `mock-model` is not known to have effort `whatever`: the nearest effort is used",
            "service tier `made-up` has no effect: Anthropic's API does not have it",
        ]
    );
}

#[tokio::test]
async fn an_unknown_tier_is_reported() {
    let mut app = app().start().await;
    let known = thread_with(&mut app, json!({ "model": "gpt-5.4", "serviceTier": "made-up" })).await;
    let (sent, warnings) = turn(&mut app, &known, json!({})).await;
    assert_eq!(sent.get("service_tier"), None);
    let expected = "service tier `made-up` is not used: model `gpt-5.4` is not known to have it";
    assert_eq!(warnings, [expected]);

    let own = thread_with(&mut app, json!({ "serviceTier": "made-up" })).await;
    let (sent, warnings) = turn(&mut app, &own, json!({})).await;
    assert_eq!(sent["service_tier"], "made-up");
    assert_eq!(
        warnings,
        ["service tier `made-up` is unknown: it is sent as it is, and the provider may refuse it"]
    );
}

#[tokio::test]
async fn an_unknown_tier_of_a_turn_is_reported() {
    let mut app = app().start().await;
    let thread = thread_with(&mut app, json!({ "model": "gpt-5.4" })).await;
    let (sent, warnings) = turn(&mut app, &thread, json!({ "serviceTier": "made-up" })).await;
    assert_eq!(sent.get("service_tier"), None);
    assert_eq!(warnings, ["service tier `made-up` is not used: model `gpt-5.4` is not known to have it"]);
}

#[tokio::test]
async fn an_unknown_tier_of_a_new_thread_is_a_warning_since_0_166() {
    let mut app = app().uninitialized().start().await;
    let hello = json!({ "clientInfo": { "name": "codex-tui", "version": "0.166.0" } });
    app.exchange(json!({ "id": 0, "method": "initialize", "params": hello })).await;
    let params = json!({ "model": "gpt-5.4", "serviceTier": "made-up" });
    let started = app.exchange(json!({ "id": 1, "method": "thread/start", "params": params })).await;
    assert_eq!(started["result"]["serviceTier"], Value::Null);
    let warning = app.until::<WarningReported>().await;
    assert_eq!(
        warning.message,
        "Configured service tier `made-up` is not advertised as supported for model `gpt-5.4` and will be omitted from \
         requests."
    );
    let thread = serde_json::from_value::<Thread>(started["result"]["thread"].clone()).unwrap();
    let (_, warnings) = turn(&mut app, &thread, json!({})).await;
    assert_eq!(warnings, Vec::<String>::new(), "reported once");
}

#[tokio::test]
async fn an_empty_effort_is_refused() {
    let mut app = app().start().await;
    let thread = app.start_thread().await;
    let params = json!({ "threadId": thread.id, "input": [{ "type": "text", "text": "x" }], "effort": "" });
    let answer = app.exchange(json!({ "id": 1, "method": "turn/start", "params": params })).await;
    assert_eq!(answer["error"]["message"], "Invalid request: reasoning_effort must not be empty");
}

#[tokio::test]
async fn settings_without_effect_are_reported_once() {
    let mut app = app().start().await;
    let thread = app.start_thread().await;
    let settings = json!({ "effort": "high", "summary": "detailed", "personality": "friendly" });
    let (sent, warnings) = turn(&mut app, &thread, settings.clone()).await;
    assert_eq!(sent["reasoning"], Value::Null);
    assert_eq!(
        warnings,
        [
            "effort `high` has no effect: model `mock-model` is not known to reason",
            "summary `detailed` has no effect: model `mock-model` is not known to reason",
            "personality `friendly` has no effect: model `mock-model` is not known to have personalities",
        ]
    );
    let (_, warnings) = turn(&mut app, &thread, settings).await;
    assert_eq!(warnings, Vec::<String>::new(), "once per thread");
    let (sent, warnings) = turn(&mut app, &thread, json!({ "model": "gpt-5.2", "effort": "max" })).await;
    assert_eq!(sent["reasoning"], json!({ "effort": "max", "summary": "detailed" }));
    assert_eq!(
        warnings,
        [
            "model `gpt-5.2` is not known to have effort `max`: it is sent as it is, and the provider may refuse it",
            "personality `friendly` has no effect: model `gpt-5.2` is not known to have personalities",
        ]
    );
}

#[tokio::test]
async fn feature_flags_switch_personalities_and_the_fast_tier_off() {
    let mut app = app().start().await;
    let on = json!({ "model": "gpt-5.4", "personality": "friendly", "serviceTier": "fast" });
    let thread = thread_with(&mut app, on.clone()).await;
    let (with_personality, warnings) = turn(&mut app, &thread, json!({})).await;
    assert_eq!(with_personality["service_tier"], "priority");
    assert_eq!(warnings, Vec::<String>::new());

    let mut off = on;
    off["config"] = json!({ "features.personality": false, "features.fast_mode": false });
    let thread = thread_with(&mut app, off).await;
    let (sent, warnings) = turn(&mut app, &thread, json!({})).await;
    assert_eq!(sent.get("service_tier"), None);
    assert_ne!(sent["instructions"], with_personality["instructions"]);
    assert!(!sent.to_string().contains("personality"), "no instructions about tone");
    assert_eq!(
        warnings,
        [
            "personality `friendly` has no effect: personalities are switched off",
            "service tier `fast` is not used: fast mode is switched off",
        ]
    );
    let change = json!({ "threadId": thread.id, "personality": "pragmatic", "effort": "low" });
    app.exchange(json!({ "id": 1, "method": "thread/settings/update", "params": change })).await;
    let updated = app.until::<codicil_protocol::ThreadSettingsUpdated>().await;
    assert_eq!(updated.thread_settings.personality, None, "reported as off");
}

#[tokio::test]
async fn the_context_window_is_what_the_server_reports() {
    let mut app = app().start().await;
    app.model().serve_json("/v1/models", json!({ "data": [{ "id": "mock-model", "owned_by": "llamacpp" }] }));
    app.model().serve_json("/props", json!({ "default_generation_settings": { "n_ctx": 40_000 } }));
    let thread = app.start_thread().await;
    app.start_turn(&thread, "go").await;
    let usage = app.until::<ThreadTokenUsageUpdated>().await;
    assert_eq!(usage.token_usage.model_context_window, Some(38_000));
    app.until::<TurnCompleted>().await;
    let asked: Vec<_> = app.model().other_requests().iter().map(|asked| asked.path().to_owned()).collect();
    assert_eq!(asked, ["/v1/models", "/props"]);

    let (_, warnings) = turn(&mut app, &thread, json!({})).await;
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(app.model().other_requests().len(), 2, "asked once");
}

#[tokio::test]
async fn an_unknown_context_window_is_reported_once() {
    let mut app = app().start().await;
    app.model().serve_json("/v1/models", json!({ "data": [{ "id": "mock-model" }] }));
    app.model().serve_json("/api/v0/models", json!({ "error": "not here" }));
    let thread = app.start_thread().await;
    let (_, warnings) = turn(&mut app, &thread, json!({})).await;
    let expected = "the context window of model `mock-model` is unknown: 272000 tokens are assumed";
    assert_eq!(warnings, [expected]);
    let (_, warnings) = turn(&mut app, &thread, json!({})).await;
    assert_eq!(warnings, Vec::<String>::new());

    let configured = json!({ "config": { "model_context_window": 1000 } });
    let thread = thread_with(&mut app, configured).await;
    let (_, warnings) = turn(&mut app, &thread, json!({})).await;
    assert_eq!(warnings, Vec::<String>::new());
}

#[tokio::test]
async fn models_of_the_vendor_are_not_asked_for() {
    let mut app = app().start().await;
    let thread = thread_with(&mut app, json!({ "model": "gpt-5.3-codex" })).await;
    turn(&mut app, &thread, json!({})).await;
    assert_eq!(app.model().other_requests().len(), 0);
}

async fn listed(app: &mut App, params: ModelListParams) -> Vec<(String, bool)> {
    let models = app.call::<ModelList>(params).await.data;
    models.into_iter().map(|model| (model.display_name, model.is_default)).collect()
}

#[tokio::test]
async fn models_are_listed_as_their_server_reports_them() {
    let mut app = app().start().await;
    let list = json!({ "data": [{ "id": "qwen3" }, { "id": "mock-model" }, { "id": "nomic-embed" }] });
    app.model().serve_json("/v1/models", list);
    let models = listed(&mut app, ModelListParams::default()).await;
    assert_eq!(models, [("qwen3".to_owned(), false), ("mock-model".to_owned(), true)]);
    let hidden = ModelListParams { include_hidden: Some(true), ..ModelListParams::default() };
    assert_eq!(listed(&mut app, hidden).await.len(), 3);
    assert_eq!(app.model().other_requests().len(), 1, "the list is kept for a while");
}

#[tokio::test]
async fn models_of_ollama_are_listed() {
    let mut app = app().start().await;
    app.model().serve_json("/v1/models", json!({ "error": "not here" }));
    app.model().serve_json("/api/tags", json!({ "models": [{ "name": "qwen3:8b", "model": "qwen3:8b" }] }));
    let models = listed(&mut app, ModelListParams::default()).await;
    assert_eq!(models, [("mock-model".to_owned(), true), ("qwen3:8b".to_owned(), false)]);
}

#[tokio::test]
async fn a_list_that_cannot_be_read_is_replaced_and_reported() {
    let mut app = app().start().await;
    app.model().serve_json("/v1/models", json!({ "error": "not here" }));
    let models = listed(&mut app, ModelListParams::default()).await;
    assert_eq!(models.first(), Some(&("mock-model".to_owned(), true)));
    assert!(models.contains(&("gpt-5.4".to_owned(), false)));
    assert_eq!(models.iter().filter(|(_, is_default)| *is_default).count(), 1);
    let warning = app.until::<ConfigWarning>().await;
    assert_eq!(warning.summary, "cannot list the models of provider `mock`: the built-in list is shown");
    assert!(warning.details.unwrap().contains("/v1/models did not answer with a list of models"));
}

#[tokio::test]
async fn the_default_model_is_the_references() {
    let mut app = App::builder().start().await;
    let models = listed(&mut app, ModelListParams::default()).await;
    assert_eq!(models.first(), Some(&("gpt-5.3-codex".to_owned(), true)));
    let started = app.exchange(json!({ "id": 1, "method": "thread/start", "params": {} })).await;
    assert_eq!(started["result"]["model"], "gpt-5.3-codex");
    app.ignore_rest();
}

#[tokio::test]
async fn values_are_shown_to_clients_that_have_them() {
    for (name, version, expected) in [
        ("codex-tui", "0.118.0", "on-failure"),
        ("codex-tui", "0.166.0", "on-request"),
        ("editor", "3.0.0", "on-failure"),
    ] {
        let config = "approval_policy = \"on-failure\"\nservice_tier = \"priority\"";
        let builder = app().config(config).uninitialized();
        let mut app = builder.start().await;
        let hello = json!({ "clientInfo": { "name": name, "version": version } });
        app.exchange(json!({ "id": 0, "method": "initialize", "params": hello })).await;
        let started = app.exchange(json!({ "id": 1, "method": "thread/start", "params": {} })).await;
        assert_eq!(started["result"]["approvalPolicy"], expected, "{name} {version}");
        let tier = if version == "0.166.0" { "priority" } else { "fast" };
        assert_eq!(started["result"]["serviceTier"], tier, "{name} {version}");
        let read = app.exchange(json!({ "id": 2, "method": "config/read", "params": {} })).await;
        assert_eq!(read["result"]["config"]["approval_policy"], expected, "{name} {version}");
        app.ignore_rest();
    }
}
