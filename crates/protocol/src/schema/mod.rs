//! The published schema of the protocol as JSON Schema and TypeScript, generated from the types.
//!
//! Both exports start from `PublishedSurface`: the tables, with or without experimental parts, and the schema of every
//! type they reach. An export is a list of files; the caller writes them. The extension has exports of its own, in the
//! folder `codicil`. Each export is of one generation of the protocol.

mod generations;
mod json;
mod typescript;

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::{Contract, SchemaSettings};
use serde_json::{Map, Value, json};

use generations::GenerationFilter;
pub use generations::{ByGeneration, add_later_members, add_later_variants, by_generation};
pub use json::{codicil_json_schema, json_schema};
pub use typescript::{codicil_typescript, typescript};

use crate::{
    CLIENT_NOTIFICATIONS, CLIENT_REQUESTS, CODICIL_NOTIFICATIONS, CODICIL_REQUESTS, CODICIL_TYPES,
    MethodInfo, ModelProviderError, NOTIFICATIONS, ProtocolGeneration, RawResponseCompletedNotification,
    RawResponseItemCompletedNotification, SERVER_REQUESTS, Stability, TypeInfo, UserVerificationRpcError,
    rpc,
};

/// A file of an export, its path relative to the directory the caller chose.
#[derive(Debug)]
pub struct ExportFile {
    pub path: String,
    pub content: String,
}

/// Whether experimental methods and fields are part of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportAudience {
    Stable,
    Experimental,
}

/// The part of the protocol that an export covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportScope {
    pub generation: ProtocolGeneration,
    pub audience: ExportAudience,
}

/// A union of messages.
struct MessageUnion {
    name: &'static str,
    methods: Vec<MethodInfo>,
    has_id: bool,
    /// Whether each message may say when it was sent.
    has_time: bool,
}

/// The methods and types of an export.
struct PublishedSurface {
    unions: Vec<MessageUnion>,
    /// The schemas of all types, by name.
    types: BTreeMap<String, Value>,
    /// The names of the params and responses, which get a file each.
    roots: BTreeSet<String>,
    /// The names of the types that belong to version 2 of the protocol (`v2`).
    current: BTreeSet<String>,
}

impl PublishedSurface {
    fn new(scope: ExportScope, contract: Contract) -> Self {
        let mut others = vec![(TypeInfo::of::<RawResponseItemCompletedNotification>(), true)];
        if scope.generation == ProtocolGeneration::V166 {
            others.push((TypeInfo::of::<RawResponseCompletedNotification>(), true));
            others.push((TypeInfo::of::<ModelProviderError>(), true));
            others.push((TypeInfo::of::<UserVerificationRpcError>(), true));
        }
        others.extend(envelope().map(|info| (info, false)));
        Self::of(unions(scope), others, scope, contract)
    }

    /// Returns the surface of the extension. It includes the types of the published protocol that it uses.
    fn codicil(scope: ExportScope, contract: Contract) -> Self {
        let request = TypeInfo::of::<rpc::RequestId>();
        let others = CODICIL_TYPES.iter().copied().chain([request]).map(|info| (info, false)).collect();
        let unions = vec![
            MessageUnion {
                name: "CodicilRequest",
                methods: CODICIL_REQUESTS.to_vec(),
                has_id: true,
                has_time: false,
            },
            MessageUnion {
                name: "CodicilNotification",
                methods: CODICIL_NOTIFICATIONS.to_vec(),
                has_id: false,
                has_time: false,
            },
        ];
        Self::of(unions, others, scope, contract)
    }

