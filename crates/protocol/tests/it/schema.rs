//! The files and types of the published schema.

use std::collections::BTreeSet;

use codicil_protocol::{
    ProtocolGeneration,
    schema::{ExportAudience, ExportFile, ExportScope, json_schema, typescript},
};
use serde_json::Value;

/// Returns the scope of the 0.118 generation.
fn v118(audience: ExportAudience) -> ExportScope {
    ExportScope { generation: ProtocolGeneration::V118, audience }
}

fn listing(files: &[ExportFile]) -> String {
    let paths: BTreeSet<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths.len(), files.len(), "each file once");
    paths.into_iter().collect::<Vec<_>>().join("\n")
}

/// Returns the names of all types in the bundle, those of version 2 with the prefix `v2/`.
fn type_names(audience: ExportAudience) -> String {
    let files = json_schema(v118(audience));
    let bundle = files.iter().find(|file| file.path == "codex_app_server_protocol.schemas.json").unwrap();
    let bundle: Value = serde_json::from_str(&bundle.content).unwrap();
    let definitions = bundle["definitions"].as_object().unwrap();
    let current = definitions["v2"].as_object().unwrap();
    let older = definitions.keys().filter(|name| *name != "v2").cloned();
    let names: Vec<_> = older.chain(current.keys().map(|name| format!("v2/{name}"))).collect();
    names.join("\n")
}

#[test]
fn json_files() {
    snapshot!("json_files_experimental", listing(&json_schema(v118(ExportAudience::Experimental))));
}

#[test]
fn typescript_files() {
    snapshot!("typescript_files_experimental", listing(&typescript(v118(ExportAudience::Experimental))));
}

#[test]
fn types() {
    snapshot!("types_experimental", type_names(ExportAudience::Experimental));
}

#[test]
fn a_stable_export_is_a_subset_of_the_experimental_one() {
    let names = |audience| type_names(audience).lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let stable = names(ExportAudience::Stable);
    let all = names(ExportAudience::Experimental);
    assert!(stable.is_subset(&all));
    snapshot!("types_only_experimental", all.difference(&stable).cloned().collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_stable_export_has_no_experimental_fields() {
    let params = |audience| {
        let files = json_schema(v118(audience));
        let file = files.iter().find(|file| file.path == "v2/ThreadStartParams.json").unwrap();
        let schema: Value = serde_json::from_str(&file.content).unwrap();
        schema["properties"].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>()
    };
    let stable = params(ExportAudience::Stable);
    let all = params(ExportAudience::Experimental);
    let gated: Vec<_> = all.difference(&stable).map(String::as_str).collect();
    assert_eq!(
        gated,
        ["dynamicTools", "experimentalRawEvents", "mockExperimentalField", "persistExtendedHistory"]
    );
}

#[test]
fn every_reference_is_resolved() {
    for file in json_schema(v118(ExportAudience::Experimental)) {
        let schema: Value = serde_json::from_str(&file.content).unwrap();
        each_reference(&schema, &mut |reference| {
            let pointer = reference.strip_prefix('#').unwrap();
            assert!(schema.pointer(pointer).is_some(), "{}: {reference}", file.path);
        });
        assert!(!file.content.contains("x-experimental"), "{}", file.path);
        assert!(!file.content.contains("Unrecognized"), "{}", file.path);
    }
}

fn each_reference(schema: &Value, visit: &mut impl FnMut(&str)) {
    match schema {
        Value::Object(members) => {
            members.get("$ref").and_then(Value::as_str).into_iter().for_each(&mut *visit);
            members.values().for_each(|member| each_reference(member, visit));
        }
        Value::Array(elements) => elements.iter().for_each(|element| each_reference(element, visit)),
        _ => {}
    }
}
