//! What every store of threads does, in files and in databases. Each crate with a store includes this module in its tests and
//! says with `conformance_home` how a store is opened.

mod records;

use codicil_protocol::{GitInfo, SessionSource, SubAgentSource, ThreadAttachment, ThreadId, ThreadSection};
use codicil_store::{
    AdoptedRecord, AttachmentChange, AttachmentKey, FactChange, ForkPoint, KeyIntent, KeyRecord, ListBelow,
    ListQuery, ListSection, ListSort, Organization, Record, RunId, RunState, SearchQuery, SectionPlace,
    Store, StoreError, StoredSettings, ThreadLog, ThreadMeta, new_thread_id,
};
use serde_json::{json, value::to_raw_value};

use self::records::{agent_text, begun, meta, turn};
use crate::conformance_home;

/// Opens a store, or ends the test where there is no database.
macro_rules! open {
    () => {
        match conformance_home().await {
            Some(home) => home,
            None => return,
        }
    };
}

async fn thread(store: &Store, text: &str) -> ThreadLog {
    let mut log = store.create(meta(&new_thread_id())).await.unwrap();
    log.append(&turn("turn-1", text, "an answer")).await.unwrap();
    log
}

async fn previews(store: &Store, query: ListQuery) -> Vec<String> {
    let page = store.list(query).await.unwrap();
    page.threads.into_iter().map(|thread| thread.preview).collect()
}

fn is_missing<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::NotFound(_)))
}

#[tokio::test]
async fn a_thread_is_created_once_and_read_as_it_was_written() {
    let home = open!();
    let store = &home.store;
    let id = new_thread_id();
    let settings = StoredSettings::without_snapshot("model-1".to_owned(), None);
    let mut log = store.create_with(meta(&id), vec![Record::Settings(settings)]).await.unwrap();
    assert_eq!((log.id(), log.next_ordinal()), (&id, 2));
    assert!(matches!(store.create(meta(&id)).await, Err(StoreError::Exists(found)) if found == id));

    let records = turn("turn-1", "hello", "hi there");
    let appended = log.append(&records).await.unwrap();
    assert_eq!(appended.ordinals, 2..2 + records.len() as u64);
    assert!(appended.adopted.is_empty());
    log.sync().await.unwrap();
    store.flush().await.unwrap();

    let stored = store.read(&id).await.unwrap();
    assert_eq!(stored.meta, meta(&id));
    assert_eq!((stored.next_ordinal, stored.preview.as_deref()), (appended.ordinals.end, Some("hello")));
    assert_eq!(stored.turns().len(), 1);
    assert_eq!(agent_text(&stored.turns()[0]), "hi there");
    assert!(!store.find(&id).await.unwrap().archived);
    let loaded = store.load(&id).await.unwrap();
    assert_eq!(loaded.history.len(), 2);
    assert_eq!(store.token_usage(&id).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_writer_that_was_overtaken_writes_nothing() {
    let home = open!();
    let store = &home.store;
    let log = thread(store, "hello").await;
    let id = log.id().clone();
    let read = store.read(&id).await.unwrap();
    let mut first = store.open_log_after(&read).await.unwrap();
    let mut second = store.open_log_after(&read).await.unwrap();
    second.append(&turn("turn-2", "second", "two")).await.unwrap();
    assert!(!first.is_current().await && second.is_current().await);
    let error = first.append(&turn("turn-3", "third", "three")).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Overtaken { expected, .. } if expected == read.next_ordinal),
        "{error}"
    );
    let turns = store.read(&id).await.unwrap().turns();
    assert_eq!(turns.iter().map(|turn| turn.id.to_string()).collect::<Vec<_>>(), ["turn-1", "turn-2"]);
}

#[tokio::test]
async fn names_and_repositories_from_outside_are_adopted() {
    let home = open!();
    let store = &home.store;
    let mut log = thread(store, "hello").await;
    let id = log.id().clone();
    store.set_name(&id, "a name").await.unwrap();
    let git = GitInfo { sha: None, branch: Some("main".to_owned()), origin_url: None };
    store.set_git(&id, Some(git.clone())).await.unwrap();
    let appended = log.append(&turn("turn-2", "more", "two")).await.unwrap();
    let expected = [AdoptedRecord::Name("a name".to_owned()), AdoptedRecord::Git(Some(git.clone()))];
    assert_eq!(appended.adopted, expected);
    let summary = store.read_summary(&id).await.unwrap();
    assert_eq!((summary.name.as_deref(), summary.git_info), (Some("a name"), Some(git)));
}

