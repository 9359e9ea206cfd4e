//! Conversion between TOML, the format of files, and JSON, the format of the protocol.

use serde_json::{Map, Number, Value as Json};
use toml::{Table, Value as Toml};

/// Converts TOML to JSON. Dates become strings and infinities null, which JSON does not have.
pub fn to_json(value: &Toml) -> Json {
    match value {
        Toml::String(text) => Json::String(text.clone()),
        Toml::Integer(number) => Json::from(*number),
        Toml::Float(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
        Toml::Boolean(flag) => Json::Bool(*flag),
        Toml::Datetime(date) => Json::String(date.to_string()),
        Toml::Array(items) => Json::Array(items.iter().map(to_json).collect()),
        Toml::Table(table) => Json::Object(table_to_json(table)),
    }
}

pub fn table_to_json(table: &Table) -> Map<String, Json> {
    table.iter().map(|(key, value)| (key.clone(), to_json(value))).collect()
}

/// Converts JSON to TOML, which has no null: `None` for null; null members and elements are omitted.
pub fn to_toml(value: &Json) -> Option<Toml> {
    Some(match value {
        Json::Null => return None,
        Json::Bool(flag) => Toml::Boolean(*flag),
        Json::Number(number) => number_to_toml(number),
        Json::String(text) => Toml::String(text.clone()),
        Json::Array(items) => Toml::Array(items.iter().filter_map(to_toml).collect()),
        Json::Object(members) => {
            let members = members.iter();
            Toml::Table(members.filter_map(|(key, value)| Some((key.clone(), to_toml(value)?))).collect())
        }
    })
}

fn number_to_toml(number: &Number) -> Toml {
    match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => Toml::Integer(whole),
        (None, Some(fraction)) => Toml::Float(fraction),
        (None, None) => Toml::String(number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn json_values_round_trip() {
        let value = json!({"a": [1, 2.5, "x", true], "b": {"c": {}}});
        assert_eq!(to_json(&to_toml(&value).unwrap()), value);
    }

    #[test]
    fn values_of_one_format_only_are_approximated() {
        assert_eq!(to_toml(&json!({"a": null, "b": [null, 1]})), Some("{ b = [1] }".parse().unwrap()));
        assert_eq!(to_toml(&Json::Null), None);
        assert_eq!(to_json(&"1979-05-27".parse().unwrap()), json!("1979-05-27"));
        assert_eq!(to_json(&Toml::Float(f64::NAN)), Json::Null);
        assert_eq!(to_toml(&json!(u64::MAX)), Some(Toml::Float(u64::MAX as f64)));
    }
}
