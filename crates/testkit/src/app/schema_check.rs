//! Checks every message of the server against the published schema of the connection's generation.
//!
//! The validator is our own: the exported schemas use few words of JSON Schema, and a crate for all of them takes longer to
//! build than it takes to read this file.

use std::{
    collections::{BTreeMap, HashMap},
    sync::LazyLock,
};

use codicil_protocol::{
    CLIENT_REQUESTS, Initialize, Method, MethodInfo, NOTIFICATIONS, ProtocolGeneration, SERVER_REQUESTS,
    rpc::RequestId,
    schema::{ExportAudience, ExportScope, json_schema},
};
use serde_json::{Map, Value};

/// The file of the export that has all types.
const BUNDLE: &str = "codex_app_server_protocol.schemas.json";

/// Checks the messages that one connection receives.
#[derive(Default)]
pub(super) struct SchemaCheck {
    /// Whether the client has announced itself as one of 0.166.
    is_later_client: bool,
    /// The generation that the server announced; `None` before that, and where it does not tell that of the connection.
    announced: Option<ProtocolGeneration>,
    /// Whether the client may have made the connection one of 0.166 by what it sent.
    may_have_changed: bool,
    /// The methods of requests without an answer.
    requests: HashMap<RequestId, String>,
    checked: usize,
}

impl SchemaCheck {
    /// Notes a request of the client. `is_later` says whether it uses something that 0.118 does not have.
    pub fn note_request(&mut self, id: RequestId, method: &str, is_later: bool) {
        let is_earlier = |known: &&MethodInfo| known.generations.include(ProtocolGeneration::V118);
        let is_known = CLIENT_REQUESTS.iter().filter(is_earlier).any(|known| known.name == method);
        self.may_have_changed |= is_later || !is_known;
        self.is_later_client |= is_later && method == Initialize::NAME;
        self.requests.insert(id, method.to_owned());
    }

    /// Notes a request of the client whose params are not known. They may use what 0.118 does not have.
    pub fn note_raw_request(&mut self, id: RequestId, method: &str) {
        self.may_have_changed = true;
        self.requests.insert(id, method.to_owned());
    }

    /// Checks the answer to a request.
    pub fn check_answer(&mut self, id: &RequestId, result: &Value) {
        let Some(method) = self.requests.remove(id) else { return };
        if method == Initialize::NAME {
            // A client that does not say its generation sees the latest version and is served as one of 0.118.
            let is_told = |generation: &_| *generation == ProtocolGeneration::V118 || self.is_later_client;
            self.announced = announced_generation(result).filter(is_told);
        }
        self.check(CLIENT_REQUESTS, &method, |info| info.response.map(|info| (info.name)()), result);
    }

    /// Forgets a request that was answered with an error.
    pub fn forget(&mut self, id: &RequestId) {
        self.requests.remove(id);
    }

    pub fn check_notification(&mut self, method: &str, params: &Value) {
        self.check(NOTIFICATIONS, method, |info| info.params.map(|info| (info.name)()), params);
    }

    /// Checks the time that is sent with each notification on a connection of 0.166.
    pub fn check_time(&self, method: &str, unix_ms: Option<i64>) {
        match self.announced {
            Some(ProtocolGeneration::V166) => {
                assert!(unix_ms.is_some(), "{method} does not say when it was sent")
            }
            Some(ProtocolGeneration::V118) if !self.may_have_changed => {
                assert_eq!(unix_ms, None, "{method} says when it was sent");
            }
            _ => {}
        }
    }

    pub fn check_server_request(&mut self, method: &str, params: &Value) {
        self.check(SERVER_REQUESTS, method, |info| info.params.map(|info| (info.name)()), params);
    }

    /// Returns how many messages have been checked.
    pub fn checked(&self) -> usize {
        self.checked
    }