#[tokio::test]
async fn records_are_read_from_an_ordinal_on() {
    let home = open!();
    let store = &home.store;
    let mut log = thread(store, "hello").await;
    let second = log.append(&turn("turn-2", "more", "two")).await.unwrap();
    let tail = store.record_tail(log.id(), second.ordinals.start, usize::MAX).await.unwrap();
    assert!(!tail.records.is_empty() && !tail.was_rolled_back && !tail.is_too_long);
    assert!(tail.records.iter().all(|record| record.ordinal >= second.ordinals.start));
    assert!(store.record_tail(log.id(), 1, 10).await.unwrap().is_too_long);
    let turns = store.turns_after(log.id(), second.ordinals.start - 1).await.unwrap();
    assert_eq!(turns.len(), 1);
}

#[tokio::test]
async fn what_does_not_exist_is_not_found() {
    let home = open!();
    let store = &home.store;
    let id = new_thread_id();
    assert!(is_missing(store.read(&id).await));
    assert!(is_missing(store.load(&id).await));
    assert!(is_missing(store.find(&id).await));
    assert!(is_missing(store.read_summary(&id).await));
    assert!(is_missing(store.open_log(&id).await.map(drop)));
    assert!(is_missing(store.archive(&id).await));
    assert!(is_missing(store.unarchive(&id).await));
    assert!(is_missing(store.delete(&id).await));
    assert!(is_missing(store.fork(&id, ForkPoint::End, meta(&new_thread_id())).await.map(drop)));
    assert_eq!(store.find_imported(&id).await.unwrap(), None);
    assert_eq!(store.children(&id).await.unwrap(), []);
}

#[tokio::test]
async fn pages_of_a_list_follow_each_other() {
    let home = open!();
    let store = &home.store;
    for text in ["one", "two", "three"] {
        thread(store, text).await;
    }
    // A thread without a message is not listed.
    store.create(meta(&new_thread_id())).await.unwrap();
    for (sort, oldest_first, expected) in [
        (ListSort::Created, false, ["three", "two", "one"]),
        (ListSort::Created, true, ["one", "two", "three"]),
        (ListSort::Updated, false, ["three", "two", "one"]),
    ] {
        let mut query = ListQuery { sort, oldest_first, limit: Some(2), ..ListQuery::default() };
        let first = store.list(query.clone()).await.unwrap();
        assert_eq!(first.threads.len(), 2);
        query.cursor.clone_from(&first.next_cursor);
        let second = store.list(query.clone()).await.unwrap();
        assert_eq!((second.threads.len(), second.next_cursor.is_none()), (1, true));
        let found: Vec<_> =
            first.threads.iter().chain(&second.threads).map(|it| it.preview.as_str()).collect();
        assert_eq!(found, expected);
        // Back from the last page. Only from a list of new threads first, the thread at which the page began is left out.
        let back = ListQuery { cursor: second.backwards_cursor, oldest_first: !oldest_first, ..query };
        let from = if sort == ListSort::Created && !oldest_first { 1 } else { 2 };
        assert_eq!(previews(store, back).await, [expected[from], expected[from - 1]]);
    }
    let bad = ListQuery { cursor: Some("x".to_owned()), ..ListQuery::default() };
    assert!(matches!(store.list(bad).await, Err(StoreError::InvalidCursor(_))));
}

