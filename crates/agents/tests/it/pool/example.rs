//! The example runs, against the real binary where it is built.

use codicil_testkit::run_example;

#[test]
fn desktop_pool() {
    let Some(said) = run_example("desktop_pool") else { return };
    for part in
        ["2 threads stand ready", "desktop [Completed]: Hello!", "notes [Completed]", "mail [Completed]"]
    {
        assert!(said.contains(part), "it does not say {part:?}: {said}");
    }
    assert!(said.contains("3 turns on 1 server, 2 forks"), "{said}");
}
