//! Settings of the configuration and what follows from them.

use std::fs;

use codicil_protocol::{
    CollaborationModeList, CollaborationModeListParams, ConfigWarning, Patch, ReasoningEffort, TurnStart,
    TurnStatus,
};
use codicil_testkit::{App, AppBuilder, RecordedRequest, Reply, Script};
use serde_json::{Value, json};
use tokio::{io::AsyncReadExt, net::TcpListener};

use crate::{
    realtime::soon,
    tools::{free_thread, thread},
};

/// Returns the only request of a turn in a thread with these settings.
async fn request_of(config: &str, params: Value) -> RecordedRequest {
    let mut app = App::builder().experimental().config(config).script(Script::new().say("Hi")).start().await;
    let thread = thread(&mut app, params).await;
    app.run_turn(&thread, "go").await;
    app.rest().await;
    app.model().requests().pop().unwrap()
}

#[tokio::test]
async fn a_setting_without_effect_is_reported_once_per_connection() {
    let mut app = App::builder().config("zsh_path = '/bin/zsh'\ntui.theme = 'dark'").start().await;
    let warning = app.until::<ConfigWarning>().await;
    assert_eq!(warning.summary, "The setting `zsh_path` has no effect.");
    assert_eq!(warning.details.as_deref(), Some("Commands run in the user's own shell."));
    assert!(warning.path.unwrap().ends_with("config.toml"));

    let overrides = json!({ "config": { "features.memories": true, "modle": "x" } });
    thread(&mut app, overrides.clone()).await;
    let feature = app.until::<ConfigWarning>().await;
    assert_eq!(feature.summary, "The setting `features.memories` has no effect.");
    let unknown = app.until::<ConfigWarning>().await;
    assert_eq!(unknown.details.as_deref(), Some("`modle`"));
    thread(&mut app, overrides).await;
    let rest = app.rest().await;
    assert!(!rest.contains("configWarning"), "{rest}");
}

#[tokio::test]
async fn a_client_of_today_can_start_a_thread_without_any_tool() {
    start_a_thread_without_any_tool(App::builder()).await;
    start_a_thread_without_any_tool(App::builder().later_client()).await;
}

async fn start_a_thread_without_any_tool(builder: AppBuilder) {
    let mut app = builder.script(Script::new().say("A title")).start().await;
    let off = json!({ "config": {
        "web_search": "disabled",
        "features.shell_tool": false,
        "features.multi_agent": false,
        "features.view_image": false,
        "features.goals": false,
        "features.context_management": false,
        "features.standalone_web_search": false,
        "tools.update_plan.enabled": false,
        "tools.experimental_request_user_input.enabled": false,
        "cloud.skills.enabled": false,
    } });
    let thread = thread(&mut app, off).await;
    app.run_turn(&thread, "Name this thread").await;
    let rest = app.rest().await;
    assert!(!rest.contains("configWarning"), "{rest}");
    assert_eq!(app.model().requests()[0].tools(), [""; 0]);
}

#[tokio::test]
async fn the_notify_program_gets_the_completed_turn() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let send = format!("printf %s \"$1\" > /dev/tcp/127.0.0.1/{port}");
    let config = format!("notify = [\"bash\", \"-c\", {send:?}, \"notify\"]");
    let mut app = App::builder().config(&config).script(Script::new().say("All done")).start().await;
    let thread = free_thread(&mut app).await;
    let turn = app.run_turn(&thread, "Tidy up").await;
    app.rest().await;

    let (mut connection, _) = soon(listener.accept()).await.unwrap();
    let mut received = String::new();
    soon(connection.read_to_string(&mut received)).await.unwrap();
    let notice: Value = serde_json::from_str(&received).unwrap();
    let cwd = fs::canonicalize(app.workspace()).unwrap();
    assert_eq!(fs::canonicalize(notice["cwd"].as_str().unwrap()).unwrap(), cwd);
    assert_eq!(notice["type"], "agent-turn-complete");
    assert_eq!(notice["thread-id"], json!(thread.id));
    assert_eq!(notice["turn-id"], json!(turn.id));
    assert_eq!(notice["input-messages"], json!(["Tidy up"]));
    assert_eq!(notice["last-assistant-message"], "All done");
    assert!(notice["client"].is_string());
}

#[tokio::test]
async fn a_notify_program_that_hangs_holds_nothing_up() {
    let config = "notify = [\"sleep\", \"600\"]";
    let script = Script::new().repeat(Reply::new().say("Done"));
    let mut app = App::builder().config(config).script(script).start().await;
    let thread = free_thread(&mut app).await;
    for _ in 0..2 {
        assert_eq!(app.run_turn(&thread, "go").await.status, TurnStatus::Completed);
    }
    app.rest().await;
    // Stops the server, which ends the programs.
    app.restart().await;
}

#[tokio::test]
async fn settings_of_web_search_reach_the_provider() {
    let config = "web_search = 'live'\n[tools.web_search]\ncontext_size = 'low'\n\
                  allowed_domains = ['docs.rs', 'rust-lang.org']\nlocation = { country = 'DE', city = 'Bonn' }";
    let request = request_of(config, json!({})).await;
    let tools = request.body()["tools"].as_array().unwrap().clone();
    let search = tools.iter().find(|tool| tool["type"] == "web_search").unwrap();
    assert_eq!(
        *search,
        json!({
            "type": "web_search",
            "external_web_access": true,
            "filters": { "allowed_domains": ["docs.rs", "rust-lang.org"] },
            "user_location": { "type": "approximate", "country": "DE", "city": "Bonn" },
            "search_context_size": "low",
        })
    );
}

