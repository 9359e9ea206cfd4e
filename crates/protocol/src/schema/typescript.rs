//! The TypeScript export: one file per type.
//!
//! Generated from the JSON Schema of the types instead of by a second derive macro: both exports have one source, and
//! the build stays short. The generator handles the schemas that `#[wire]` produces and no others. A test compiles the
//! result with `tsc --strict`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::Contract;
use serde_json::{Map, Value};

use super::{ExportFile, ExportScope, MessageUnion, PublishedSurface, each_reference, referenced};

const HEADER: &str = "// Generated from the protocol's types. Do not edit.\n";
const JSON_VALUE: &str = "JsonValue";

/// Returns the files of the TypeScript export.
pub fn typescript(scope: ExportScope) -> Vec<ExportFile> {
    let surface = PublishedSurface::new(scope, Contract::Serialize);
    let mut files = vec![ExportFile {
        path: "serde_json/JsonValue.ts".into(),
        content: format!(
            "{HEADER}\nexport type JsonValue = number | string | boolean | Array<JsonValue> | \
             {{ [key in string]?: JsonValue }} | null;\n"
        ),
    }];
    let folders = TypeFolders::default();
    for (name, schema) in surface.types.iter().filter(|(name, _)| !name.starts_with("JSONRPC")) {
        files.push(folders.type_file(name, schema));
    }
    files.extend(surface.unions.iter().map(|union| folders.union_file(union)));
    files.extend([index("", &files), index("v2/", &files)]);
    files
}

/// Returns the files of the extension's TypeScript. They import types of [`typescript`] for the same scope.
pub fn codicil_typescript(scope: ExportScope) -> Vec<ExportFile> {
    let published = PublishedSurface::new(scope, Contract::Serialize);
    let surface = PublishedSurface::codicil(scope, Contract::Serialize);
    // The published export leaves out the envelope.
    let is_exported = |name: &str| published.types.contains_key(name) && !name.starts_with("JSONRPC");
    let own = surface.types.iter().filter(|(name, _)| !is_exported(name));
    let mut codicil: BTreeSet<_> = own.clone().map(|(name, _)| name.clone()).collect();
    codicil.extend(surface.unions.iter().map(|union| union.name.to_owned()));
    let folders = TypeFolders { codicil };
    let mut files: Vec<_> = own.map(|(name, schema)| folders.type_file(name, schema)).collect();
    files.extend(surface.unions.iter().map(|union| folders.union_file(union)));
    files.push(index(CODICIL_FOLDER, &files));
    files
}

const CODICIL_FOLDER: &str = "codicil/";

/// Types that are exported outside `v2`, because older clients import them from there.
const OUTSIDE_V2: &[&str] = &[
    "AbsolutePathBuf",
    "AgentPath",
    "ApplyPatchApprovalParams",
    "ApplyPatchApprovalResponse",
    "AuthMode",
    "ClientInfo",
    "ClientNotification",
    "ClientRequest",
    "CollaborationMode",
    "ContentItem",
    "ExecCommandApprovalParams",
    "ExecCommandApprovalResponse",
    "FileChange",
    "ForcedLoginMethod",
    "FunctionCallOutputBody",
    "FunctionCallOutputContentItem",
    "FuzzyFileSearchMatchType",
    "FuzzyFileSearchParams",
    "FuzzyFileSearchResponse",
    "FuzzyFileSearchResult",
    "FuzzyFileSearchSessionCompletedNotification",
    "FuzzyFileSearchSessionStartParams",
    "FuzzyFileSearchSessionStartResponse",
    "FuzzyFileSearchSessionStopParams",
    "FuzzyFileSearchSessionStopResponse",
    "FuzzyFileSearchSessionUpdateParams",
    "FuzzyFileSearchSessionUpdateResponse",
    "FuzzyFileSearchSessionUpdatedNotification",
    "GhostCommit",
    "ImageDetail",
    "InitializeCapabilities",
    "InitializeParams",
    "InitializeResponse",
    "InputModality",
    "LocalShellAction",
    "LocalShellStatus",
    "MessagePhase",
    "ModeKind",
    "ParsedCommand",
    "Personality",
    "PlanType",
    "RealtimeConversationVersion",
    "ReasoningEffort",
    "ReasoningItemContent",
    "ReasoningItemReasoningSummary",
    "ReasoningSummary",
    "RequestId",
    "Resource",
    "ResourceTemplate",
    "ResponseItem",
    "ReviewDecision",
    "ServerNotification",
    "ServerRequest",
    "ServiceTier",
    "Settings",
    "SubAgentSource",
    "ThreadId",
    "Tool",
    "Verbosity",
    "W3cTraceContext",
    "WebSearchContextSize",
    "WebSearchLocation",
    "WebSearchMode",
    "WebSearchToolConfig",
];

