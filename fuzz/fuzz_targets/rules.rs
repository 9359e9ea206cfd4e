//! No rules file makes its parser panic, and what it allows is a decision about any command.
#![no_main]

use std::path::Path;

use codicil_policy::{CommandLine, CommandRules};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(rules) = CommandRules::parse(Path::new("default.rules"), text) {
        let line = CommandLine::new(vec!["bash".to_owned(), "-lc".to_owned(), "git status && ls".to_owned()]);
        let _ = rules.verdict(&line);
    }
});
