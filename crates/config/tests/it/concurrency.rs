//! Several servers with one home do not lose writes.

use std::{sync::Barrier, thread};

use codicil_config::{ConfigStore, KeyEdit, KeyPath};
use serde_json::json;

use crate::support::{Machine, replace, write};

const WRITERS: usize = 4;
const WRITES: usize = 25;

#[test]
fn writers_that_share_a_home_lose_no_write() {
    let machine = Machine::with_config("# kept\nmodel = 'x'\n");
    let start = Barrier::new(WRITERS);
    thread::scope(|scope| {
        for writer in 0..WRITERS {
            let machine = &machine;
            let start = &start;
            // A separate store acts like another process.
            scope.spawn(move || {
                let store = machine.store();
                start.wait();
                for number in 0..WRITES {
                    write(&store, &format!("custom.w{writer}.n{number}"), json!(number)).unwrap();
                }
            });
        }
    });
    let table: toml::Table = machine.config().parse().unwrap();
    for writer in 0..WRITERS {
        let written = table["custom"][&format!("w{writer}")].as_table().unwrap();
        assert_eq!(written.len(), WRITES);
    }
    assert!(machine.config().starts_with("# kept\nmodel = 'x'\n"));
    let left: Vec<_> =
        std::fs::read_dir(machine.path("home")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "the file and the lock, nothing temporary: {left:?}");
}

#[test]
fn readers_never_see_a_part_of_a_write() {
    let machine = Machine::with_config("model = 'first'\n");
    let finished = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::SeqCst;
    thread::scope(|scope| {
        scope.spawn(|| {
            let store = machine.store();
            for number in 0..100 {
                let long = "x".repeat(number * 50);
                write(&store, "model", json!(long)).unwrap();
            }
            finished.store(true, order);
        });
        scope.spawn(|| {
            let store: ConfigStore = machine.store();
            while !finished.load(order) {
                let config = store.load(&codicil_config::ConfigQuery::default()).unwrap();
                let model = config.settings.model.unwrap();
                assert!(model == "first" || model.chars().all(|letter| letter == 'x'), "{model}");
            }
        });
    });
}

#[test]
fn of_two_writers_with_the_same_version_one_gets_a_conflict() {
    let machine = Machine::with_config("model = 'x'\n");
    let version = write(&machine.store(), "model", json!("y")).unwrap().version;
    let start = Barrier::new(2);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let machine = &machine;
                let start = &start;
                let version = version.clone();
                scope.spawn(move || {
                    let mut params = replace("custom.key", json!(writer));
                    params.expected_version = Some(version);
                    start.wait();
                    machine.store().write_value(&params).is_ok()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).collect()
    });
    assert_eq!(outcomes.iter().filter(|ok| **ok).count(), 1, "{outcomes:?}");
}

#[test]
fn a_program_without_the_lock_is_not_overwritten() {
    let machine = Machine::with_config("model = 'x'\n");
    let mut interfered = false;
    let result = machine.store().update(|table| {
        if !interfered {
            interfered = true;
            machine.write("home/config.toml", "model = 'x'\nby_editor = true\n");
        }
        let path = KeyPath::parse("by_server").unwrap();
        KeyEdit::replace(path, true).apply(table)
    });
    result.unwrap();
    let table: toml::Table = machine.config().parse().unwrap();
    assert!(table.contains_key("by_editor") && table.contains_key("by_server"));
}
