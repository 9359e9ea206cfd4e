//! The names under which models know the tools of servers: `mcp__SERVER__TOOL`, in the letters that every
//! provider accepts, not too long, and each only once.

use std::collections::HashMap;

use sha2::{Digest, Sha256};

/// The prefix of all of them; no other tool's name begins so.
const TOOL_PREFIX: &str = "mcp__";

/// The longest name that providers accept.
const LONGEST: usize = 64;

/// How many digits tell two names apart that would be the same.
const DIGITS: usize = 12;

/// The qualified names of tools, given as server and tool, in their order. A name that had to be cut, or that
/// two tools would share, ends with digits made from the names as they are: the same in every run.
pub(crate) fn qualify(tools: &[(&str, &str)]) -> Vec<String> {
    let plain: Vec<String> = tools.iter().map(|(server, tool)| plain(server, tool)).collect();
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in &plain {
        *count.entry(name).or_default() += 1;
    }
    let is_unique = |name: &String| count.get(name.as_str()) == Some(&1);
    let names = plain.iter().zip(tools).map(|(name, (server, tool))| {
        if name.len() <= LONGEST && is_unique(name) { name.clone() } else { marked(name, server, tool) }
    });
    names.collect()
}

/// One byte for each character, so that it can be cut anywhere.
fn plain(server: &str, tool: &str) -> String {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '-';
    let name = format!("{TOOL_PREFIX}{server}__{tool}");
    name.chars().map(|letter| if fits(letter) { letter } else { '_' }).collect()
}

fn marked(name: &str, server: &str, tool: &str) -> String {
    let digest = Sha256::new().chain_update(server).chain_update([0]).chain_update(tool).finalize();
    let digits: String = digest.iter().take(DIGITS / 2).map(|byte| format!("{byte:02x}")).collect();
    let room = LONGEST - DIGITS - 1;
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
    fn long_and_clashing_names_are_marked_and_unique() {
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
