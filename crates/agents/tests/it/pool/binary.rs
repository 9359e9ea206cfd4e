//! The real binary, started as a product starts it. Skipped if it is not built.

use std::path::Path;

use codicil_agents::{
    mcp_servers::{HttpMcpServer, McpToken},
    pool::{BuiltinTool, Pool, PoolSettings, ReplyStatus, ServerCommand, ServerSharing, StreamMessage},
};
use codicil_client::ApprovalDecision;
use codicil_testkit::{ModelServer, Reply, Script, built_program, skipped};
use serde_json::json;
use tempfile::TempDir;

use super::soon;
use crate::refusing_server::RefusingServer;

/// Returns a command line for the binary with a scripted model and its own home.
fn command(model: &ModelServer, home: &Path) -> Option<ServerCommand> {
    let Some(program) = built_program("codicil") else {
        skipped("the codicil binary is not built");
        return None;
    };
    let setting = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let settings = vec![
        setting("model_provider", "mock"),
        setting("model_providers.mock.name", "mock"),
        setting("model_providers.mock.base_url", &model.base_url()),
        setting("model_providers.mock.request_max_retries", "0"),
    ];
    let env = ["CODICIL_HOME", "HOME"].map(|name| (name.into(), home.as_os_str().to_owned())).into();
    Some(ServerCommand { settings, env, model: Some("mock-model".into()), ..ServerCommand::yaar(program) })
}

#[tokio::test]
async fn the_token_reaches_the_products_mcp_servers() {
    let model = ModelServer::start(Script::new()).await;
    let home = tempfile::tempdir().unwrap();
    let Some(command) = command(&model, home.path()) else { return };
    let web = RefusingServer::start().await;
    let token = McpToken::generate("YAAR_MCP_TOKEN").unwrap();
    let system = HttpMcpServer::new(web.url("/mcp/system")).token(&token).header("X-Desk", "one");
    let command = ServerCommand { mcp_servers: [("system".to_owned(), system.into())].into(), ..command };
    let pool = soon(Pool::start(PoolSettings::new(command.launch()))).await;
    let head = soon(web.request_head()).await;
    assert!(head[0].starts_with("post /mcp/system "), "{head:?}");
    assert!(head.contains(&format!("authorization: bearer {}", token.value().unwrap())), "{head:?}");
    assert!(head.contains(&"x-desk: one".to_owned()), "{head:?}");
    soon(pool.unwrap().close()).await;
}

#[tokio::test]
async fn disabled_tools_are_not_offered() {
    let script = || Script::new().repeat(Reply::new().say("ok"));
    let model = ModelServer::start(script()).await;
    let home = tempfile::tempdir().unwrap();
    let Some(usual) = command(&model, home.path()) else { return };
    let offered = async |disabled: Vec<BuiltinTool>| {
        let command = ServerCommand { disabled, ..usual.clone() };
        let pool = soon(Pool::start(PoolSettings { warm_threads: 0, ..PoolSettings::new(command.launch()) }))
            .await
            .unwrap();
        soon(pool.agent().await.unwrap().ask("Hi").text()).await.unwrap();
        soon(pool.close()).await;
        let request = model.next_request().await;
        let tools = request.body()["tools"].as_array().unwrap().clone();
        let name = |tool: &serde_json::Value| {
            let name = tool["name"].as_str().or(tool["type"].as_str());
            name.unwrap_or_default().to_owned()
        };
        tools.iter().map(name).collect::<Vec<_>>()
    };
    let all = offered(Vec::new()).await;
    for (tool, name) in [
        (BuiltinTool::Shell, "exec_command"),
        (BuiltinTool::ViewImage, "view_image"),
        (BuiltinTool::Collab, "spawn_agent"),
    ] {
        assert!(all.iter().any(|offered| offered == name), "{name} is offered without the flag: {all:?}");
        let rest = offered(vec![tool]).await;
        assert!(!rest.iter().any(|offered| offered == name), "{name} is not: {rest:?}");
        // Tools that cannot be disabled.
        assert!(rest.iter().any(|offered| offered == "update_plan"), "{rest:?}");
    }
    let rest = offered(vec![BuiltinTool::WebSearch]).await;
    assert!(!rest.iter().any(|offered| offered == "web_search"), "{rest:?}");
}

/// The guide's table of disabled features, as the model sees them.
#[tokio::test]
async fn the_yaar_preset_is_isolated_and_offers_no_disabled_tool() {
    let model = ModelServer::start(Script::new().say("ok")).await;
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("AGENTS.md"), "Always answer in verse.").unwrap();
    let skill = home.path().join("skills/sing");
    std::fs::create_dir_all(&skill).unwrap();
    std::fs::write(skill.join("SKILL.md"), "---\nname: sing\ndescription: Sings loudly.\n---\n").unwrap();
    let Some(command) = command(&model, home.path()) else { return };
    // A model that is offered patches unless they are turned off.
    let command = ServerCommand { model: Some("gpt-5.3-codex".to_owned()), ..command };
    let settings =
        PoolSettings { instructions: "You are a desktop.".into(), ..PoolSettings::yaar(command.launch()) };
    let pool = soon(Pool::start(settings)).await.unwrap();
    soon(pool.agent().await.unwrap().ask("Hi").text()).await.unwrap();
    soon(pool.close()).await;
    let request = model.next_request().await;
    let sent = request.body().to_string();
    assert!(sent.contains("You are a desktop."), "{sent}");
    for contamination in ["answer in verse", "Sings loudly", "install-skill", "danger-full-access"] {
        assert!(!sent.contains(contamination), "{contamination} in {sent}");
    }
    let tools = request.tools();
    for name in ["exec_command", "apply_patch", "web_search", "view_image"] {
        assert!(!tools.contains(&name), "{name} is not offered: {tools:?}");
    }
}

