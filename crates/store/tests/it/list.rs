//! Pages, filters, orders and searches.

use codicil_protocol::{
    GitInfo, ReasoningEffort, SessionSource, SubAgentSource, ThreadHistoryMode, ThreadId, ThreadSourceKind,
    ThreadStatus, UserInput,
};
use codicil_store::{
    ListBelow, ListQuery, ListSort, Record, StoreError, StoredSettings, ThreadMeta, new_thread_id,
};

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
    log.append(&[Record::Turn { turn_id: "t1".into(), run: None }]).await.unwrap();
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
    let content = vec![text("one "), UserInput::local_image("/x.png"), text("two")];
    let item = codicil_protocol::ThreadItem::UserMessage { id: "u".into(), content, client_id: None };
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
    let cwds = |cwds: &[&str]| Some(cwds.iter().map(|cwd| (*cwd).to_owned()).collect());
    let elsewhere = ListQuery { cwds: cwds(&["/elsewhere"]), ..ListQuery::default() };
    assert_eq!(listed(&home, elsewhere).await, ["four", "three"]);
    let of_mock = ListQuery { cwds: cwds(&["/elsewhere"]), ..providers(&["mock"]) };
    assert_eq!(listed(&home, of_mock).await, ["three"]);
    let part = ListQuery { cwds: cwds(&["/elsewhere/"]), ..ListQuery::default() };
    assert!(listed(&home, part).await.is_empty());
    let both = ListQuery { cwds: cwds(&["/elsewhere", "/work/project", "/nowhere"]), ..ListQuery::default() };
    assert_eq!(listed(&home, both).await.len(), 4);
    let none = ListQuery { cwds: cwds(&[]), ..ListQuery::default() };
    assert!(listed(&home, none).await.is_empty());
}

#[tokio::test]
async fn threads_are_left_out_by_id() {
    let home = Home::new();
    let mut ids = Vec::new();
    for name in ["one", "two", "three"] {
        ids.push(create(&home, name, |_| {}).await);
    }
    let without = |excluded: Vec<ThreadId>| ListQuery { excluded, ..ListQuery::default() };
    assert_eq!(listed(&home, without(vec![ids[1].clone()])).await, ["three", "one"]);
    assert_eq!(listed(&home, without(ids.clone())).await, [""; 0]);
    // More than SQLite allows as separate values.
    let many = (0..40_000).map(|_| new_thread_id()).chain([ids[0].clone()]).collect();
    assert_eq!(listed(&home, without(many)).await, ["three", "two"]);
}

#[tokio::test]
async fn subagents_are_listed_below_their_threads() {
    let home = Home::new();
    let agent = |parent: &ThreadId| {
        let parent = parent.clone();
        move |meta: &mut ThreadMeta| {
            meta.parent_thread_id = Some(parent.clone());
            meta.source = SessionSource::SubAgent(SubAgentSource::ThreadSpawn {
                parent_thread_id: parent.clone(),
                depth: 1,
                agent_path: None,
                agent_nickname: None,
                agent_role: None,
            });
        }
    };
    let main = create(&home, "main", |_| {}).await;
    let child = create(&home, "child", agent(&main)).await;
    create(&home, "grandchild", agent(&child)).await;
    create(&home, "other", |_| {}).await;
    let below = |below| ListQuery { below: Some(below), ..ListQuery::default() };
    assert_eq!(listed(&home, ListQuery::default()).await, ["other", "main"]);
    assert_eq!(listed(&home, below(ListBelow::Children(main.clone()))).await, ["child"]);
    assert_eq!(listed(&home, below(ListBelow::Descendants(main.clone()))).await, ["grandchild", "child"]);
    assert_eq!(listed(&home, below(ListBelow::Descendants(child))).await, ["grandchild"]);
    let only_exec =
        ListQuery { source_kinds: vec![ThreadSourceKind::Exec], ..below(ListBelow::Descendants(main)) };
    assert_eq!(listed(&home, only_exec).await, [""; 0]);
    assert_eq!(listed(&home, below(ListBelow::Children(new_thread_id()))).await, [""; 0]);
}

