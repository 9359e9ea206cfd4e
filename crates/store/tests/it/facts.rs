//! Facts beside the conversation, in files and in the index, and the search in messages.

use codicil_protocol::{QueuedSubmission, ThreadAttachment, ThreadUnreadPosition, TurnStatus};
use codicil_store::{
    AttachmentChange, AttachmentKey, FactChange, ForkPoint, ListQuery, Organization, QueueChange, Record,
    SearchQuery, SectionPlace, new_thread_id,
};
use serde_json::json;

use crate::support::{Home, ended, meta, turn};

fn unread(turn: &str) -> FactChange {
    FactChange::ReadState { first_unread: Some(ThreadUnreadPosition::Turn { turn_id: turn.into() }) }
}

fn all_facts() -> Vec<Record> {
    let submission = |id: &str| QueuedSubmission {
        id: id.to_owned(),
        input: Vec::new(),
        client_user_message_id: String::new(),
    };
    let attachment = ThreadAttachment {
        id: "a".to_owned(),
        attachment_type: "note".to_owned(),
        identity_key: "k".to_owned(),
        payload: json!({ "x": 1 }),
        created_at: 7,
    };
    let place = SectionPlace {
        section_id: codicil_store::PINNED_SECTION.to_owned(),
        rank: "n".to_owned(),
        entered_at: 9,
    };
    [
        unread("turn-1"),
        FactChange::Queue(QueueChange::Set(submission("q1"))),
        FactChange::Queue(QueueChange::Set(submission("q2"))),
        FactChange::Queue(QueueChange::Remove("q1".to_owned())),
        FactChange::Section { place: Some(place) },
        FactChange::Attachment(AttachmentChange::Add(attachment)),
    ]
    .iter()
    .map(Record::fact)
    .collect()
}

#[tokio::test]
async fn facts_survive_a_restart_and_a_rebuilt_index_agrees() {
    let mut home = Home::new();
    let mut log = home.thread("hello").await;
    let id = log.id().clone();
    log.append(&all_facts()).await.unwrap();
    let first = home.store.list(ListQuery::default()).await.unwrap();
    assert_eq!(first.threads[0].section.as_ref().map(|section| section.name.as_str()), Some("Pinned"));
    let state = first.read_states.get(&*id).unwrap();
    assert_eq!(state.first_unread, Some(ThreadUnreadPosition::Turn { turn_id: "turn-1".into() }));
    // The end of a turn makes a new revision, unless another turn of its goal follows.
    log.append(&turn("turn-2", "more", "answer")).await.unwrap();
    let second = home.store.list(ListQuery::default()).await.unwrap();
    assert_ne!(second.read_states.get(&*id).unwrap().revision, state.revision);
    let continued = [Record::continues(&"turn-3".into()), ended("turn-3", TurnStatus::Completed)];
    log.append(&continued).await.unwrap();
    let third = home.store.list(ListQuery::default()).await.unwrap();
    assert_eq!(third.read_states, second.read_states);

    home.restart().await;
    home.store.reindex(|_| {}).await.unwrap();
    assert_eq!(home.store.list(ListQuery::default()).await.unwrap(), third);
    let facts = home.store.read(&id).await.unwrap().facts;
    assert_eq!(facts.queue.iter().map(|queued| queued.id.as_str()).collect::<Vec<_>>(), ["q2"]);
    assert_eq!(facts.read.state(&id).as_ref(), third.read_states.get(&*id));
    let key = AttachmentKey { attachment_type: "note".to_owned(), identity_key: "k".to_owned() };
    assert_eq!(home.store.attachment_owners(key).await.unwrap(), [(id.clone(), false)]);
    let members = home.store.section_members(codicil_store::PINNED_SECTION).await.unwrap();
    assert_eq!(members.len(), 1);
    let copy = home.store.fork(&id, ForkPoint::End, meta(&new_thread_id())).await.unwrap();
    let copied = home.store.read(copy.id()).await.unwrap().facts;
    assert_eq!((copied.queue.len(), copied.section, copied.read.revision), (0, None, None));
}

#[tokio::test]
async fn sections_are_changed_by_one_process_at_a_time() {
    let home = Home::new();
    let other = home.another_store();
    let add = |name: &'static str| {
        move |organization: &mut Organization| {
            organization.sections.push(codicil_protocol::ThreadSection {
                id: name.to_owned(),
                name: name.to_owned(),
                appearance: None,
            });
            Ok::<_, ()>(())
        }
    };
    let (one, two) =
        tokio::join!(home.store.change_organization(add("one")), other.change_organization(add("two")));
    assert!(one.unwrap().is_ok() && two.unwrap().is_ok());
    let mut names: Vec<_> = home
        .store
        .organization()
        .await
        .unwrap()
        .sections
        .iter()
        .map(|section| section.name.clone())
        .collect();
    names.sort();
    assert_eq!(names, ["one", "two"]);
}

#[tokio::test]
async fn searches_have_the_same_result_with_and_without_the_index() {
    let home = Home::new();
    for text in ["a Needle", "nothing", "the NEEDLE again"] {
        home.thread(text).await;
    }
    let search = async |term: &str| {
        let query = SearchQuery { term: term.to_owned(), ..SearchQuery::default() };
        let page = home.store.search(query).await.unwrap();
        page.found.into_iter().map(|(_, snippet)| snippet).collect::<Vec<_>>()
    };
    for _ in 0..2 {
        assert_eq!(search("needle").await, ["the NEEDLE again", "a Needle"]);
        assert_eq!(search("an answer").await.len(), 3);
        assert_eq!(search("needles").await, [""; 0]);
        assert_eq!(search("no").await, ["nothing"]);
        home.store.index_messages().await.unwrap();
    }
    let mut log = home.thread("later").await;
    log.append(&turn("turn-2", "one more needle", "answer")).await.unwrap();
    assert_eq!(search("needle").await, ["one more needle", "the NEEDLE again", "a Needle"]);
    home.store.index_messages().await.unwrap();
    home.store.delete(log.id()).await.unwrap();
    home.store.index_messages().await.unwrap();
    assert_eq!(search("needle").await, ["the NEEDLE again", "a Needle"]);
}
