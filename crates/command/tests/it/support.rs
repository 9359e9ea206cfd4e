//! Short ways to say things.

use codicil_command::CommandLine;

pub fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// A script the way the model's tools start it.
pub fn bash(script: &str) -> CommandLine {
    CommandLine::new(["/bin/bash", "-lc", script].map(str::to_owned).to_vec())
}