/// Threads that name each other as parents do not make the list endless.
#[tokio::test]
async fn a_circle_of_parents_is_listed_once() {
    let home = Home::new();
    let first = new_thread_id();
    let second = create(&home, "second", |meta| meta.parent_thread_id = Some(first.clone())).await;
    create(&home, "first", |meta| {
        meta.id = first.clone();
        meta.parent_thread_id = Some(second.clone());
    })
    .await;
    let below = ListQuery { below: Some(ListBelow::Descendants(first)), ..ListQuery::default() };
    assert_eq!(listed(&home, below).await.len(), 2);
}

#[tokio::test]
async fn a_list_can_be_read_in_both_directions() {
    let home = Home::new();
    for name in ["a", "b", "c", "d", "e"] {
        create(&home, name, |_| {}).await;
    }
    for sort in [ListSort::Created, ListSort::Updated] {
        let query = |cursor, oldest_first| ListQuery {
            cursor,
            limit: Some(2),
            sort,
            oldest_first,
            ..ListQuery::default()
        };
        let page = |query| async { home.store.list(query).await.unwrap() };
        let first = page(query(None, false)).await;
        assert_eq!(previews(&first), ["e", "d"]);
        let second = page(query(first.next_cursor, false)).await;
        assert_eq!(previews(&second), ["c", "b"]);
        // The way back from a list by creation begins before the first thread of the page, others include it.
        let back = page(query(second.backwards_cursor, true)).await;
        let (there, again) = match sort {
            ListSort::Created => (["d", "e"], ["d", "c"]),
            _ => (["c", "d"], ["c", "b"]),
        };
        assert_eq!(previews(&back), there);
        assert_eq!(back.next_cursor.is_none(), sort == ListSort::Created);
        // Newest first, it includes the thread at which the page began.
        let newest_first = page(query(back.backwards_cursor, false)).await;
        assert_eq!(previews(&newest_first), again);
        let oldest = page(query(None, true)).await;
        assert_eq!(previews(&oldest), ["a", "b"]);
        assert_eq!(previews(&page(query(oldest.next_cursor, true)).await), ["c", "d"]);
    }
    let nothing = ListQuery { cwds: Some(Vec::new()), ..ListQuery::default() };
    assert_eq!(home.store.list(nothing).await.unwrap().backwards_cursor, None);
}

/// The index has these members from an append, from a new thread and from a scan of the file.
#[tokio::test]
async fn lists_show_the_model_and_the_origin_of_threads() {
    let home = Home::new();
    let origin = new_thread_id();
    let meta = ThreadMeta {
        forked_from: Some(origin.clone()),
        originator: Some("editor".to_owned()),
        thread_source: Some("user".to_owned()),
        history_mode: ThreadHistoryMode::Legacy,
        ..meta(&new_thread_id())
    };
    let settings = |model: &str, effort| StoredSettings::without_snapshot(model.to_owned(), effort);
    let first = settings("m-1", Some(ReasoningEffort::High));
    let mut log = home.store.create_with(meta.clone(), vec![Record::Settings(first)]).await.unwrap();
    log.append(&turn("t1", "hello", "answer")).await.unwrap();
    let check = async |model: &str, effort: Option<ReasoningEffort>| {
        let page = home.store.list(ListQuery::default()).await.unwrap();
        let thread = &page.threads[0];
        assert_eq!((thread.model.as_deref(), &thread.reasoning_effort), (Some(model), &effort));
        assert_eq!(thread.forked_from_id.as_ref(), Some(&origin));
        assert_eq!(thread.originator.as_deref(), Some("editor"));
        assert_eq!(thread.thread_source.as_deref(), Some("user"));
        assert_eq!(thread.history_mode, ThreadHistoryMode::Legacy);
        assert_eq!(*thread, home.store.read(&meta.id).await.unwrap().summary());
    };
    check("m-1", Some(ReasoningEffort::High)).await;
    log.append(&[Record::Settings(settings("m-2", None))]).await.unwrap();
    check("m-2", None).await;
    home.store.reindex(|_| {}).await.unwrap();
    check("m-2", None).await;
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
