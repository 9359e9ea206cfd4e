//! Changes of skill files are reported while a directory is watched, and at no other time.

use std::{fs, sync::Arc, time::Duration};

use codicil_extensions::NoAccount;
use codicil_protocol::SkillsListParams;
use tokio::{sync::mpsc, time::timeout};

use crate::support::{TestHomes, own, skill_text};

const MINE: &str = "home/skills/mine/SKILL.md";

/// Generous, because machines are busy.
const MAX_WAIT: Duration = Duration::from_secs(20);

fn watched() -> (TestHomes, mpsc::UnboundedReceiver<()>) {
    let (sender, changes) = mpsc::unbounded_channel();
    (TestHomes::with(Arc::new(NoAccount), move || sender.send(()).unwrap_or_default()), changes)
}

async fn wait_for_change(changes: &mut mpsc::UnboundedReceiver<()>) {
    timeout(MAX_WAIT, changes.recv()).await.expect("the change is reported").unwrap();
}

/// Lists skills as a client does, without a forced reload.
fn description(homes: &TestHomes) -> Option<String> {
    own(homes.list(SkillsListParams::default()).skills).first().map(|skill| skill.description.clone())
}

#[tokio::test]
async fn a_changed_file_is_reported_and_read_again() {
    let (homes, mut changes) = watched();
    homes.skill("home/skills", "mine");
    assert_eq!(description(&homes).as_deref(), Some("Does a thing"));
    let _watch = homes.extensions.skills.watch(&homes.work());

    // Immediately: a change before the watching has begun is reported too.
    homes.write(MINE, &skill_text("mine", "Changed"));
    wait_for_change(&mut changes).await;
    assert_eq!(description(&homes).as_deref(), Some("Changed"));

    homes.write(MINE, &skill_text("mine", "Changed again"));
    wait_for_change(&mut changes).await;
    assert_eq!(description(&homes).as_deref(), Some("Changed again"));
}

#[tokio::test]
async fn added_and_removed_skills_are_reported() {
    let (homes, mut changes) = watched();
    assert_eq!(description(&homes), None);
    let _watch = homes.extensions.skills.watch(&homes.work());

    homes.skill("work/.agents/skills", "new");
    wait_for_change(&mut changes).await;
    assert_eq!(description(&homes).as_deref(), Some("Does a thing"));

    fs::remove_dir_all(homes.path("work/.agents")).unwrap();
    wait_for_change(&mut changes).await;
    assert_eq!(description(&homes), None);

    homes.skill("work/.agents/skills", "back");
    wait_for_change(&mut changes).await;
    assert_eq!(description(&homes).as_deref(), Some("Does a thing"));
}

#[tokio::test]
async fn unrelated_changes_are_not_reported() {
    let (homes, mut changes) = watched();
    homes.skill("home/skills", "mine");
    assert!(description(&homes).is_some());
    let _watch = homes.extensions.skills.watch(&homes.work());
    homes.write("work/.codex/config.toml", "");
    homes.write("home/skills/mine/notes.txt", "1");
    homes.write("home/skills/.hidden", "1");

    homes.write(MINE, &skill_text("mine", "Changed"));
    wait_for_change(&mut changes).await;

    // The other writes came before this change, so they would have been reported by now.
    assert!(changes.try_recv().is_err());
}

#[tokio::test]
async fn watching_ends_with_the_last_watch() {
    let (homes, mut changes) = watched();
    homes.skill("home/skills", "mine");
    drop(homes.extensions.skills.watch(&homes.work()));
    let other = homes.extensions.skills.watch(&homes.path("user"));
    assert_eq!(other.cwd(), homes.path("user"));
    drop(other);
    homes.write(MINE, &skill_text("mine", "Changed"));
    drop(homes);
    // The sender is dropped with the service, so nothing keeps the task alive.
    assert_eq!(timeout(MAX_WAIT, changes.recv()).await.expect("everything ends"), None);
}
