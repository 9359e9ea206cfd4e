//! Files are read again only after changes.

use std::{
    fs::{self, File},
    time::{Duration, SystemTime},
};

use codicil_config::ConfigQuery;

use crate::support::Machine;

fn model(store: &codicil_config::ConfigStore) -> Option<String> {
    store.load(&ConfigQuery::default()).unwrap().settings.model
}

#[test]
fn every_change_is_seen_immediately() {
    let machine = Machine::new();
    let store = machine.store();
    assert_eq!(model(&store), None);
    // Faster than the resolution of file times, with the same size each time.
    for round in 0..200 {
        let name = format!("m{round:03}");
        machine.write("home/config.toml", &format!("model = '{name}'\n"));
        assert_eq!(model(&store), Some(name));
    }
    fs::remove_file(machine.path("home/config.toml")).unwrap();
    assert_eq!(model(&store), None);
}

#[test]
fn an_unchanged_file_is_not_read_again() {
    let machine = Machine::with_config("model = 'one'\n");
    let path = machine.path("home/config.toml");
    let long_ago = SystemTime::now() - Duration::from_secs(60);
    let settle = || File::options().write(true).open(&path).unwrap().set_modified(long_ago).unwrap();
    settle();
    let store = machine.store();
    assert_eq!(model(&store).as_deref(), Some("one"));
    // A different text with the same size, time and identity shows whether the file is read.
    fs::write(&path, "model = 'two'\n").unwrap();
    settle();
    assert_eq!(model(&store).as_deref(), Some("one"));
    assert_eq!(model(&machine.store()).as_deref(), Some("two"));
}

#[test]
fn a_file_replaced_by_rename_is_noticed() {
    let machine = Machine::with_config("model = 'one'\n");
    let store = machine.store();
    assert_eq!(model(&store).as_deref(), Some("one"));
    let new = machine.write("home/new", "model = 'two'\n");
    fs::rename(new, machine.path("home/config.toml")).unwrap();
    assert_eq!(model(&store).as_deref(), Some("two"));
}

#[test]
fn a_broken_file_works_again_when_corrected() {
    let machine = Machine::with_config("= broken");
    let store = machine.store();
    assert!(store.load(&ConfigQuery::default()).is_err());
    machine.write("home/config.toml", "model = 'x'\n");
    assert_eq!(model(&store).as_deref(), Some("x"));
}

#[test]
fn creating_a_store_and_reading_creates_no_files() {
    let machine = Machine::new();
    fs::remove_dir(machine.path("home")).unwrap();
    let store = machine.store();
    assert_eq!(model(&store), None);
    assert!(!machine.path("home").exists());
}
