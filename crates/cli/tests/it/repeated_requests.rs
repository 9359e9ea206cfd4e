//! Requests with keys over lost responses, killed servers and two servers with one home: each has one effect.
//!
//! `CODICIL_KILLS` sets the number of kills.

use std::{collections::BTreeMap, env, fs, path::Path, time::Duration};

use codicil_protocol::{
    Thread, ThreadItem, ThreadRead, ThreadResume, ThreadStatus, TurnCompleted, UserInput,
};
use codicil_testkit::{App, KeyedAnswer, Reply, Script, TestClient, TestTransport};
use serde_json::{Value, json};
use tokio::time::sleep;

/// The number of rounds; each kills the server once.
pub fn rounds() -> usize {
    env::var("CODICIL_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

pub async fn start() -> App {
    let script = Script::new().repeat(Reply::new().say("Done"));
    App::builder().script(script).extension().experimental().over(TestTransport::WebSocket).start().await
}

/// When the server is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kill {
    /// Not at all; only the response is lost.
    Never,
    /// Once the request has left the proxy.
    AtOnce,
    /// A moment later, in microseconds.
    After(u64),
}

impl Kill {
    pub fn of(round: usize) -> Self {
        match round % 4 {
            0 => Self::Never,
            1 => Self::AtOnce,
            // Spread over the time that a request takes.
            _ => Self::After((round as u64 * 7919) % 20_000),
        }
    }
}

/// Sends a request whose response is lost, and kills the server.
pub async fn lose(app: &mut App, method: &str, params: &Value, key: &str, kill: Kill) {
    let (mut client, mut proxy) = app.proxied_client().await;
    client.ignore_rest();
    if let Some(thread) = params.get("threadId") {
        client
            .exchange(json!({ "id": "r", "method": "thread/resume", "params": { "threadId": thread } }))
            .await;
    }
    let before = proxy.lose_responses();
    client.send_keyed(method, params, key).await;
    proxy.forwarded_more_than(before).await;
    match kill {
        Kill::Never => return,
        Kill::AtOnce => {}
        Kill::After(micros) => sleep(Duration::from_micros(micros)).await,
    }
    app.process().kill();
    app.revive().await;
    app.ignore_rest();
}

/// Repeats a request on two connections at the same time. Both get the same result.
pub async fn repeat(app: &mut App, method: &str, params: &Value, key: &str) -> Value {
    let mut other = app.another_client().await;
    other.ignore_rest();
    for client in [&mut **app, &mut other] {
        if let Some(thread) = params.get("threadId").filter(|_| method != "thread/delete") {
            client
                .exchange(json!({ "id": "r", "method": "thread/resume", "params": { "threadId": thread } }))
                .await;
        }
    }
    let first = app.send_keyed(method, params, key).await;
    let second = other.send_keyed(method, params, key).await;
    let first = app.keyed_answer(&first, method).await.unwrap();
    let second = other.keyed_answer(&second, method).await.unwrap();
    assert_eq!(first.result, second.result, "{method}");
    assert!(first.is_replayed || second.is_replayed, "{method}");
    first.result
}

pub fn thread_files(home: &Path) -> usize {
    let mut count = 0;
    let mut dirs = vec![home.join("sessions")];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                dirs.push(entry.path());
            } else if entry.file_name().to_string_lossy().starts_with("rollout-") {
                count += 1;
            }
        }
    }
    count
}

pub async fn read(client: &mut TestClient, id: &str) -> Thread {
    let params = json!({ "threadId": id, "includeTurns": true });
    client.call::<ThreadRead>(serde_json::from_value(params).unwrap()).await.thread
}

/// Returns how often each text was sent by the user.
pub fn user_texts(thread: &Thread) -> BTreeMap<String, usize> {
    let mut texts = BTreeMap::new();
    for item in thread.turns.iter().flat_map(|turn| &turn.items) {
        if let ThreadItem::UserMessage { content, .. } = item
            && let Some(UserInput::Text { text, .. }) = content.first()
        {
            *texts.entry(text.clone()).or_default() += 1;
        }
    }
    texts
}

