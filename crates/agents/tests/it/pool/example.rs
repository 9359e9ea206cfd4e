//! Runs the example against the real binary, if it is built.

use codicil_testkit::run_example;

#[test]
fn desktop_pool() {
    let Some(output) = run_example("desktop_pool") else { return };
    for part in ["2 warm threads", "desktop [Completed]: Hello!", "notes [Completed]", "mail [Completed]"] {
        assert!(output.contains(part), "the output lacks {part:?}: {output}");
    }
    assert!(output.contains("3 turns on 1 server, 2 forks"), "{output}");
}
