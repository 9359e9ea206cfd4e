//! Status pages and resources.

use codicil_mcp::ResourceError;
use codicil_protocol::{ListMcpServerStatusParams, McpAuthStatus, McpServerConnectionStatus};
use serde_json::json;

use crate::{
    site::{Habits, Site},
    support::{World, ask_for, server, soon, table},
};

fn page(cursor: Option<&str>, limit: Option<u32>) -> ListMcpServerStatusParams {
    ListMcpServerStatusParams { cursor: cursor.map(str::to_owned), limit, ..Default::default() }
}

#[tokio::test]
async fn every_configured_server_is_listed() {
    let world = World::new();
    let config = [
        server("alpha", "plain", "enabled_tools = ['echo']"),
        server("beta", "exits", ""),
        server("gamma", "plain", "enabled = false"),
    ];
    let listed = soon(world.pool.status_page(&table(&config.concat()), &page(None, None))).await.unwrap();
    assert_eq!(listed.next_cursor, None);
    let mut listed = serde_json::to_value(listed.data).unwrap();
    let nothing = |name: &str| {
        json!({
            "name": name, "serverInfo": null, "tools": {}, "resources": [], "resourceTemplates": [],
            "authStatus": "unsupported", "httpOrigin": null, "pluginId": null, "runtimeStatus": null,
            "serverCapabilities": null, "toolListMeta": null, "toolsError": null,
        })
    };
    assert_eq!(listed[1], nothing("beta"));
    assert_eq!(listed[2], nothing("gamma"));
    let capabilities = listed[0]["serverCapabilities"].take();
    assert!(capabilities["tools"].is_object() && capabilities["resources"].is_object(), "{capabilities}");
    assert_eq!(
        listed[0],
        json!({
            "name": "alpha",
            "serverInfo": { "name": "test", "version": "1", "title": null, "description": null, "icons": null,
                "websiteUrl": null },
            "tools": { "echo": { "name": "echo", "description": "The echo tool",
                "inputSchema": { "type": "object", "properties": {} }, "annotations": { "readOnlyHint": true } } },
            "resources": [{ "uri": "test://notes", "name": "notes" }],
            "resourceTemplates": [{ "uriTemplate": "test://note/{id}", "name": "note" }],
            "authStatus": "unsupported", "httpOrigin": null, "pluginId": null, "runtimeStatus": null,
            "serverCapabilities": null, "toolListMeta": null, "toolsError": null,
        })
    );
}

#[tokio::test]
async fn the_servers_of_a_thread_have_the_state_of_their_connections() {
    use McpServerConnectionStatus::{Connected, Disabled, Failed};
    let world = World::new();
    let config = [
        server("alpha", "plain", ""),
        server("beta", "exits", ""),
        server("gamma", "plain", "enabled = false"),
    ];
    let params = ListMcpServerStatusParams { thread_id: Some("t".into()), ..page(None, None) };
    let listed = soon(world.pool.status_page(&table(&config.concat()), &params)).await.unwrap();
    let states: Vec<_> = listed.data.into_iter().map(|server| server.runtime_status).collect();
    assert_eq!(states, [Some(Connected), Some(Failed), Some(Disabled)]);
}

#[tokio::test]
async fn pages_are_continued_by_cursor() {
    let world = World::new();
    let table = table(&[server("a", "plain", ""), server("b", "exits", "")].concat());
    let first = soon(world.pool.status_page(&table, &page(None, Some(1)))).await.unwrap();
    assert_eq!((first.data[0].name.as_str(), first.next_cursor.as_deref()), ("a", Some("1")));
    let second = soon(world.pool.status_page(&table, &page(Some("1"), Some(1)))).await.unwrap();
    assert_eq!((second.data[0].name.as_str(), second.next_cursor), ("b", None));
    let error = soon(world.pool.status_page(&table, &page(Some("9"), None))).await.unwrap_err();
    assert_eq!(error.to_string(), "cursor 9 exceeds total MCP servers 2");
}

#[tokio::test]
async fn a_running_server_is_not_started_again() {
    let site = Site::start(Habits::default()).await;
    let world = World::new();
    let (servers, _reports) = world.join(&site.table(""));
    soon(servers.tools()).await;
    let listed = soon(world.pool.status_page(&table(&site.table("")), &page(None, None))).await.unwrap();
    assert!(listed.data[0].tools.contains_key("headers"));
    assert_eq!(listed.data[0].auth_status, McpAuthStatus::NotLoggedIn);
    let initialized = site.web.seen().iter().filter(|seen| seen.json()["method"] == "initialize").count();
    assert_eq!(initialized, 1);
}

#[tokio::test]
async fn resources_are_listed_and_read() {
    let world = World::new();
    let config = [server("test", "plain", ""), server("gone", "exits", "")].concat();
    let (servers, _reports) = world.join(&config);
    let note = json!({ "server": "test", "uri": "test://notes", "name": "notes" });
    let all = soon(servers.list_resources(None, None)).await.unwrap();
    assert_eq!(all, json!({ "resources": [note] }));
    let one = soon(servers.list_resources(Some("test"), None)).await.unwrap();
    assert_eq!(one, json!({ "server": "test", "resources": [note] }));
    let templates = soon(servers.list_resource_templates(None, None)).await.unwrap();
    let template = json!({ "server": "test", "uriTemplate": "test://note/{id}", "name": "note" });
    assert_eq!(templates, json!({ "resourceTemplates": [template] }));
    let read = soon(servers.read_resource("test", "test://notes")).await.unwrap();
    let contents = json!([{ "uri": "test://notes", "text": "a resource" }]);
    assert_eq!(read, json!({ "server": "test", "uri": "test://notes", "contents": contents }));
    ask_for(&servers, "pid").await;
}

#[tokio::test]
async fn unavailable_resources_are_errors() {
    let world = World::new();
    let servers = world.plain().await;
    let error = soon(servers.list_resources(None, Some("1"))).await.unwrap_err();
    assert_eq!(error, ResourceError::CursorWithoutServer);
    let error = soon(servers.read_resource("other", "x")).await.unwrap_err();
    assert_eq!(error.to_string(), "resources/read failed: unknown MCP server 'other'");
}
