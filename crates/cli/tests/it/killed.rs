//! A server that is killed at any instant loses nothing that it has reported.
//!
//! `CODICIL_KILLS` sets the number of kills (40).

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use codicil_protocol::{
    ItemCompletedNotification, ItemId, ServerNotification, ThreadItem, TurnId, TurnStatus,
};
use codicil_testkit::{App, Reply, Script, TestHome, TestTransport};
use serde_json::json;

use crate::{killed_during_tools::number, raw_server::RawServer};

/// Items and turns that were reported as completed.
#[derive(Default)]
pub struct ReportedEvents {
    pub items: BTreeMap<ItemId, ThreadItem>,
    pub turns: BTreeMap<TurnId, TurnStatus>,
}

impl ReportedEvents {
    pub fn add(&mut self, notification: ServerNotification) {
        match notification {
            ServerNotification::ItemCompleted(ItemCompletedNotification { item, .. }) => {
                self.items.insert(item.id().unwrap().clone(), item);
            }
            ServerNotification::TurnCompleted(completed) => {
                self.turns.insert(completed.turn.id, completed.turn.status);
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn reported_items_survive_a_kill_at_any_instant() {
    let reply = || Reply::new().say("one").say("two").say("three").say("four");
    let script = Script::new().repeat(reply());
    let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    let thread = app.start_thread().await;
    let mut reported = ReportedEvents::default();
    let kills = number("CODICIL_KILLS").map_or(40, |kills| usize::try_from(kills).unwrap());
    for round in 0..kills {
        app.start_turn(&thread, &format!("question {round}")).await;
        // Each round is killed after another number of messages, to cover every phase.
        for _ in 0..round % 16 {
            let Some(notification) = app.next_notification().await else { break };
            reported.add(notification);
        }
        app.process().kill();
        while let Some(notification) = app.next_notification().await {
            reported.add(notification);
        }
        app.revive().await;

        let stored = app.resume(&thread).await;
        let items: BTreeMap<_, _> =
            stored.turns.iter().flat_map(|turn| &turn.items).map(|item| (item.id().unwrap(), item)).collect();
        for (id, item) in &reported.items {
            assert_eq!(items.get(id), Some(&item), "round {round}");
        }
        for (id, status) in &reported.turns {
            let turn = stored.turns.iter().find(|turn| turn.id == *id);
            assert_eq!(turn.map(|turn| &turn.status), Some(status), "round {round}");
        }
        assert_eq!(stored.turns.len(), round + 1, "an accepted turn is stored, however it ended");
    }
    assert!(reported.items.len() > kills, "no round saw an item");
    app.ignore_rest();
}

#[tokio::test]
async fn accepted_input_survives_a_kill_while_a_hook_runs() {
    let config = "[features]\ncodex_hooks = true\n";
    let app = App::builder().config(config).script(Script::new()).over(TestTransport::Stdio);
    let mut app = app.start().await;
    let hook = serde_json::json!({ "type": "command", "command": "sleep 1000" });
    let hooks = serde_json::json!({ "hooks": { "UserPromptSubmit": [{ "hooks": [hook] }] } });
    fs::write(app.home().join("hooks.json"), hooks.to_string()).unwrap();
    let thread = app.start_thread().await;
    app.start_turn(&thread, "do not lose this").await;
    app.until::<codicil_protocol::HookStarted>().await;
    app.process().kill();
    app.revive().await;

    let stored = app.read(&thread).await;
    assert_eq!(stored.turns[0].status, TurnStatus::Interrupted);
    let ThreadItem::UserMessage { content, .. } = &stored.turns[0].items[0] else { panic!("{stored:?}") };
    assert!(format!("{content:?}").contains("do not lose this"));
    app.ignore_rest();
}

/// Number of writes that each round sends.
const WRITES: usize = 20;

/// Returns the temporary files of a home, with their modes.
fn temporary_files(home: &Path) -> Vec<(PathBuf, u32)> {
    let entries = fs::read_dir(home).unwrap().flatten().map(|entry| entry.path());
    let temporary = entries.filter(|path| path.extension().is_some_and(|end| end == "tmp"));
    temporary.map(|path| (path.clone(), fs::metadata(&path).unwrap().permissions().mode() & 0o777)).collect()
}

#[tokio::test]
async fn temporary_files_of_a_killed_server_are_private_and_removed_at_the_next_start() {
    let home = TestHome::new("", None, "");
    let config = home.path().join("config.toml");
    for round in 0..30 {
        fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
        let mut server = RawServer::start(home.path(), |_| {}).await;
        for value in 0..WRITES {
            let value = format!("m{round}-{value}");
            let params = json!({ "keyPath": "model", "value": value, "mergeStrategy": "replace" });
            server.send("config/value/write", params).await;
        }
        // Each round is killed after another number of answers, during one of the following writes.
        for _ in 0..round % WRITES {
            server.next().await.expect("the server is running");
        }
        server.process.kill();
        server.process.wait().await;
        let files = temporary_files(home.path());
        assert!(files.iter().all(|(_, mode)| *mode == 0o600), "{files:?}");
    }
    // One more, in case no kill was during a write.
    fs::write(home.path().join(".config.toml.4711.0.tmp"), "partial").unwrap();
    for (path, _) in temporary_files(home.path()) {
        let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
        File::open(path).unwrap().set_modified(an_hour_ago).unwrap();
    }
    let mut server = RawServer::start(home.path(), |_| {}).await;
    assert_eq!(temporary_files(home.path()), []);
    server.close();
    server.process.expect_success().await;
}
