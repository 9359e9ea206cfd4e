//! The qualified names of tools in model requests: `mcp__SERVER__TOOL`, with characters and a length that every
//! provider accepts, and unique.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

/// Prefix of all qualified names. No other tool has it.
const TOOL_PREFIX: &str = "mcp__";

/// Longest name that all providers accept.
const MAX_NAME_LEN: usize = 64;

/// Number of hexadecimal digits that distinguish cut or equal names.
const HASH_DIGITS: usize = 12;

/// Returns the qualified names of tools, given as pairs of server and tool. A name that is too long, or that two
/// tools would share, ends with a hash of the original names, which is the same in every run.
pub(crate) fn qualify(tools: &[(&str, &str)]) -> Vec<String> {
    let plain: Vec<String> = tools.iter().map(|(server, tool)| plain(server, tool)).collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *count.entry(name).or_default() += 1;
    }
    let is_unique = |name: &String| count.get(name.as_str()) == Some(&1);
    let names = plain.iter().zip(tools).map(|(name, (server, tool))| {
        if name.len() <= MAX_NAME_LEN && is_unique(name) {
            name.clone()
        } else {
            with_hash(name, server, tool)
        }
    });
    names.collect()
}

/// Joins the names and replaces characters that providers reject. The result is ASCII and can be cut anywhere.
fn plain(server: &str, tool: &str) -> String {
    let is_allowed = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let name = format!("{TOOL_PREFIX}{server}__{tool}");
    name.chars().map(|letter| if is_allowed(letter) { letter } else { '_' }).collect()
}

fn with_hash(name: &str, server: &str, tool: &str) -> String {
    let digest = Sha256::new().chain_update(server).chain_update([0]).chain_update(tool).finalize();
    let digits: String = digest.iter().take(HASH_DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    let room = MAX_NAME_LEN - HASH_DIGITS - 1;
    format!("{}_{digits}", name.get(..room).unwrap_or(name))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn plain_names_stay_as_they_are() {
        assert_eq!(qualify(&[("tiny", "echo"), ("a-b", "c_d")]), ["mcp__tiny__echo", "mcp__a-b__c_d"]);
    }

    #[test]
    fn other_letters_are_replaced() {
        assert_eq!(qualify(&[("my server", "größe.x")]), ["mcp__my_server__gr__e_x"]);
    }

    #[test]
    fn long_and_equal_names_get_a_hash() {
        let long = "t".repeat(200);
        let longer = "t".repeat(201);
        let tools = [("s", long.as_str()), ("s", longer.as_str()), ("s", "a.b"), ("s", "a b"), ("s", "a")];
        let names = qualify(&tools);
        let unique: HashSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), tools.len());
        assert!(names.iter().all(|name| name.len() <= 64), "{names:?}");
        assert!(names[2].starts_with("mcp__s__a_b_"), "{names:?}");
        assert_eq!(names[4], "mcp__s__a");
        assert_eq!(qualify(&tools), names);
    }
}
