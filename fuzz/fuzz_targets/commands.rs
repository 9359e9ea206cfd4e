//! What is known about a script does not contradict itself.
#![no_main]

use codicil_policy::{CommandLine, command_actions};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|script: &str| {
    let line = CommandLine::new(vec!["bash".to_owned(), "-lc".to_owned(), script.to_owned()]);
    assert!(!command_actions(&line).is_empty());
    assert!(!(line.is_known_safe() && line.is_dangerous()), "safe and dangerous: {script:?}");
    assert!(!(line.is_known_safe() && line.removes_by_force()), "safe and removes: {script:?}");
    assert!(!line.is_known_safe() || line.plain().is_some(), "safe without having been read: {script:?}");
});
