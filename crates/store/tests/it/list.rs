//! Pages, filters, orders and searches.

use codicil_protocol::{
    GitInfo, SessionSource, SubAgentSource, ThreadId, ThreadSourceKind, ThreadStatus, UserInput,
};
use codicil_store::{ListQuery, ListSort, Record, StoreError, ThreadMeta, new_thread_id};

use crate::support::{Copies, Home, meta, previews, turn, user};

async fn create(home: &Home, text: &str, change: impl FnOnce(&mut ThreadMeta)) -> ThreadId {
    let mut meta = meta(&new_thread_id());
    change(&mut meta);
    let mut log = home.store.create(meta).await.unwrap();
    log.append(&turn("t1", text, "answer")).await.unwrap();
    log.id().clone()
}

async fn listed(home: &Home, query: ListQuery) -> Vec<String> {
    previews(&home.store.list(query).await.unwrap())
}

#[tokio::test]
async fn the_first_thread_of_a_fresh_home_is_listed_at_once() {
    for _ in 0..20 {
        let home = Home::new();
        home.thread("first").await;
        assert_eq!(home.previews().await, ["first"]);
    }
}

#[tokio::test]
async fn an_empty_home_has_an_empty_list() {
    let home = Home::new();
    let page = home.store.list(ListQuery::default()).await.unwrap();
    assert!(page.threads.is_empty() && page.next_cursor.is_none());
}

#[tokio::test]
async fn threads_appear_with_their_first_user_message() {
    let home = Home::new();
    let mut log = home.begin().await;
    assert!(home.previews().await.is_empty());
    log.append(&[Record::Turn { turn_id: "t1".into() }]).await.unwrap();
    assert!(home.previews().await.is_empty());
    log.append(&[Record::Item { turn_id: "t1".into(), item: user("t1", "hello") }]).await.unwrap();
    assert_eq!(home.previews().await, ["hello"]);
    log.append(&turn("t2", "later", "answer")).await.unwrap();
    assert_eq!(home.previews().await, ["hello"]);
}

#[tokio::test]
async fn a_row_contains_all_metadata() {
    let home = Home::new();
    let id = create(&home, "What is this?", |meta| {
        meta.agent_nickname = Some("Ada".to_owned());
        meta.agent_role = Some("reviewer".to_owned());
        meta.cli_version = "9.9".to_owned();
    })
    .await;
    home.store.set_name(&id, "A name").await.unwrap();
    let git = GitInfo { sha: None, branch: Some("main".to_owned()), origin_url: None };
    home.store.set_git(&id, Some(git.clone())).await.unwrap();
    let page = home.store.list(ListQuery::default()).await.unwrap();
    let thread = &page.threads[0];
    assert_eq!(thread.id, id);
    assert_eq!((thread.preview.as_str(), thread.name.as_deref()), ("What is this?", Some("A name")));
    assert_eq!((&thread.git_info, thread.cwd.as_str()), (&Some(git), "/work/project"));
    assert_eq!(thread.agent_nickname.as_deref(), Some("Ada"));
    assert_eq!(thread.agent_role.as_deref(), Some("reviewer"));
    assert_eq!((thread.source.clone(), thread.model_provider.as_str()), (SessionSource::Vscode, "mock"));
    assert_eq!((thread.cli_version.as_str(), &thread.status), ("9.9", &ThreadStatus::NotLoaded));
    assert_eq!(thread.path.as_deref(), home.store.find(&id).await.unwrap().path.to_str());
    assert!((jiff::Timestamp::now().as_second() - thread.created_at) <= 5);
    assert!(!thread.ephemeral && thread.turns.is_empty() && thread.updated_at >= thread.created_at);
    assert_eq!(home.store.read_summary(&id).await.unwrap(), *thread);
    // The index agrees with the file.
    home.store.reindex(|_| {}).await.unwrap();
    assert_eq!(home.store.list(ListQuery::default()).await.unwrap().threads[0], *thread);
    home.store.set_git(&id, None).await.unwrap();
    assert_eq!(home.store.list(ListQuery::default()).await.unwrap().threads[0].git_info, None);
}

#[tokio::test]
async fn previews_join_all_texts() {
    let home = Home::new();
    let mut log = home.begin().await;
    let text = |text: &str| UserInput::Text { text: text.to_owned(), text_elements: Vec::new() };
    let content = vec![text("one "), UserInput::LocalImage { path: "/x.png".to_owned() }, text("two")];
    let item = codicil_protocol::ThreadItem::UserMessage { id: "u".into(), content };
    log.append(&[Record::Item { turn_id: "t".into(), item }]).await.unwrap();
    assert_eq!(home.previews().await, ["one two"]);
}

