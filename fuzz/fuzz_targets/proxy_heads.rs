//! A request that the proxy forwards names the host that was decided about, and its head is whole.
#![no_main]

use codicil_proxy::fuzzing::parse_heads;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| parse_heads(bytes));
