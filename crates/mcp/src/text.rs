//! Text helpers: truncation of untrusted text, and JSON with its members in a readable order.

use serde_json::{Value, json};

/// The order of known members: identification before content.
const ORDER: [&str; 11] = [
    "type",
    "server",
    "uri",
    "uriTemplate",
    "name",
    "title",
    "description",
    "text",
    "data",
    "mimeType",
    "nextCursor",
];

/// Serialises JSON with known members in a readable order, followed by all others.
pub fn to_ordered_json(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let known = ORDER.iter().filter_map(|name| members.get_key_value(*name));
            let others = members.iter().filter(|(name, _)| !ORDER.contains(&name.as_str()));
            let members = known
                .chain(others)
                .map(|(name, value)| format!("{}:{}", json!(name), to_ordered_json(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(entries) => {
            format!("[{}]", entries.iter().map(to_ordered_json).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// Truncates text to `max_chars` characters, with an ellipsis where it was cut.
pub(crate) fn cut(text: &str, max_chars: usize) -> String {
    match text.char_indices().nth(max_chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_members_come_first() {
        let value = json!({ "resources": [{ "zeal": 1, "mimeType": "t", "uri": "u" }], "server": "s" });
        assert_eq!(
            to_ordered_json(&value),
            r#"{"server":"s","resources":[{"uri":"u","mimeType":"t","zeal":1}]}"#
        );
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("añb", 3), "añb");
        assert_eq!(cut("añb", 2), "añ…");
        assert_eq!(cut("", 0), "");
    }
}