    /// Panics if a message fits none of the generations that the connection may have.
    fn check(
        &mut self,
        table: &[MethodInfo],
        method: &str,
        type_of: impl Fn(&MethodInfo) -> Option<String>,
        value: &Value,
    ) {
        let Some(info) = table.iter().find(|known| known.name == method) else { return };
        let Some(name) = type_of(info) else { return };
        let both = &ProtocolGeneration::ALL[..];
        let possible = match &self.announced {
            Some(generation) if !self.may_have_changed || *generation == ProtocolGeneration::V166 => {
                std::slice::from_ref(generation)
            }
            _ => both,
        };
        self.checked += 1;
        let violations: Vec<_> = possible
            .iter()
            .map_while(|generation| {
                let schemas = TypeSchemas::of(*generation);
                let is_known = info.generations.include(*generation);
                let found = if is_known { schemas.check_type(&name, value) } else { Err(unknown_method()) };
                found.err().map(|violation| format!("{generation}: {violation}"))
            })
            .collect();
        assert!(
            violations.len() < possible.len(),
            "{method} violates the schema of {}\n{value:#}",
            violations.join("; ")
        );
    }
}

fn unknown_method() -> String {
    "this generation does not have the method".to_owned()
}

/// Returns the generation of the version in the user agent that `initialize` is answered with.
fn announced_generation(answer: &Value) -> Option<ProtocolGeneration> {
    let agent = answer.get("userAgent")?.as_str()?;
    let version = agent.split('/').nth(1)?.split(' ').next()?;
    ProtocolGeneration::ALL.into_iter().find(|generation| generation.version() == version)
}

/// The types of one generation.
struct TypeSchemas(BTreeMap<String, Value>);

impl TypeSchemas {
    fn of(generation: ProtocolGeneration) -> &'static Self {
        static V118: LazyLock<TypeSchemas> = LazyLock::new(|| TypeSchemas::load(ProtocolGeneration::V118));
        static V166: LazyLock<TypeSchemas> = LazyLock::new(|| TypeSchemas::load(ProtocolGeneration::V166));
        match generation {
            ProtocolGeneration::V118 => &V118,
            ProtocolGeneration::V166 => &V166,
        }
    }

    fn load(generation: ProtocolGeneration) -> Self {
        let files = json_schema(ExportScope { generation, audience: ExportAudience::Experimental });
        let bundle = files.into_iter().find(|file| file.path == BUNDLE).expect("the export has the bundle");
        let mut bundle: Value = serde_json::from_str(&bundle.content).expect("the export is JSON");
        let mut types = BTreeMap::new();
        if let Some(Value::Object(mut definitions)) = bundle.get_mut("definitions").map(Value::take) {
            if let Some(Value::Object(current)) = definitions.remove("v2") {
                types.extend(current);
            }
            types.extend(definitions);
        }
        Self(types)
    }

    /// Checks a value against a type. A response without members is not in the export.
    fn check_type(&self, name: &str, value: &Value) -> Result<(), String> {
        match self.0.get(name) {
            Some(schema) => self.check(schema, value, "$"),
            None => Ok(()),
        }
    }

    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let Value::Object(schema) = schema else { return Ok(()) };
        if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
            let name = reference.rsplit('/').next().unwrap_or_default();
            let target = self.0.get(name).ok_or_else(|| format!("{at}: there is no type {name}"))?;
            self.check(target, value, at)?;
        }
        check_type_word(schema, value, at)?;
        check_constants(schema, value, at)?;
        for part in schema.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            self.check(part, value, at)?;
        }
        for word in ["anyOf", "oneOf"] {
            if let Some(choices) = schema.get(word).and_then(Value::as_array) {
                self.check_choices(choices, value, at)?;
            }
        }
        match value {
            Value::Object(members) => self.check_members(schema, members, at),
            Value::Array(elements) => {
                let Some(items) = schema.get("items") else { return Ok(()) };
                let mut elements = elements.iter().enumerate();
                elements
                    .try_for_each(|(index, element)| self.check(items, element, &format!("{at}[{index}]")))
            }
            _ => Ok(()),
        }
    }

    /// Checks that a value is one of the choices. The error is that of the choice that fits best.
    fn check_choices(&self, choices: &[Value], value: &Value, at: &str) -> Result<(), String> {
        let mut closest = String::new();
        for choice in choices {
            match self.check(choice, value, at) {
                Ok(()) => return Ok(()),
                Err(violation) if place_len(&violation) >= place_len(&closest) => closest = violation,
                Err(_) => {}
            }
        }
        Err(closest)
    }

    fn check_members(
        &self,
        schema: &Map<String, Value>,
        members: &Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            if name.as_str().is_some_and(|name| !members.contains_key(name)) {
                return Err(format!("{at}: {name} is missing"));
            }
        }
        let properties = schema.get("properties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        for (name, member) in members {
            let place = format!("{at}.{name}");
            match (properties.and_then(|properties| properties.get(name)), others) {
                (Some(property), _) => self.check(property, member, &place)?,
                (None, Some(Value::Bool(false))) => return Err(format!("{place}: there is no such member")),
                (None, Some(other)) => self.check(other, member, &place)?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

/// Returns the length of the place that a violation names.
fn place_len(violation: &str) -> usize {
    violation.split(':').next().map_or(0, str::len)
}

fn check_type_word(schema: &Map<String, Value>, value: &Value, at: &str) -> Result<(), String> {
    let is_allowed = match schema.get("type") {
        None => true,
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).any(|word| is_of(word, value)),
        Some(word) => word.as_str().is_none_or(|word| is_of(word, value)),
    };
    if is_allowed { Ok(()) } else { Err(format!("{at}: {} is not of type {}", shown(value), schema["type"])) }
}

/// Returns a short text for a value. Most violations are those of choices that another choice makes good.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "an object".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::String(text) if text.len() > 100 => "a long text".to_owned(),
        other => other.to_string(),
    }
}

