//! No rollout of codex makes the import panic.
#![no_main]

use codicil_migrate::codex::fuzzing::convert_lines;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| convert_lines(text));
