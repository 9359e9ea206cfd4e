//! Files that are added, removed and changed by other programs, and a missing or damaged index.

use std::{fs, path::Path};

use codicil_store::{BacklogProgress, ListQuery, ListSort};

use crate::support::{Copies, Home, child, child_home, previews, turn};

#[tokio::test]
async fn copied_files_are_found_by_the_next_list() {
    let home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    home.thread("own").await;
    assert_eq!(home.previews().await, ["own"]);
    copies.put(home.path(), 1_760_000_000, "WORDS", "other day");
    assert_eq!(home.previews().await, ["own", "other day"]);
    // In the same directory again, possibly within the resolution of its time.
    for number in 0..5 {
        copies.put(home.path(), 1_760_000_001 + number, "WORDS", &format!("copy {number}"));
        assert_eq!(home.previews().await.len(), 3 + usize::try_from(number).unwrap());
    }
    assert_eq!(home.previews().await[1..3], ["copy 4", "copy 3"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_lists_see_all_existing_files() {
    let home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    for round in 0..40 {
        for number in 0..=round {
            copies.put(home.path(), 1_760_000_000 + round * 10_000 + number, "WORDS", "copied");
        }
        let expected = usize::try_from((round + 1) * (round + 2) / 2).unwrap().min(100);
        let mut lists = tokio::task::JoinSet::new();
        for kind in 0..8 {
            let sort = if kind % 2 == 0 { ListSort::Created } else { ListSort::Updated };
            let query = ListQuery { limit: Some(100), sort, ..ListQuery::default() };
            let store = home.store.clone();
            lists.spawn(async move { store.list(query).await.unwrap().threads.len() });
        }
        for found in lists.join_all().await {
            assert_eq!(found, expected);
        }
    }
}

#[tokio::test]
async fn removed_files_are_not_listed() {
    let home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    let (_, one) = copies.put(home.path(), 1_760_000_000, "WORDS", "one");
    copies.put(home.path(), 1_760_000_001, "WORDS", "two");
    let (_, three) = copies.put(home.path(), 1_770_000_000, "WORDS", "three");
    assert_eq!(home.previews().await, ["three", "two", "one"]);
    fs::remove_file(one).unwrap();
    assert_eq!(home.previews().await, ["three", "two"]);
    fs::remove_dir_all(three.ancestors().nth(2).unwrap()).unwrap();
    assert_eq!(home.previews().await, ["two"]);
    fs::remove_dir_all(home.path().join("sessions")).unwrap();
    assert!(home.previews().await.is_empty());
}

#[tokio::test]
async fn moved_files_are_found_at_their_new_path() {
    let home = Home::new();
    let log = home.thread("one").await;
    assert_eq!(home.previews().await, ["one"]);
    let archive = home.path().join("archived_sessions");
    fs::create_dir(&archive).unwrap();
    fs::rename(log.path(), archive.join(log.path().file_name().unwrap())).unwrap();
    assert!(home.previews().await.is_empty());
    let page = home.store.list(ListQuery { archived: true, ..ListQuery::default() }).await.unwrap();
    assert_eq!(previews(&page), ["one"]);
    assert!(home.store.find(log.id()).await.unwrap().archived);

    // To a directory of another date.
    let odd = home.path().join("sessions/1999/01/01");
    fs::create_dir_all(&odd).unwrap();
    let name = log.path().file_name().unwrap().to_owned();
    fs::rename(archive.join(&name), odd.join(&name)).unwrap();
    assert_eq!(home.previews().await, ["one"]);
    assert_eq!(home.another_store().find(log.id()).await.unwrap().path, odd.join(&name));
}

#[tokio::test]
async fn a_file_that_changed_is_read_again() {
    let mut home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    let (_, path) = copies.put(home.path(), 1_760_000_000, "WORDS", "before");
    assert_eq!(home.previews().await, ["before"]);
    let text = fs::read_to_string(&path).unwrap().replace("before", "and after");
    fs::write(&path, &text).unwrap();
    assert_eq!(home.previews().await, ["and after"]);
    home.restart().await;
    fs::write(&path, text.replace("and after", "once more")).unwrap();
    assert_eq!(home.previews().await, ["once more"]);
}

#[tokio::test]
async fn other_files_are_ignored() {
    let home = Home::new();
    home.thread("one").await;
    let day = home.store.list(ListQuery::default()).await.unwrap().threads[0].path.clone().unwrap();
    let day = Path::new(&day).parent().unwrap();
    fs::write(day.join("notes.txt"), "hello").unwrap();
    fs::write(day.join("rollout-2026-11-15T20-00-00-empty.jsonl"), "").unwrap();
    fs::write(day.join("rollout-2026-11-15T20-00-00-garbage.jsonl"), "\0\u{1}\n\n{}").unwrap();
    fs::create_dir(day.join("rollout-2026-11-15T20-00-00-dir.jsonl")).unwrap();
    fs::create_dir(home.path().join("sessions/not-a-year")).unwrap();
    assert_eq!(home.previews().await, ["one"]);
    assert_eq!(home.store.reindex(|_| {}).await.unwrap(), 1);
}

#[tokio::test]
async fn the_index_is_rebuilt_when_it_is_gone_damaged_or_from_another_version() {
    let mut home = Home::new();
    for text in ["one", "two", "three"] {
        home.thread(text).await;
    }
    let expected = ["three", "two", "one"];
    let index = home.path().join("codicil_index.sqlite");
    let spoil: [&dyn Fn(); 4] = [
        &|| fs::remove_file(&index).unwrap(),
        &|| fs::write(&index, "this is no database, but it is long enough to look at".repeat(100)).unwrap(),
        &|| fs::write(&index, "").unwrap(),
        &|| {
            // Damages only the pages after the first, so that the file can be opened.
            let mut bytes = fs::read(&index).unwrap();
            bytes[4096..].fill(0xAB);
            fs::write(&index, bytes).unwrap();
        },
    ];
    for spoil in spoil {
        assert_eq!(home.previews().await, expected);
        home.restart().await;
        spoil();
    }
    assert_eq!(home.previews().await, expected);
}

#[tokio::test]
async fn reindexing_reports_progress() {
    let home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    for number in 0..300 {
        copies.put(home.path(), 1_760_000_000 + number * 1000, "WORDS", &format!("number {number}"));
    }
    let (sender, receiver) = std::sync::mpsc::channel();
    let count = home.store.reindex(move |progress| sender.send(progress).unwrap()).await.unwrap();
    let reports: Vec<BacklogProgress> = receiver.into_iter().collect();
    assert_eq!(count, 300);
    assert!(reports.is_sorted_by_key(|progress| progress.done), "{reports:?}");
    assert_eq!(reports.last(), Some(&BacklogProgress { done: 300, total: 300 }));
    assert_eq!(home.previews().await[0], "number 299");
}

/// Appends and aborts before the index is updated.
#[tokio::test]
#[ignore = "run by the test below, in a process of its own"]
async fn child_killed_after_its_append() {
    let Some(home) = child_home() else { return };
    let store = codicil_store::Store::open(&home).unwrap();
    // A list first, so that the index is complete.
    store.list(ListQuery::default()).await.unwrap();
    let mut log = store.open_log(&std::env::var("THREAD").unwrap().into()).await.unwrap();
    log.append(&turn("t1", "no longer silent", "answer")).await.unwrap();
    std::process::abort();
}

#[tokio::test]
async fn appends_of_a_killed_process_are_listed_by_the_next() {
    let mut home = Home::new();
    let copies = Copies::of(&home, "WORDS").await;
    copies.put(home.path(), 1_700_000_000, "WORDS", "old");
    let (silent, path) = copies.put(home.path(), 1_600_000_000, "WORDS", "cut off");
    let first_line = fs::read_to_string(&path).unwrap().lines().next().unwrap().to_owned() + "\n";
    fs::write(&path, first_line).unwrap();
    // In the past, so that the index trusts the times of the directories.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(10);
    for dir in dirs(&home.path().join("sessions")) {
        fs::File::open(dir).unwrap().set_modified(long_ago).unwrap();
    }
    assert_eq!(home.previews().await, ["old"]);
    home.restart().await;

    let mut killed = child("outside::child_killed_after_its_append", home.path());
    assert!(!killed.env("THREAD", &*silent).output().unwrap().status.success());
    let page = home.store.list(ListQuery { sort: ListSort::Updated, ..ListQuery::default() }).await.unwrap();
    assert_eq!(previews(&page), ["no longer silent", "old"]);
    assert!(jiff::Timestamp::now().as_second() - page.threads[0].updated_at < 60);
}

fn dirs(top: &Path) -> Vec<std::path::PathBuf> {
    let mut all = vec![top.to_owned()];
    for entry in fs::read_dir(top).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        all.extend(dirs(&entry.path()));
    }
    all
}
