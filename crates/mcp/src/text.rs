//! Texts of strangers, cut to a length, and JSON as a model reads it best.

use serde_json::{Value, json};

/// What something is comes before what is in it.
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

/// JSON whose objects have their members in an order that makes sense, where they are known.
pub fn ordered(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let known = ORDER.iter().filter_map(|name| members.get_key_value(*name));
            let others = members.iter().filter(|(name, _)| !ORDER.contains(&name.as_str()));
            let members =
                known.chain(others).map(|(name, value)| format!("{}:{}", json!(name), ordered(value)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        }
        Value::Array(entries) => {
            format!("[{}]", entries.iter().map(ordered).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// The text up to so many characters, with a mark where it was cut.
pub(crate) fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_come_in_their_order() {
        let value = json!({ "resources": [{ "zeal": 1, "mimeType": "t", "uri": "u" }], "server": "s" });
        assert_eq!(ordered(&value), r#"{"server":"s","resources":[{"uri":"u","mimeType":"t","zeal":1}]}"#);
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        assert_eq!(cut("añb", 3), "añb");
        assert_eq!(cut("añb", 2), "añ…");
        assert_eq!(cut("", 0), "");
    }
}
