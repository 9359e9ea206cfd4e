//! Shared and separate servers: how they start, where they work, and how they end.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, time::Duration};

use codicil_agents::{
    mcp_servers::{HttpMcpServer, McpToken},
    pool::{DefaultDirectory, Pool, PoolError, PoolSettings, ReplyStatus, ServerCommand, ServerSharing},
};
use codicil_client::{
    Client, ClientTools,
    protocol::{SandboxMode, ThreadStartParams},
};
use serde_json::json;

use super::{all, cold, fake::Fake, quick, soon, started, status, text};

#[tokio::test]
async fn all_agents_share_a_server() {
    let mut fake = Fake::new();
    let (pool, mut connection) = cold(&mut fake).await;
    for number in 0..5 {
        let agent = pool.agent().await.unwrap();
        let reply = agent.ask(number.to_string());
        let (thread, turn) = connection.turn().await;
        connection.complete(&thread, &turn, "ok").await;
        all(reply).await;
    }
    let counts = pool.counts();
    assert_eq!((counts.servers_started, counts.threads_started, counts.turns_completed), (1, 5, 5));
    pool.close().await;
    assert!(connection.is_over().await);
}

#[tokio::test]
async fn agents_may_have_separate_servers() {
    let mut fake = Fake::new();
    let sharing = ServerSharing::PerAgent { max_servers: 2 };
    let settings = PoolSettings { warm_threads: 0, sharing, ..quick(&fake) };
    let pool = soon(Pool::start(settings)).await.unwrap();
    let (one, mut first) = tokio::join!(pool.agent(), fake.accept());
    let (two, mut second) = tokio::join!(pool.agent(), fake.accept());
    let one = one.unwrap();
    let two = two.unwrap();
    assert!(matches!(pool.agent().await, Err(PoolError::TooManyServers(2))));

    // Both run at the same time. One crashes; the other continues.
    let crashing = one.ask("one");
    let steady = two.ask("two");
    first.bare_turn().await;
    second.bare_turn().await;
    first.notify("item/agentMessage/delta", json!({ "delta": "Half" })).await;
    first.die().await;
    second.bare_complete("Whole").await;
    assert_eq!(status(&all(crashing).await), None);
    let messages = all(steady).await;
    assert_eq!((&messages[0], status(&messages)), (&text("Whole"), Some(ReplyStatus::Completed)));

    // Windows share the server. It ends with the last of them, which makes room for another.
    let window = soon(two.window()).await.unwrap();
    drop(two);
    assert!(matches!(pool.agent().await, Err(PoolError::TooManyServers(2))));
    drop(window);
    assert!(second.is_over().await);
    let (three, _third) = tokio::join!(soon(pool.agent()), fake.accept());
    assert!(three.is_ok());
    pool.close().await;
}

