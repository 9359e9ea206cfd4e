//! Helpers for the tests.

use codicil_policy::CommandLine;
use proptest::prelude::ProptestConfig;

pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// Returns the command line with which the model's tools run a script.
pub fn bash(script: &str) -> CommandLine {
    CommandLine::new(["/bin/bash", "-lc", script].map(str::to_owned).to_vec())
}

/// Returns the configuration of a property test: `few` cases, or more with `PROPTEST_CASES=10000`.
pub fn cases(few: u32) -> ProptestConfig {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => config,
        None => ProptestConfig { cases: few, ..config },
    }
}
