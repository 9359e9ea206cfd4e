//! Ceilings on what a command uses.

use crate::{
    place::Place,
    with::{everywhere, run},
};

/// One line of `/proc/self/limits`: the soft and the hard limit.
fn limit(table: &str, name: &str) -> Vec<String> {
    let line = table.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().take(2).map(str::to_owned).collect()
}

#[test]
fn limits_reach_the_command() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
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
            String::from_utf8(run(&place, with, &options, &["cat", "/proc/self/limits"]).stdout).unwrap();
        assert_eq!(limit(&table, "Max cpu time"), ["7", "7"], "{with:?}");
        assert_eq!(limit(&table, "Max address space"), ["4000000000", "4000000000"], "{with:?}");
        assert_eq!(limit(&table, "Max processes"), ["5000", "5000"], "{with:?}");
        assert_eq!(limit(&table, "Max file size"), ["65536", "65536"], "{with:?}");
    });
}

#[test]
fn a_file_that_grows_too_large_ends_its_writer() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        let line = ["dd", "if=/dev/zero", "of=large", "bs=4096", "count=100"];
        assert!(!run(&place, with, &["--file-size", "65536"], &line).status.success(), "{with:?}");
        assert_eq!(std::fs::metadata(place.path("workspace/large")).unwrap().len(), 65536);
        assert!(run(&place, with, &[], &line).status.success(), "{with:?}");
    });
}

#[test]
fn a_command_that_never_ends_is_ended() {
    everywhere(|with, user| {
        let place = Place::new(user, &[]);
        let output = run(&place, with, &["--cpu-seconds", "1"], &["sh", "-c", "while :; do :; done"]);
        assert!(!output.status.success(), "{with:?} {output:?}");
    });
}
