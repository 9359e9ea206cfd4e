//! The JSON Schema export: a self-contained file for each params and response type, and two bundles. The export of the
//! extension has one bundle.

use std::collections::{BTreeMap, BTreeSet};

use schemars::generate::Contract;
use serde_json::{Map, Value, json};

use super::{ExportFile, ExportScope, PublishedSurface, reachable, union_schema};

const DRAFT: &str = "http://json-schema.org/draft-07/schema#";

/// Returns the files of the JSON Schema export.
pub fn json_schema(scope: ExportScope) -> Vec<ExportFile> {
    let surface = PublishedSurface::new(scope, Contract::Deserialize);
    let mut types = surface.types.clone();
    types.extend(surface.unions.iter().map(|union| (union.name.to_owned(), union_schema(union))));
    types.insert("JSONRPCMessage".into(), any_message());
    let mut roots = surface.roots.clone();
    roots.extend(surface.unions.iter().map(|union| union.name.to_owned()));
    roots.insert("JSONRPCMessage".into());

    let mut files: Vec<_> = roots.iter().filter_map(|name| single(name, &types, &surface)).collect();
    let title = "CodexAppServerProtocol";
    files.push(bundle("codex_app_server_protocol.schemas.json", title, nested(&types, &surface.current)));
    files.push(bundle("codex_app_server_protocol.v2.schemas.json", title, current(&types, &surface)));
    files
}

/// Returns the files of the JSON Schema of the extension.
pub fn codicil_json_schema(scope: ExportScope) -> Vec<ExportFile> {
    let surface = PublishedSurface::codicil(scope, Contract::Deserialize);
    let mut types = surface.types.clone();
    types.extend(surface.unions.iter().map(|union| (union.name.to_owned(), union_schema(union))));
    let mut roots = surface.roots;
    roots.extend(surface.unions.iter().map(|union| union.name.to_owned()));
    roots.remove("RequestId");
    let mut files: Vec<_> = roots.iter().filter_map(|name| schema_file("codicil/", name, &types)).collect();
    let every_name = types.keys().cloned().collect();
    files.push(bundle("codicil.schemas.json", "CodicilExtension", select(&types, &every_name)));
    files
}

fn any_message() -> Value {
    let kinds = ["JSONRPCRequest", "JSONRPCNotification", "JSONRPCResponse", "JSONRPCError"];
    let references = kinds.map(|kind| json!({ "$ref": format!("#/definitions/{kind}") }));
    json!({ "anyOf": references })
}

fn single(name: &str, types: &BTreeMap<String, Value>, surface: &PublishedSurface) -> Option<ExportFile> {
    let folder = match name {
        "InitializeParams" | "InitializeResponse" => "v1/",
        "RequestId" => "",
        _ if surface.current.contains(name) => "v2/",
        _ => "",
    };
    schema_file(folder, name, types)
}

/// Returns the file of a type, with the definitions that it uses.
fn schema_file(folder: &str, name: &str, types: &BTreeMap<String, Value>) -> Option<ExportFile> {
    let mut schema = types.get(name)?.as_object()?.clone();
    let mut used = reachable(types, &BTreeSet::from([name.to_owned()]));
    used.remove(name);
    schema.insert("$schema".into(), DRAFT.into());
    schema.insert("title".into(), name.into());
    if !used.is_empty() {
        schema.insert("definitions".into(), select(types, &used).into());
    }
    Some(ExportFile { path: format!("{folder}{name}.json"), content: pretty(&schema.into()) })
}

/// Returns all definitions, with those of version 2 in a namespace.
fn nested(types: &BTreeMap<String, Value>, current: &BTreeSet<String>) -> Map<String, Value> {
    let older: BTreeSet<_> = types.keys().filter(|name| !current.contains(*name)).cloned().collect();
    let mut definitions = select(types, &older);
    let mut newer = select(types, current);
    for schema in definitions.values_mut().chain(newer.values_mut()) {
        point_into_namespace(schema, current);
    }
    definitions.insert("v2".into(), newer.into());
    definitions
}

fn current(types: &BTreeMap<String, Value>, surface: &PublishedSurface) -> Map<String, Value> {
    let mut roots = surface.current.clone();
    roots.extend(["ClientRequest", "ServerNotification"].map(str::to_owned));
    select(types, &reachable(types, &roots))
}

fn bundle(path: &str, title: &str, definitions: Map<String, Value>) -> ExportFile {
    let schema = json!({ "$schema": DRAFT, "title": title, "type": "object", "definitions": definitions });
    ExportFile { path: path.to_owned(), content: pretty(&schema) }
}

fn select(types: &BTreeMap<String, Value>, names: &BTreeSet<String>) -> Map<String, Value> {
    names.iter().filter_map(|name| Some((name.clone(), types.get(name)?.clone()))).collect()
}

fn point_into_namespace(schema: &mut Value, namespace: &BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(reference)) = members.get_mut("$ref")
                && let Some(name) = super::referenced(reference)
                && namespace.contains(name)
            {
                *reference = format!("#/definitions/v2/{name}");
            }
            members.values_mut().for_each(|member| point_into_namespace(member, namespace));
        }
        Value::Array(elements) => {
            elements.iter_mut().for_each(|element| point_into_namespace(element, namespace));
        }
        _ => {}
    }
}

fn pretty(schema: &Value) -> String {
    format!("{schema:#}\n")
}
