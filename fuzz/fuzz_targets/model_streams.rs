//! No stream of a provider makes a decoder panic.
#![no_main]

use codicil_model::fuzzing::decode_streams;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| decode_streams(bytes));
