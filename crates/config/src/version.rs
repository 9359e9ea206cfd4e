//! The version of a layer: a hash of its content, independent of comments and the order of keys. So clients do not get version
//! conflicts for formatting changes.

use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::toml_json::to_json;

/// Returns `sha256:` and the hash of the table as JSON with sorted keys.
pub fn version(table: &Table) -> String {
    let mut canonical = String::new();
    write_table(table, &mut canonical);
    let digest = Sha256::digest(canonical.as_bytes());
    digest.iter().fold(String::from("sha256:"), |hex, byte| hex + &format!("{byte:02x}"))
}

/// Writes a table with sorted keys. Whether the maps of the libraries are sorted depends on features that any crate can enable.
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
    fn the_version_depends_on_the_content_only() {
        assert_eq!(of("a = 1\nb = 2 # two\n"), of("# order and comments do not count\nb = 2\na = 1"));
        assert_ne!(of("a = 1"), of("a = 2"));
        // Clients know this as the version of a missing file.
        assert_eq!(of(""), "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    }
}