#[tokio::test]
async fn filters_narrow_a_list() {
    let home = open!();
    let store = &home.store;
    let named = |cwd: &str, provider: &str, source: SessionSource| {
        ThreadMeta::new(new_thread_id(), cwd, source, provider)
    };
    let mut ids = Vec::new();
    for (text, meta) in [
        ("apples", named("/apples", "mock", SessionSource::Vscode)),
        ("pears", named("/pears", "other", SessionSource::Cli)),
        ("review", named("/apples", "mock", SessionSource::SubAgent(SubAgentSource::Review))),
    ] {
        let mut log = store.create(meta).await.unwrap();
        log.append(&turn("turn-1", text, "an answer")).await.unwrap();
        ids.push(log.id().clone());
    }
    store.set_name(&ids[1], "Fruit 100%").await.unwrap();
    let check = async |query: ListQuery, expected: &[&str]| {
        assert_eq!(previews(store, query.clone()).await, expected, "{query:?}");
    };
    let all = ListQuery::default;
    check(all(), &["pears", "apples"]).await;
    check(ListQuery { cwds: Some(vec!["/apples".to_owned()]), ..all() }, &["apples"]).await;
    check(ListQuery { cwds: Some(Vec::new()), ..all() }, &[]).await;
    check(ListQuery { model_providers: vec!["other".to_owned()], ..all() }, &["pears"]).await;
    let reviews = vec![codicil_protocol::ThreadSourceKind::SubAgent];
    check(ListQuery { source_kinds: reviews, ..all() }, &["review"]).await;
    check(ListQuery { excluded: vec![ids[1].clone()], ..all() }, &["apples"]).await;
    check(ListQuery { only: Some(vec![ids[0].clone()]), ..all() }, &["apples"]).await;
    check(ListQuery { search_term: Some("100%".to_owned()), ..all() }, &["pears"]).await;
    check(ListQuery { search_term: Some("APP".to_owned()), ..all() }, &[]).await;
    check(ListQuery { archived: true, ..all() }, &[]).await;
}

#[tokio::test]
async fn a_summary_follows_the_records() {
    let home = open!();
    let store = &home.store;
    let mut log = thread(store, "hello").await;
    let id = log.id().clone();
    let settings = StoredSettings::without_snapshot("model-2".to_owned(), None);
    log.append(&[Record::Settings(settings)]).await.unwrap();
    let summary = store.read_summary(&id).await.unwrap();
    assert_eq!((summary.model.as_deref(), summary.preview.as_str()), (Some("model-2"), "hello"));
    assert_eq!(summary.cwd, "/work/project");
    let stored = store.read(&id).await.unwrap();
    assert_eq!((stored.created_at, stored.updated_at), (summary.created_at, summary.updated_at));
    let mut listed = store.list(ListQuery::default()).await.unwrap().threads;
    assert_eq!(listed.pop(), Some(summary));
}

#[tokio::test]
async fn threads_are_archived_restored_and_deleted() {
    let home = open!();
    let store = &home.store;
    let mut log = thread(store, "hello").await;
    let id = log.id().clone();
    assert!(store.archive(&id).await.unwrap().archived);
    assert!(is_missing(store.archive(&id).await));
    assert!(store.find(&id).await.unwrap().archived && store.read(&id).await.unwrap().archived);
    assert_eq!(previews(store, ListQuery::default()).await, [""; 0]);
    let archived = ListQuery { archived: true, ..ListQuery::default() };
    assert_eq!(previews(store, archived.clone()).await, ["hello"]);
    log.append(&turn("turn-2", "more", "two")).await.unwrap();
    assert!(!store.unarchive(&id).await.unwrap().archived);
    assert!(is_missing(store.unarchive(&id).await));
    assert_eq!(previews(store, ListQuery::default()).await, ["hello"]);

    store.delete(&id).await.unwrap();
    assert!(is_missing(store.read(&id).await) && is_missing(store.delete(&id).await));
    assert!(log.append(&turn("turn-3", "late", "three")).await.is_err());
    assert_eq!(previews(store, ListQuery::default()).await, [""; 0]);
}

#[tokio::test]
async fn subagents_are_below_their_thread() {
    let home = open!();
    let store = &home.store;
    let root = thread(store, "root").await.id().clone();
    let below = async |parent: &ThreadId, text: &str| {
        let meta = ThreadMeta { parent_thread_id: Some(parent.clone()), ..meta(&new_thread_id()) };
        let mut log = store.create(meta).await.unwrap();
        log.append(&turn("turn-1", text, "an answer")).await.unwrap();
        log.id().clone()
    };
    let child = below(&root, "child").await;
    below(&child, "grandchild").await;
    assert_eq!(store.children(&root).await.unwrap(), std::slice::from_ref(&child));
    let list = |below| ListQuery { below: Some(below), ..ListQuery::default() };
    assert_eq!(previews(store, list(ListBelow::Children(root.clone()))).await, ["child"]);
    assert_eq!(previews(store, list(ListBelow::Descendants(root.clone()))).await, ["grandchild", "child"]);
    assert_eq!(store.read_summary(&child).await.unwrap().parent_thread_id, Some(root));
}

