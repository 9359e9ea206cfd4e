//! Prints timings: `cargo test --release -p codicil-store -- --ignored --nocapture timings`.

use std::time::Instant;

use codicil_protocol::{ThreadListParams, ThreadReadResponse};
use codicil_store::{ListQuery, ListSort, Store, ThreadJson};
use serde::Serialize;

use crate::support::{Copies, Home, meta, turn};

const THREADS: i64 = 10_000;
const TURNS: usize = 2_000;
const RUNS: usize = 25;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints timings"]
async fn timings() {
    let home = Home::new();
    let copies = Copies::of(&home, "the text of item-00000000").await;
    home.store.close().await.unwrap();
    std::fs::remove_file(home.path().join("codicil_index.sqlite")).unwrap();
    let now = jiff::Timestamp::now().as_second();
    for n in 0..THREADS {
        let at = now - 3600 - 86_400 * 100 * (THREADS - n) / THREADS;
        copies.put(home.path(), at, "item-00000000", &format!("item-{n:08}"));
    }

    let start = Instant::now();
    let store = home.another_store();
    let page = store.list(ListQuery::default()).await.unwrap();
    println!("no index: first page          {:>9.2?}", start.elapsed());
    assert_eq!(page.threads[0].preview, "the text of item-00009999");
    let found = store.list(search("item-00000125")).await.unwrap();
    println!("no index: search is right     {:>9.2?}", start.elapsed());
    assert_eq!(found.threads.len(), 1);
    store.close().await.unwrap();

    let start = Instant::now();
    let store = home.another_store();
    println!("open                          {:>9.2?}", start.elapsed());
    store.list(ListQuery::default()).await.unwrap();
    println!("first page, first call        {:>9.2?}", start.elapsed());
    lists(&store).await;
    appends(&home, &store).await;
    long_thread(&store).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints timings"]
async fn timings_of_a_long_thread() {
    long_thread(&Home::new().store).await;
}

fn search(term: &str) -> ListQuery {
    ListQuery::from(ThreadListParams { search_term: Some(term.to_owned()), ..ThreadListParams::default() })
}

async fn lists(store: &Store) {
    measure("first page, warm", || store.list(ListQuery::default())).await;
    let updated = ListQuery { sort: ListSort::Updated, limit: Some(100), ..ListQuery::default() };
    measure("page of 100 by update", || store.list(updated.clone())).await;
    let mut cursor = None;
    for _ in 0..49 {
        cursor = store.list(ListQuery { cursor, ..ListQuery::default() }).await.unwrap().next_cursor;
    }
    let deep = ListQuery { cursor, ..ListQuery::default() };
    measure("page 50", || store.list(deep.clone())).await;
    measure("search, one hit", || store.list(search("item-00000125"))).await;
    measure("search, no hit", || store.list(search("no such thing"))).await;
}

async fn appends(home: &Home, store: &Store) {
    let mut logs = Vec::new();
    let start = Instant::now();
    for _ in 0..200 {
        logs.push(store.create(meta(&codicil_store::new_thread_id())).await.unwrap());
    }
    println!("{:<30}{:>9.2?}", "create", start.elapsed() / 200);
    let log = &mut logs[0];
    let records = turn("t", "hello", "0xxxx 1xxxx 2xxxx 3xxxx 4xxxx ");
    let size = |log: &codicil_store::ThreadLog| std::fs::metadata(log.path()).unwrap().len();
    let before = size(log);
    log.append(&records).await.unwrap();
    println!("{:<30}{:>9}", "bytes of a short turn", size(log) - before);
    let start = Instant::now();
    for _ in 0..200 {
        for batch in records.chunks(2) {
            log.append(batch).await.unwrap();
        }
    }
    println!("{:<30}{:>9.2?}", "append (one of 4 in a turn)", start.elapsed() / 800);
    let start = Instant::now();
    for _ in 0..50 {
        log.append(&records[..1]).await.unwrap();
        log.sync().await.unwrap();
    }
    println!("{:<30}{:>9.2?}", "append and sync", start.elapsed() / 50);
    println!("{:<30}{:>9}", "files in the home", home.files().len());
}

async fn long_thread(store: &Store) {
    let mut log = store.create(meta(&codicil_store::new_thread_id())).await.unwrap();
    let text = format!("turn-00000001-again {}", "and more of the same ".repeat(10));
    let answer = "0123456789 abcdefghijklmnopqrstuvwxyz \"quoted\" text \n".repeat(20);
    for number in 0..TURNS {
        let id = format!("019a8914-3a00-7000-8000-{number:012}");
        log.append(&turn(&id, &text, &answer)).await.unwrap();
    }
    let size = std::fs::metadata(log.path()).unwrap().len();
    println!("{:<30}{:>9.2} MB", format!("{TURNS} turns on disk"), size as f64 / 1e6);
    let id = log.id().clone();
    measure("read", || store.read(&id)).await;
    measure("load", || store.load(&id)).await;
    let thread = store.read(&id).await.unwrap();
    let summary = thread.summary();

    #[derive(Serialize)]
    struct Read<'a> {
        thread: ThreadJson<'a>,
    }
    let start = Instant::now();
    let json = serde_json::to_vec(&Read { thread: ThreadJson::new(&summary, &thread.turns) }).unwrap();
    println!("{:<30}{:>9.2?} {:.2} MB", "answer as JSON", start.elapsed(), json.len() as f64 / 1e6);
    let start = Instant::now();
    let turns = thread.turns();
    println!("{:<30}{:>9.2?}", "decode the turns", start.elapsed());
    let mut whole = summary.clone();
    whole.turns = turns;
    let start = Instant::now();
    let typed = serde_json::to_vec(&ThreadReadResponse { read_state: None, thread: whole }).unwrap();
    println!("{:<30}{:>9.2?}", "encode the turns", start.elapsed());
    assert_eq!(typed.len(), json.len());
}

async fn measure<T, E: std::fmt::Debug, F: Future<Output = Result<T, E>>>(label: &str, work: impl Fn() -> F) {
    let mut times = Vec::new();
    for _ in 0..RUNS {
        let start = Instant::now();
        work().await.unwrap();
        times.push(start.elapsed());
    }
    times.sort();
    println!("{label:<30}{:>9.2?} (best {:.2?})", times[RUNS / 2], times[0]);
}
