//! The tools of servers.

use serde_json::json;

use crate::support::{World, ask_for, server, soon};

#[tokio::test]
async fn tools_are_listed_with_their_annotations() {
    let world = World::new();
    let servers = world.plain().await;
    let tools = soon(servers.tools()).await;
    let echo = tools.get("mcp__test__echo").unwrap();
    assert_eq!((echo.server.as_str(), echo.tool.name.as_str()), ("test", "echo"));
    assert_eq!(echo.description(), "The echo tool");
    assert_eq!(echo.hints.read_only, Some(true));
    assert_eq!(echo.parameters, json!({ "type": "object", "properties": {} }));
    let names: Vec<&str> = tools.iter().map(|tool| tool.qualified_name.as_str()).collect();
    assert!(names.is_sorted(), "{names:?}");
    assert!(std::sync::Arc::ptr_eq(&tools, &soon(servers.tools()).await), "nothing has changed");
}

#[tokio::test]
async fn a_changed_list_is_read_again() {
    let world = World::new();
    let servers = world.plain().await;
    assert!(soon(servers.tools()).await.get("mcp__test__extra").is_none());
    ask_for(&servers, "grow").await;
    assert!(soon(servers.tools()).await.get("mcp__test__extra").is_some());
}

#[tokio::test]
async fn an_endless_list_is_truncated() {
    let world = World::new();
    let (servers, _reports) = world.join(&server("crowd", "crowded", ""));
    let tools = soon(servers.tools()).await;
    assert_eq!(tools.len(), codicil_mcp::TOOLS_PER_SERVER);
    assert!(tools.get("mcp__crowd__tool_0000").is_some() && tools.get("mcp__crowd__tool_1023").is_some());
}

#[tokio::test]
async fn a_list_of_large_tools_is_truncated() {
    let world = World::new();
    let (servers, _reports) = world.join(&server("bulk", "bulky", "startup_timeout_sec = 60"));
    assert_eq!(soon(servers.tools()).await.len(), 4);
}

#[tokio::test]
async fn invalid_lines_on_standard_output_are_skipped() {
    let world = World::new();
    let (servers, _reports) = world.join(&server("test", "noisy", ""));
    assert!(soon(servers.tools()).await.get("mcp__test__echo").is_some());
    ask_for(&servers, "pid").await.parse::<u32>().unwrap();
}
