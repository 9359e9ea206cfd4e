//! Credentials, approvals and MCP servers, with the real server.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt};

use super::{
    Recording, soon,
    stage::{Stage, stages, stages_with},
};
use crate::refusing_server::RefusingServer;
use codicil_agents::{
    evaluate::{
        AccountTokens, AskForApproval, ClientConfig, EvaluationPhase, ExternalTokens, LoginMethod,
        OnApproval, Prompt, SandboxMode, ToolKind,
    },
    mcp_servers::{HttpMcpServer, McpServer, StdioMcpServer},
};
use codicil_testkit::{Reply, Script, skipped, test_token};
use serde_json::json;

const SIGNED_IN: &str = "requires_openai_auth = true";

fn bearers(stage: &Stage) -> Vec<String> {
    let requests = stage.model.requests();
    requests.iter().map(|request| request.header("authorization").unwrap_or_default().to_owned()).collect()
}

#[tokio::test]
async fn an_api_key_reaches_the_provider() {
    let config = ClientConfig { login: Some(LoginMethod::api_key("sk-test")), ..ClientConfig::default() };
    for stage in stages_with(|| Script::new().say("Hello"), &config, SIGNED_IN).await {
        let answer = soon(stage.evaluator.evaluate(&Prompt::text("Hi")).text()).await.unwrap();
        assert_eq!(answer.text, "Hello", "{}", stage.name);
        assert_eq!(bearers(&stage), ["Bearer sk-test"], "{}", stage.name);
        if let Ok(stored) = fs::metadata(stage.home.path().join("auth.json")) {
            assert_eq!(stored.permissions().mode() & 0o077, 0, "{}", stage.name);
        }
        stage.stop().await;
    }
}

#[tokio::test]
async fn external_tokens_are_renewed_when_the_provider_refuses_them() {
    let tokens = ExternalTokens::new(AccountTokens::new(test_token(1, "acc-1"), test_token(1, "acc-1")));
    let tokens = tokens.refresh_with(|account| async move {
        assert_eq!(account.as_deref(), Some("acc-1"));
        Ok(AccountTokens::new(test_token(2, "acc-1"), test_token(2, "acc-1")))
    });
    let config =
        ClientConfig { login: Some(LoginMethod::external_tokens(tokens)), ..ClientConfig::default() };
    let script = || Script::new().reply(Reply::status(401)).then().say("Hello");
    for stage in stages_with(script, &config, SIGNED_IN).await {
        let answer = soon(stage.evaluator.evaluate(&Prompt::text("Hi")).text()).await;
        if stage.name == "codex"
            && answer.as_ref().is_err_and(|error| error.to_string().contains("network policy"))
        {
            skipped("with codex: this one asks the account's own backend before the provider");
            continue;
        }
        assert_eq!(answer.unwrap().text, "Hello", "{}", stage.name);
        let expected = [1, 2].map(|number| format!("Bearer {}", test_token(number, "acc-1")));
        assert_eq!(bearers(&stage), expected, "{}", stage.name);
        stage.stop().await;
    }
}

#[tokio::test]
async fn external_tokens_that_cannot_be_renewed_are_an_error() {
    let tokens = ExternalTokens::new(AccountTokens::new(test_token(1, "acc-1"), test_token(1, "acc-1")));
    let config =
        ClientConfig { login: Some(LoginMethod::external_tokens(tokens)), ..ClientConfig::default() };
    let stage = Stage::in_process(Script::new().repeat(Reply::status(401)), &config, SIGNED_IN).await;
    let error = soon(stage.evaluator.evaluate(&Prompt::text("Hi")).text()).await.unwrap_err();
    assert_eq!(error.phase(), Some(EvaluationPhase::Request), "{error:?}");
    assert!(error.failed().unwrap().turn_error().is_some(), "{error:?}");
    assert!(!format!("{error:?}").contains(&test_token(1, "acc-1")));
    stage.stop().await;
}