    /// Returns the surface of these messages and of types besides them, each with whether it belongs to version 2.
    fn of(
        unions: Vec<MessageUnion>,
        others: Vec<(TypeInfo, bool)>,
        scope: ExportScope,
        contract: Contract,
    ) -> Self {
        let filter = GenerationFilter { generation: scope.generation, contract: contract.clone() };
        let mut generator = SchemaSettings::draft07().with(|s| s.contract = contract).into_generator();
        let mut roots = BTreeSet::new();
        let mut current_roots = BTreeSet::new();
        let mut add = |info: TypeInfo, current: bool| {
            (info.schema)(&mut generator);
            let name = (info.name)();
            if current {
                current_roots.insert(name.clone());
            }
            roots.insert(name);
        };
        for union in &unions {
            for method in &union.methods {
                let current = union.name != "ServerRequest" && !is_older(method.name);
                method.params.into_iter().chain(method.response).for_each(|info| add(info, current));
            }
        }
        for (info, current) in others {
            add(info, current);
        }
        let mut types: BTreeMap<_, _> = generator.take_definitions(true).into_iter().collect();
        types.values_mut().for_each(|schema| {
            filter.apply(schema);
            strip_experimental(schema, scope.audience);
            flatten(schema);
        });
        let used = reachable(&types, &roots);
        types.retain(|name, _| used.contains(name));
        let current = reachable(&types, &current_roots);
        Self { unions, types, roots, current }
    }
}

fn unions(scope: ExportScope) -> Vec<MessageUnion> {
    let published = |methods: &[MethodInfo]| {
        let keep = |method: &&MethodInfo| {
            let is_open =
                scope.audience == ExportAudience::Experimental || method.stability == Stability::Stable;
            is_open && method.generations.include(scope.generation)
        };
        methods.iter().filter(keep).map(|method| of_generation(*method, scope.generation)).collect()
    };
    let union = |name, methods, has_id| MessageUnion {
        name,
        methods: published(methods),
        has_id,
        has_time: name == "ServerNotification" && scope.generation == ProtocolGeneration::V166,
    };
    vec![
        union("ClientRequest", CLIENT_REQUESTS, true),
        union("ClientNotification", CLIENT_NOTIFICATIONS, false),
        union("ServerRequest", SERVER_REQUESTS, true),
        union("ServerNotification", NOTIFICATIONS, false),
    ]
}

/// Returns a method as a generation has it: optional params are none in 0.118.
fn of_generation(method: MethodInfo, generation: ProtocolGeneration) -> MethodInfo {
    let has_params = !method.has_optional_params || generation == ProtocolGeneration::V166;
    MethodInfo { params: method.params.filter(|_| has_params), ..method }
}

/// Returns whether the types of a method were published before there was a `v2`.
fn is_older(method: &str) -> bool {
    method == "initialize" || method.starts_with("fuzzyFileSearch")
}

fn envelope() -> [TypeInfo; 6] {
    [
        TypeInfo::of::<rpc::RequestId>(),
        TypeInfo::of::<rpc::Request>(),
        TypeInfo::of::<rpc::Notification>(),
        TypeInfo::of::<rpc::Response>(),
        TypeInfo::of::<rpc::ErrorResponse>(),
        TypeInfo::of::<rpc::ErrorObject>(),
    ]
}

/// Removes experimental fields from a stable export, and the markers from every export.
fn strip_experimental(schema: &mut Value, audience: ExportAudience) {
    let is_marked = |schema: &Value| schema.get("x-experimental").is_some();
    match schema {
        Value::Object(members) => {
            members.remove("x-experimental");
            if audience == ExportAudience::Stable
                && let Some(Value::Object(properties)) = members.get_mut("properties")
            {
                let dropped: Vec<_> = properties
                    .iter()
                    .filter(|(_, schema)| is_marked(schema))
                    .map(|(name, _)| name.clone())
                    .collect();
                properties.retain(|name, _| !dropped.contains(name));
                if let Some(Value::Array(required)) = members.get_mut("required") {
                    required.retain(|name| !dropped.iter().any(|dropped| name == dropped));
                }
            }
            members.values_mut().for_each(|member| strip_experimental(member, audience));
        }
        Value::Array(elements) => elements.iter_mut().for_each(|member| strip_experimental(member, audience)),
        _ => {}
    }
}

