//! The examples run, against the real binary where it is built.

use codicil_testkit::run_example;

fn check(name: &str, parts: &[&str]) {
    let Some(said) = run_example(name) else { return };
    for part in parts {
        assert!(said.contains(part), "{name} does not say {part:?}: {said}");
    }
}

#[test]
fn quickstart() {
    check("quickstart", &["I am the scripted model", "items in turn"]);
}

#[test]
fn orchestrator() {
    let Some(said) = run_example("orchestrator") else { return };
    assert_eq!(said.matches("I am the scripted model").count(), 20, "{said}");
}

#[test]
fn approvals() {
    check("approvals", &["make the edits of", "Accept", "There is a file codicil-note.md"]);
}

#[test]
fn dynamic_tool() {
    check("dynamic_tool", &["The ticket says: the door squeaks"]);
}
