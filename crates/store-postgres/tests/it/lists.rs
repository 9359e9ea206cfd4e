//! Lists: order, pages, filters and search.

use codicil_store_postgres::{NewThread, PostgresStore, ThreadQuery, ThreadSort, ThreadsBelow};
use uuid::Uuid;

use crate::database::{TestDatabase, new_thread, register};

/// Returns the names of a page.
async fn names(store: &PostgresStore, query: &ThreadQuery) -> Vec<String> {
    let page = store.list(query).await.unwrap();
    page.threads.into_iter().map(|thread| thread.name.unwrap_or_default()).collect()
}

fn named(name: &str, at: i64) -> NewThread {
    NewThread {
        name: Some(name.to_owned()),
        preview: Some(format!("message of {name}")),
        created_at: at,
        updated_at: 1000 - at,
        ..new_thread()
    }
}

#[tokio::test]
async fn pages_follow_each_other_in_both_orders() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    for (name, at) in [("one", 1), ("two", 2), ("two again", 2), ("three", 3)] {
        store.create(node.identity(), &named(name, at)).await.unwrap();
    }
    // Threads without a user message are not listed.
    store.create(node.identity(), &new_thread()).await.unwrap();

    for (sort, oldest_first, expected) in [
        (ThreadSort::Created, false, ["three", "two again", "two", "one"]),
        (ThreadSort::Created, true, ["one", "two", "two again", "three"]),
        (ThreadSort::Updated, false, ["one", "two again", "two", "three"]),
    ] {
        let mut query = ThreadQuery { sort, oldest_first, limit: 1, ..ThreadQuery::default() };
        let mut found = Vec::new();
        loop {
            let page = store.list(&query).await.unwrap();
            let last = page.threads.last().unwrap();
            let at = if sort == ThreadSort::Created { last.created_at } else { last.updated_at };
            query.after = Some((at, last.id));
            found.extend(page.threads.iter().filter_map(|thread| thread.name.clone()));
            if !page.has_more {
                break;
            }
        }
        assert_eq!(found, expected);
    }
}

#[tokio::test]
async fn filters_and_search_narrow_a_list() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let apples = NewThread { cwd: "/apples".to_owned(), ..named("apples", 1) };
    let pears = NewThread { model_provider: "other".to_owned(), ..named("pears", 2) };
    let review = NewThread { source_kind: "subAgentReview".to_owned(), ..named("review", 3) };
    let archived = named("archived", 4);
    for thread in [&apples, &pears, &review, &archived] {
        store.create(node.identity(), thread).await.unwrap();
    }
    store.archive(archived.id).await.unwrap();

    let all = ThreadQuery { limit: 10, ..ThreadQuery::default() };
    let texts = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
    let check = async |query: ThreadQuery, expected: &[&str]| {
        assert_eq!(names(&store, &query).await, expected, "{query:?}");
    };
    check(all.clone(), &["review", "pears", "apples"]).await;
    check(ThreadQuery { archived: true, ..all.clone() }, &["archived"]).await;
    check(ThreadQuery { source_kinds: texts(&["cli"]), ..all.clone() }, &["pears", "apples"]).await;
    check(ThreadQuery { model_providers: texts(&["other", "x"]), ..all.clone() }, &["pears"]).await;
    check(ThreadQuery { cwds: Some(texts(&["/apples"])), ..all.clone() }, &["apples"]).await;
    check(ThreadQuery { cwds: Some(Vec::new()), ..all.clone() }, &[]).await;
    check(ThreadQuery { excluded: vec![pears.id], ..all.clone() }, &["review", "apples"]).await;
    check(ThreadQuery { search_term: Some("of app".to_owned()), ..all.clone() }, &["apples"]).await;
    check(ThreadQuery { search_term: Some("pear".to_owned()), ..all.clone() }, &["pears"]).await;
    check(ThreadQuery { search_term: Some("%".to_owned()), ..all.clone() }, &[]).await;
}

#[tokio::test]
async fn subagents_are_listed_below_their_thread() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    let below = |parent: Uuid, name: &str, at| NewThread { parent: Some(parent), ..named(name, at) };
    let root = named("root", 1);
    let child = below(root.id, "child", 2);
    let grandchild = below(child.id, "grandchild", 3);
    let tree = store.create(node.identity(), &root).await.unwrap();
    store.spawn_child(&tree, &child).await.unwrap();
    store.spawn_child(&tree, &grandchild).await.unwrap();

    let query = |below| ThreadQuery { below: Some(below), limit: 10, ..ThreadQuery::default() };
    assert_eq!(names(&store, &query(ThreadsBelow::Children(root.id))).await, ["child"]);
    assert_eq!(names(&store, &query(ThreadsBelow::Descendants(root.id))).await, ["grandchild", "child"]);
    assert_eq!(store.children(root.id).await.unwrap(), [child.id]);
    assert_eq!(store.thread(grandchild.id).await.unwrap().root, root.id);
}

#[tokio::test]
async fn a_page_ends_early_if_its_previews_are_large() {
    let Some(database) = TestDatabase::create().await else { return };
    let store = database.open_store().await;
    let node = register(&store, "a").await;
    for at in 0..4 {
        let thread = NewThread { preview: Some("x".repeat(3 << 20)), ..named("large", at) };
        store.create(node.identity(), &thread).await.unwrap();
    }
    let page = store.list(&ThreadQuery { limit: 10, ..ThreadQuery::default() }).await.unwrap();
    assert_eq!((page.threads.len(), page.has_more), (2, true));
}
