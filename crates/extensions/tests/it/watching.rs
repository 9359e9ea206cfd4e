//! Changes of skill files are noticed while somebody watches, and at no other time.

use std::{fs, sync::Arc, time::Duration};

use codicil_extensions::NoAccount;
use codicil_protocol::SkillsListParams;
use tokio::{sync::mpsc, time::timeout};

use crate::support::{Place, own, skill_text};

const MINE: &str = "home/skills/mine/SKILL.md";

/// Generous: machines are busy.
const PATIENCE: Duration = Duration::from_secs(20);

fn watched() -> (Place, mpsc::UnboundedReceiver<()>) {
    let (sender, changes) = mpsc::unbounded_channel();
    (Place::with(Arc::new(NoAccount), move || sender.send(()).unwrap_or_default()), changes)
}

async fn change(changes: &mut mpsc::UnboundedReceiver<()>) {
    timeout(PATIENCE, changes.recv()).await.expect("the change is noticed").unwrap();
}

/// What a client does: list without asking for a new reading.
fn description(place: &Place) -> Option<String> {
    own(place.list(SkillsListParams::default()).skills).first().map(|skill| skill.description.clone())
}

#[tokio::test]
async fn a_changed_file_is_noticed_and_read_again() {
    let (place, mut changes) = watched();
    place.skill("home/skills", "mine");
    assert_eq!(description(&place).as_deref(), Some("Does a thing"));
    let _watch = place.extensions.skills.watch(&place.work());

    // At once: a change that comes before the watching has begun counts too.
    place.write(MINE, &skill_text("mine", "Changed"));
    change(&mut changes).await;
    assert_eq!(description(&place).as_deref(), Some("Changed"));

    place.write(MINE, &skill_text("mine", "Changed again"));
    change(&mut changes).await;
    assert_eq!(description(&place).as_deref(), Some("Changed again"));
}

#[tokio::test]
async fn skills_that_come_and_go_are_noticed() {
    let (place, mut changes) = watched();
    assert_eq!(description(&place), None);
    let _watch = place.extensions.skills.watch(&place.work());

    place.skill("work/.agents/skills", "new");
    change(&mut changes).await;
    assert_eq!(description(&place).as_deref(), Some("Does a thing"));

    fs::remove_dir_all(place.path("work/.agents")).unwrap();
    change(&mut changes).await;
    assert_eq!(description(&place), None);

    place.skill("work/.agents/skills", "back");
    change(&mut changes).await;
    assert_eq!(description(&place).as_deref(), Some("Does a thing"));
}

#[tokio::test]
async fn what_makes_no_difference_makes_no_noise() {
    let (place, mut changes) = watched();
    place.skill("home/skills", "mine");
    assert!(description(&place).is_some());
    let _watch = place.extensions.skills.watch(&place.work());
    place.write("work/.codex/config.toml", "");
    place.write("home/skills/mine/notes.txt", "1");
    place.write("home/skills/.hidden", "1");

    place.write(MINE, &skill_text("mine", "Changed"));
    change(&mut changes).await;

    // All of it came before the change that counts; it would have been told by now.
    assert!(changes.try_recv().is_err());
}

#[tokio::test]
async fn nobody_watches_when_nobody_wants_to_know() {
    let (place, mut changes) = watched();
    place.skill("home/skills", "mine");
    drop(place.extensions.skills.watch(&place.work()));
    let other = place.extensions.skills.watch(&place.path("user"));
    assert_eq!(other.cwd(), place.path("user"));
    drop(other);
    place.write(MINE, &skill_text("mine", "Changed"));
    drop(place);
    // The sender goes with the service: nothing keeps the task, or what it watches, alive.
    assert_eq!(timeout(PATIENCE, changes.recv()).await.expect("everything ends"), None);
}
