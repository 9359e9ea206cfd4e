//! The tool calls of a turn without an end, and the server requests that wait for an answer.

use std::{fs, path::Path, slice};

use codicil_protocol::{ResponseItem, ThreadActiveFlag, ThreadId, ThreadStatus};
use codicil_store::{CallState, ListQuery, LoadedThread, RequestAnswer, RequestOutcome};
use serde_json::json;

use crate::support::Home;

const ID: &str = "019a8914-3a00-7000-8000-000000000002";

/// Writes the first records of the golden file into a home.
fn write(home: &Home, records: usize) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1_waiting.jsonl");
    let text = fs::read_to_string(golden).unwrap();
    let day = home.path().join("sessions/2026/11/16");
    fs::create_dir_all(&day).unwrap();
    let lines: Vec<_> = text.lines().take(records).collect();
    fs::write(day.join(format!("rollout-2026-11-16T20-00-00-{ID}.jsonl")), lines.join("\n") + "\n").unwrap();
}

async fn load(home: &Home) -> LoadedThread {
    home.store.load(&ThreadId::from(ID)).await.unwrap()
}

fn open_ids(loaded: &LoadedThread) -> Vec<String> {
    let id = |item: ResponseItem| match item {
        ResponseItem::FunctionCall { call_id, .. } | ResponseItem::CustomToolCall { call_id, .. } => call_id,
        other => panic!("not a call: {other:?}"),
    };
    loaded.open_calls().into_iter().map(id).collect()
}

#[tokio::test]
async fn the_states_of_open_calls_load() {
    let home = Home::new();
    write(&home, 20);
    let loaded = load(&home).await;
    assert_eq!(open_ids(&loaded), ["asked", "answered", "begun", "new"]);
    assert_eq!(loaded.thread.warnings.total, 0);
    let turn = loaded.thread.unfinished.as_ref().unwrap();
    for (call, state) in [
        ("asked", CallState::Asked),
        ("answered", CallState::Answered),
        ("begun", CallState::Begun),
        ("new", CallState::NotBegun),
        ("done", CallState::NotBegun),
    ] {
        assert_eq!(turn.call_state(call), state, "{call}");
    }
    assert_eq!(turn.resumes, 1, "the continuation of a parked turn does not count");
    assert_eq!(turn.output_schema, Some(json!({ "type": "object" })));
    let unseen: Vec<_> = turn.unseen_input.iter().map(|item| item.id().unwrap().to_string()).collect();
    assert_eq!(unseen, ["u2"]);
    let open: Vec<_> = turn.open_items(&[]).iter().map(|item| item.id().unwrap().to_string()).collect();
    assert_eq!(open, ["asked", "begun"]);
    let [request] = turn.open_requests().collect::<Vec<_>>()[..] else { panic!("one request is open") };
    assert_eq!((request.asked.request.as_str(), request.asked.deadline_ms), ("r1", Some(1_794_870_000_000)));
    let answer = turn.requests[1].answer.as_ref().unwrap();
    assert_eq!(
        (&answer.answer, answer.by.as_str()),
        (&RequestAnswer::Result(json!({ "answers": {} })), "vscode")
    );
}

#[tokio::test]
async fn the_history_has_an_output_for_every_call_and_the_unfinished_part_does_not() {
    let home = Home::new();
    write(&home, 20);
    let loaded = load(&home).await;
    let is_output = |item: &&ResponseItem| {
        matches!(item, ResponseItem::FunctionCallOutput { .. } | ResponseItem::CustomToolCallOutput { .. })
    };
    assert_eq!(loaded.history.iter().filter(is_output).count(), 5);
    assert_eq!(loaded.unfinished.iter().filter(is_output).count(), 1);
    assert_eq!((loaded.finished, loaded.unfinished.len()), (0, 7));
}

#[tokio::test]
async fn the_status_of_a_waiting_thread_follows_its_records() {
    let waiting = |flags: &[ThreadActiveFlag]| ThreadStatus::Active { active_flags: flags.to_vec() };
    let approval = ThreadActiveFlag::WaitingOnApproval;
    for (records, expected) in [
        (10, ThreadStatus::NotLoaded),
        (11, waiting(slice::from_ref(&approval))),
        (12, waiting(&[approval.clone(), ThreadActiveFlag::WaitingOnUserInput])),
        (13, waiting(slice::from_ref(&approval))),
        (20, waiting(&[approval])),
    ] {
        let home = Home::new();
        write(&home, records);
        let listed = home.store.list(ListQuery::default()).await.unwrap().threads;
        assert_eq!(listed[0].status, expected, "{records} records, in a list");
        let read = home.store.read(&ThreadId::from(ID)).await.unwrap();
        assert_eq!(read.summary().status, expected, "{records} records, read");
        let with_requests = home.store.threads_with_requests("").await.unwrap();
        assert_eq!(with_requests.len(), usize::from(expected != ThreadStatus::NotLoaded), "{records}");
    }
}

#[tokio::test]
async fn the_outcome_of_a_request_is_found() {
    let home = Home::new();
    write(&home, 20);
    let outcome =
        async |request: &str| home.store.request_outcome(&ThreadId::from(ID), request).await.unwrap();
    assert_eq!(outcome("r1").await, Some(RequestOutcome::Open));
    assert!(
        matches!(outcome("r2").await, Some(RequestOutcome::Answered { by, at: Some(_) }) if by == "vscode")
    );
    assert_eq!(outcome("r3").await, None);
}