fn is_of(word: &str, value: &Value) -> bool {
    match word {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}

fn check_constants(schema: &Map<String, Value>, value: &Value, at: &str) -> Result<(), String> {
    let is_listed = match (schema.get("enum"), schema.get("const")) {
        (Some(Value::Array(values)), _) => values.contains(value),
        (_, Some(constant)) => constant == value,
        _ => true,
    };
    if is_listed { Ok(()) } else { Err(format!("{at}: {} is not one of the values", shown(value))) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_message_that_its_schema_does_not_allow_is_a_violation() {
        let check = |generation, name: &str, value: Value, expected: Result<(), &str>| {
            let found = TypeSchemas::of(generation).check_type(name, &value);
            assert_eq!(
                found.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|it| *it),
                "{value}"
            );
        };
        use ProtocolGeneration::{V118, V166};
        let id = "ThreadArchivedNotification";
        check(V118, id, json!({ "threadId": "t" }), Ok(()));
        check(V118, id, json!({}), Err("$: \"threadId\" is missing"));
        check(V118, id, json!({ "threadId": 1 }), Err("$.threadId: 1 is not of type \"string\""));
        let status = |kind: &str| json!({ "threadId": "t", "status": { "type": kind } });
        check(V166, "ThreadStatusChangedNotification", status("idle"), Ok(()));
        let unknown = Err("$.status.type: \"asleep\" is not one of the values");
        check(V166, "ThreadStatusChangedNotification", status("asleep"), unknown);
    }

    #[test]
    fn a_connection_that_may_have_changed_fits_either_generation() {
        let answer = json!({
            "userAgent": "t/0.118.0 (Linux)",
            "codexHome": "/",
            "platformFamily": "unix",
            "platformOs": "linux",
        });
        let id = RequestId::Integer(1);
        let mut check = SchemaCheck::default();
        check.note_request(id.clone(), Initialize::NAME, false);
        check.check_answer(&id, &answer);
        assert_eq!(check.announced, Some(ProtocolGeneration::V118));
        assert!(!check.may_have_changed);
        check.note_request(id.clone(), "thread/revert", false);
        assert!(check.may_have_changed);
        check.forget(&id);
        assert_eq!(check.checked(), 1);
    }
}
