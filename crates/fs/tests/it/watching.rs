//! Watches: which changes are reported.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use codicil_fs::{FileWatch, FileWatcher, WatchError};
use tokio::{sync::mpsc, time::timeout};

use crate::support::TestFolder;

/// The time after which a test fails, even on a loaded machine.
const MAX_WAIT: Duration = Duration::from_secs(20);

/// A watch and the changes it reports.
struct Watched {
    watch: Option<FileWatch>,
    changes: mpsc::UnboundedReceiver<Vec<PathBuf>>,
}

async fn watch(watcher: &FileWatcher, path: &Path) -> Watched {
    let (sender, changes) = mpsc::unbounded_channel();
    let watch = watcher.watch(path, move |changed| drop(sender.send(changed))).await.unwrap();
    watch.listen();
    Watched { watch: Some(watch), changes }
}

impl Watched {
    /// Waits until all of these changes are reported. Fails if others are.
    async fn expect<const N: usize>(&mut self, paths: [PathBuf; N]) {
        let expected = BTreeSet::from(paths);
        let mut seen = BTreeSet::new();
        while !expected.is_subset(&seen) {
            let changes = timeout(MAX_WAIT, self.changes.recv()).await;
            let changes = changes.unwrap_or_else(|_| panic!("waited for {expected:?} and saw {seen:?}"));
            seen.extend(changes.expect("the watch goes on"));
        }
        assert_eq!(seen, expected);
    }

    fn end(&mut self) {
        self.watch = None;
    }
}

#[tokio::test]
async fn changes_of_a_file_are_reported() {
    let place = TestFolder::new();
    let file = place.file("file", "one");
    let watcher = FileWatcher::default();
    let mut watched = watch(&watcher, &file).await;
    place.file("another", "not watched");

    fs::write(&file, "two").unwrap();
    watched.expect([file.clone()]).await;
    fs::rename(place.file("new", "three"), &file).unwrap();
    watched.expect([file.clone()]).await;
    fs::remove_file(&file).unwrap();
    watched.expect([file.clone()]).await;
    fs::write(&file, "four").unwrap();
    watched.expect([file.clone()]).await;
}

#[tokio::test]
async fn changes_of_direct_children_are_reported() {
    let place = TestFolder::new();
    let folder = place.directory("folder/inner");
    let folder = folder.parent().unwrap();
    let watcher = FileWatcher::default();
    let mut watched = watch(&watcher, folder).await;

    place.file("folder/inner/deep", "x");
    let a = place.file("folder/a", "x");
    let b = place.file("folder/b", "x");
    watched.expect([a.clone(), b.clone()]).await;
    fs::rename(&a, folder.join("c")).unwrap();
    fs::remove_file(&b).unwrap();
    watched.expect([a, b, folder.join("c")]).await;
}

#[tokio::test]
async fn a_directory_that_is_removed_and_created_again_stays_watched() {
    let place = TestFolder::new();
    let folder = place.directory("folder");
    let watcher = FileWatcher::default();
    let mut watched = watch(&watcher, &folder).await;

    for round in 0..5 {
        fs::remove_dir_all(&folder).unwrap();
        watched.expect([folder.clone()]).await;
        fs::create_dir(&folder).unwrap();
        watched.expect([folder.clone()]).await;
        let file = place.file(&format!("folder/{round}"), "x");
        watched.expect([file.clone()]).await;
        fs::remove_file(&file).unwrap();
        watched.expect([file]).await;
    }
}

#[tokio::test]
async fn a_directory_that_is_replaced_stays_watched() {
    let place = TestFolder::new();
    let folder = place.directory("folder");
    place.file("other/inner", "x");
    let watcher = FileWatcher::default();
    let mut watched = watch(&watcher, &folder).await;

    fs::rename(&folder, place.path("away")).unwrap();
    fs::rename(place.path("other"), &folder).unwrap();
    watched.expect([folder.clone()]).await;
    place.file("away/not", "watched");
    fs::write(folder.join("inner"), "y").unwrap();
    watched.expect([folder.join("inner")]).await;
}

#[tokio::test]
async fn a_missing_path_is_reported_when_it_appears() {
    let place = TestFolder::new();
    let watcher = FileWatcher::default();
    let near = place.path("near");
    let far = place.path("no/such/folder/file");
    let mut near_watched = watch(&watcher, &near).await;
    let mut far_watched = watch(&watcher, &far).await;

    fs::write(&near, "x").unwrap();
    near_watched.expect([near.clone()]).await;
    place.file("no/such/folder/file", "at once");
    far_watched.expect([far.clone()]).await;
    fs::remove_dir_all(place.path("no")).unwrap();
    far_watched.expect([far.clone()]).await;
    fs::create_dir(place.path("no")).unwrap();
    fs::create_dir(place.path("no/such")).unwrap();
    place.file("no/such/folder/file", "step by step");
    far_watched.expect([far.clone()]).await;
}

#[tokio::test]
async fn changes_of_a_link_and_its_target_are_reported_by_the_link() {
    let place = TestFolder::new();
    place.file("elsewhere/file", "x");
    place.file("elsewhere/other", "x");
    let link = place.link("link", "elsewhere/file");
    let folder = place.link("folder", "elsewhere");
    let watcher = FileWatcher::default();
    let mut to_file = watch(&watcher, &link).await;
    let mut to_folder = watch(&watcher, &folder).await;

    fs::write(place.path("elsewhere/file"), "y").unwrap();
    to_file.expect([link.clone()]).await;
    to_folder.expect([folder.join("file")]).await;
    fs::rename(place.link("new", "elsewhere/other"), &link).unwrap();
    to_file.expect([link.clone()]).await;
    fs::write(place.path("elsewhere/other"), "y").unwrap();
    to_file.expect([link.clone()]).await;
    to_folder.expect([folder.join("other")]).await;
}