#[tokio::test]
async fn pages_follow_each_other_without_gap_or_overlap() {
    let home = Home::new();
    let copies = Copies::of(&home, "number 0").await;
    // Three threads per second: ties are broken by the id.
    for number in 0..70 {
        copies.put(home.path(), 1_760_000_000 + number / 3, "number 0", &format!("number {number}"));
    }
    for sort in [ListSort::Created, ListSort::Updated] {
        let mut seen = Vec::new();
        let mut cursor = None;
        loop {
            let query = ListQuery { cursor, limit: Some(9), sort, ..ListQuery::default() };
            let page = home.store.list(query).await.unwrap();
            assert!(page.threads.len() == 9 || page.next_cursor.is_none());
            seen.extend(page.threads.into_iter().map(|thread| (thread.created_at, thread.id)));
            cursor = page.next_cursor;
            if cursor.is_none() {
                break;
            }
        }
        assert_eq!(seen.len(), 70);
        assert!(seen.is_sorted_by(|one, two| one > two), "{seen:?}");
    }
}

#[tokio::test]
async fn paging_is_stable_while_threads_are_added() {
    let home = Home::new();
    let copies = Copies::of(&home, "old 0").await;
    for number in 0..20 {
        copies.put(home.path(), 1_760_000_000 + number, "old 0", &format!("old {number}"));
    }
    let mut seen = Vec::new();
    let mut cursor = None;
    for round in 0.. {
        let page =
            home.store.list(ListQuery { cursor, limit: Some(6), ..ListQuery::default() }).await.unwrap();
        seen.extend(previews(&page));
        home.thread("new").await;
        copies.put(home.path(), 1_770_000_000 + round, "old 0", "new");
        cursor = page.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected: Vec<_> = (0..20).rev().map(|number| format!("old {number}")).collect();
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn the_cursor_is_the_time_and_the_id_of_the_last_thread() {
    let home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    let (id, _) = copies.put(home.path(), 1_794_772_800, "WORDS", "second");
    copies.put(home.path(), 1_794_772_700, "WORDS", "third");
    let page = home.store.list(ListQuery { limit: Some(1), ..ListQuery::default() }).await.unwrap();
    assert_eq!(page.next_cursor, Some(format!("2026-11-15T20:00:00Z|{id}")));
    let bad = ListQuery { cursor: Some("not a cursor".to_owned()), ..ListQuery::default() };
    let error = home.store.list(bad).await.unwrap_err();
    assert!(matches!(error, StoreError::InvalidCursor(_)));
    assert_eq!(error.to_string(), "invalid cursor: not a cursor");
}

#[tokio::test]
async fn sorting_by_update_follows_the_conversation() {
    let home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    let (old, _) = copies.put(home.path(), 1_760_000_000, "WORDS", "old");
    copies.put(home.path(), 1_760_000_100, "WORDS", "new");
    let by_update = ListQuery { sort: ListSort::Updated, ..ListQuery::default() };
    assert_eq!(listed(&home, by_update.clone()).await, ["new", "old"]);
    // A name does not count as activity; a turn does.
    home.store.set_name(&old, "named").await.unwrap();
    assert_eq!(listed(&home, by_update.clone()).await, ["new", "old"]);
    let mut log = home.store.open_log(&old).await.unwrap();
    log.append(&turn("t2", "more", "answer")).await.unwrap();
    assert_eq!(listed(&home, by_update.clone()).await, ["old", "new"]);
    assert_eq!(listed(&home, ListQuery::default()).await, ["new", "old"]);
    home.store.reindex(|_| {}).await.unwrap();
    assert_eq!(listed(&home, by_update).await, ["old", "new"]);
}

#[tokio::test]
async fn filters_combine() {
    let home = Home::new();
    create(&home, "one", |_| {}).await;
    create(&home, "two", |meta| meta.model_provider = "other".to_owned()).await;
    create(&home, "three", |meta| meta.cwd = "/elsewhere".to_owned()).await;
    create(&home, "four", |meta| {
        meta.model_provider = "other".to_owned();
        meta.cwd = "/elsewhere".to_owned();
    })
    .await;
    let providers = |names: &[&str]| ListQuery {
        model_providers: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ListQuery::default()
    };
    assert_eq!(listed(&home, providers(&[])).await.len(), 4);
    assert_eq!(listed(&home, providers(&["other"])).await, ["four", "two"]);
    assert_eq!(listed(&home, providers(&["other", "mock"])).await.len(), 4);
    let elsewhere = Some("/elsewhere".to_owned());
    assert_eq!(
        listed(&home, ListQuery { cwd: elsewhere.clone(), ..ListQuery::default() }).await,
        ["four", "three"]
    );
    assert_eq!(listed(&home, ListQuery { cwd: elsewhere, ..providers(&["mock"]) }).await, ["three"]);
    let part = ListQuery { cwd: Some("/elsewhere/".to_owned()), ..ListQuery::default() };
    assert!(listed(&home, part).await.is_empty());
}

#[tokio::test]
async fn only_interactive_threads_are_listed_by_default() {
    use ThreadSourceKind::{
        AppServer, Exec, SubAgent, SubAgentCompact, SubAgentOther, SubAgentReview, SubAgentThreadSpawn,
        Unknown,
    };
    let home = Home::new();
    let spawn = SubAgentSource::ThreadSpawn {
        agent_nickname: None,
        agent_path: None,
        agent_role: None,
        depth: 1,
        parent_thread_id: ThreadId::from("parent"),
    };
    for (text, source) in [
        ("cli", SessionSource::Cli),
        ("vscode", SessionSource::Vscode),
        ("exec", SessionSource::Exec),
        ("server", SessionSource::AppServer),
        ("custom", SessionSource::Custom("x".to_owned())),
        ("review", SessionSource::SubAgent(SubAgentSource::Review)),
        ("compact", SessionSource::SubAgent(SubAgentSource::Compact)),
        ("spawn", SessionSource::SubAgent(spawn)),
        ("memory", SessionSource::SubAgent(SubAgentSource::MemoryConsolidation)),
    ] {
        create(&home, text, |meta| meta.source = source).await;
    }
    let kinds =
        |kinds: &[ThreadSourceKind]| ListQuery { source_kinds: kinds.to_vec(), ..ListQuery::default() };
    assert_eq!(listed(&home, kinds(&[])).await, ["vscode", "cli"]);
    assert_eq!(listed(&home, kinds(&[Exec, AppServer])).await, ["server", "exec"]);
    assert_eq!(listed(&home, kinds(&[SubAgentThreadSpawn])).await, ["spawn"]);
    assert_eq!(listed(&home, kinds(&[SubAgentReview, SubAgentCompact])).await, ["compact", "review"]);
    assert_eq!(listed(&home, kinds(&[SubAgentOther])).await, ["memory"]);
    assert_eq!(listed(&home, kinds(&[SubAgent])).await, ["memory", "spawn", "compact", "review"]);
    assert_eq!(listed(&home, kinds(&[Unknown])).await, ["custom"]);
    // Sources survive rebuilding the index.
    home.store.reindex(|_| {}).await.unwrap();
    assert_eq!(listed(&home, kinds(&[SubAgentThreadSpawn])).await, ["spawn"]);
}

#[tokio::test]
async fn a_search_covers_names_and_first_messages() {
    let home = Home::new();
    let named = create(&home, "Fix the parser", |_| {}).await;
    create(&home, "write 100% of _all_ tests", |_| {}).await;
    home.store.set_name(&named, "Grammatik äöü").await.unwrap();
    let search = |term: &str| ListQuery { search_term: Some(term.to_owned()), ..ListQuery::default() };
    for (term, expected) in [
        ("parser", vec!["Fix the parser"]),
        ("Parser", vec![]),
        ("matik ä", vec!["Fix the parser"]),
        ("0% of _", vec!["write 100% of _all_ tests"]),
        ("%", vec!["write 100% of _all_ tests"]),
        ("the", vec!["Fix the parser"]),
        ("answer", vec![]),
        ("", vec!["write 100% of _all_ tests", "Fix the parser"]),
    ] {
        assert_eq!(listed(&home, search(term)).await, expected, "{term}");
    }
}

#[tokio::test]
async fn a_page_of_huge_messages_ends_early() {
    let home = Home::new();
    for _ in 0..7 {
        create(&home, &"x".repeat(1_000_000), |_| {}).await;
    }
    let page = home.store.list(ListQuery::default()).await.unwrap();
    assert!(page.threads.len() < 7, "{} threads", page.threads.len());
    let rest = home.store.list(ListQuery { cursor: page.next_cursor, ..ListQuery::default() }).await.unwrap();
    assert_eq!(page.threads.len() + rest.threads.len(), 7);
}
