//! Sections, projects and attachments of threads.

use codicil_protocol::{
    ProjectChangeType, ProjectChanged, ProjectCreate, ProjectDelete, ProjectList, ProjectMove, ProjectRead,
    ProjectUpdate, Thread, ThreadAttachmentAdd, ThreadAttachmentAddOutcome, ThreadAttachmentList,
    ThreadAttachmentOwnerList, ThreadAttachmentRemove, ThreadAttachmentUpdated, ThreadList,
    ThreadProjectUpdated, ThreadRead, ThreadSectionCreate, ThreadSectionDelete, ThreadSectionList,
    ThreadSectionMove, ThreadSectionUpdate, ThreadStart,
};
use codicil_testkit::{App, Script};
use serde_json::{Value, from_value, json};

const PINNED: &str = "01984de2-8f74-7c91-a3b2-5c5e937cf318";

async fn start(replies: usize) -> App {
    let mut script = Script::new().say("ok");
    for _ in 1..replies {
        script = script.then().say("ok");
    }
    App::builder().experimental().script(script).start().await
}

async fn thread_with_turn(app: &mut App, text: &str) -> Thread {
    let thread = app.start_thread().await;
    app.run_turn(&thread, text).await;
    app.rest().await;
    thread
}

async fn move_to(app: &mut App, thread: &Thread, section: Option<&str>, before: Option<&Thread>) {
    let before = before.map(|thread| thread.id.clone());
    let params = json!({ "threadId": thread.id, "sectionId": section, "beforeThreadId": before });
    app.call::<ThreadSectionMove>(from_value(params).unwrap()).await;
}

async fn listed(app: &mut App, params: Value) -> Vec<String> {
    let list = app.call::<ThreadList>(from_value(params).unwrap()).await;
    list.data.into_iter().map(|thread| thread.preview).collect()
}

#[tokio::test]
async fn threads_in_no_section_are_listed_with_null() {
    let mut app = start(3).await;
    let pinned = thread_with_turn(&mut app, "pinned").await;
    let freed = thread_with_turn(&mut app, "freed").await;
    thread_with_turn(&mut app, "free").await;
    let create = json!({ "name": "Later" });
    let section = app.call::<ThreadSectionCreate>(from_value(create).unwrap()).await.section;
    move_to(&mut app, &pinned, Some(PINNED), None).await;
    move_to(&mut app, &freed, Some(&section.id), None).await;
    assert_eq!(listed(&mut app, json!({ "sectionId": null })).await, ["free"]);
    assert_eq!(listed(&mut app, json!({})).await, ["free", "freed", "pinned"]);

    app.call::<ThreadSectionDelete>(from_value(json!({ "sectionId": section.id })).unwrap()).await;
    assert_eq!(listed(&mut app, json!({ "sectionId": null })).await, ["free", "freed"]);
}

#[tokio::test]
async fn threads_keep_their_place_in_a_section_over_a_restart() {
    let mut app = start(3).await;
    let one = thread_with_turn(&mut app, "one").await;
    let two = thread_with_turn(&mut app, "two").await;
    let three = thread_with_turn(&mut app, "three").await;
    let create = json!({ "name": "Later", "appearance": { "icon": "star", "color": null } });
    let section = app.call::<ThreadSectionCreate>(from_value(create).unwrap()).await.section;
    for thread in [&one, &two] {
        move_to(&mut app, thread, Some(&section.id), None).await;
    }
    move_to(&mut app, &three, Some(&section.id), Some(&two)).await;
    let update = json!({ "sectionId": section.id, "name": "Sooner" });
    let renamed = app.call::<ThreadSectionUpdate>(from_value(update).unwrap()).await.section;
    assert_eq!((renamed.name.as_str(), &renamed.appearance), ("Sooner", &section.appearance));

    app.rest().await;
    app.restart().await;
    let by_place = json!({ "sectionId": section.id, "sortKey": "section_position", "sortDirection": "asc" });
    assert_eq!(listed(&mut app, by_place.clone()).await, ["one", "three", "two"]);
    let mut page = by_place.clone();
    page["limit"] = json!(1);
    let first = app.call::<ThreadList>(from_value(page.clone()).unwrap()).await;
    page["cursor"] = json!(first.next_cursor);
    assert_eq!(listed(&mut app, page).await, ["three"]);
    let read = app.call::<ThreadRead>(from_value(json!({ "threadId": two.id })).unwrap()).await.thread;
    assert_eq!(read.section.map(|section| section.name), Some("Sooner".to_owned()));
    assert!(read.section_entered_at.is_some());
    move_to(&mut app, &three, None, None).await;
    assert_eq!(listed(&mut app, by_place.clone()).await, ["one", "two"]);
    app.call::<ThreadSectionDelete>(from_value(json!({ "sectionId": section.id })).unwrap()).await;
    assert_eq!(listed(&mut app, by_place).await, [""; 0]);
    assert_eq!(listed(&mut app, json!({})).await.len(), 3);
    let sections = app.call::<ThreadSectionList>(Default::default()).await.data;
    assert_eq!(sections.iter().map(|section| section.id.as_str()).collect::<Vec<_>>(), [PINNED]);
    let read = app.call::<ThreadRead>(from_value(json!({ "threadId": two.id })).unwrap()).await.thread;
    assert_eq!((read.section, read.section_entered_at), (None, None));
    app.rest().await;
}

