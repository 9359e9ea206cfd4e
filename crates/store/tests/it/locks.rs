//! Files that another process has locked, and named pipes in the place of files.

use std::{
    fs::File,
    path::Path,
    pin::pin,
    process::Command,
    time::{Duration, Instant},
};

use codicil_store::{ForkPoint, LOCK_TIME, ListQuery, Record, StoreError, new_thread_id};
use tokio::time::timeout;

use crate::support::{Home, meta, turn};

/// Holds the lock of a file like another process.
fn held(path: &Path) -> File {
    let file = File::open(path).unwrap();
    file.lock().unwrap();
    file
}

fn name(name: &str) -> [Record; 1] {
    [Record::Name { name: name.to_owned() }]
}

fn is_locked<T>(result: Result<T, StoreError>, expected: &Path) -> bool {
    matches!(result, Err(StoreError::Locked { path }) if path == expected)
}

#[tokio::test]
async fn a_locked_file_fails_its_own_appends_and_delays_nothing_else() {
    let home = Home::new();
    let mut others = home.thread("others").await;
    let mut waiting = tokio::task::JoinSet::new();
    let mut holders = Vec::new();
    // More than the limit of concurrent appends.
    for _ in 0..24 {
        let mut log = home.thread("locked").await;
        holders.push(held(&log.path()));
        waiting.spawn(async move {
            let begun = Instant::now();
            let result = log.append(&name("late")).await;
            (is_locked(result, &log.path()), begun.elapsed(), log)
        });
    }
    tokio::task::yield_now().await;
    for number in 0..20 {
        others.append(&name(&number.to_string())).await.unwrap();
        home.begin().await.append(&turn("t1", "new", "answer")).await.unwrap();
    }
    assert!(waiting.try_join_next().is_none(), "the appends to locked files are still waiting");
    let mut logs = Vec::new();
    for (locked, waited, log) in waiting.join_all().await {
        assert!(locked && waited >= LOCK_TIME, "{waited:?}");
        logs.push(log);
    }
    drop(holders);
    for log in &mut logs {
        log.append(&name("now")).await.unwrap();
        let stored = home.store.read(log.id()).await.unwrap();
        assert_eq!((stored.name.as_deref(), stored.warnings.total), (Some("now"), 0));
    }
}

#[tokio::test]
async fn a_lock_that_is_released_in_time_is_only_a_delay() {
    let home = Home::new();
    let log = home.thread("one").await;
    let holder = held(&log.path());
    let mut naming = pin!(home.store.set_name(log.id(), "late"));
    // Reading needs no lock.
    tokio::select! {
        biased;
        named = &mut naming => panic!("the file is locked: {named:?}"),
        read = home.store.read(log.id()) => drop(read.unwrap()),
    }
    drop(holder);
    naming.await.unwrap();
    assert_eq!(home.store.read(log.id()).await.unwrap().name.as_deref(), Some("late"));
}

#[tokio::test]
async fn a_locked_index_fails_lists_in_time_and_nothing_else() {
    let home = Home::new();
    let mut log = home.thread("one").await;
    home.previews().await;
    let index = home.path().join("codicil_index.sqlite");
    let other = rusqlite::Connection::open(&index).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    log.append(&turn("t2", "two", "answer")).await.unwrap();
    home.begin().await.append(&turn("t1", "new", "answer")).await.unwrap();
    home.store.load(log.id()).await.unwrap();
    let begun = Instant::now();
    let lists = (0..4).map(|_| {
        let store = home.store.clone();
        tokio::spawn(async move { store.list(ListQuery::default()).await })
    });
    for list in lists.collect::<Vec<_>>() {
        assert!(is_locked(list.await.unwrap(), &index));
    }
    assert!(begun.elapsed() < LOCK_TIME * 3, "{:?}", begun.elapsed());
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(home.previews().await, ["new", "one"]);
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn a_named_pipe_in_the_place_of_a_thread_is_skipped() {
    let mut home = Home::new();
    let log = home.thread("one").await;
    let gone = home.thread("two").await;
    std::fs::remove_file(gone.path()).unwrap();
    make_pipe(&gone.path());
    let never = new_thread_id();
    let template = gone.path().to_string_lossy().replace(&**gone.id(), &never);
    make_pipe(Path::new(&template));
    home.restart().await;

    let soon = Duration::from_secs(20);
    assert_eq!(timeout(soon, home.previews()).await.unwrap(), ["one"]);
    assert_eq!(timeout(soon, home.store.reindex(|_| ())).await.unwrap().unwrap(), 1);
    for id in [gone.id(), &never] {
        let store = &home.store;
        let read = timeout(soon, store.read(id)).await.unwrap().unwrap_err();
        assert!(read.to_string().contains("not a regular file"), "{read}");
        assert!(timeout(soon, store.load(id)).await.unwrap().is_err());
        assert!(timeout(soon, store.read_summary(id)).await.unwrap().is_err());
        assert!(timeout(soon, store.open_log(id)).await.unwrap().is_err());
        assert!(timeout(soon, store.last_record(id)).await.unwrap().is_err());
        let copy = store.fork(id, ForkPoint::End, meta(&new_thread_id()));
        assert!(timeout(soon, copy).await.unwrap().is_err());
    }
    assert!(timeout(soon, gone.sync()).await.unwrap().is_err());
    home.store.read(log.id()).await.unwrap();
}

#[tokio::test]
async fn a_named_pipe_in_the_place_of_the_index_does_not_block() {
    let home = Home::new();
    home.thread("one").await;
    home.store.close().await.unwrap();
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(home.path().join(format!("codicil_index.sqlite{suffix}")));
    }
    make_pipe(&home.path().join("codicil_index.sqlite"));
    let store = home.another_store();
    let page = timeout(Duration::from_secs(20), store.list(ListQuery::default())).await.unwrap().unwrap();
    assert_eq!(page.threads.len(), 1);
}
