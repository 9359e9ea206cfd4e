//! Patches are parsed, described and found in commands without a panic.
#![no_main]

use std::path::Path;

use codicil_patch::{Patch, find_in_command};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(patch) = Patch::parse(text) {
        assert_eq!(patch.requested_changes(Path::new("/w")).len(), patch.operations.len());
    }
    let _ = find_in_command(&["bash".to_owned(), "-lc".to_owned(), text.to_owned()]);
});