/// The folders of the types.
#[derive(Default)]
struct TypeFolders {
    /// The types that belong to the extension.
    codicil: BTreeSet<String>,
}

impl TypeFolders {
    fn folder(&self, name: &str) -> &'static str {
        match name {
            JSON_VALUE => "serde_json/",
            _ if self.codicil.contains(name) => CODICIL_FOLDER,
            _ if OUTSIDE_V2.contains(&name) => "",
            _ => "v2/",
        }
    }

    fn type_file(&self, name: &str, schema: &Value) -> ExportFile {
        let mut used = BTreeSet::new();
        each_reference(schema, &mut |name| {
            used.insert(name.to_owned());
        });
        let body = format!("{}export type {name} = {};\n", comment(schema), expression(schema));
        self.source(name, used, &body)
    }

    /// Returns the file of a union of messages, which clients distinguish by `method`.
    fn union_file(&self, union: &MessageUnion) -> ExportFile {
        let mut used = BTreeSet::new();
        if union.has_id {
            used.insert("RequestId".to_owned());
        }
        let mut variants = Vec::new();
        for method in &union.methods {
            let id = if union.has_id { ", id: RequestId" } else { "" };
            let params = match method.params {
                Some(params) => {
                    let name = (params.name)();
                    used.insert(name.clone());
                    let or_none = if method.has_optional_params { " | null | undefined" } else { "" };
                    format!(", params: {name}{or_none}")
                }
                None if union.has_id => ", params: undefined".to_owned(),
                None => String::new(),
            };
            variants.push(format!("{{ \"method\": \"{}\"{id}{params}, }}", method.name));
        }
        let mut messages = variants.join(" | ");
        if union.has_time {
            messages = format!("({messages}) & {{ emittedAtMs?: number }}");
        }
        let body = format!("export type {} = {messages};\n", union.name);
        self.source(union.name, used, &body)
    }

    fn source(&self, name: &str, mut used: BTreeSet<String>, body: &str) -> ExportFile {
        used.remove(name);
        if body.contains(JSON_VALUE) {
            used.insert(JSON_VALUE.to_owned());
        }
        let here = self.folder(name);
        let imports: String = (used.iter())
            .map(|other| {
                let there = self.folder(other);
                let path = match (here, there) {
                    _ if here == there => format!("./{other}"),
                    ("", there) => format!("./{there}{other}"),
                    (_, there) => format!("../{there}{other}"),
                };
                format!("import type {{ {other} }} from \"{path}\";\n")
            })
            .collect();
        ExportFile { path: format!("{here}{name}.ts"), content: format!("{HEADER}{imports}\n{body}") }
    }
}

fn index(folder: &str, files: &[ExportFile]) -> ExportFile {
    let mut content = HEADER.to_owned();
    for file in files {
        if let Some(name) = file.path.strip_prefix(folder).and_then(|path| path.strip_suffix(".ts"))
            && !name.contains('/')
            && name != "index"
        {
            content += &format!("export type {{ {name} }} from \"./{name}\";\n");
        }
    }
    if folder.is_empty() {
        content += "export * as v2 from \"./v2\";\n";
    }
    ExportFile { path: format!("{folder}index.ts"), content }
}

