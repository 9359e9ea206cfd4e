//! The real server: in this process, as a program if it is built, and `codex` if it is installed.

use std::{fs, time::Duration};

use codicil_agents::{
    client::{Client, Endpoint, IncludeTurns, protocol::TurnStatus},
    evaluate::{
        Budget, ClientConfig, EvaluationPhase, Prompt, SandboxMode, ThreadState, Tool, ToolContext, ToolKind,
    },
    workspace::{HostMount, Workspace},
};
use codicil_server::connect;
use codicil_testkit::Script;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::{
    Recording, soon,
    stage::{Stage, stages, stages_with},
};

/// Integration test: spawn the server in a temporary workspace; a simple prompt is answered.
#[tokio::test]
async fn spawn_in_a_temp_workspace_and_answer_a_simple_prompt() {
    for stage in stages(|| Script::new().say("hello world"), &ClientConfig::default()).await {
        let recording = Recording::new();
        let prompt = Prompt::text("Say hello world");
        let answer =
            soon(stage.evaluator.evaluate(&prompt).session(&recording.session).text()).await.unwrap();
        assert_eq!(answer.text, "hello world", "{}", stage.name);
        assert_eq!(answer.usage.unwrap().total_tokens, 110);
        assert_eq!(recording.names(), ["PromptRendered", "PromptExecuted"], "{}", stage.name);
        let request = stage.model.next_request().await;
        assert_eq!(
            (request.model(), request.last_user_text().as_deref()),
            (Some("mock-model"), Some("Say hello world"))
        );
        stage.stop().await;
    }
}

#[derive(Deserialize, JsonSchema)]
struct Weather {
    city: String,
}

#[derive(Clone, Default)]
struct Asked(Vec<String>);

/// Integration test: a dynamic tool is called, and `ToolInvoked` emitted.
#[tokio::test]
async fn dynamic_tool_invocation_is_reported() {
    let script =
        || Script::new().call("weather", json!({ "city": "Ulm" })).call_id("w").then().say("It rains.");
    for stage in stages(script, &ClientConfig::default()).await {
        let recording = Recording::new();
        let tool = Tool::new("weather", "Tells the weather.", |asked: Weather, cx: ToolContext| async move {
            cx.update(|seen: &mut Asked| seen.0.push(asked.city.clone()));
            Ok(format!("rain in {}", asked.city))
        });
        let prompt = Prompt::text("How is the weather in Ulm?").tool(tool);
        let answer =
            soon(stage.evaluator.evaluate(&prompt).session(&recording.session).text()).await.unwrap();
        assert_eq!(answer.text, "It rains.", "{}", stage.name);
        let reported = recording.tools();
        assert_eq!(reported.len(), 1, "{}: {reported:?}", stage.name);
        assert_eq!(
            (&reported[0].kind, &*reported[0].name, reported[0].success),
            (&ToolKind::Bridged, "weather", true)
        );
        assert_eq!((&reported[0].params, &*reported[0].output), (&json!({ "city": "Ulm" }), "rain in Ulm"));
        assert_eq!(recording.session.get::<Asked>().unwrap().0, ["Ulm"]);
        let requests = stage.model.requests();
        assert!(requests[0].tools().contains(&"weather"), "{}", stage.name);
        assert!(requests[1].tool_output("w").unwrap().contains("rain in Ulm"), "{}", stage.name);
        stage.stop().await;
    }
}

/// Integration test: a thread is resumed, and the model sees its history.
#[tokio::test]
async fn thread_resume_keeps_continuity() {
    let config = ClientConfig { reuse_thread: true, ..ClientConfig::default() };
    for stage in stages(|| Script::new().say("Noted.").then().say("Blue."), &config).await {
        let recording = Recording::new();
        let first = Prompt::text("My colour is blue.");
        let one = soon(stage.evaluator.evaluate(&first).session(&recording.session).text()).await.unwrap();
        let second = Prompt::text("Which is my colour?");
        let two = soon(stage.evaluator.evaluate(&second).session(&recording.session).text()).await.unwrap();
        assert_eq!((one.thread_id == two.thread_id, &*two.text), (true, "Blue."), "{}", stage.name);
        let history = stage.model.requests()[1].body()["input"].to_string();
        assert!(history.contains("My colour is blue.") && history.contains("Noted."), "{}", stage.name);
        assert_eq!(two.usage.unwrap().total_tokens, 110, "{}: the turn's own", stage.name);
        // Another session starts its own thread.
        stage.model.push(Script::new().say("?"));
        let other = soon(stage.evaluator.evaluate(&second).text()).await.unwrap();
        assert_ne!(other.thread_id, one.thread_id, "{}", stage.name);
        stage.stop().await;
    }
}

