//! Converts JSON schemas to the strict form that providers require for answers: closed objects with all properties
//! required.
//!
//! An optional property becomes nullable instead, and a schema that is not an object is wrapped in one.

use serde_json::{Map, Value, json};

/// The property that holds a wrapped value.
pub(super) const WRAPPER_PROPERTY: &str = "value";

/// Returns whether values of this schema are objects.
pub(super) fn is_object(schema: &Value) -> bool {
    schema.as_object().is_some_and(is_object_type)
}

pub(super) fn is_object_type(members: &Map<String, Value>) -> bool {
    members.get("type").is_some_and(|kind| kind == "object")
}

/// Returns the schema of an object that holds the value. Definitions stay at the root, where references point.
pub(super) fn wrap(mut schema: Value) -> Value {
    let definitions = schema.as_object_mut().and_then(|members| members.remove("$defs"));
    let mut definitions = match definitions {
        Some(Value::Object(definitions)) => definitions,
        _ => Map::new(),
    };
    let own_name = definitions
        .keys()
        .fold("Value".to_owned(), |name, taken| if *taken == name { name + "_" } else { name });
    let mut refers_to_itself = false;
    let mut redirect = |reference: &mut Value| {
        if reference == "#" {
            *reference = format!("#/$defs/{own_name}").into();
            refers_to_itself = true;
        }
    };
    each_reference(&mut schema, &mut redirect);
    definitions.values_mut().for_each(|definition| each_reference(definition, &mut redirect));
    if refers_to_itself {
        definitions.insert(own_name.clone(), schema);
        schema = json!({ "$ref": format!("#/$defs/{own_name}") });
    }
    let mut object = json!({ "type": "object", "properties": { WRAPPER_PROPERTY: schema }, "required": [WRAPPER_PROPERTY] });
    if !definitions.is_empty()
        && let Some(members) = object.as_object_mut()
    {
        members.insert("$defs".to_owned(), definitions.into());
    }
    object
}

fn each_reference(schema: &mut Value, visit: &mut impl FnMut(&mut Value)) {
    match schema {
        Value::Object(members) => {
            members.get_mut("$ref").into_iter().for_each(&mut *visit);
            members.values_mut().for_each(|member| each_reference(member, visit));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_reference(item, visit)),
        _ => {}
    }
}

/// Keywords that hold further schemas: one, a list, or a map by name.
const ONE: [&str; 3] = ["items", "additionalProperties", "not"];
const SEVERAL: [&str; 4] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const NAMED: [&str; 2] = ["properties", "$defs"];

/// Closes every object, and removes keywords that providers reject.
pub(super) fn make_strict(schema: &mut Value) {
    let Some(members) = schema.as_object_mut() else { return };
    // Hints for user interfaces; providers reject some of them.
    for hint in ["title", "default", "format", "examples", "$schema"] {
        members.remove(hint);
    }
    if let Some(choices) = members.remove("oneOf") {
        // `anyOf` is equivalent for values that match one alternative, and providers accept only `anyOf`.
        members.insert("anyOf".to_owned(), choices);
    }
    close_object(members);
    for key in ONE {
        members.get_mut(key).into_iter().for_each(make_strict);
    }
    for key in SEVERAL {
        members.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten().for_each(make_strict);
    }
    for key in NAMED {
        let named = members.get_mut(key).and_then(Value::as_object_mut);
        named.into_iter().flat_map(Map::values_mut).for_each(make_strict);
    }
}

/// Requires all properties and forbids others. An object that maps arbitrary names stays open.
fn close_object(members: &mut Map<String, Value>) {
    if !is_object_type(members) {
        return;
    }
    let is_map = members.get("additionalProperties").is_some_and(|value| !matches!(value, Value::Bool(_)));
    if is_map && !members.contains_key("properties") {
        return;
    }
    members.insert("additionalProperties".to_owned(), false.into());
    let was_required: Vec<Value> = match members.get("required") {
        Some(Value::Array(names)) => names.clone(),
        _ => Vec::new(),
    };
    let properties = members.entry("properties").or_insert_with(|| json!({}));
    let mut required = Vec::new();
    for (name, property) in properties.as_object_mut().into_iter().flatten() {
        let name = Value::from(name.as_str());
        if !was_required.contains(&name) {
            allow_null(property);
        }
        required.push(name);
    }
    members.insert("required".to_owned(), required.into());
}

fn allow_null(property: &mut Value) {
    if accepts_null(property) {
        return;
    }
    let is_plain = property.get("type").is_some_and(Value::is_string) && property.get("const").is_none();
    if !is_plain {
        *property = json!({ "anyOf": [property.take(), { "type": "null" }] });
        return;
    }
    if let Some(kind) = property.get_mut("type") {
        *kind = json!([kind.take(), "null"]);
    }
    // An enumeration must list null as well.
    if let Some(values) = property.get_mut("enum").and_then(Value::as_array_mut) {
        values.push(Value::Null);
    }
}

pub(super) fn accepts_null(schema: &Value) -> bool {
    let is_null = |kind: &Value| kind == "null";
    match schema {
        Value::Bool(any) => *any,
        Value::Object(members) if members.is_empty() => true,
        schema => {
            let by_type = schema.get("type").is_some_and(|kind| {
                is_null(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(is_null))
            });
            let choices = ["anyOf", "oneOf"].iter().filter_map(|key| schema.get(*key)?.as_array()).flatten();
            by_type || choices.into_iter().any(accepts_null)
        }
    }
}
