//! Spawned servers: how they end, and what the client reports about it.

use std::{fs::File, io::Read, process::Command as StdCommand};

use codicil_client::{
    Client, ClientError, ClientLimits, ClientTimeouts, DisconnectCause, ProcessExit, ServerLaunch,
    protocol::*,
};

use crate::soon;

/// Returns a shell script that acts as a server: the handshake, then `body`.
fn script(body: &str) -> ServerLaunch {
    let handshake = r#"read line; echo '{"id":0,"result":{"userAgent":"sh"}}'; read line;"#;
    ServerLaunch::command(["sh", "-c", &format!("{handshake} {body}")])
}

#[tokio::test]
async fn an_exit_is_reported_with_status_and_stderr() {
    let server = script("read line; echo first >&2; echo 'it is broken' >&2; exit 3");
    let client = soon(Client::builder().connect(server)).await.unwrap();
    let error = soon(client.call::<ModelList>(Default::default())).await.unwrap_err();
    let ClientError::Disconnected(disconnected) = &error else { panic!("{error}") };
    assert_eq!(disconnected.cause, DisconnectCause::Exited(ProcessExit::Code(3)));
    assert_eq!(disconnected.stderr_tail, "first\nit is broken\n");
    assert_eq!(
        error.to_string(),
        "the server exited with code 3; last line of its standard error: it is broken"
    );
}

#[tokio::test]
async fn the_tail_of_stderr_is_bounded() {
    let server =
        script("read line; i=0; while [ $i -lt 3000 ]; do echo line-$i >&2; i=$((i+1)); done; kill -9 $$");
    let limits = ClientLimits { stderr_tail: 100, ..ClientLimits::default() };
    let client = soon(Client::builder().limits(limits).connect(server)).await.unwrap();
    let error = soon(client.call::<ModelList>(Default::default())).await.unwrap_err();
    let ClientError::Disconnected(disconnected) = &error else { panic!("{error}") };
    assert_eq!(disconnected.cause, DisconnectCause::Exited(ProcessExit::Signal(9)));
    assert!(
        disconnected.stderr_tail.len() <= 100 && disconnected.stderr_tail.ends_with("line-2999\n"),
        "{disconnected:?}"
    );
}

#[tokio::test]
async fn a_missing_program_and_one_that_exits_at_once_are_errors() {
    let error = soon(Client::builder().connect(ServerLaunch::new("/no/such/program"))).await.unwrap_err();
    assert_eq!(error.name(), "connect");
    assert!(error.to_string().starts_with("cannot connect to /no/such/program: "), "{error}");
    let exiting = ServerLaunch::command(["sh", "-c", "echo 'usage: something' >&2; exit 2"]);
    let error = soon(Client::builder().connect(exiting)).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the server exited with code 2; last line of its standard error: usage: something"
    );
}

#[tokio::test]
async fn closing_closes_stdin_and_waits_for_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("marker");
    let server = script("cat >/dev/null; echo bye > \"$FILE\"").env("FILE", &file);
    let client = soon(Client::builder().connect(server)).await.unwrap();
    let disconnected = soon(client.close()).await;
    assert_eq!(disconnected.cause, DisconnectCause::ClosedByClient);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "bye\n");
}

/// Creates a named pipe. Processes of the server hold it open, so its end of file means that all of them have disconnected.
fn fifo() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("held");
    assert!(StdCommand::new("mkfifo").arg(&path).status().unwrap().success());
    (folder, path)
}

async fn until_closed(path: &std::path::Path) -> tokio::task::JoinHandle<usize> {
    let path = path.to_owned();
    let (opened, is_open) = tokio::sync::oneshot::channel();
    let reading = tokio::task::spawn_blocking(move || {
        // Opening blocks until a process has opened it for writing.
        let mut file = File::open(path).unwrap();
        opened.send(()).unwrap();
        file.read_to_end(&mut Vec::new()).unwrap()
    });
    soon(is_open).await.unwrap();
    reading
}

#[tokio::test]
async fn dropping_the_client_kills_the_process_tree() {
    let (_folder, path) = fifo();
    // Ignores the end of its input, and has a child and a grandchild.
    let server = script("(sh -c 'sleep 1000; :' > \"$HELD\") & sleep 1000").env("HELD", &path);
    let timeouts =
        ClientTimeouts { close: std::time::Duration::from_millis(100), ..ClientTimeouts::default() };
    let client = soon(Client::builder().timeouts(timeouts).connect(server)).await.unwrap();
    let held = until_closed(&path).await;
    drop(client);
    soon(held).await.unwrap();
}

#[test]
fn shutting_down_the_runtime_kills_the_process_tree() {
    let (_folder, path) = fifo();
    let server = script("sleep 1000 > \"$HELD\" & wait").env("HELD", &path);
    let doomed = tokio::runtime::Runtime::new().unwrap();
    let (client, held) = doomed.block_on(async {
        let client = soon(Client::builder().connect(server)).await.unwrap();
        (client, until_closed(&path).await)
    });
    doomed.shutdown_background();
    let other = tokio::runtime::Runtime::new().unwrap();
    let disconnected = other.block_on(soon(client.disconnected()));
    assert!(
        matches!(&disconnected.cause, DisconnectCause::Failed(reason) if reason.contains("runtime")),
        "{disconnected:?}"
    );
    other.block_on(soon(held)).unwrap();
}

#[tokio::test]
async fn a_server_receives_its_directory_arguments_and_variables() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let body = r#"read line; printf '{"id":0,"result":{"userAgent":"%s|%s|%s|%s"}}\n' "$PWD" "$1" "$ONE" "$USER"; cat"#;
    let server = ServerLaunch::command(["sh", "-c", body, "sh"]).config("key", 7).arg("argument");
    let server = server.env("ONE", "1").env_remove("USER").cwd(&folder);
    let client = soon(Client::builder().connect(server)).await.unwrap();
    let seen = &client.server().unwrap().user_agent;
    assert_eq!(*seen, format!("{}|-c|1|", folder.display()));
}