#[tokio::test]
async fn a_thread_that_is_gone_is_replaced() {
    let config = ClientConfig { reuse_thread: true, ..ClientConfig::default() };
    for stage in stages(|| Script::new().say("One.").then().say("Two."), &config).await {
        let recording = Recording::new();
        let prompt = Prompt::text("Hi");
        soon(stage.evaluator.evaluate(&prompt).session(&recording.session).text()).await.unwrap();
        let state = recording.session.get::<ThreadState>().unwrap();
        let gone = "01900000-0000-7000-8000-000000000000".into();
        recording.session.set(ThreadState { thread_id: gone, ..state });
        let answer =
            soon(stage.evaluator.evaluate(&prompt).session(&recording.session).text()).await.unwrap();
        assert_eq!(answer.text, "Two.", "{}", stage.name);
        assert_eq!(recording.session.get::<ThreadState>().unwrap().thread_id, answer.thread_id);
        stage.stop().await;
    }
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq)]
struct Verdict {
    urgent: bool,
    #[serde(default)]
    reasons: Vec<String>,
}

#[tokio::test]
async fn structured_output_is_requested_and_decoded() {
    for stage in
        stages(|| Script::new().say(r#"{"urgent":true,"reasons":null}"#), &ClientConfig::default()).await
    {
        let prompt = Prompt::text("Is it urgent?");
        let answer = soon(stage.evaluator.evaluate(&prompt).value::<Verdict>()).await.unwrap();
        assert_eq!(answer.value, Verdict { urgent: true, reasons: vec![] }, "{}", stage.name);
        let format = stage.model.next_request().await.body()["text"]["format"].clone();
        assert_eq!((&format["type"], &format["strict"]), (&json!("json_schema"), &json!(true)), "{format}");
        assert_eq!(format["schema"]["additionalProperties"], false);
        stage.stop().await;
    }
}

/// Security test: workspace paths restrict file operations.
#[tokio::test]
async fn workspace_paths_restrict_file_operations() {
    let patch = |path: &str| format!("*** Begin Patch\n*** Add File: {path}\n+hello\n*** End Patch");
    let config = ClientConfig { sandbox_mode: Some(SandboxMode::WorkspaceWrite), ..ClientConfig::default() };
    // The sandbox would otherwise allow writes to temporary directories, where this test runs.
    let closed = "[sandbox_workspace_write]\nexclude_slash_tmp = true\nexclude_tmpdir_env_var = true";
    let host = tempfile::tempdir().unwrap();
    fs::write(host.path().join("readme"), "original").unwrap();
    let outside = host.path().join("escaped");
    let script = || {
        let inside = patch("inside.txt");
        let outside = patch(outside.to_str().unwrap());
        Script::new()
            .custom_call("apply_patch", inside)
            .then()
            .custom_call("apply_patch", outside)
            .then()
            .say("Done")
    };
    for stage in stages_with(script, &config, closed).await {
        let mount = HostMount::new(host.path()).at("host");
        let workspace = Workspace::builder().allow_root(host.path()).mount(mount).create().await.unwrap();
        let recording = Recording::new();
        let prompt = Prompt::text("Write files").workspace(&workspace);
        let evaluation = stage.evaluator.evaluate(&prompt).session(&recording.session).workspace(&workspace);
        soon(evaluation.text()).await.unwrap();
        assert!(!outside.exists(), "{}", stage.name);
        let reported: Vec<_> =
            recording.tools().iter().map(|tool| (tool.kind.clone(), tool.success)).collect();
        assert!(reported.iter().skip(1).all(|(_, success)| !success), "{}: {reported:?}", stage.name);
        // The reference server accepts patches only from models that it knows.
        if stage.name != "codex" {
            let written = fs::read_to_string(workspace.path().join("inside.txt")).unwrap();
            assert_eq!(
                (written.as_str(), reported.first()),
                ("hello\n", Some(&(ToolKind::FileChange, true))),
                "{}",
                stage.name
            );
        }
        let text = stage.model.requests()[0].last_user_text().unwrap();
        assert!(text.contains("`host` from"), "{text}");
        stage.stop().await;
    }
    assert_eq!(fs::read_to_string(host.path().join("readme")).unwrap(), "original");
}

/// Security test: the sandbox policy reaches the server.
#[tokio::test]
async fn sandbox_policy_is_propagated() {
    // The wording differs between servers.
    for (mode, said) in [
        (SandboxMode::ReadOnly, ["read-only", "read-only"]),
        (SandboxMode::WorkspaceWrite, ["workspace-write", "workspace-write"]),
        (SandboxMode::DangerFullAccess, ["danger-full-access", "Files: no sandbox"]),
    ] {
        let config = ClientConfig { sandbox_mode: Some(mode), ..ClientConfig::default() };
        for stage in stages(|| Script::new().say("Yes."), &config).await {
            soon(stage.evaluator.evaluate(&Prompt::text("Hi")).text()).await.unwrap();
            // The prompt describes the sandbox of the thread.
            let reported = stage.model.next_request().await.body()["input"].to_string();
            assert!(
                said.iter().any(|said| reported.contains(said)),
                "{}: {said:?} in {reported}",
                stage.name
            );
            stage.stop().await;
        }
    }
}

#[tokio::test]
async fn commands_of_the_agent_are_reported() {
    let script = || {
        Script::new().call("exec_command", json!({ "cmd": "echo made > made; exit 3" })).then().say("Done")
    };
    let config =
        ClientConfig { sandbox_mode: Some(SandboxMode::DangerFullAccess), ..ClientConfig::default() };
    let stage = Stage::in_process(script(), &config, "").await;
    let recording = Recording::new();
    soon(stage.evaluator.evaluate(&Prompt::text("Run it")).session(&recording.session).text()).await.unwrap();
    let reported = recording.tools();
    assert_eq!(
        (reported.len(), &reported[0].kind, reported[0].success),
        (1, &ToolKind::Command, false),
        "{reported:?}"
    );
    assert_eq!(fs::read_to_string(stage.home.workspace().join("made")).unwrap(), "made\n");
    stage.stop().await;
}

#[tokio::test]
async fn a_deadline_interrupts_the_turn_and_the_thread_can_be_continued() {
    let config = ClientConfig { reuse_thread: true, ..ClientConfig::default() };
    for stage in stages(|| Script::new().say("Let me look").hang(), &config).await {
        let recording = Recording::new();
        let prompt = Prompt::text("Hi");
        let evaluating = stage
            .evaluator
            .evaluate(&prompt)
            .session(&recording.session)
            .timeout(Duration::from_secs(8))
            .text();
        let error = soon(evaluating).await.unwrap_err();
        assert!(
            error.is_deadline() && error.phase() == Some(EvaluationPhase::Request),
            "{}: {error}",
            stage.name
        );
        let interrupted = error.failed().unwrap().thread_id.clone().unwrap();
        stage.model.push(Script::new().say("Here."));
        let answer =
            soon(stage.evaluator.evaluate(&prompt).session(&recording.session).text()).await.unwrap();
        assert_eq!((&*answer.text, &answer.thread_id), ("Here.", &interrupted), "{}", stage.name);
        if let Some(server) = &stage.server {
            let (to_server, from_server) = connect(server).split();
            let client = Client::builder().connect(Endpoint::channels(to_server, from_server));
            let client = soon(client).await.unwrap();
            let turns = IncludeTurns::Yes;
            let thread = soon(client.read_thread(&interrupted, turns)).await.unwrap();
            assert_eq!(thread.turns[0].status, TurnStatus::Interrupted);
            soon(client.close()).await;
        }
        stage.stop().await;
    }
}

#[tokio::test]
async fn an_exceeded_budget_ends_the_turn() {
    let script = || {
        let asks = Script::new().call("count", json!({})).usage(900, 0, 200, 0);
        asks.then().call("count", json!({})).usage(900, 0, 200, 0).then().say("Never").hang()
    };
    for stage in stages(script, &ClientConfig::default()).await {
        let prompt =
            Prompt::text("Hi").tool(Tool::new("count", "", |_: (), _: ToolContext| async { Ok("1") }));
        let budget = Budget::new().max_total_tokens(2000);
        let error = soon(stage.evaluator.evaluate(&prompt).budget(&budget).text()).await.unwrap_err();
        assert_eq!(error.phase(), Some(EvaluationPhase::Budget), "{}: {error}", stage.name);
        assert_eq!(budget.spent().total_tokens, 2200, "{}", stage.name);
        stage.stop().await;
    }
}

#[tokio::test]
async fn a_refusing_provider_is_an_error_with_its_kind() {
    let script = || Script::new().reply(codicil_testkit::Reply::status(401));
    for stage in stages(script, &ClientConfig::default()).await {
        let error = soon(stage.evaluator.evaluate(&Prompt::text("Hi")).text()).await.unwrap_err();
        assert!(
            matches!(error.phase(), Some(EvaluationPhase::Request | EvaluationPhase::Response)),
            "{}: {error}",
            stage.name
        );
        assert!(error.failed().unwrap().turn_error().is_some(), "{}: {error}", stage.name);
        stage.stop().await;
    }
}

#[tokio::test]
async fn many_evaluations_run_at_the_same_time() {
    let script = Script::new().repeat(codicil_testkit::Reply::new().say("Hello"));
    let stage = Stage::in_process(script, &ClientConfig::default(), "").await;
    let budget = Budget::new().max_total_tokens(20 * 110);
    let mut evaluations = tokio::task::JoinSet::new();
    for number in 0..20 {
        let evaluator = stage.evaluator.clone();
        let budget = budget.clone();
        evaluations.spawn(async move {
            let prompt = Prompt::text(format!("Hello from {number}"));
            evaluator.evaluate(&prompt).budget(&budget).text().await
        });
    }
    let answers = soon(evaluations.join_all()).await;
    assert!(
        answers.iter().all(|answer| answer.as_ref().is_ok_and(|answer| answer.text == "Hello")),
        "{answers:?}"
    );
    assert_eq!(budget.spent().total_tokens, 20 * 110);
    stage.stop().await;
}