#[tokio::test]
async fn changes_are_reported_from_listen_to_drop() {
    let place = TestFolder::new();
    let watcher = FileWatcher::default();
    let file = place.file("file", "one");
    let (sender, mut changes) = mpsc::unbounded_channel();
    let quiet = watcher.watch(&file, move |changed| drop(sender.send(changed))).await.unwrap();
    let mut other = watch(&watcher, &file).await;

    fs::write(&file, "two").unwrap();
    other.expect([file.clone()]).await;
    // Both are reported at the same time.
    assert!(changes.try_recv().is_err());
    quiet.listen();
    let held = timeout(MAX_WAIT, changes.recv()).await.unwrap().unwrap();
    assert_eq!(held, std::slice::from_ref(&file));

    drop(quiet);
    fs::write(&file, "three").unwrap();
    other.expect([file.clone()]).await;
    assert!(timeout(MAX_WAIT, changes.recv()).await.unwrap().is_none());
}

#[tokio::test]
async fn many_watches_of_one_folder_need_one_watch_of_the_system() {
    let place = TestFolder::new();
    let folder = place.directory("folder");
    let file = place.file("folder/file", "x");
    let watcher = FileWatcher::default();
    let mut all = Vec::new();
    for _ in 0..200 {
        all.push((watch(&watcher, &folder).await, watch(&watcher, &file).await));
    }
    if let Some(count) = system_watches() {
        // One for the folder and one for its parent; other tests of this process have their own.
        let lines = count.iter().filter(|watches| **watches == 2).count();
        assert!(lines >= 1, "{count:?}");
    }
    fs::write(&file, "y").unwrap();
    for (of_folder, of_file) in &mut all {
        of_folder.expect([file.clone()]).await;
        of_file.expect([file.clone()]).await;
    }
    // The first ones end, the last one continues.
    let mut last = all.pop().unwrap();
    all.iter_mut().for_each(|(of_folder, of_file)| {
        of_folder.end();
        of_file.end();
    });
    fs::write(&file, "z").unwrap();
    last.0.expect([file.clone()]).await;
}

/// Returns how many directories each inotify instance of this process watches, if the system shows it.
fn system_watches() -> Option<Vec<usize>> {
    let counts = fs::read_dir("/proc/self/fdinfo").ok()?.filter_map(|entry| {
        let text = fs::read_to_string(entry.ok()?.path()).ok()?;
        let count = text.lines().filter(|line| line.starts_with("inotify")).count();
        (count > 0).then_some(count)
    });
    Some(counts.collect())
}

#[tokio::test]
async fn many_changes_are_reported_together() {
    let place = TestFolder::new();
    let folder = place.directory("folder");
    let watcher = FileWatcher::default();
    let mut watched = watch(&watcher, &folder).await;
    for number in 0..3_000 {
        fs::write(folder.join(format!("file_{number}")), "").unwrap();
    }
    let last = folder.join("last");
    fs::write(&last, "").unwrap();
    let mut reports = 0;
    loop {
        let changes = timeout(MAX_WAIT, watched.changes.recv()).await.unwrap().unwrap();
        reports += 1;
        // With too many changes at once, the folder itself is reported.
        if changes.contains(&last) || changes.contains(&folder) {
            break;
        }
    }
    assert!(reports < 1000, "{reports}");
    fs::remove_dir_all(&folder).unwrap();
    while !timeout(MAX_WAIT, watched.changes.recv()).await.unwrap().unwrap().contains(&folder) {}
}

#[tokio::test]
async fn a_callback_that_panics_does_not_prevent_other_watches() {
    let place = TestFolder::new();
    let file = place.file("file", "one");
    let watcher = FileWatcher::default();
    let (called, mut calls) = mpsc::unbounded_channel();
    let on_change = move |_| {
        called.send(()).unwrap();
        panic!("the callback of the test panics");
    };
    let broken = watcher.watch(&file, on_change).await.unwrap();
    broken.listen();
    fs::write(&file, "two").unwrap();
    timeout(MAX_WAIT, calls.recv()).await.unwrap().unwrap();

    // A watch that begins while the thread unwinds fails; the next one has a new thread.
    let (sender, mut changes) = mpsc::unbounded_channel();
    let watch = loop {
        let sender = sender.clone();
        let begun = watcher.watch(&file, move |changed| drop(sender.send(changed)));
        match timeout(MAX_WAIT, begun).await.unwrap() {
            Ok(watch) => break watch,
            Err(error) => assert!(matches!(error, WatchError::Closed), "{error}"),
        }
    };
    watch.listen();
    fs::write(&file, "three").unwrap();
    assert_eq!(timeout(MAX_WAIT, changes.recv()).await.unwrap().unwrap(), [file]);
}

#[tokio::test]
async fn watches_end_with_the_watcher() {
    let place = TestFolder::new();
    let watcher = FileWatcher::default();
    let mut watched = watch(&watcher, place.root()).await;
    drop(watcher);
    watched.end();
    assert!(timeout(MAX_WAIT, watched.changes.recv()).await.unwrap().is_none());
}
