//! Selecting the members of one generation from a schema that covers all of them.
//!
//! `#[wire]` turns the attributes of members into `x-` members of their schemas. They are evaluated and removed here, so
//! that no export contains them.

use std::{borrow::Cow, marker::PhantomData};

use schemars::{JsonSchema, Schema, SchemaGenerator, generate::Contract};
use serde_json::{Map, Value, json};

use crate::ProtocolGeneration;

/// The type of a member that has another type in each generation. Exists for its schema only.
pub struct ByGeneration<V118, V166>(PhantomData<(V118, V166)>);

impl<V118: JsonSchema, V166: JsonSchema> JsonSchema for ByGeneration<V118, V166> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "ByGeneration".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        by_generation(generator.subschema_for::<V118>(), generator.subschema_for::<V166>())
    }
}

/// Returns a schema that stands for one of two, by generation.
#[doc(hidden)]
pub fn by_generation(v118: Schema, v166: Schema) -> Schema {
    let mut schema = Schema::default();
    schema.insert(TYPES.to_owned(), json!([v118, v166]));
    schema
}

/// Adds the variants of an enum that only 0.166 has to the schema of another enum.
#[doc(hidden)]
pub fn add_later_variants(schema: &mut Schema, later: Schema) {
    let variants = later.as_value().get("oneOf").cloned().unwrap_or_else(|| json!([later]));
    schema.insert(LATER_VARIANTS.to_owned(), variants);
}

/// Adds the members of a struct that only 0.166 has to the schema of an enum.
#[doc(hidden)]
pub fn add_later_members(schema: &mut Schema, later: Schema) {
    schema.insert(LATER_MEMBERS.to_owned(), later.to_value());
}

/// The variants that 0.166 has besides those of a union.
const LATER_VARIANTS: &str = "x-later-variants";
/// The object whose members 0.166 has besides those of the variants of a union.
const LATER_MEMBERS: &str = "x-later-members";
/// The schemas of a member by generation.
const TYPES: &str = "x-type-by-generation";
/// The generation that introduced a member.
const SINCE: &str = "x-since";
/// The last generation that has a member.
const UNTIL: &str = "x-until";
/// Whether a member that a generation introduced is required.
const REQUIRED: &str = "x-required";
/// Whether a member is required, by generation.
const REQUIRED_BY_GENERATION: &str = "x-required-by-generation";

/// Selects one generation of a schema.
pub struct GenerationFilter {
    pub generation: ProtocolGeneration,
    pub contract: Contract,
}

impl GenerationFilter {
    /// Reduces a schema to the generation.
    pub fn apply(&self, schema: &mut Value) {
        match schema {
            Value::Object(members) => {
                self.choose_type(members);
                self.add_later_parts(members);
                self.choose_properties(members);
                for word in ["oneOf", "anyOf"] {
                    if let Some(Value::Array(variants)) = members.get_mut(word) {
                        variants.retain(|variant| self.has(variant));
                    }
                }
                for mark in [SINCE, UNTIL, REQUIRED, REQUIRED_BY_GENERATION] {
                    members.remove(mark);
                }
                members.values_mut().for_each(|member| self.apply(member));
                merge_only_choice(members);
            }
            Value::Array(elements) => elements.iter_mut().for_each(|element| self.apply(element)),
            _ => {}
        }
    }

    /// Returns whether the generation has a member.
    fn has(&self, member: &Value) -> bool {
        match self.generation {
            ProtocolGeneration::V118 => member.get(SINCE).is_none(),
            ProtocolGeneration::V166 => member.get(UNTIL).is_none(),
        }
    }

    fn choose_type(&self, members: &mut Map<String, Value>) {
        let Some(Value::Array(types)) = members.remove(TYPES) else { return };
        let chosen = match self.generation {
            ProtocolGeneration::V118 => types.into_iter().next(),
            ProtocolGeneration::V166 => types.into_iter().nth(1),
        };
        if let Some(Value::Object(chosen)) = chosen {
            for (key, value) in chosen {
                members.entry(key).or_insert(value);
            }
        }
    }

    /// Adds what only 0.166 has to a union, in that generation.
    fn add_later_parts(&self, members: &mut Map<String, Value>) {
        let variants = members.remove(LATER_VARIANTS);
        let object = members.remove(LATER_MEMBERS);
        if self.generation != ProtocolGeneration::V166 {
            return;
        }
        if let Some(Value::Array(mut variants)) = variants {
            // A value of a known variant also fits a variant that is open.
            if variants.iter().any(is_open)
                && let Some(known) = members.remove("oneOf")
            {
                members.insert("anyOf".to_owned(), known);
            }
            let word = if members.contains_key("anyOf") { "anyOf" } else { "oneOf" };
            if let Some(Value::Array(known)) = members.get_mut(word) {
                known.append(&mut variants);
            }
        }
        if let Some(Value::Object(object)) = object {
            for word in ["type", "properties"] {
                members.extend(object.get(word).map(|value| (word.to_owned(), value.clone())));
            }
        }
    }

    fn choose_properties(&self, members: &mut Map<String, Value>) {
        let Some(Value::Object(properties)) = members.get_mut("properties") else { return };
        let (mut required, mut optional) = (Vec::new(), Vec::new());
        properties.retain(|name, schema| {
            let has = self.has(schema);
            match self.is_required(schema) {
                Some(true) if has => required.push(Value::from(name.as_str())),
                None if has => {}
                _ => optional.push(Value::from(name.as_str())),
            }
            has
        });
        let list = members.entry("required").or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.retain(|name| !optional.contains(name) && !required.contains(name));
            list.append(&mut required);
        }
        if list.as_array().is_some_and(Vec::is_empty) {
            members.remove("required");
        }
    }

    /// Returns whether a property is required, if its marks say so. Marks are about what a client may leave out, so they
    /// do not apply to the form in which values are written.
    fn is_required(&self, property: &Value) -> Option<bool> {
        if matches!(self.contract, Contract::Serialize) {
            return None;
        }
        if property.get(REQUIRED).is_some() {
            return Some(true);
        }
        let at = match self.generation {
            ProtocolGeneration::V118 => 0,
            ProtocolGeneration::V166 => 1,
        };
        property.get(REQUIRED_BY_GENERATION)?.get(at)?.as_bool()
    }
}

/// Returns whether a variant of a union says nothing about its values but their type.
fn is_open(variant: &Value) -> bool {
    ["const", "enum", "properties", "$ref"].iter().all(|word| variant.get(word).is_none())
}

/// Merges the only variant of a flattened union, whose others belong to another generation, into the object around it.
fn merge_only_choice(members: &mut Map<String, Value>) {
    if !members.contains_key("properties") {
        return;
    }
    for word in ["oneOf", "anyOf"] {
        let Some(Value::Array(variants)) = members.get(word) else { continue };
        let [Value::Object(only)] = variants.as_slice() else { continue };
        let only = only.clone();
        members.remove(word);
        if let (Some(Value::Object(into)), Some(Value::Object(from))) =
            (members.get_mut("properties"), only.get("properties"))
        {
            into.extend(from.clone());
        }
        if let Some(Value::Array(names)) = only.get("required") {
            let list = members.entry("required").or_insert_with(|| json!([]));
            if let Value::Array(list) = list {
                list.extend(names.iter().cloned());
            }
        }
    }
}