#[tokio::test]
async fn forks_have_the_turns_before_their_point() {
    let home = open!();
    let store = &home.store;
    let mut log = thread(store, "hello").await;
    log.append(&turn("turn-2", "more", "two")).await.unwrap();
    log.append(&begun("turn-3", "unfinished")).await.unwrap();
    store.set_name(log.id(), "a name").await.unwrap();
    let check = async |point: ForkPoint, expected: &[&str]| {
        let id = new_thread_id();
        let mut copy = store.fork(log.id(), point, meta(&id)).await.unwrap();
        copy.append(&[Record::Name { name: "copy".to_owned() }]).await.unwrap();
        let stored = store.read(&id).await.unwrap();
        assert_eq!(stored.turns.iter().map(|turn| &*turn.id).collect::<Vec<_>>(), expected);
        assert_eq!(stored.meta.forked_from.as_ref(), Some(log.id()));
        assert!(stored.unfinished_turn().is_none());
        let summary = store.read_summary(&id).await.unwrap();
        assert_eq!(
            (summary.forked_from_id.as_ref(), summary.name.as_deref()),
            (Some(log.id()), Some("copy"))
        );
    };
    check(ForkPoint::End, &["turn-1", "turn-2", "turn-3"]).await;
    check(ForkPoint::After("turn-2".into()), &["turn-1", "turn-2"]).await;
    check(ForkPoint::Before("turn-2".into()), &["turn-1"]).await;
    let missing = store.fork(log.id(), ForkPoint::After("none".into()), meta(&new_thread_id())).await;
    assert!(matches!(missing.map(drop), Err(StoreError::TurnNotFound(_))));
}

#[tokio::test]
async fn large_texts_are_read_as_they_were_written() {
    let home = open!();
    let store = &home.store;
    let large = "\"é\\\n".repeat(40_000);
    let mut log = thread(store, &large).await;
    log.append(&turn("turn-2", "small", &large)).await.unwrap();
    log.sync().await.unwrap();
    let read = async |id: &ThreadId| {
        let loaded = store.load(id).await.unwrap();
        assert_eq!(loaded.thread.warnings.total, 0);
        assert_eq!(agent_text(&loaded.thread.turns()[1]), large);
        assert_eq!(store.read_summary(id).await.unwrap().preview, large.trim());
    };
    read(log.id()).await;
    let copy = store.fork(log.id(), ForkPoint::End, meta(&new_thread_id())).await.unwrap();
    read(copy.id()).await;
}

#[tokio::test]
async fn keys_of_requests_are_carried_out_once() {
    let home = open!();
    let store = &home.store;
    let key = "k".repeat(64);
    let mut lock = store.lock_key(&key).await.unwrap();
    assert!(lock.intent().is_none() && lock.result().is_none());
    let intent = KeyIntent { digest: "d".to_owned(), thread_id: Some(new_thread_id()), ephemeral: false };
    lock.begin(intent.clone()).await.unwrap();
    // A second request waits for the first one.
    let waiting = store.lock_key(&key);
    let finished = async {
        tokio::task::yield_now().await;
        lock.finish(&to_raw_value(&json!({ "done": 1 })).unwrap()).await.unwrap();
    };
    let (second, ()) = tokio::join!(waiting, finished);
    let second = second.unwrap();
    assert_eq!(second.intent(), Some(&intent));
    assert_eq!(second.result().unwrap().get(), "{\"done\":1}");
    drop(second);
    store.lock_key(&key).await.unwrap().forget().await;
    assert!(store.lock_key(&key).await.unwrap().intent().is_none());
}

#[tokio::test]
async fn keys_of_a_thread_are_in_its_records() {
    let home = open!();
    let store = &home.store;
    let mut log = thread(store, "hello").await;
    let result = to_raw_value(&json!({ "turn": "turn-2" })).unwrap();
    let key = KeyRecord { key: "k1".to_owned(), digest: "d1".to_owned(), result };
    let appended = log.append(&[Record::key(&key).unwrap()]).await.unwrap();
    let keys = store.keys(log.id()).await.unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!((keys[0].record.key.as_str(), keys[0].ordinal), ("k1", appended.ordinals.start));
}

