//! Several writers of one thread: every append states the ordinal that it expects.

use std::fs;

use codicil_protocol::GitInfo;
use codicil_store::{AdoptedRecord, FactChange, KeyRecord, QueueChange, Record, StoreError};
use proptest::{prelude::*, test_runner::TestRunner};
use serde_json::{Value, value::to_raw_value};

use crate::support::{Home, begun, turn};

fn name(text: &str) -> Record {
    Record::Name { name: text.to_owned() }
}

/// Returns the ordinals in the file of a log, in the order of lines.
fn ordinals(log: &codicil_store::ThreadLog) -> Vec<u64> {
    let text = fs::read_to_string(log.path()).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line["ordinal"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn an_append_returns_the_ordinals_that_it_wrote() {
    let home = Home::new();
    let mut log = home.begin().await;
    assert_eq!(log.next_ordinal(), 1, "after the meta record");
    let records = turn("t1", "one", "answer");
    let appended = log.append(&records).await.unwrap();
    assert_eq!(appended.ordinals, 1..1 + records.len() as u64);
    let next = appended.ordinals.end;
    assert_eq!(log.append(&[]).await.unwrap().ordinals, next..next);
    assert_eq!(log.append(&[name("n")]).await.unwrap().ordinals, next..next + 1);
    assert_eq!(ordinals(&log), (0..=next).collect::<Vec<_>>());
    let stored = home.store.read(log.id()).await.unwrap();
    assert_eq!((stored.next_ordinal, log.next_ordinal()), (next + 1, next + 1));
}

#[tokio::test]
async fn a_writer_that_was_overtaken_writes_nothing() {
    let home = Home::new();
    let mut first = home.thread("one").await;
    let mut second = home.another_store().open_log(first.id()).await.unwrap();
    second.append(&turn("t2", "two", "answer")).await.unwrap();
    let before = fs::read(first.path()).unwrap();
    let expected = first.next_ordinal();
    for records in [turn("t3", "three", "answer"), vec![name("n")]] {
        let error = first.append(&records).await.unwrap_err();
        assert!(
            matches!(&error, StoreError::Overtaken { thread, expected: found } if thread == first.id() && *found == expected),
            "{error}"
        );
    }
    assert_eq!(fs::read(first.path()).unwrap(), before);

    // A log that is opened after reading the thread goes on.
    let stored = home.store.read(first.id()).await.unwrap();
    let mut again = home.store.open_log_after(&stored).await.unwrap();
    let appended = again.append(&turn("t3", "three", "answer")).await.unwrap();
    assert_eq!(appended.ordinals.start, stored.next_ordinal);
    assert!(matches!(second.append(&[name("n")]).await, Err(StoreError::Overtaken { .. })));
}

#[tokio::test]
async fn names_and_repositories_from_outside_are_adopted() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    let other = home.another_store();
    let git = GitInfo { branch: Some("main".to_owned()), ..GitInfo::default() };
    other.set_name(log.id(), "from outside").await.unwrap();
    other.set_git(log.id(), Some(git.clone())).await.unwrap();
    other.append_beside(log.id(), Record::goal(None, None)).await.unwrap();
    let expected = log.next_ordinal();
    let appended = log.append(&begun("t2", "two")).await.unwrap();
    assert_eq!(appended.ordinals.start, expected + 3);
    let adopted = [
        AdoptedRecord::Name("from outside".to_owned()),
        AdoptedRecord::Git(Some(git)),
        AdoptedRecord::Goal(None),
    ];
    assert_eq!(appended.adopted, adopted);
    assert_eq!(log.append(&[name("own")]).await.unwrap().adopted, []);
    assert!(ordinals(&log).is_sorted_by(|one, next| one + 1 == *next));
}

#[tokio::test]
async fn a_key_or_a_change_of_the_queue_is_not_written_behind_another_one() {
    let key = |key: &str| {
        let result = to_raw_value(&1).unwrap();
        Record::key(&KeyRecord { key: key.to_owned(), digest: "d".to_owned(), result }).unwrap()
    };
    let removed = |id: &str| Record::fact(&FactChange::Queue(QueueChange::Remove(id.to_owned())));
    let home = Home::new();
    let mut first = home.thread("one").await;
    let mut second = home.another_store().open_log(first.id()).await.unwrap();
    for (theirs, own) in [(key("a"), [name("n"), key("b")]), (removed("q"), [name("m"), removed("q")])] {
        second.append(&[theirs]).await.unwrap();
        let before = fs::read(first.path()).unwrap();
        match first.append(&own).await {
            Err(StoreError::Conflict { adopted, .. }) => assert_eq!(adopted.len(), 1),
            other => panic!("{other:?}"),
        }
        assert_eq!(fs::read(first.path()).unwrap(), before);
        assert_eq!(first.append(&own).await.unwrap().adopted, []);
    }
    assert!(ordinals(&first).is_sorted_by(|one, next| one + 1 == *next));
}

#[tokio::test]
async fn a_record_that_was_written_between_reading_and_opening_is_noticed() {
    let home = Home::new();
    let mut writer = home.thread("one").await;
    let stored = home.store.read(writer.id()).await.unwrap();
    writer.append(&turn("t2", "two", "answer")).await.unwrap();
    let mut late = home.another_store().open_log_after(&stored).await.unwrap();
    assert!(matches!(late.append(&[name("n")]).await, Err(StoreError::Overtaken { .. })));
}

#[tokio::test]
async fn a_torn_end_and_a_move_do_not_count_as_another_writer() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    let tear = || {
        let mut file = fs::OpenOptions::new().append(true).open(log.path()).unwrap();
        std::io::Write::write_all(&mut file, b"{\"v\":1,\"ordinal\":9,\"timest").unwrap();
    };
    tear();
    let stored = home.store.read(log.id()).await.unwrap();
    let mut second = home.another_store().open_log_after(&stored).await.unwrap();
    second.append(&[name("second")]).await.unwrap();
    tear();
    log.append(&[name("first")]).await.unwrap();
    home.store.archive(log.id()).await.unwrap();
    log.append(&[name("archived")]).await.unwrap();
    assert!(ordinals(&log).is_sorted_by(|one, next| one + 1 == *next));
    assert_eq!(home.store.read(log.id()).await.unwrap().warnings.total, 0);
}

