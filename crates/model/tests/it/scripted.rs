//! The scripted model: its files, its built-in script, its failures.

use std::{sync::Arc, time::Duration};

use codicil_model::{ModelError, ModelEvent, ModelProvider, ModelRequest, ProviderConfig, Script, WireApi};
use codicil_protocol::ResponseItem;
use insta::assert_snapshot;
use serde_json::json;

use crate::support::{
    configured, drain, error, events, hello, item, output, patch_tool, request, shell_tool, transcript, user,
};

fn following(script: &str) -> Arc<dyn ModelProvider> {
    Script::parse(script).unwrap().into_provider("scripted")
}

fn with_tools(mut request: ModelRequest) -> ModelRequest {
    request.tools = [shell_tool(), patch_tool()].into_iter().collect();
    request
}

#[tokio::test]
async fn steps_become_the_events_of_any_provider() {
    let provider = following(
        r#"
        [[reply]]
        when = { user = "TIDY" }
        steps = [
            { think = "A small job." },
            { say = "You said {user}." },
            { run = "ls" },
            { call = "lookup", args = { words = ["{user}"], n = 2 } },
            { patch = "*** Begin Patch" },
            { usage = { input = 7, cached = 1, output = 2, reasoning = 1 } },
        ]
        "#,
    );
    let events = events(&provider, with_tools(request([user("tidy up")]))).await;
    assert_snapshot!(transcript(&events), @r#"
    added rs_# thinking [] - -
    part rs_# 0
    summary rs_# 0 "A "
    summary rs_# 0 "small "
    summary rs_# 0 "job."
    done rs_# thinking ["A small job."] - -
    added msg_# assistant []
    text msg_# "You "
    text msg_# "said "
    text msg_# "tidy "
    text msg_# "up."
    done msg_# assistant ["You said tidy up."]
    done fc_# call call_# exec_command {"cmd":"ls"}
    done fc_# call call_# lookup {"n":2,"words":["tidy up"]}
    done ctc_# custom call_# apply_patch "*** Begin Patch"
    completed resp_#: 7 in (1 cached) 2 out (1 reasoning) 9 total
    "#);
}

/// Answers calls as a server would, until the model is done.
async fn play(provider: &Arc<dyn ModelProvider>, prompt: &str, outputs: &[&str]) -> String {
    let mut items = vec![user("<environment_context>"), user(prompt)];
    let mut outputs = outputs.iter();
    let mut shown = String::new();
    loop {
        let events = events(provider, with_tools(request(items.clone()))).await;
        let mut has_called = false;
        for event in events {
            let ModelEvent::ItemDone { item, .. } = event else { continue };
            let answer = match &*item {
                ResponseItem::Message { .. } => {
                    shown.push_str(&format!("say {}\n", json!(*item)["content"][0]["text"]));
                    None
                }
                ResponseItem::FunctionCall { call_id, name, arguments, .. } => {
                    shown.push_str(&format!("call {name} {arguments}\n"));
                    Some(output(call_id, outputs.next().unwrap()))
                }
                ResponseItem::CustomToolCall { call_id, name, input, .. } => {
                    shown.push_str(&format!("patch {name} {}\n", input.lines().nth(1).unwrap()));
                    Some(self::item(json!({"type": "custom_tool_call_output", "call_id": call_id,
                                          "output": outputs.next().unwrap()})))
                }
                _ => None,
            };
            has_called |= answer.is_some();
            items.push(*item);
            items.extend(answer);
        }
        if !has_called {
            return shown;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_builtin_script_looks_writes_and_sums_up() {
    let provider = configured(ProviderConfig { wire_api: WireApi::Scripted, ..ProviderConfig::default() });
    let shown = play(
        &provider,
        "make it nice",
        &["Exit code: 0\nOutput:\nREADME.md", "Exit code: 0\nOutput:\nSuccess"],
    )
    .await;
    assert_snapshot!(shown, @r#"
    say "Let me see what is in this directory."
    call exec_command {"cmd":"ls -A | head -n 20"}
    say "I have seen what is here. Now I will leave a note."
    patch apply_patch *** Add File: codicil-note.md
    say "Done. I listed the directory with a sandboxed command and asked for a patch that adds `codicil-note.md`.\n\nThe patch tool answered:\n\nSuccess"
    "#);
    let shown = play(&provider, "once more", &["README.md\ncodicil-note.md"]).await;
    assert!(shown.ends_with("there is nothing left to do for \\\"once more\\\".\"\n"), "{shown}");
    let shown = play(&provider, "Hello there", &[]).await;
    assert!(shown.starts_with("say \"Hello! I am the scripted model"), "{shown}");
}

#[tokio::test]
async fn a_script_is_read_from_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script.json");
    std::fs::write(&path, r#"{"reply": [{"steps": [{"say": "from a file"}]}]}"#).unwrap();
    let config =
        ProviderConfig { wire_api: WireApi::Scripted, script: Some(path), ..ProviderConfig::default() };
    let events = events(&configured(config), hello()).await;
    assert!(transcript(&events).contains(r#"done msg_# assistant ["from a file"]"#));

    let missing = directory.path().join("missing.toml");
    let config =
        ProviderConfig { wire_api: WireApi::Scripted, script: Some(missing), ..ProviderConfig::default() };
    let error = error(&configured(config), hello()).await;
    assert!(matches!(&error, ModelError::Config(text) if text.contains("missing.toml")), "{error}");
}

#[tokio::test]
async fn an_output_schema_is_followed() {
    let provider = following("[[reply]]\nsteps = [{ say = 'plain words' }]");
    let mut request = hello();
    request.output_schema =
        Some(Arc::new(json!({"type": "object", "properties": {"ok": {"type": "boolean"}}})));
    let events = events(&provider, request).await;
    assert!(
        transcript(&events).contains(r#"done msg_# assistant ["{\"ok\":true}"]"#),
        "{}",
        transcript(&events)
    );
}

#[tokio::test]
async fn failures_are_those_of_real_providers() {
    let failing = async |step: &str| {
        let provider = following(&format!("[[reply]]\nsteps = [{{ say = 'a' }}, {step}]"));
        let (events, end) = drain(provider.stream(hello())).await;
        assert_eq!(events.len(), 3, "what was said before the failure is given");
        end.unwrap_err()
    };
    assert_eq!(
        failing("{ fail = 'cut' }").await.to_string(),
        "stream disconnected before completion: stream closed before response.completed"
    );
    let limited = failing("{ fail = { status = 429, retry_after = 3 } }").await;
    assert_eq!(limited.retry_after(), Some(Duration::from_secs(3)));
    assert_eq!(
        failing("{ fail = { code = 'context_length_exceeded' } }").await,
        ModelError::ContextWindowExceeded { details: None }
    );
}

#[tokio::test(start_paused = true)]
async fn a_stall_ends_after_the_idle_timeout() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("script.toml");
    std::fs::write(&path, "[[reply]]\nsteps = [{ delay_ms = 50 }, { fail = 'stall' }]").unwrap();
    let provider = configured(ProviderConfig {
        wire_api: WireApi::Scripted,
        script: Some(path),
        stream_idle_timeout_ms: Some(7000),
        ..ProviderConfig::default()
    });
    let before = tokio::time::Instant::now();
    assert_eq!(error(&provider, hello()).await, ModelError::Stalled(Duration::from_secs(7)));
    assert_eq!(before.elapsed().as_millis(), 7050);
}
