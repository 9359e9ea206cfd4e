//! The version of a layer: a hash of what it says, not of how it is written.
//!
//! A comment or another order of keys leaves the version alone, so a client that holds it does not get a
//! conflict for nothing.

use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::convert::to_json;

/// `sha256:` and the hash of the table as JSON with sorted keys.
pub fn version(table: &Table) -> String {
    let mut canonical = String::new();
    write_table(table, &mut canonical);
    let digest = Sha256::digest(canonical.as_bytes());
    digest.iter().fold(String::from("sha256:"), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Sorts by itself: whether the maps of the libraries do depends on features that any crate can switch on.
fn write_table(table: &Table, out: &mut String) {
    let mut members: Vec<_> = table.iter().collect();
    members.sort_by_key(|(key, _)| *key);
    out.push('{');
    for (at, (key, value)) in members.into_iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        out.push_str(&serde_json::Value::from(key.as_str()).to_string());
        out.push(':');
        write_value(value, out);
    }
    out.push('}');
}

fn write_value(value: &Value, out: &mut String) {
    match value {
        Value::Table(table) => write_table(table, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_value(item, out);
            }
            out.push(']');
        }
        plain => out.push_str(&to_json(plain).to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> String {
        version(&text.parse().unwrap())
    }

    #[test]
    fn the_version_follows_the_meaning_of_a_file() {
        assert_eq!(of("a = 1\nb = 2 # two\n"), of("# order and comments do not count\nb = 2\na = 1"));
        assert_ne!(of("a = 1"), of("a = 2"));
        // Known to clients as the version of a file that is not there.
        assert_eq!(of(""), "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }
}