#[tokio::test]
async fn moves_and_names_that_make_no_sense_are_refused() {
    let mut app = start(1).await;
    let thread = thread_with_turn(&mut app, "one").await;
    let nowhere = "01a1e2fc-62af-7df2-8f62-961e76c889bb";
    for (params, code, message) in [
        (
            json!({ "threadId": thread.id, "sectionId": nowhere }),
            -32600,
            format!("section {nowhere} does not exist"),
        ),
        (json!({ "threadId": nowhere, "sectionId": PINNED }), -32600, format!("thread not found: {nowhere}")),
        (
            json!({ "threadId": thread.id, "sectionId": PINNED, "beforeThreadId": nowhere }),
            -32600,
            format!("before thread {nowhere} is not in section {PINNED}"),
        ),
        (
            json!({ "threadId": thread.id, "sectionId": PINNED, "beforeThreadId": thread.id }),
            -32600,
            format!("thread {} cannot be moved before itself", thread.id),
        ),
        (
            json!({ "threadId": thread.id, "sectionId": null, "beforeThreadId": nowhere }),
            -32600,
            "beforeThreadId requires a non-null sectionId".to_owned(),
        ),
    ] {
        let refused = app.try_call::<ThreadSectionMove>(from_value(params).unwrap()).await.unwrap_err();
        assert_eq!((refused.code, refused.message), (code, message));
    }
    let blank = app.try_call::<ThreadSectionCreate>(from_value(json!({ "name": " " })).unwrap()).await;
    assert_eq!(blank.unwrap_err().message, "section name must not be empty");
    let pinned =
        app.try_call::<ThreadSectionDelete>(from_value(json!({ "sectionId": PINNED })).unwrap()).await;
    assert_eq!(pinned.unwrap_err().message, "the built-in pinned section cannot be deleted");
    app.rest().await;
}

#[tokio::test]
async fn projects_are_created_once_ordered_and_leave_their_threads() {
    let mut app = start(1).await;
    let create = async |app: &mut App, key: &str, name: &str| {
        let params = json!({ "idempotencyKey": key, "name": name, "roots": [{ "path": "/work" }] });
        app.call::<ProjectCreate>(from_value(params).unwrap()).await.project
    };
    let alpha = create(&mut app, "k1", "Alpha").await;
    assert_eq!(create(&mut app, "k1", "Other").await, alpha);
    let beta = create(&mut app, "k2", "Beta").await;
    let twice = json!({ "idempotencyKey": "k3", "name": "C", "roots": [{ "path": "/a" }, { "path": "/a" }] });
    let twice = app.try_call::<ProjectCreate>(from_value(twice).unwrap()).await.unwrap_err();
    assert_eq!((twice.code, twice.message.as_str()), (-32602, "duplicate project root: /a"));
    let itself = json!({ "projectId": beta.id, "beforeProjectId": beta.id });
    let itself = app.try_call::<ProjectMove>(from_value(itself).unwrap()).await.unwrap_err();
    assert_eq!(itself.message, format!("project {} cannot be moved before itself", beta.id));
    let stray = app.try_call::<ProjectList>(from_value(json!({ "cursor": "x" })).unwrap()).await.unwrap_err();
    assert_eq!(stray.message, "invalid project cursor: malformed or mismatched sort anchor");
    let moved = json!({ "projectId": beta.id, "beforeProjectId": alpha.id });
    app.call::<ProjectMove>(from_value(moved).unwrap()).await;
    let update = json!({ "projectId": alpha.id, "metadata": { "color": "blue" } });
    let updated = app.call::<ProjectUpdate>(from_value(update).unwrap()).await.project;
    assert_eq!((updated.name.as_str(), updated.metadata.len(), updated.position), ("Alpha", 1, 1));
    let start = json!({ "projectId": alpha.id, "cwd": app.workspace() });
    let thread = app.call::<ThreadStart>(from_value(start).unwrap()).await.thread;
    assert_eq!(thread.project_id.as_deref(), Some(alpha.id.as_str()));
    app.run_turn(&thread, "in alpha").await;
    app.rest().await;

    app.restart().await;
    assert_eq!(listed(&mut app, json!({ "projectId": alpha.id })).await, ["in alpha"]);
    let list = app.call::<ProjectList>(Default::default()).await.data;
    let names: Vec<_> =
        list.iter().map(|project| (project.name.as_str(), project.recency_at.is_some())).collect();
    assert_eq!(names, [("Beta", false), ("Alpha", true)]);
    app.call::<ProjectDelete>(from_value(json!({ "projectId": alpha.id })).unwrap()).await;
    let changed = app.until::<ProjectChanged>().await;
    assert_eq!((changed.project_id, changed.change_type), (alpha.id.clone(), ProjectChangeType::Deleted));
    let left = app.until::<ThreadProjectUpdated>().await;
    assert_eq!((left.thread_id, left.project_id), (thread.id.clone(), None));
    let read = app.call::<ThreadRead>(from_value(json!({ "threadId": thread.id })).unwrap()).await.thread;
    assert_eq!(read.project_id, None);
    let gone = app.try_call::<ProjectRead>(from_value(json!({ "projectId": alpha.id })).unwrap()).await;
    assert_eq!(gone.unwrap_err().message, format!("project not found: {}", alpha.id));
    app.rest().await;
}

