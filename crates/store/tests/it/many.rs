//! Ten thousand threads that are not indexed yet.

use std::time::Instant;

use codicil_store::{ListQuery, ListSort};

use crate::support::{Copies, Home, previews};

const COUNT: i64 = 10_000;

#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_files_without_an_index_are_listed_and_searched() {
    let home = Home::new();
    let copies = Copies::of(&home, "text of item-00000000").await;
    for number in 0..COUNT {
        // Spread over a hundred days, not in the order of the numbers.
        let at = 1_760_000_000 + (number * 7919 % COUNT) * 864;
        copies.put(home.path(), at, "item-00000000", &format!("item-{number:08}"));
    }
    let by_creation = |place: i64| (0..COUNT).find(|number| number * 7919 % COUNT == place).unwrap();
    let text = |place: i64| format!("text of item-{:08}", by_creation(COUNT - 1 - place));

    let start = Instant::now();
    let store = home.another_store();
    let page = store.list(ListQuery::default()).await.unwrap();
    println!("first page without an index: {:?}", start.elapsed());
    assert_eq!(previews(&page), (0..25).map(text).collect::<Vec<_>>());

    // Further pages, while the rest is still being read.
    let mut cursor = page.next_cursor;
    for number in 1..8 {
        let page = store.list(ListQuery { cursor, ..ListQuery::default() }).await.unwrap();
        assert_eq!(previews(&page), (number * 25..number * 25 + 25).map(text).collect::<Vec<_>>());
        cursor = page.next_cursor;
    }
    let search = |term: &str| ListQuery { search_term: Some(term.to_owned()), ..ListQuery::default() };
    let found = store.list(search("item-00000125")).await.unwrap();
    println!("search without an index: {:?}", start.elapsed());
    assert_eq!(previews(&found), ["text of item-00000125"]);
    assert_eq!(store.list(search("item-000099")).await.unwrap().threads.len(), 25);
    assert!(store.list(search("no such thing")).await.unwrap().threads.is_empty());

    let newest = store.list(ListQuery { sort: ListSort::Updated, limit: Some(3), ..ListQuery::default() });
    assert_eq!(previews(&newest.await.unwrap()), (0..3).map(text).collect::<Vec<_>>());
    let start = Instant::now();
    store.list(ListQuery::default()).await.unwrap();
    println!("first page with an index: {:?}", start.elapsed());
    store.close().await.unwrap();

    let mut all = 0;
    let mut cursor = None;
    let store = home.another_store();
    loop {
        let page = store.list(ListQuery { cursor, limit: Some(100), ..ListQuery::default() }).await.unwrap();
        all += page.threads.len();
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(all, 10_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_during_the_first_scan_loses_nothing() {
    let home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    for number in 0..1500 {
        copies.put(home.path(), 1_760_000_000 + number * 600, "WORDS", &format!("number {number:04}"));
    }
    for _ in 0..3 {
        let store = home.another_store();
        assert_eq!(previews(&store.list(ListQuery::default()).await.unwrap())[0], "number 1499");
        store.close().await.unwrap();
    }
    let all =
        ListQuery { search_term: Some("number 0".to_owned()), limit: Some(100), ..ListQuery::default() };
    let store = home.another_store();
    let page = store.list(all).await.unwrap();
    assert_eq!((page.threads.len(), page.threads[0].preview.as_str()), (100, "number 0999"));
    assert_eq!(store.reindex(|_| {}).await.unwrap(), 1500);
}