#[tokio::test]
async fn sections_projects_and_attachments_order_threads() {
    let home = open!();
    let store = &home.store;
    let section = |organization: &mut Organization| {
        let (id, name) = ("s1".to_owned(), "Mine".to_owned());
        organization.sections.push(ThreadSection { id, name, appearance: None });
        Ok::<_, ()>(())
    };
    store.change_organization(section).await.unwrap().unwrap();
    assert_eq!(store.organization().await.unwrap().sections.len(), 1);
    let refused = |_: &mut Organization| Err::<(), _>("no");
    assert_eq!(store.change_organization(refused).await.unwrap(), Err("no"));

    let mut ids = Vec::new();
    for (text, rank) in [("one", "t"), ("two", "b")] {
        let mut log = thread(store, text).await;
        let place = SectionPlace { section_id: "s1".to_owned(), rank: rank.to_owned(), entered_at: 7 };
        let attachment = ThreadAttachment {
            id: "a".to_owned(),
            attachment_type: "note".to_owned(),
            identity_key: text.to_owned(),
            payload: json!({}),
            created_at: 7,
        };
        let changes = [
            FactChange::Section { place: Some(place) },
            FactChange::Project { project_id: Some("p1".to_owned()) },
            FactChange::Attachment(AttachmentChange::Add(attachment)),
        ];
        log.append(&changes.iter().map(Record::fact).collect::<Vec<_>>()).await.unwrap();
        ids.push(log.id().clone());
    }
    let members: Vec<_> = store.section_members("s1").await.unwrap().into_iter().map(|(id, _)| id).collect();
    assert_eq!(members, [ids[1].clone(), ids[0].clone()]);
    assert_eq!(store.project_threads("p1").await.unwrap(), ids);
    assert_eq!(store.project_recency().await.unwrap().len(), 1);
    let key = AttachmentKey { attachment_type: "note".to_owned(), identity_key: "two".to_owned() };
    assert_eq!(store.attachment_owners(key).await.unwrap(), [(ids[1].clone(), false)]);
    let query = ListQuery {
        sort: ListSort::Section,
        oldest_first: true,
        section: Some(ListSection::In("s1".to_owned())),
        limit: Some(1),
        ..ListQuery::default()
    };
    let first = store.list(query.clone()).await.unwrap();
    assert_eq!(first.threads[0].section.as_ref().map(|section| section.name.as_str()), Some("Mine"));
    let second = ListQuery { cursor: first.next_cursor, ..query };
    assert_eq!(
        (first.threads[0].preview.as_str(), previews(store, second).await),
        ("two", vec!["one".to_owned()])
    );
    thread(store, "three").await;
    let outside = |sections: &[&str]| ListQuery {
        section: Some(ListSection::OutsideOf(sections.iter().map(|id| (*id).to_owned()).collect())),
        ..ListQuery::default()
    };
    assert_eq!(previews(store, outside(&["s1"])).await, ["three"]);
    assert_eq!(previews(store, outside(&[])).await, ["three", "two", "one"]);
    let project = ListQuery { project_id: Some("p1".to_owned()), ..ListQuery::default() };
    assert_eq!(previews(store, project).await, ["two", "one"]);
}

#[tokio::test]
async fn messages_are_searched() {
    let home = open!();
    let store = &home.store;
    for text in ["a Needle", "nothing", "the NEEDLE again", "é is not plain"] {
        thread(store, text).await;
    }
    let search = async |term: &str, limit: Option<u32>, cursor: Option<String>| {
        let query = SearchQuery { term: term.to_owned(), limit, cursor, ..SearchQuery::default() };
        store.search(query).await.unwrap()
    };
    let snippets = |page: &codicil_store::SearchPage| {
        page.found.iter().map(|(_, snippet)| snippet.clone()).collect::<Vec<_>>()
    };
    assert_eq!(snippets(&search("needle", None, None).await), ["the NEEDLE again", "a Needle"]);
    assert_eq!(snippets(&search("É", None, None).await), ["é is not plain"]);
    assert_eq!(snippets(&search("needles", None, None).await), [""; 0]);
    let first = search("needle", Some(1), None).await;
    assert_eq!(snippets(&first), ["the NEEDLE again"]);
    assert_eq!(snippets(&search("needle", Some(1), first.next_cursor).await), ["a Needle"]);
    let id = first.found[0].0.thread.id.clone();
    assert_eq!(store.search_thread(&id, "needle").await.unwrap().len(), 1);
}