#[tokio::test]
async fn attachments_are_unique_by_type_and_key() {
    let mut app = start(1).await;
    let thread = thread_with_turn(&mut app, "one").await;
    let key = json!({ "threadId": thread.id, "attachmentType": "note", "identityKey": "n1" });
    let with = |payload: Value| {
        let mut params = key.clone();
        params["payload"] = payload;
        params
    };
    let added = app.call::<ThreadAttachmentAdd>(from_value(with(json!({ "x": 1 }))).unwrap()).await;
    assert_eq!(added.outcome, ThreadAttachmentAddOutcome::Created);
    app.until::<ThreadAttachmentUpdated>().await;
    let again = app.call::<ThreadAttachmentAdd>(from_value(with(json!(2))).unwrap()).await;
    assert_eq!((again.outcome, &again.attachment), (ThreadAttachmentAddOutcome::Existing, &added.attachment));
    app.restart().await;
    let list = json!({ "threadId": thread.id });
    let attached = app.call::<ThreadAttachmentList>(from_value(list.clone()).unwrap()).await.data;
    assert_eq!(attached, [added.attachment]);
    let owners = json!({ "attachmentType": "note", "identityKey": "n1" });
    let owners = app.call::<ThreadAttachmentOwnerList>(from_value(owners).unwrap()).await.data;
    assert_eq!((owners.len(), &owners[0].thread_id, owners[0].archived), (1, &thread.id, false));
    for _ in 0..2 {
        app.call::<ThreadAttachmentRemove>(from_value(key.clone()).unwrap()).await;
    }
    assert_eq!(app.call::<ThreadAttachmentList>(from_value(list).unwrap()).await.data, []);
    let nowhere = json!({ "threadId": "01a1e2fc-62af-7df2-8f62-961e76c889bb" });
    assert_eq!(app.call::<ThreadAttachmentList>(from_value(nowhere).unwrap()).await.data, []);
    let long =
        app.try_call::<ThreadAttachmentAdd>(from_value(with(json!("x".repeat(1 << 16)))).unwrap()).await;
    let long = long.unwrap_err();
    assert_eq!(
        (long.code, long.message.as_str()),
        (-32602, "attachment payload must not exceed 65536 bytes")
    );
    let bad = app.try_call::<ThreadAttachmentList>(from_value(json!({ "threadId": "x" })).unwrap()).await;
    assert_eq!(bad.unwrap_err().code, -32602);
    let stray = json!({ "threadId": thread.id, "cursor": "x" });
    let stray = app.try_call::<ThreadAttachmentList>(from_value(stray).unwrap()).await.unwrap_err();
    assert_eq!((stray.code, stray.message.as_str()), (-32602, "invalid pagination cursor"));
    app.until::<ThreadAttachmentUpdated>().await;
    app.rest().await;
}
