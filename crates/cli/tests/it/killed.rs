//! A server that is killed at any instant has lost nothing of what it said.

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
use codicil_testkit::{App, Reply, Script, TestTransport};
use serde_json::json;

/// What clients were told to be done.
#[derive(Default)]
pub struct Told {
    pub items: BTreeMap<ItemId, ThreadItem>,
    pub turns: BTreeMap<TurnId, TurnStatus>,
}

impl Told {
    pub fn note(&mut self, notification: ServerNotification) {
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
async fn what_was_said_survives_a_kill_at_any_instant() {
    let reply = || Reply::new().say("one").say("two").say("three").say("four");
    let script = Script::new().repeat(reply());
    let mut app = App::builder().script(script).over(TestTransport::Stdio).start().await;
    let thread = app.start_thread().await;
    let mut told = Told::default();
    for round in 0..40 {
        app.start_turn(&thread, &format!("question {round}")).await;
        // Each round is killed after another number of messages, so that every place has its turn.
        for _ in 0..round % 16 {
            let Some(notification) = app.next_notification().await else { break };
            told.note(notification);
        }
        app.process().kill();
        while let Some(notification) = app.next_notification().await {
            told.note(notification);
        }
        app.revive().await;

        let stored = app.resume(&thread).await;
        let items: BTreeMap<_, _> =
            stored.turns.iter().flat_map(|turn| &turn.items).map(|item| (item.id().unwrap(), item)).collect();
        for (id, item) in &told.items {
            assert_eq!(items.get(id), Some(&item), "round {round}");
        }
        for (id, status) in &told.turns {
            let turn = stored.turns.iter().find(|turn| turn.id == *id);
            assert_eq!(turn.map(|turn| &turn.status), Some(status), "round {round}");
        }
        assert_eq!(stored.turns.len(), round + 1, "a turn that was accepted is there, however it ended");
    }
    assert!(told.items.len() > 40, "the rounds saw something happen");
    app.ignore_rest();
}

#[tokio::test]
async fn input_that_was_accepted_survives_a_kill_while_a_hook_looks_at_it() {
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

/// The temporary files of a home, with their modes.
fn temporary_files(home: &Path) -> Vec<(PathBuf, u32)> {
    let entries = fs::read_dir(home).unwrap().flatten().map(|entry| entry.path());
    let temporary = entries.filter(|path| path.extension().is_some_and(|end| end == "tmp"));
    temporary.map(|path| (path.clone(), fs::metadata(&path).unwrap().permissions().mode() & 0o777)).collect()
}

#[tokio::test]
async fn what_a_killed_server_left_of_a_write_is_private_and_goes_with_the_next_start() {
    let mut app = App::builder().over(TestTransport::Stdio).start().await;
    let home = app.home().to_owned();
    let config = home.join("config.toml");
    fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
    for round in 0..30_u64 {
        for value in 0..20 {
            let params = json!({ "keyPath": "model", "value": format!("m{round}-{value}"), "mergeStrategy": "replace" });
            let write = json!({ "id": value, "method": "config/value/write", "params": params });
            app.send_raw(write.to_string()).await;
        }
        tokio::time::sleep(Duration::from_millis(round % 10)).await;
        app.process().kill();
        while app.next_notification().await.is_some() {}
        let left = temporary_files(&home);
        assert!(left.iter().all(|(_, mode)| *mode == 0o600), "{left:?}");
        fs::set_permissions(&config, fs::Permissions::from_mode(0o644)).unwrap();
        app.revive().await;
    }
    // One more, should no kill have met a write.
    fs::write(home.join(".config.toml.4711.0.tmp"), "left").unwrap();
    for (path, _) in temporary_files(&home) {
        let an_hour_ago = SystemTime::now() - Duration::from_secs(3600);
        File::open(path).unwrap().set_modified(an_hour_ago).unwrap();
    }
    app.process().kill();
    app.revive().await;
    assert_eq!(temporary_files(&home), []);
    app.ignore_rest();
}
