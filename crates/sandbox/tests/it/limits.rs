//! Resource limits of commands.

use crate::{
    backend::{for_each_backend, run},
    test_tree::TestTree,
};

/// Returns the soft and the hard limit from a line of `/proc/self/limits`.
fn limit(table: &str, name: &str) -> Vec<String> {
    let line = table.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().take(2).map(str::to_owned).collect()
}

#[test]
fn limits_apply_to_the_command() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        let options = [
            "--cpu-seconds",
            "7",
            "--address-space",
            "4000000000",
            "--processes",
            "5000",
            "--file-size",
            "65536",
        ];
        let table =
            String::from_utf8(run(&tree, backend, &options, &["cat", "/proc/self/limits"]).stdout).unwrap();
        assert_eq!(limit(&table, "Max cpu time"), ["7", "7"], "{backend:?}");
        assert_eq!(limit(&table, "Max address space"), ["4000000000", "4000000000"], "{backend:?}");
        assert_eq!(limit(&table, "Max processes"), ["5000", "5000"], "{backend:?}");
        assert_eq!(limit(&table, "Max file size"), ["65536", "65536"], "{backend:?}");
    });
}

#[test]
fn a_file_cannot_grow_beyond_the_limit() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        let line = ["dd", "if=/dev/zero", "of=large", "bs=4096", "count=100"];
        assert!(!run(&tree, backend, &["--file-size", "65536"], &line).status.success(), "{backend:?}");
        assert_eq!(std::fs::metadata(tree.path("workspace/large")).unwrap().len(), 65536);
        assert!(run(&tree, backend, &[], &line).status.success(), "{backend:?}");
    });
}

#[test]
fn a_command_is_killed_after_its_processor_time() {
    for_each_backend(|backend, user| {
        let tree = TestTree::new(user, &[]);
        let output = run(&tree, backend, &["--cpu-seconds", "1"], &["sh", "-c", "while :; do :; done"]);
        assert!(!output.status.success(), "{backend:?} {output:?}");
    });
}
