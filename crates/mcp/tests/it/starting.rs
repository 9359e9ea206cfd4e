//! Start, failure, sharing and end of servers.

use codicil_protocol::McpServerStartupState::{Cancelled, Failed, Ready, Starting};
use serde_json::json;

use crate::support::{World, ask_for, call, gone, is_alive, server, soon, table};

#[tokio::test]
async fn a_server_starts_beside_one_that_fails_and_one_that_does_not_exist() {
    let world = World::new();
    let gone = "[mcp_servers.gone]\ncommand = '/nonexistent/program'\n";
    let config = [server("good", "plain", ""), server("bad", "exits", ""), gone.to_owned()].concat();
    let (servers, mut reports) = world.join(&config);

    let mut reported = Vec::new();
    while reported.iter().filter(|(_, status, _)| *status != Starting).count() < 3 {
        let report = reports.next().await;
        reported.push((report.name, report.status, report.error));
    }
    let of = |name: &str| {
        reported.iter().filter(|report| report.0 == name).map(|report| report.1.clone()).collect::<Vec<_>>()
    };
    assert_eq!(of("good"), [Starting, Ready]);
    assert_eq!(of("bad"), [Starting, Failed]);
    assert_eq!(of("gone"), [Starting, Failed]);
    let error =
        |name: &str| reported.iter().rfind(|report| report.0 == name).unwrap().2.clone().unwrap_or_default();
    assert_eq!(error("good"), "");
    assert_eq!(
        error("bad"),
        "MCP client for `bad` failed to start: the server exited with code 3 before it was initialized"
    );
    assert!(
        error("gone").contains("failed to run `/nonexistent/program`: No such file"),
        "{}",
        error("gone")
    );
    assert!(!soon(servers.tools()).await.is_empty());
}

#[tokio::test]
async fn a_server_that_never_responds_times_out_and_is_killed() {
    let world = World::new();
    let (servers, mut reports) = world.join(&server("mute", "mute", "startup_timeout_ms = 200"));
    let report = reports.until("mute", Failed).await;
    assert_eq!(
        report.error.unwrap(),
        "MCP client for `mute` failed to start: timed out after 0.2 seconds. Raise startup_timeout_sec in \
         [mcp_servers.mute] if it needs longer"
    );
    assert!(soon(servers.tools()).await.is_empty());
}

#[tokio::test]
async fn a_server_that_floods_its_output_fails_alone() {
    let world = World::new();
    let config = [server("flood", "flood", "startup_timeout_ms = 500"), server("test", "plain", "")].concat();
    let (servers, mut reports) = world.join(&config);
    ask_for(&servers, "pid").await;
    let mut failed = reports.next().await;
    while failed.status != Failed {
        failed = reports.next().await;
    }
    assert_eq!(failed.name, "flood");
    ask_for(&servers, "pid").await;
}

#[tokio::test]
async fn joining_does_not_wait_for_servers() {
    let world = World::new();
    let (servers, mut reports) = world.join(&server("mute", "mute", "startup_timeout_sec = 1000"));
    assert_eq!(reports.next().await.status, Starting);
    drop(servers);
    assert_eq!(reports.next().await.status, Cancelled);
}

#[tokio::test]
async fn threads_with_the_same_configuration_share_a_server() {
    let world = World::new();
    let one = world.plain().await;
    let (two, mut reports) = world.join(&server("test", "plain", "disabled_tools = ['die']"));
    assert_eq!(reports.next().await.status, Starting);
    assert_eq!(reports.next().await.status, Ready);
    let (three, _reports) = world.join(&server("test", "plain", "env = { A = '1' }"));
    let pid = ask_for(&one, "pid").await;
    assert_eq!(ask_for(&two, "pid").await, pid);
    assert_ne!(ask_for(&three, "pid").await, pid);

    drop(one);
    assert_eq!(ask_for(&two, "pid").await, pid);
    drop(two);
    gone(pid.parse().unwrap()).await;
}

#[tokio::test]
async fn a_servers_child_processes_end_with_its_last_thread() {
    let world = World::new();
    let servers = world.plain().await;
    let server: u32 = ask_for(&servers, "pid").await.parse().unwrap();
    let child: u32 = ask_for(&servers, "family").await.parse().unwrap();
    assert!(is_alive(server) && is_alive(child));
    drop(servers);
    gone(server).await;
    gone(child).await;
}