/// Returns the type expression of a schema.
fn expression(schema: &Value) -> String {
    let Some(members) = schema.as_object() else { return JSON_VALUE.to_owned() };
    if let Some(name) = members.get("$ref").and_then(Value::as_str).and_then(referenced) {
        return name.to_owned();
    }
    if let Some(values) = members.get("enum").and_then(Value::as_array) {
        return alternatives(values.iter().map(literal));
    }
    if let Some(value) = members.get("const") {
        return literal(value);
    }
    let parts: Vec<_> =
        [choice(members), intersection(members), by_type(members)].into_iter().flatten().collect();
    if parts.is_empty() { JSON_VALUE.to_owned() } else { parts.join(" & ") }
}

fn choice(members: &Map<String, Value>) -> Option<String> {
    let variants = members.get("oneOf").or_else(|| members.get("anyOf"))?.as_array()?;
    let choice = alternatives(variants.iter().map(documented));
    Some(if members.contains_key("properties") { format!("({choice})") } else { choice })
}

fn intersection(members: &Map<String, Value>) -> Option<String> {
    let parts: Vec<_> = members.get("allOf")?.as_array()?.iter().map(expression).collect();
    Some(parts.join(" & "))
}

fn by_type(members: &Map<String, Value>) -> Option<String> {
    match members.get("type")? {
        Value::String(name) if name == "object" && members.contains_key("oneOf") && !has_members(members) => {
            None
        }
        Value::String(name) => Some(named(name, members)),
        Value::Array(names) => {
            Some(alternatives(names.iter().filter_map(Value::as_str).map(|name| named(name, members))))
        }
        _ => None,
    }
}

fn named(name: &str, members: &Map<String, Value>) -> String {
    match name {
        "integer" | "number" => "number".to_owned(),
        "array" => format!("Array<{}>", members.get("items").map_or(JSON_VALUE.to_owned(), expression)),
        "object" => object(members),
        plain => plain.to_owned(),
    }
}

fn has_members(members: &Map<String, Value>) -> bool {
    members.get("properties").and_then(Value::as_object).is_some_and(|properties| !properties.is_empty())
}

fn object(members: &Map<String, Value>) -> String {
    let rest = match members.get("additionalProperties") {
        Some(Value::Bool(false)) => None,
        Some(schema) => Some(format!("{{ [key in string]?: {} }}", expression(schema))),
        None => None,
    };
    if !has_members(members) {
        return rest.unwrap_or_else(|| "Record<string, never>".to_owned());
    }
    let properties = members.get("properties").and_then(Value::as_object).into_iter().flatten();
    let required = members.get("required").and_then(Value::as_array);
    let fields: String = properties
        .map(|(name, schema)| {
            let optional = !required.is_some_and(|required| required.iter().any(|given| given == name));
            format!(
                "{}{}{}: {}, ",
                comment(schema),
                key(name),
                if optional { "?" } else { "" },
                expression(schema)
            )
        })
        .collect();
    let fields = format!("{{ {fields}}}");
    match rest {
        Some(rest) => format!("{fields} & {rest}"),
        None => fields,
    }
}

fn key(name: &str) -> String {
    let plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_' || letter == '$');
    if plain { name.to_owned() } else { literal(&name.into()) }
}

fn documented(schema: &Value) -> String {
    format!("{}{}", comment(schema), expression(schema))
}

fn comment(schema: &Value) -> String {
    match schema.get("description").and_then(Value::as_str) {
        Some(text) => format!("\n/**\n * {}\n */\n", text.replace("*/", "* /").replace('\n', "\n * ")),
        None => String::new(),
    }
}

/// Joins types to `a | b`, without duplicates.
fn alternatives(types: impl Iterator<Item = String>) -> String {
    let mut seen = BTreeMap::new();
    let types: Vec<_> = types.filter(|name| seen.insert(name.clone(), ()).is_none()).collect();
    types.join(" | ")
}

fn literal(value: &Value) -> String {
    value.to_string()
}
