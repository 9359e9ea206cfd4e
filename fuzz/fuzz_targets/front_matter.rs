//! No front matter of a skill makes its parser panic.
#![no_main]

use codicil_extensions::fuzzing::parse_front_matter;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| parse_front_matter(text));