/// Returns the first messages of the threads whose messages contain a text.
async fn found(store: &Store, term: &str) -> Vec<String> {
    let query = SearchQuery { term: term.to_owned(), ..SearchQuery::default() };
    let page = store.search(query).await.unwrap();
    page.found.into_iter().map(|(listed, _)| listed.thread.preview).collect()
}

#[tokio::test]
async fn searches_find_the_same_before_and_after_messages_are_indexed() {
    let home = open!();
    let store = &home.store;
    let mut plain = thread(store, "plain words").await;
    let long = format!("{} haystack {}", "straw ".repeat(20_000), "Straße ÉTÉ ".repeat(10));
    thread(store, &long).await;
    thread(store, "quotes \" and \\ and 100% _under\nnext line").await;
    let preview = |text: &str| text.chars().take(9).collect::<String>();
    let check = async |term: &str, expected: &[&str]| {
        let found: Vec<_> = found(store, term).await.iter().map(|text| preview(text)).collect();
        assert_eq!(found, expected, "{term:?}");
    };
    let check_all = async || {
        check("WORDS", &["plain wor"]).await;
        // In a text that is stored apart from its record, behind what a list shows.
        check("haystack", &["straw str"]).await;
        check("straße été", &["straw str"]).await;
        check("\" AND \\", &["quotes \" "]).await;
        check("100% _U", &["quotes \" "]).await;
        check("under\nNEXT", &["quotes \" "]).await;
        check("an answer", &["quotes \" ", "straw str", "plain wor"]).await;
        // Too short for the index.
        check("wo", &["plain wor"]).await;
        check("1", &["quotes \" "]).await;
        // The trigrams are there, the text is not.
        check("wordsplain", &[]).await;
        check("plain  words", &[]).await;
    };
    check_all().await;
    store.index_messages().await.unwrap();
    check_all().await;

    // What is added later is found at once, indexed or not.
    plain.append(&turn("turn-2", "a later needle", "an answer")).await.unwrap();
    check("later needle", &["plain wor"]).await;
    store.index_messages().await.unwrap();
    check("later needle", &["plain wor"]).await;
    // What is dropped or deleted is not found, although it was indexed.
    plain.append(&[Record::Rollback { turns: 1 }]).await.unwrap();
    check("later needle", &[]).await;
    store.delete(plain.id()).await.unwrap();
    check("words", &[]).await;
    store.index_messages().await.unwrap();
    check("an answer", &["quotes \" ", "straw str"]).await;
}

#[tokio::test]
async fn a_run_is_that_of_the_store() {
    let home = open!();
    let run = home.store.begin_run().await.unwrap().unwrap();
    assert_eq!(home.store.begin_run().await.unwrap(), Some(run.clone()));
    assert_eq!(home.store.run_state(&run).await.unwrap(), RunState::Own);
    for over in ["019a8914-3a00-7000-8000-000000000002", "run", ""] {
        assert_eq!(home.store.run_state(&RunId::from(over.to_owned())).await.unwrap(), RunState::Over);
    }
}

#[tokio::test]
async fn imported_threads_keep_their_times_and_are_continued() {
    let home = open!();
    let store = &home.store;
    let id = new_thread_id();
    let at = jiff::Timestamp::from_second(1_700_000_000).unwrap();
    let records = turn("turn-1", "old", "answer").into_iter().map(|record| (at, record)).collect();
    store.import(meta(&id), at, records).await.unwrap();
    assert!(store.find_imported(&id).await.unwrap().is_some());
    assert!(matches!(store.last_record(&id).await.unwrap(), Some(Record::TurnEnd { .. })));
    assert_eq!(store.read(&id).await.unwrap().turns[0].completed(), Some(at));
    let mut log = store.open_log(&id).await.unwrap();
    log.append_dated(&[(at, Record::Name { name: "imported".to_owned() })]).await.unwrap();
    assert_eq!(store.read_summary(&id).await.unwrap().name.as_deref(), Some("imported"));
}
