//! Programs besides the app-server that use the threads of a database.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use codicil_protocol::{ThreadList, ThreadListParams, ThreadSourceKind};
use codicil_testkit::{ModelServer, Reply, Script};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{codicil, database::TestDatabase, server, stdout};

/// A home with a model, and a workspace.
struct ProgramHome {
    folder: TempDir,
    _model: ModelServer,
}

impl ProgramHome {
    async fn new(script: Script, config: &str) -> Self {
        let model = ModelServer::start(script).await;
        let folder = tempfile::tempdir().unwrap();
        let home = Self { folder, _model: model };
        fs::create_dir_all(home.work().join(".git")).unwrap();
        fs::create_dir(home.path()).unwrap();
        let config = format!(
            "model = \"mock-model\"\nmodel_provider = \"mock\"\n[model_providers.mock]\nname = \"mock\"\nbase_url = {:?}\n\
             wire_api = \"responses\"\nrequest_max_retries = 0\nstream_max_retries = 0\n{config}",
            home._model.base_url()
        );
        fs::write(home.path().join("config.toml"), config).unwrap();
        home
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_codicil"));
        command.args(arguments).env("CODICIL_HOME", self.path()).env("HOME", self.path());
        command.current_dir(self.work()).env_remove("RUST_LOG").stdin(Stdio::null());
        command
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        let mut command = self.command(arguments);
        tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap()
    }
}

fn no_threads_in(home: &Path) -> bool {
    !home.join("sessions").exists() && !home.join("codicil_index.sqlite").exists()
}

fn nodes(database: &TestDatabase, home: &Path) -> String {
    stdout(&codicil(home, &["nodes", "--store", &database.address()]))
}

#[tokio::test]
async fn exec_runs_turns_on_threads_of_the_database_and_frees_them() {
    let Some(database) = TestDatabase::create().await else { return };
    let replies = || Script::new().repeat(Reply::new().say("from exec"));
    let home = ProgramHome::new(replies(), "").await;
    let store = database.address();
    let ran = home.run(&["exec", "--json", "--store", &store, "first"]).await;
    let events: Vec<Value> = stdout(&ran).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let id = events[0]["thread_id"].as_str().unwrap().to_owned();
    assert!(no_threads_in(&home.path()));
    // The program has left: its threads are free at once, and its name is, too.
    assert_eq!(nodes(&database, &home.path()), "No server is registered.\n");

    // A server on the same host goes on with the thread, and exec cannot meanwhile.
    let mut app = server(&database, replies()).arguments(["--node", "a"]).start().await;
    let kinds = Some(vec![ThreadSourceKind::Exec]);
    let params = ThreadListParams { source_kinds: kinds, ..ThreadListParams::default() };
    let listed = app.call::<ThreadList>(params).await.data;
    assert!(listed.iter().map(|thread| thread.id.to_string()).eq([id.clone()]));
    let thread = app.resume(&listed[0]).await;
    let refused = home.run(&["exec", "--store", &store, "--resume", &id, "second"]).await;
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && error.contains("belongs to node a"), "{error}");
    assert_eq!(nodes(&database, &home.path()).lines().count(), 1, "nothing is left behind");
    app.ignore_rest();
    app.process().terminate();
    app.process().wait().await;
    let resumed = home.run(&["exec", "--store", &store, "--resume", &thread.id, "second"]).await;
    assert_eq!(stdout(&resumed).trim(), "from exec");
    // The newest thread of this directory is found in the database, too.
    let last = home.run(&["exec", "--store", &store, "--last", "third"]).await;
    assert_eq!(stdout(&last).trim(), "from exec");
    drop(app);
    database.check().await;
}

#[tokio::test]
async fn exec_beside_a_server_with_a_name_uses_its_disk_and_not_its_name() {
    let Some(database) = TestDatabase::create().await else { return };
    let config = format!("[codicil.store]\nurl = {:?}\nnode = \"a\"\n", database.address());
    let replies = || Script::new().repeat(Reply::new().say("done"));
    let home = ProgramHome::new(replies(), &config).await;
    let mut app = server(&database, replies()).arguments(["--node", "a"]).start().await;
    stdout(&home.run(&["exec", "first"]).await);
    let kinds = Some(vec![ThreadSourceKind::Exec]);
    let params = ThreadListParams { source_kinds: kinds, ..ThreadListParams::default() };
    let listed = app.call::<ThreadList>(params).await.data;
    // The workspace is on the disk of a, so that a turn is possible.
    let thread = app.resume(&listed[0]).await;
    app.run_turn(&thread, "second").await;
    app.ignore_rest();
}

#[tokio::test]
async fn debug_and_import_use_the_database() {
    let Some(database) = TestDatabase::create().await else { return };
    let home = ProgramHome::new(Script::new().repeat(Reply::new().say("debugged")), "").await;
    let store = database.address();
    let shown = home.run(&["debug", "app-server", "send-message-v2", "look", "--store", &store]).await;
    assert!(stdout(&shown).contains("debugged"));
    let id = "0199d2f0-0000-7000-8000-000000000001";
    let rollout = home.folder.path().join(format!("rollout-2025-10-11T12-13-14-{id}.jsonl"));
    let meta = serde_json::json!({ "id": id, "timestamp": "2025-10-11T12:13:14Z", "cwd": home.work(),
        "originator": "codex_cli_rs", "cli_version": "0.1.0", "instructions": null, "source": "cli" });
    let line = |kind: &str, payload: Value| {
        serde_json::json!({ "timestamp": "2025-10-11T12:13:14Z", "type": kind, "payload": payload })
            .to_string()
    };
    let message = serde_json::json!({ "type": "user_message", "message": "imported", "kind": "plain" });
    fs::write(&rollout, format!("{}\n{}\n", line("session_meta", meta), line("event_msg", message))).unwrap();
    let imported = home.run(&["import", rollout.to_str().unwrap(), "--store", &store]).await;
    assert!(stdout(&imported).contains("to the database\n      1  new"), "{imported:?}");
    assert!(no_threads_in(&home.path()));
    assert_eq!(nodes(&database, &home.path()), "No server is registered.\n");
    let mut app = server(&database, Script::new()).start().await;
    let found = app.call::<ThreadList>(ThreadListParams::default()).await.data;
    let mut previews: Vec<_> = found.iter().map(|thread| thread.preview.as_str()).collect();
    previews.sort_unstable();
    assert_eq!(previews, ["imported", "look"]);
    app.rest().await;
    drop(app);
    database.check().await;

    let mut reindex = home.command(&["reindex"]);
    let output = reindex.env("CODICIL_STORE", &store).output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("the threads are in a database"), "{error}");
}

#[tokio::test]
async fn the_console_runs_a_server_over_the_database() {
    let Some(database) = TestDatabase::create().await else { return };
    let home = ProgramHome::new(Script::new(), "").await;
    let store = database.address();
    let mut command =
        home.command(&["console", "--listen", "127.0.0.1:0", "--store", &store, "--node", "shown"]);
    let mut console = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(console.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("The console is at http://127.0.0.1:"), "{line}");
    let shown = nodes(&database, &home.path());
    assert!(shown.starts_with("shown-") && shown.contains("  up  "), "{shown}");
    kill_process(Pid::from_child(&console), Signal::TERM).unwrap();
    assert!(console.wait().unwrap().success());
    assert_eq!(nodes(&database, &home.path()), "No server is registered.\n");
}