#[tokio::test]
async fn without_the_patch_tool_nothing_is_patched() {
    let patch = "*** Begin Patch\n*** Add File: made.txt\n+x\n*** End Patch";
    let command = format!("apply_patch <<'EOF'\n{patch}\nEOF\n");
    for config in ["include_apply_patch_tool = false", "[features]\napply_patch_freeform = false"] {
        let script = Script::new()
            .call("apply_patch", json!({ "input": patch }))
            .call_id("tool")
            .then()
            .call("exec_command", json!({ "cmd": command }))
            .call_id("command")
            .then()
            .say("Done");
        let mut app = App::builder().config(config).script(script).start().await;
        let params = json!({
            "model": "gpt-5.1-codex", "approvalPolicy": "never", "sandbox": "danger-full-access",
        });
        let thread = thread(&mut app, params).await;
        app.run_turn(&thread, "go").await;
        app.rest().await;
        let requests = app.model().requests();
        assert!(!requests[0].tools().contains(&"apply_patch"), "{config}");
        let output =
            |call: &str| requests.iter().rev().find_map(|request| request.tool_output(call)).unwrap();
        assert_eq!(output("tool"), "unsupported call: apply_patch");
        assert!(output("command").contains("not found"), "{}", output("command"));
        assert!(!app.workspace().join("made.txt").exists());
        app.ignore_rest();
    }
}

#[tokio::test]
async fn plan_mode_has_an_effort_of_its_own() {
    let config = "plan_mode_reasoning_effort = 'high'";
    let script = Script::new().repeat(Reply::new().say("Done"));
    let mut app = App::builder().experimental().config(config).script(script).start().await;
    let modes = app.call::<CollaborationModeList>(CollaborationModeListParams {}).await;
    assert_eq!(modes.data[0].reasoning_effort, Patch::Value(ReasoningEffort::High));

    let thread = thread(&mut app, json!({ "model": "gpt-5.1-codex" })).await;
    for (effort, expected) in [(Value::Null, "high"), (json!("low"), "low")] {
        let settings = json!({
            "model": "gpt-5.1-codex", "reasoning_effort": effort, "developer_instructions": null,
        });
        let params = json!({
            "threadId": thread.id,
            "input": [{ "type": "text", "text": "go" }],
            "collaborationMode": { "mode": "plan", "settings": settings },
        });
        app.call::<TurnStart>(serde_json::from_value(params).unwrap()).await;
        app.until::<codicil_protocol::TurnCompleted>().await;
        let request = app.model().requests().pop().unwrap();
        assert_eq!(request.body()["reasoning"]["effort"], expected);
    }
    app.ignore_rest();
}

#[tokio::test]
async fn residency_is_required_of_the_default_provider_and_refused_with_others() {
    let mut app = App::start(Script::new().say("Hi")).await;
    fs::write(app.home().join("requirements.toml"), "enforce_residency = \"us\"\n").unwrap();
    let refused = app.exchange(json!({ "id": "x", "method": "thread/start", "params": {} })).await;
    let message = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{refused}"));
    assert!(message.contains("`enforce_residency`") && message.contains("use `openai`"), "{message}");

    let url = app.model().base_url();
    let config = format!(
        "model = 'm'\nmodel_provider = 'openai'\n[model_providers.openai]\nbase_url = {url:?}\n\
         http_headers = {{ X-OpenAI-Internal-Codex-Residency = 'elsewhere' }}\n"
    );
    fs::write(app.home().join("config.toml"), config).unwrap();
    let thread = app.start_thread().await;
    app.run_turn(&thread, "go").await;
    app.rest().await;
    let request = app.model().requests().pop().unwrap();
    assert_eq!(request.header("x-openai-internal-codex-residency"), Some("us"));
}

#[tokio::test]
async fn the_service_name_reaches_the_provider() {
    let metadata = |request: RecordedRequest| {
        serde_json::from_str::<Value>(request.header("x-codex-turn-metadata").unwrap()).unwrap()
    };
    let named = metadata(request_of("", json!({ "serviceName": "my_app" })).await);
    assert_eq!(named["service_name"], "my_app");
    let unnamed = metadata(request_of("", json!({})).await);
    assert_eq!(unnamed.get("service_name"), None);
}

#[tokio::test]
async fn developer_instructions_of_the_configuration_reach_the_model() {
    let config = "developer_instructions = 'Speak like a sailor.'";
    let input = |request: RecordedRequest| request.body()["input"].to_string();
    let configured = input(request_of(config, json!({})).await);
    assert!(configured.contains("Speak like a sailor."), "{configured}");
    let requested = json!({ "developerInstructions": "Speak like a judge." });
    let requested = input(request_of(config, requested).await);
    assert!(requested.contains("Speak like a judge.") && !requested.contains("sailor"), "{requested}");
}

#[tokio::test]
async fn child_agents_md_mentions_instructions_in_subdirectories() {
    let hint = "Directories below the working directory may have an AGENTS.md of their own";
    let input = |request: RecordedRequest| request.body()["input"].to_string();
    let enabled = input(request_of("[features]\nchild_agents_md = true", json!({})).await);
    assert!(enabled.contains(hint), "{enabled}");
    assert!(!input(request_of("", json!({})).await).contains(hint));
}