fn turn(id: &str, text: &str) -> Value {
    json!({ "threadId": id, "input": [{ "type": "text", "text": text }] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_is_started_once_over_lost_responses_and_kills() {
    let mut app = start().await;
    app.ignore_rest();
    let thread = app.start_thread().await;
    for round in 0..rounds() {
        let params = turn(&thread.id, &format!("round {round}"));
        let key = format!("turn-{round}");
        lose(&mut app, "turn/start", &params, &key, Kill::of(round)).await;
        let result = repeat(&mut app, "turn/start", &params, &key).await;
        let read = read(&mut app, &thread.id).await;
        assert_eq!(user_texts(&read).get(&format!("round {round}")), Some(&1), "round {round}");
        let turn = result["turn"]["id"].as_str().unwrap();
        assert!(read.turns.iter().any(|stored| &*stored.id == turn), "round {round}");
        if round % 2 == 0 && read.turns.last().is_none_or(|last| last.completed_at.is_none()) {
            app.until_where::<TurnCompleted>(|completed| &*completed.turn.id == turn).await;
        }
    }
    let texts = user_texts(&read(&mut app, &thread.id).await);
    assert!(texts.values().all(|count| *count == 1), "{texts:?}");
    assert_eq!(texts.len(), rounds());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_is_created_once_over_lost_responses_and_kills() {
    let mut app = start().await;
    app.ignore_rest();
    let source = app.start_thread().await;
    app.run_turn(&source, "Hi").await;
    let mut files = 1;
    for round in 0..rounds() {
        let kill = Kill::of(round);
        let params = json!({ "developerInstructions": format!("round {round}") });
        lose(&mut app, "thread/start", &params, &format!("start-{round}"), kill).await;
        let started = repeat(&mut app, "thread/start", &params, &format!("start-{round}")).await;
        let id = started["thread"]["id"].as_str().unwrap();
        files += 1;
        assert_eq!(thread_files(app.home()), files, "round {round}");

        let params = json!({ "threadId": source.id });
        lose(&mut app, "thread/fork", &params, &format!("fork-{round}"), kill).await;
        let forked = repeat(&mut app, "thread/fork", &params, &format!("fork-{round}")).await;
        assert_eq!(forked["thread"]["turns"].as_array().map(Vec::len), Some(1), "round {round}");
        files += 1;
        assert_eq!(thread_files(app.home()), files, "round {round}");

        let params = json!({ "threadId": id });
        lose(&mut app, "thread/delete", &params, &format!("delete-{round}"), kill).await;
        repeat(&mut app, "thread/delete", &params, &format!("delete-{round}")).await;
        files -= 1;
        assert_eq!(thread_files(app.home()), files, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn side_effects_happen_at_most_once_over_lost_responses_and_kills() {
    let mut app = start().await;
    app.ignore_rest();
    let thread = app.start_thread().await;
    app.run_turn(&thread, "Hi").await;
    let log = app.workspace().join("log");
    for round in 0..rounds() {
        let kill = Kill::of(round);
        let command = format!("echo {round} >> {}", log.display());
        let params = json!({ "threadId": thread.id, "command": command });
        lose(&mut app, "thread/shellCommand", &params, &format!("shell-{round}"), kill).await;
        repeat(&mut app, "thread/shellCommand", &params, &format!("shell-{round}")).await;

        while let ThreadStatus::Active { .. } = read(&mut app, &thread.id).await.status {
            app.until::<TurnCompleted>().await;
        }
        app.run_turn(&thread, &format!("drop {round}")).await;
        let turns = read(&mut app, &thread.id).await.turns.len();
        let params = json!({ "threadId": thread.id, "numTurns": 1 });
        lose(&mut app, "thread/rollback", &params, &format!("rollback-{round}"), kill).await;
        let kept = repeat(&mut app, "thread/rollback", &params, &format!("rollback-{round}")).await;
        assert_eq!(kept["thread"]["turns"].as_array().map(Vec::len), Some(turns - 1), "round {round}");
        assert_eq!(read(&mut app, &thread.id).await.turns.len(), turns - 1, "round {round}");
    }
    let lines = fs::read_to_string(&log).unwrap_or_default();
    for round in 0..rounds() {
        let count = lines.lines().filter(|line| *line == round.to_string()).count();
        assert!(count <= 1, "round {round}: {lines}");
        if Kill::of(round) == Kill::Never {
            assert_eq!(count, 1, "round {round}: {lines}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_with_one_home_carry_a_request_out_once() {
    let mut app = start().await;
    app.ignore_rest();
    let mut other = app.another_server().await;
    other.ignore_rest();
    let both = async |app: &mut App, other: &mut TestClient, method: &str, params: &Value, key: &str| {
        let first = app.send_keyed(method, params, key).await;
        let second = other.send_keyed(method, params, key).await;
        let first = app.keyed_answer(&first, method).await.unwrap();
        let second: KeyedAnswer = other.keyed_answer(&second, method).await.unwrap();
        assert_eq!(first.result, second.result, "{method}");
        assert_eq!([first.is_replayed, second.is_replayed].iter().filter(|replayed| **replayed).count(), 1);
        first.result
    };
    for round in 0..rounds() {
        let started = both(&mut app, &mut other, "thread/start", &json!({}), &format!("s-{round}")).await;
        assert_eq!(thread_files(app.home()), round + 1, "round {round}");
        let id = started["thread"]["id"].as_str().unwrap();

        // One after the other: two servers do not run turns of one thread at the same time.
        let params = turn(id, "Hi");
        let first = app.keyed("turn/start", &params, "t").await;
        app.until_where::<TurnCompleted>(|completed| &*completed.thread_id == id).await;
        let resume = json!({ "threadId": id });
        other.call::<ThreadResume>(serde_json::from_value(resume).unwrap()).await;
        let second = other.keyed("turn/start", &params, "t").await;
        assert!(second.is_replayed && second.result == first.result, "round {round}");
        let name = json!({ "threadId": id, "name": format!("name {round}") });
        app.keyed("thread/name/set", &name, "n").await;
        assert!(other.keyed("thread/name/set", &name, "n").await.is_replayed, "round {round}");
        assert_eq!(read(&mut other, id).await.turns.len(), 1);
    }
}
