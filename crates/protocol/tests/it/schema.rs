//! The published schema: which files there are, and which types.

use std::collections::BTreeSet;

use codicil_protocol::schema::{ExportAudience, ExportFile, json_schema, typescript};
use serde_json::Value;

fn listing(files: &[ExportFile]) -> String {
    let paths: BTreeSet<_> = files.iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths.len(), files.len(), "each file once");
    paths.into_iter().collect::<Vec<_>>().join("\n")
}

/// The names of all types in the bundle, those of the current dialect with `v2/` before them.
fn type_names(audience: ExportAudience) -> String {
    let files = json_schema(audience);
    let bundle = files.iter().find(|file| file.path == "codex_app_server_protocol.schemas.json").unwrap();
    let bundle: Value = serde_json::from_str(&bundle.content).unwrap();
    let definitions = bundle["definitions"].as_object().unwrap();
    let current = definitions["v2"].as_object().unwrap();
    let older = definitions.keys().filter(|name| *name != "v2").cloned();
    let names: Vec<_> = older.chain(current.keys().map(|name| format!("v2/{name}"))).collect();
    names.join("\n")
}

#[test]
fn the_json_files_are_these() {
    snapshot!("json_files_experimental", listing(&json_schema(ExportAudience::Experimental)));
}

#[test]
fn the_typescript_files_are_these() {
    snapshot!("typescript_files_experimental", listing(&typescript(ExportAudience::Experimental)));
}

#[test]
fn the_types_are_these() {
    snapshot!("types_experimental", type_names(ExportAudience::Experimental));
}

#[test]
fn a_stable_export_is_a_part_of_the_experimental_one() {
    let names = |audience| type_names(audience).lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (stable, all) = (names(ExportAudience::Stable), names(ExportAudience::Experimental));
    assert!(stable.is_subset(&all));
    snapshot!("types_only_experimental", all.difference(&stable).cloned().collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_stable_export_knows_nothing_of_experimental_fields() {
    let params = |audience| {
        let files = json_schema(audience);
        let file = files.iter().find(|file| file.path == "v2/ThreadStartParams.json").unwrap();
        let schema: Value = serde_json::from_str(&file.content).unwrap();
        schema["properties"].as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>()
    };
    let (stable, all) = (params(ExportAudience::Stable), params(ExportAudience::Experimental));
    let gated: Vec<_> = all.difference(&stable).map(String::as_str).collect();
    assert_eq!(
        gated,
        [
            "dynamicTools",
            "experimentalRawEvents",
            "mockExperimentalField",
            "permissions",
            "persistExtendedHistory"
        ]
    );
}

#[test]
fn every_reference_leads_somewhere() {
    for file in json_schema(ExportAudience::Experimental) {
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