/// The server asks about a patch in a read-only sandbox, and the configuration answers.
#[tokio::test]
async fn approvals_of_the_real_server_are_answered_as_configured() {
    let patch = "*** Begin Patch\n*** Add File: made\n+hello\n*** End Patch";
    for (approval_policy, on_approval) in
        [(AskForApproval::Untrusted, OnApproval::Accept), (AskForApproval::OnRequest, OnApproval::Decline)]
    {
        let accepted = on_approval == OnApproval::Accept;
        let sandbox_mode = Some(SandboxMode::ReadOnly);
        let config = ClientConfig { approval_policy, on_approval, sandbox_mode, ..ClientConfig::default() };
        let script = Script::new().custom_call("apply_patch", patch).then().say("Done");
        let stage = Stage::in_process(script, &config, "").await;
        let recording = Recording::new();
        soon(stage.evaluator.evaluate(&Prompt::text("Hi")).session(&recording.session).text()).await.unwrap();
        assert_eq!(stage.home.workspace().join("made").exists(), accepted, "{on_approval:?}");
        let reported: Vec<_> = recording.tools().into_iter().map(|tool| (tool.kind, tool.success)).collect();
        assert_eq!(reported, [(ToolKind::FileChange, accepted)], "{on_approval:?}");
        stage.stop().await;
    }
}

/// An MCP server with one tool, as a shell script.
const SHOUTER: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) answer '{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) answer '{"tools":[{"name":"shout","description":"Shouts.","inputSchema":{"type":"object","properties":{}}},{"name":"whisper","description":"","inputSchema":{"type":"object","properties":{}}}]}' ;;
    *'"tools/call"'*) answer "{\"content\":[{\"type\":\"text\",\"text\":\"$WORD\"}]}" ;;
  esac
done
"#;

#[tokio::test]
async fn tools_of_external_mcp_servers_are_called_and_reported() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("shouter");
    fs::write(&program, SHOUTER).unwrap();
    // The program is found in its working directory.
    let server = StdioMcpServer::new("sh", ["shouter"]).cwd(folder.path()).env("WORD", "HELLO");
    let server = McpServer::from(server).only_tools(["shout", "whisper"]).without_tools(["whisper"]);
    let config = ClientConfig {
        mcp_servers: BTreeMap::from([("shouter".to_owned(), server)]),
        sandbox_mode: Some(SandboxMode::DangerFullAccess),
        ..ClientConfig::default()
    };
    let script =
        || Script::new().call("mcp__shouter__shout", json!({})).call_id("m").then().say("It shouted.");
    for stage in stages(script, &config).await {
        if stage.name == "codex" {
            // Newer generations of it put MCP tools under other names.
            continue;
        }
        let recording = Recording::new();
        let prompt = Prompt::text("Shout");
        let answer =
            soon(stage.evaluator.evaluate(&prompt).session(&recording.session).text()).await.unwrap();
        assert_eq!(answer.text, "It shouted.", "{}", stage.name);
        let reported = recording.tools();
        let expected = ToolKind::Mcp { server: "shouter".into() };
        assert_eq!(
            (reported.len(), &reported[0].kind, &*reported[0].name),
            (1, &expected, "shout"),
            "{}: {reported:?}",
            stage.name
        );
        assert_eq!((reported[0].success, &*reported[0].output), (true, "HELLO"), "{}", stage.name);
        let requests = stage.model.requests();
        let tools = requests[0].tools();
        assert!(
            tools.contains(&"mcp__shouter__shout") && !tools.contains(&"mcp__shouter__whisper"),
            "{tools:?}"
        );
        stage.stop().await;
    }
}

#[tokio::test]
async fn headers_reach_an_http_mcp_server() {
    let web = RefusingServer::start().await;
    let server = HttpMcpServer::new(web.url("/mcp")).header("X-Desk", "one");
    let config = ClientConfig {
        mcp_servers: BTreeMap::from([("web".to_owned(), server.into())]),
        ..ClientConfig::default()
    };
    let stage = Stage::in_process(Script::new().say("Hello"), &config, "").await;
    soon(stage.evaluator.evaluate(&Prompt::text("Hi")).text()).await.unwrap();
    let head = soon(web.request_head()).await;
    assert!(head.contains(&"x-desk: one".to_owned()), "{head:?}");
    stage.stop().await;
}