/// Simplifies two forms that documented members produce and that code generators handle badly: a single reference in an
/// `allOf`, and a string enum as a `oneOf` of constants.
fn flatten(schema: &mut Value) {
    if let Value::Object(members) = schema {
        if let Some(Value::Array(parts)) = members.get("allOf")
            && let [only] = parts.as_slice()
            && let Some(reference) = only.get("$ref").cloned()
        {
            members.remove("allOf");
            members.insert("$ref".into(), reference);
        }
        if let Some(Value::Array(choices)) = members.get("oneOf")
            && let Some(names) = choices.iter().map(constants).collect::<Option<Vec<_>>>()
        {
            let names = names.concat();
            let described: Vec<_> = choices.iter().filter_map(described_choice).collect();
            let before = members.get("description").and_then(Value::as_str).map(str::to_owned);
            let description: Vec<_> = before.into_iter().chain(described).collect();
            members.remove("oneOf");
            members.insert("type".into(), "string".into());
            members.insert("enum".into(), names.into());
            if !description.is_empty() {
                members.insert("description".into(), description.join("\n").into());
            }
        }
    }
    match schema {
        Value::Object(members) => members.values_mut().for_each(flatten),
        Value::Array(elements) => elements.iter_mut().for_each(flatten),
        _ => {}
    }
}

fn constants(choice: &Value) -> Option<Vec<Value>> {
    match (choice.get("const"), choice.get("enum")) {
        (Some(name), _) => Some(vec![name.clone()]),
        (None, Some(Value::Array(names))) => Some(names.clone()),
        _ => None,
    }
}

fn described_choice(choice: &Value) -> Option<String> {
    Some(format!("- `{}`: {}", choice.get("const")?.as_str()?, choice.get("description")?.as_str()?))
}

/// Returns the types that `roots` refer to, directly or indirectly, including themselves.
fn reachable(types: &BTreeMap<String, Value>, roots: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<_> = roots.iter().cloned().collect();
    while let Some(name) = open.pop() {
        if let Some(schema) = types.get(&name)
            && found.insert(name)
        {
            each_reference(schema, &mut |name| open.push(name.to_owned()));
        }
    }
    found
}

fn each_reference(schema: &Value, visit: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(members) => {
            if let Some(name) = members.get("$ref").and_then(Value::as_str).and_then(referenced) {
                visit(name);
            }
            members.values().for_each(|member| each_reference(member, visit));
        }
        Value::Array(elements) => elements.iter().for_each(|element| each_reference(element, visit)),
        _ => {}
    }
}

/// Returns `Name` of `#/definitions/Name`.
fn referenced(reference: &str) -> Option<&str> {
    reference.rsplit('/').next()
}

/// Returns the schema of a union of messages.
fn union_schema(union: &MessageUnion) -> Value {
    let variants: Vec<_> = union.methods.iter().map(|method| message_schema(method, union.has_id)).collect();
    let mut schema = json!({ "title": union.name, "oneOf": variants });
    if union.has_time
        && let Some(members) = schema.as_object_mut()
    {
        let time = json!({ "type": "integer", "format": "int64", "description": "Unix milliseconds." });
        members.insert("properties".into(), json!({ "emittedAtMs": time }));
    }
    schema
}

fn message_schema(method: &MethodInfo, has_id: bool) -> Value {
    let mut properties = Map::new();
    let mut required = vec!["method"];
    if has_id {
        properties.insert("id".into(), json!({ "$ref": "#/definitions/RequestId" }));
        required.push("id");
    }
    properties.insert("method".into(), json!({ "type": "string", "enum": [method.name] }));
    match method.params {
        Some(params) => {
            let reference = json!({ "$ref": format!("#/definitions/{}", (params.name)()) });
            let schema = if method.has_optional_params {
                json!({ "anyOf": [reference, { "type": "null" }] })
            } else {
                required.push("params");
                reference
            };
            properties.insert("params".into(), schema);
        }
        None if has_id => {
            properties.insert("params".into(), json!({ "type": "null" }));
        }
        None => {}
    }
    json!({ "type": "object", "properties": properties, "required": required })
}