/// The table of approval policies: which commands need an approval.
#[tokio::test]
async fn each_approval_policy_asks_for_what_it_documents() {
    for (policy, is_asked) in [("never", false), ("always", true), ("on-failure", false)] {
        let script = Script::new().call("exec_command", json!({ "cmd": "touch file" })).then().say("Done.");
        let model = ModelServer::start(script).await;
        let home = tempfile::tempdir().unwrap();
        let Some(command) = command(&model, home.path()) else { return };
        let command =
            ServerCommand { disabled: Vec::new(), approval_policy: Some(policy.to_owned()), ..command };
        let pool = soon(Pool::start(PoolSettings::new(command.launch()))).await.unwrap();
        let mut reply = pool.agent().await.unwrap().ask("Make a file");
        let mut questions = 0;
        let mut failures = 0;
        while let Some(message) = soon(reply.next()).await {
            match message {
                StreamMessage::ApprovalRequest { id, .. } => {
                    questions += 1;
                    pool.decide(id, ApprovalDecision::Decline).unwrap();
                }
                StreamMessage::ToolResult { is_error: true, .. } => failures += 1,
                _ => {}
            }
        }
        assert_eq!((questions > 0, failures > 0), (is_asked, is_asked), "{policy}");
        soon(pool.close()).await;
    }
}

/// Returns a pool that restarts its server without delay, with the model and home of the server.
async fn restarting(script: Script) -> Option<(ModelServer, TempDir, Pool)> {
    let model = ModelServer::start(script).await;
    let home = tempfile::tempdir().unwrap();
    let mut settings = PoolSettings::new(command(&model, home.path())?.launch());
    settings.restart_limits.delay = std::time::Duration::from_millis(10);
    let pool = soon(Pool::start(settings)).await.unwrap();
    Some((model, home, pool))
}

#[tokio::test]
async fn a_killed_server_is_restarted() {
    let script = Script::new().repeat(Reply::new().say("Hello"));
    let Some((_model, home, pool)) = restarting(script).await else { return };
    let agent = pool.agent().await.unwrap();
    assert_eq!(soon(agent.ask("Hi").text()).await.unwrap(), "Hello");
    let session = agent.session_id();
    if !kill(home.path()) {
        return skipped("processes cannot be listed here");
    }
    assert_eq!(soon(agent.ask("Still there?").text()).await.unwrap(), "Hello");
    assert_eq!(agent.session_id(), session, "the same conversation");
    let counts = pool.counts();
    // The client has continued the thread by its cursor, so the pool did not have to resume it.
    assert_eq!((counts.restarts, counts.threads_resumed, counts.threads_invalidated), (1, 0, 0));
    soon(pool.close()).await;
    assert!(!processes().into_iter().any(|pid| names_home(pid, home.path())), "and nothing is left");
}

#[tokio::test]
async fn a_turn_of_a_killed_server_ends_as_interrupted_and_the_conversation_continues() {
    let script = Script::new().say("Half").hang().say("Whole");
    let Some((model, home, pool)) = restarting(script).await else { return };
    let agent = pool.agent().await.unwrap();
    let mut reply = agent.ask("Go");
    while !matches!(soon(reply.next()).await, Some(StreamMessage::Text { .. })) {}
    if !kill(home.path()) {
        return skipped("processes cannot be listed here");
    }
    let last = super::all(reply).await;
    let status = last.iter().find_map(|message| match message {
        StreamMessage::Complete { status, .. } => Some(*status),
        _ => None,
    });
    assert_eq!(status, Some(ReplyStatus::Interrupted), "{last:?}");
    assert_eq!(pool.counts().turns_retried, 0, "it had said something");
    assert_eq!(soon(agent.ask("Once more").text()).await.unwrap(), "Whole");
    model.next_request().await;
    let request = model.next_request().await;
    assert!(request.body().to_string().contains("Go"), "what was said before is not lost");
    soon(pool.close()).await;
}

/// Kills the server with this home; returns `false` if processes cannot be listed.
fn kill(home: &Path) -> bool {
    if !Path::new("/proc").is_dir() {
        return false;
    }
    let server = processes().into_iter().find(|pid| names_home(*pid, home)).expect("it runs");
    std::process::Command::new("kill").args(["-9", &server.to_string()]).status().unwrap().success()
}

/// Returns the processes of this machine, if they can be listed.
fn processes() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// Returns whether a process was started with this home.
fn names_home(pid: u32, home: &Path) -> bool {
    let variables = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = format!("CODICIL_HOME={}", home.display());
    variables.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

#[tokio::test]
async fn separate_servers_are_separate_processes() {
    let script = Script::new().repeat(Reply::new().say("Hello"));
    let model = ModelServer::start(script).await;
    let home = tempfile::tempdir().unwrap();
    let Some(command) = command(&model, home.path()) else { return };
    let sharing = ServerSharing::PerAgent { max_servers: 3 };
    let settings = PoolSettings { sharing, warm_threads: 0, ..PoolSettings::new(command.launch()) };
    let pool = soon(Pool::start(settings)).await.unwrap();
    let one = soon(pool.agent()).await.unwrap();
    let two = soon(pool.agent()).await.unwrap();
    let first = one.ask("Hi");
    let second = two.ask("Hi");
    assert_eq!(
        (soon(first.text()).await.unwrap(), soon(second.text()).await.unwrap()),
        ("Hello".into(), "Hello".into())
    );
    assert_eq!(pool.counts().servers_started, 2);
    soon(pool.close()).await;
}