#[tokio::test]
async fn separate_servers_are_kept_warm() {
    let mut fake = Fake::new();
    let sharing = ServerSharing::PerAgent { max_servers: 2 };
    let (pool, mut first) = started(PoolSettings { sharing, ..quick(&fake) }, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    assert_eq!(agent.session_id(), Some("t1".into()));
    let _second = fake.accept().await;
    let other = soon(async {
        while pool.warm_threads() == 0 {
            tokio::task::yield_now().await;
        }
        pool.agent().await.unwrap()
    })
    .await;
    let reply = agent.ask("Go");
    first.bare_turn().await;
    first.bare_complete("ok").await;
    all(reply).await;
    // The limit allows no third server.
    assert_eq!((pool.counts().servers_started, pool.counts().warm_hits), (2, 2));
    drop(other);
    pool.close().await;
}

#[tokio::test]
async fn a_separate_server_may_have_another_address() {
    let fake = Fake::new();
    let mut other = Fake::new();
    let sharing = ServerSharing::PerAgent { max_servers: 1 };
    let pool = soon(Pool::start(PoolSettings { warm_threads: 0, sharing, ..quick(&fake) })).await.unwrap();
    let (agent, mut connection) =
        tokio::join!(pool.agent_at(other.address.clone(), "Be odd."), other.accept());
    let agent = agent.unwrap();
    let reply = agent.ask("Go");
    connection.bare_turn().await;
    connection.bare_complete("ok").await;
    assert_eq!(all(reply).await[0], text("ok"));
    assert_eq!(connection.seen("thread/start")[0]["baseInstructions"], "Be odd.");
    assert!(matches!(pool.agent().await, Err(PoolError::TooManyServers(1))));
    pool.close().await;

    let mut fake = Fake::new();
    let (pool, _connection) = cold(&mut fake).await;
    assert!(matches!(pool.agent_at(other.address.clone(), "").await, Err(PoolError::TooManyServers(1))));
    pool.close().await;
}

#[tokio::test]
async fn agents_work_in_an_empty_directory_that_is_removed_with_the_server() {
    let mut fake = Fake::new();
    let (pool, connection) = started(quick(&fake), &mut fake).await;
    let cwd = PathBuf::from(connection.seen("thread/start")[0]["cwd"].as_str().unwrap());
    assert!(cwd.is_dir() && fs::read_dir(&cwd).unwrap().next().is_none(), "{cwd:?}");
    assert_eq!(fs::metadata(&cwd).unwrap().permissions().mode() & 0o777, 0o700);
    assert_ne!(cwd, std::env::current_dir().unwrap());
    pool.close().await;
    assert!(!cwd.exists());
}

#[tokio::test]
async fn another_directory_can_be_chosen() {
    let folder = tempfile::tempdir().unwrap();
    for (directory, expected) in [
        (DefaultDirectory::At(folder.path().into()), json!(folder.path())),
        (DefaultDirectory::ServerDefault, json!(null)),
    ] {
        let mut fake = Fake::new();
        let (pool, connection) = started(PoolSettings { directory, ..quick(&fake) }, &mut fake).await;
        assert_eq!(connection.seen("thread/start")[0]["cwd"], expected);
        pool.close().await;
    }
    assert!(folder.path().is_dir(), "the pool does not remove it");
}

#[tokio::test]
async fn dropping_the_pool_ends_its_server_even_if_agents_remain() {
    let mut fake = Fake::new();
    let (pool, mut connection) = started(quick(&fake), &mut fake).await;
    let cwd = PathBuf::from(connection.seen("thread/start")[0]["cwd"].as_str().unwrap());
    let agent = pool.agent().await.unwrap();
    drop(pool);
    assert!(connection.is_over().await);
    soon(async {
        while cwd.exists() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(all(agent.ask("Go")).await.last().unwrap().is_final());
}

#[tokio::test]
async fn no_task_is_left_when_a_pool_is_closed() {
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let mut fake = Fake::new();
    let (pool, mut connection) = started(PoolSettings { warm_threads: 3, ..quick(&fake) }, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    connection.turn().await;
    pool.close().await;
    drop((pool, agent, reply, connection, fake));
    soon(async {
        while tokio::runtime::Handle::current().metrics().num_alive_tasks() > before {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn the_handshake_carries_the_clients_name_and_capabilities() {
    let mut fake = Fake::new();
    let client = Client::builder().name("yaar", "1.0.0").title("Desk").opt_out(["thread/started"]);
    let schema = json!({ "type": "object" });
    let tools = ClientTools::new().add("note", "Takes a note.", schema, |_| async { Ok("noted".to_owned()) });
    let (pool, connection) = started(PoolSettings { client, tools, ..quick(&fake) }, &mut fake).await;
    let hello = &connection.seen("initialize")[0];
    assert_eq!(hello["clientInfo"], json!({ "name": "yaar", "title": "Desk", "version": "1.0.0" }));
    let capabilities = json!({
        "codicil": { "cursor": true, "redirect": false, "version": 1 },
        "experimentalApi": true,
        "optOutNotificationMethods": ["thread/started"],
    });
    assert_eq!(hello["capabilities"], capabilities);
    let start = &connection.seen("thread/start")[0];
    assert_eq!(start["dynamicTools"][0]["name"], "note");
    assert_eq!((start.get("approvalPolicy"), &start["sandbox"]), (None, &json!("workspace-write")));
    pool.close().await;
}

/// The server is a shell script that records its arguments, variables and directory.
#[tokio::test]
async fn the_yaar_preset_has_the_command_line_and_environment_of_its_guide() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("codex");
    let notes = folder.path().join("notes");
    let script = "#!/bin/sh\nprintf '%s\\n' \"$@\" > \"$NOTES\"\n\
        printf '%s|%s|%s|%s|%s|%s\\n' \"$CI\" \"$YAAR_MCP_TOKEN\" \"$PORT\" \"$PWD\" \"$CODICIL_HOME\" \"$CODEX_HOME\" >> \"$NOTES\"\n\
        read line; echo '{\"id\":0,\"result\":{}}'; read line\n\
        read line; echo '{\"id\":1,\"result\":{\"thread\":{\"id\":\"t\"}}}'; cat > /dev/null\n";
    fs::write(&program, script).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let token = McpToken::generate("YAAR_MCP_TOKEN").unwrap();
    let system = HttpMcpServer::new("http://127.0.0.1:8000/mcp/system").token(&token);
    let command = ServerCommand {
        mcp_servers: [("system".to_owned(), system.into())].into(),
        model: Some("gpt-5.3-codex".to_owned()),
        port: Some(8000),
        home: Some(folder.path().into()),
        env: vec![("NOTES".into(), notes.clone().into())],
        ..ServerCommand::yaar(&program)
    };
    let pool = soon(Pool::start(PoolSettings::new(command.launch()))).await.unwrap();
    let notes = fs::read_to_string(&notes).unwrap();
    let mut lines: Vec<_> = notes.lines().collect();
    let last = lines.pop().unwrap();
    let mut expected = vec!["app-server".to_owned()];
    for (key, value) in command.flags() {
        expected.extend(["-c".to_owned(), format!("{key}={value}")]);
    }
    assert_eq!(lines, expected);
    assert!(lines.contains(&"mcp_servers.system.bearer_token_env_var=YAAR_MCP_TOKEN"), "{lines:?}");
    let fields: Vec<_> = last.split('|').collect();
    assert_eq!(fields[..3], ["1", token.value().unwrap(), "8000"]);
    assert_eq!(fields[4..], [folder.path().to_str().unwrap(); 2]);
    let directory = PathBuf::from(fields[3]);
    assert!(directory.is_dir() && directory != std::env::current_dir().unwrap());
    soon(pool.close()).await;
    assert!(!directory.exists());
}

#[tokio::test]
async fn an_idle_server_is_ended_and_the_next_message_starts_it() {
    let mut fake = Fake::new();
    let settings =
        PoolSettings { warm_threads: 0, idle_timeout: Some(Duration::from_secs(2)), ..quick(&fake) };
    let (pool, mut first) = started(settings, &mut fake).await;
    let agent = pool.agent().await.unwrap();
    let reply = agent.ask("Go");
    let (thread, turn) = first.turn().await;
    // A running turn keeps the server, however long it is silent.
    assert!(tokio::time::timeout(Duration::from_secs(3), first.is_over()).await.is_err());
    first.complete(&thread, &turn, "One").await;
    assert_eq!(all(reply).await[0], text("One"));
    assert!(soon(first.is_over()).await);
    soon(async {
        while pool.counts().idle_stops == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;

    let reply = agent.ask("Go on");
    let mut second = fake.accept().await;
    let (thread, turn) = second.turn().await;
    second.complete(&thread, &turn, "Two").await;
    assert_eq!(all(reply).await[0], text("Two"));
    let resumed = &second.seen("thread/resume")[0];
    assert_eq!(
        (resumed["threadId"].as_str(), &resumed["sandbox"]),
        (Some(&*thread), &json!("workspace-write"))
    );
    assert_eq!(pool.counts().threads_resumed, 1);
    pool.close().await;
}

#[tokio::test]
async fn the_sandbox_of_threads_can_be_chosen() {
    let check = async |thread: ThreadStartParams, expected: serde_json::Value| {
        let mut fake = Fake::new();
        let (pool, connection) = started(PoolSettings { thread, ..quick(&fake) }, &mut fake).await;
        assert_eq!(connection.seen("thread/start")[0]["sandbox"], expected);
        pool.close().await;
    };
    let model = Some("m".to_owned());
    check(ThreadStartParams { model, ..Default::default() }, json!("workspace-write")).await;
    let sandbox = Some(SandboxMode::ReadOnly.into());
    check(ThreadStartParams { sandbox, ..Default::default() }, json!("read-only")).await;
    let permissions = Some(":read-only".to_owned());
    check(ThreadStartParams { permissions, ..Default::default() }, json!(null)).await;
}
