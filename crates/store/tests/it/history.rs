//! The model's history after rollbacks, compactions and crashes.

use codicil_protocol::{
    ABORTED_OUTPUT, ResponseItem, ThreadTokenUsage, TokenUsageBreakdown, Turn, TurnId, TurnStatus,
};
use codicil_store::{Record, ThreadLog};
use jiff::Timestamp;

use crate::support::{Home, agent, begun, call, ended, message, output, turn, user};

async fn history(home: &Home, log: &ThreadLog) -> Vec<ResponseItem> {
    home.another_store().load(log.id()).await.unwrap().history
}

async fn turn_ids(home: &Home, log: &ThreadLog) -> Vec<String> {
    let thread = home.another_store().read(log.id()).await.unwrap();
    thread.turns.iter().map(|turn| turn.id.to_string()).collect()
}

fn context(turn: Option<&str>, item: ResponseItem) -> Record {
    Record::Context { turn_id: turn.map(TurnId::from), item }
}

fn compaction(turn: &str, summary: &str) -> Record {
    Record::Compaction { turn_id: TurnId::from(turn), replacement: vec![message("user", summary)] }
}

#[tokio::test]
async fn a_rollback_drops_turns_and_their_history() {
    let home = Home::new();
    let mut log = home.begin().await;
    log.append(&[context(None, message("developer", "rules"))]).await.unwrap();
    for number in 1..=3 {
        log.append(&turn(&format!("t{number}"), &format!("q{number}"), &format!("a{number}"))).await.unwrap();
    }
    log.append(&[Record::Rollback { turns: 2 }]).await.unwrap();
    let expected = [message("developer", "rules"), message("user", "q1"), message("assistant", "a1")];
    assert_eq!(history(&home, &log).await, expected);
    assert_eq!(turn_ids(&home, &log).await, ["t1"]);

    log.append(&turn("t4", "q4", "a4")).await.unwrap();
    assert_eq!(turn_ids(&home, &log).await, ["t1", "t4"]);
    assert_eq!(history(&home, &log).await.len(), 5);

    log.append(&[Record::Rollback { turns: 99 }]).await.unwrap();
    assert_eq!(history(&home, &log).await, [message("developer", "rules")]);
    assert!(turn_ids(&home, &log).await.is_empty());
}

#[tokio::test]
async fn the_usage_goes_back_to_that_of_the_remaining_turns() {
    let home = Home::new();
    let mut log = home.begin().await;
    let usage = |turn: &str, total_tokens| {
        let total = TokenUsageBreakdown { total_tokens, ..TokenUsageBreakdown::default() };
        let usage = ThreadTokenUsage { total, ..ThreadTokenUsage::default() };
        Record::Usage { turn_id: TurnId::from(turn), usage }
    };
    let id = log.id().clone();
    let total = async || {
        let thread = home.another_store().read(&id).await.unwrap();
        thread.usage.map(|(_, usage)| usage.total.total_tokens)
    };
    for number in 1..=3 {
        let name = format!("t{number}");
        log.append(&[&turn(&name, "q", "a")[..], &[usage(&name, number * 100)]].concat()).await.unwrap();
    }
    assert_eq!(total().await, Some(300));
    log.append(&[Record::Rollback { turns: 2 }]).await.unwrap();
    assert_eq!(total().await, Some(100));
    // A rollback may record what the thread has used nevertheless.
    log.append(&[usage("rollback", 250)]).await.unwrap();
    assert_eq!(total().await, Some(250));
    log.append(&[Record::Rollback { turns: 1 }]).await.unwrap();
    assert_eq!(total().await, Some(250));
}

