//! Runs the examples against the real binary, if it is built.

use codicil_testkit::run_example;

fn check(name: &str, parts: &[&str]) {
    let Some(output) = run_example(name) else { return };
    for part in parts {
        assert!(output.contains(part), "{name} does not print {part:?}: {output}");
    }
}

#[test]
fn quickstart() {
    check("quickstart", &["I am the scripted model", "items in turn"]);
}

#[test]
fn orchestrator() {
    let Some(output) = run_example("orchestrator") else { return };
    assert_eq!(output.matches("I am the scripted model").count(), 20, "{output}");
}

#[test]
fn approvals() {
    check(
        "approvals",
        &["The agent wants to edit ", "codicil-note.md: Accept", "There is a file codicil-note.md"],
    );
}

#[test]
fn dynamic_tool() {
    check("dynamic_tool", &["The ticket says: the door squeaks"]);
}

#[test]
fn resilient() {
    check(
        "resilient",
        &[
            "connected again, and learned that the turn is Interrupted",
            "Hello! I am the scripted model",
            "connected again; the person approves now",
            "the same turn has completed: Done.",
            "asked once: true",
            "there is a note: true",
        ],
    );
}