#[tokio::test]
async fn a_file_that_was_replaced_by_a_shorter_one_is_noticed() {
    let home = Home::new();
    let mut log = home.begin().await;
    let backup = fs::read(log.path()).unwrap();
    log.append(&turn("t1", "one", "answer")).await.unwrap();
    fs::write(log.path(), backup).unwrap();
    assert!(matches!(log.append(&[name("n")]).await, Err(StoreError::Overtaken { .. })));
}

/// What a writer does next.
#[derive(Clone, Copy, Debug)]
enum WriterStep {
    Turn,
    Name,
    /// Reads the thread again, as after being overtaken.
    Reload,
    NameBeside,
}

fn steps() -> impl Strategy<Value = Vec<(usize, WriterStep)>> {
    let step = prop_oneof![
        3 => Just(WriterStep::Turn),
        2 => Just(WriterStep::Name),
        2 => Just(WriterStep::Reload),
        1 => Just(WriterStep::NameBeside),
    ];
    prop::collection::vec((0..3_usize, step), 1..24)
}

/// For each thread and ordinal there is one record, and a conversation grows only at the end that its writer knows.
#[test]
fn each_ordinal_has_one_record_for_any_interleaving_of_writers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let check = |steps: Vec<(usize, WriterStep)>| runtime.block_on(check_interleaving(steps));
    TestRunner::new(ProptestConfig::with_cases(64)).run(&steps(), check).unwrap();
}

async fn check_interleaving(steps: Vec<(usize, WriterStep)>) -> Result<(), TestCaseError> {
    let home = Home::new();
    let first = home.thread("one").await;
    let stores = [home.another_store(), home.another_store(), home.another_store()];
    let mut logs = Vec::new();
    let mut known_turns = vec![1; stores.len()];
    for store in &stores {
        logs.push(store.open_log(first.id()).await.unwrap());
    }
    let mut written = 0..first.next_ordinal();
    let mut turns = 1;
    for (number, (writer, step)) in steps.into_iter().enumerate() {
        let records = match step {
            WriterStep::Turn => begun(&format!("turn {number}"), "question"),
            WriterStep::Name => vec![name(&number.to_string())],
            WriterStep::Reload => {
                let stored = stores[writer].read(first.id()).await.unwrap();
                known_turns[writer] = stored.turns.len();
                logs[writer] = stores[writer].open_log_after(&stored).await.unwrap();
                continue;
            }
            WriterStep::NameBeside => {
                let appended = stores[writer].set_name(first.id(), "beside").await.unwrap();
                prop_assert_eq!(appended.ordinals.start, written.end);
                written.end = appended.ordinals.end;
                continue;
            }
        };
        match logs[writer].append(&records).await {
            Ok(appended) => {
                prop_assert_eq!(
                    known_turns[writer],
                    turns,
                    "a writer that does not know every turn has written"
                );
                prop_assert_eq!(appended.ordinals.start, written.end);
                written.end = appended.ordinals.end;
                turns += usize::from(matches!(step, WriterStep::Turn));
                known_turns[writer] = turns;
            }
            Err(StoreError::Overtaken { .. }) => {
                prop_assert!(known_turns[writer] < turns, "an overtaken writer knew every turn");
            }
            Err(error) => panic!("{error}"),
        }
    }
    prop_assert_eq!(ordinals(&first), written.collect::<Vec<_>>());
    Ok(())
}
