//! No file of a thread makes the store panic.
#![no_main]

use codicil_store::fuzzing::replay_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| replay_file(bytes));