#[tokio::test]
async fn shutting_down_ends_servers_that_are_still_held() {
    let world = World::new();
    let servers = world.plain().await;
    let server: u32 = ask_for(&servers, "pid").await.parse().unwrap();
    let child: u32 = ask_for(&servers, "family").await.parse().unwrap();
    soon(world.pool.shutdown()).await;
    gone(server).await;
    gone(child).await;
}

#[tokio::test]
async fn a_failed_server_is_restarted_by_the_next_turn() {
    let world = World::new();
    let program = world.home.path().join("server");
    let config =
        format!("[mcp_servers.test]\ncommand = {:?}\nargs = ['plain']", program.display().to_string());
    let (servers, mut reports) = world.join(&config);
    reports.until("test", Failed).await;
    assert!(soon(servers.tools()).await.is_empty());

    std::os::unix::fs::symlink(crate::support::program(), &program).unwrap();
    servers.retry();
    reports.until("test", Ready).await;
    assert!(soon(servers.tools()).await.get("mcp__test__echo").is_some());
}

#[tokio::test]
async fn a_server_that_fails_again_and_again_is_left_alone_for_a_while() {
    let world = World::new();
    let (servers, mut reports) = world.join(&server("test", "exits", ""));
    reports.until("test", Failed).await;
    servers.retry();
    reports.until("test", Failed).await;

    servers.retry();
    assert!(soon(servers.tools()).await.is_empty());
    assert!(reports.is_empty(), "a third start would have been reported");

    world.pool.reload();
    servers.begin_turn(|| Ok::<_, ()>(table(&server("test", "exits", "")))).unwrap();
    reports.until("test", Failed).await;
}

#[tokio::test]
async fn a_reload_restarts_only_changed_servers() {
    let world = World::new();
    let (servers, mut reports) =
        world.join(&[server("test", "plain", ""), server("old", "plain", "")].concat());
    let pid = ask_for(&servers, "pid").await;
    reports.until("old", Ready).await;
    assert!(!servers.is_stale());

    world.pool.reload();
    assert!(servers.is_stale());
    assert_eq!(servers.begin_turn(|| Err("not readable")), Err("not readable"));
    assert!(servers.is_stale());
    let config = [server("test", "plain", "enabled_tools = ['pid']"), server("new", "plain", "")].concat();
    servers.begin_turn(|| Ok::<_, ()>(table(&config))).unwrap();
    assert!(!servers.is_stale());
    servers.begin_turn(|| -> Result<_, ()> { panic!("nothing was reloaded") }).unwrap();

    let tools = soon(servers.tools()).await;
    let names: Vec<&str> = tools.iter().map(|tool| tool.qualified_name.as_str()).collect();
    assert!(names.contains(&"mcp__new__echo") && names.contains(&"mcp__test__pid"), "{names:?}");
    assert!(
        !names.iter().any(|name| name.starts_with("mcp__old__") || *name == "mcp__test__echo"),
        "{names:?}"
    );
    assert_eq!(ask_for(&servers, "pid").await, pid);
    assert!(soon(servers.call(call("echo", json!({})))).await.is_err());
}

#[tokio::test]
async fn a_required_server_that_fails_is_an_error() {
    let world = World::new();
    let config = [server("need", "exits", "required = true"), server("extra", "exits", "")].concat();
    let (servers, _reports) = world.join(&config);
    let error = soon(servers.required()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "required MCP servers failed to initialize: need: the server exited with code 3 before it was initialized"
    );
    let (servers, _reports) = world.join(&server("need", "plain", "required = true"));
    soon(servers.required()).await.unwrap();
}

#[tokio::test]
async fn disabled_servers_are_not_started() {
    let world = World::new();
    let (servers, _reports) = world.join(&server("test", "plain", "enabled = false"));
    assert!(servers.is_empty());
    assert!(soon(servers.tools()).await.is_empty());
}

#[tokio::test]
async fn a_server_gets_a_small_environment() {
    let world = World::with_environment(&[("WANTED", "yes"), ("SOME_API_KEY", "no")]);
    let (servers, _reports) =
        world.join(&server("test", "plain", "env = { SET = '1' }\nenv_vars = ['WANTED']"));
    let env: serde_json::Value = serde_json::from_str(&ask_for(&servers, "env").await).unwrap();
    assert_eq!(
        (&env["WANTED"], &env["SET"], &env["SOME_API_KEY"]),
        (&json!("yes"), &json!("1"), &json!(null))
    );
}