#[tokio::test]
async fn turns_have_the_times_of_their_records() {
    let home = Home::new();
    let mut log = home.begin().await;
    let at = |text: &str| text.parse::<Timestamp>().unwrap();
    log.append_dated(&[
        (at("2026-11-15T20:00:00.900Z"), Record::Turn { turn_id: "t1".into(), run: None }),
        (at("2026-11-15T20:00:02.100Z"), ended("t1", TurnStatus::Completed)),
        (at("2026-11-15T20:01:00Z"), Record::Turn { turn_id: "t2".into(), run: None }),
    ])
    .await
    .unwrap();
    let thread = home.another_store().read(log.id()).await.unwrap();
    let turns = thread.turns();
    let times = |turn: &Turn| (turn.started_at, turn.completed_at, turn.duration_ms);
    assert_eq!(times(&turns[0]), (Some(1_794_772_800), Some(1_794_772_802), Some(1200)));
    assert_eq!(times(&turns[1]), (Some(1_794_772_860), None, None));
    for (stored, turn) in thread.turns.iter().zip(&turns) {
        assert_eq!(serde_json::to_value(stored).unwrap(), serde_json::to_value(turn).unwrap());
    }
}

#[tokio::test]
async fn late_records_of_a_dropped_turn_are_skipped() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    log.append(&turn("t2", "two", "done")).await.unwrap();
    log.append(&[Record::Rollback { turns: 1 }]).await.unwrap();
    let turn_id = TurnId::from("t2");
    let late = Record::Item { turn_id: turn_id.clone(), item: agent("late", "too late") };
    log.append(&[late, context(Some("t2"), message("assistant", "too late"))]).await.unwrap();
    log.append(&[ended("t2", TurnStatus::Completed)]).await.unwrap();
    assert_eq!(turn_ids(&home, &log).await, ["turn-1"]);
    assert_eq!(history(&home, &log).await.len(), 2);
}

#[tokio::test]
async fn a_compaction_replaces_the_history_before_it() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    log.append(&begun("t2", "two")).await.unwrap();
    log.append(&[compaction("t2", "summary")]).await.unwrap();
    log.append(&[context(Some("t2"), message("assistant", "a2")), ended("t2", TurnStatus::Completed)])
        .await
        .unwrap();
    assert_eq!(history(&home, &log).await, [message("user", "summary"), message("assistant", "a2")]);
    assert_eq!(turn_ids(&home, &log).await, ["turn-1", "t2"]);
}

#[tokio::test]
async fn rolling_back_a_compaction_restores_the_history() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    let before = history(&home, &log).await;
    log.append(&begun("t2", "two")).await.unwrap();
    log.append(&[compaction("t2", "summary"), ended("t2", TurnStatus::Completed)]).await.unwrap();
    log.append(&[Record::Rollback { turns: 1 }]).await.unwrap();
    assert_eq!(history(&home, &log).await, before);
}

#[tokio::test]
async fn an_unfinished_turn_is_interrupted_and_its_calls_get_outputs() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    log.append(&begun("t2", "two")).await.unwrap();
    let calls = [call("c1"), call("c2"), output("c2", "fine")];
    log.append(&calls.map(|item| context(Some("t2"), item))).await.unwrap();
    let loaded = home.another_store().load(log.id()).await.unwrap();
    let last = &loaded.thread.turns()[1];
    assert_eq!((&last.status, &last.error), (&TurnStatus::Interrupted, &None));
    assert_eq!(last.items, [user("t2", "two")]);
    assert!(!loaded.thread.turns[1].ended);
    let expected = [call("c1"), output("c1", ABORTED_OUTPUT), call("c2"), output("c2", "fine")];
    assert_eq!(loaded.history[3..], expected);
}

#[tokio::test]
async fn outputs_whose_call_was_compacted_away_are_dropped() {
    let home = Home::new();
    let mut log = home.begin().await;
    log.append(&begun("t1", "one")).await.unwrap();
    log.append(&[context(Some("t1"), call("c1")), compaction("t1", "summary")]).await.unwrap();
    log.append(&[context(Some("t1"), output("c1", "late")), ended("t1", TurnStatus::Completed)])
        .await
        .unwrap();
    assert_eq!(history(&home, &log).await, [message("user", "summary")]);
}

#[tokio::test]
async fn a_long_history_keeps_its_order() {
    let home = Home::new();
    let mut log = home.begin().await;
    let items: Vec<_> = (0..2000).map(|n| message("user", &n.to_string())).collect();
    let records: Vec<_> = items.iter().map(|item| context(None, item.clone())).collect();
    log.append(&records).await.unwrap();
    assert_eq!(history(&home, &log).await, items);
}
