//! The catalogue against the types, the sources of the workspace and the documentation.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use codicil_config::{
    CATALOGUE, CatalogueEntry, ConfigQuery, ConfigSettings, FEATURES, FeatureStage, KeyEffect, UnreadFeature,
    key_effect,
};
use serde_json::json;

use crate::{support::Machine, type_fields::fields_of};

#[test]
fn every_key_of_the_types_is_in_the_catalogue() {
    let keys = fields_of::<ConfigSettings>();
    assert!(keys.len() > 150, "the types were not walked: {keys:?}");
    let is_listed = |keys: &Vec<String>| match keys.first().map(String::as_str) {
        Some("features") => true,
        // A profile contains the keys of the root.
        Some("profiles") => {
            let keys = keys.get(2..).unwrap_or_default();
            keys.is_empty() || keys[0] == "features" || is_covered(keys)
        }
        _ => is_covered(keys),
    };
    let missing: Vec<_> = keys.iter().filter(|keys| !is_listed(keys)).map(|keys| keys.join(".")).collect();
    assert!(missing.is_empty(), "add these keys to `catalogue.rs`: {missing:?}");
}

/// Returns whether a key has an entry, is in a table with one, or is a table whose members have entries.
fn is_covered(keys: &[String]) -> bool {
    let begins = |entry: &CatalogueEntry| {
        let mut parts = entry.key.split('.');
        keys.iter().all(|key| parts.next() == Some(key))
    };
    key_effect(keys).is_some() || CATALOGUE.iter().any(begins)
}

#[test]
fn every_key_has_one_entry() {
    let mut keys = BTreeSet::new();
    for entry in CATALOGUE {
        assert!(keys.insert(entry.key), "{} is listed twice", entry.key);
    }
}

#[test]
fn every_key_that_is_obeyed_is_read_by_code() {
    let sources = sources();
    let unread: Vec<_> = CATALOGUE
        .iter()
        .filter(|entry| matches!(entry.effect, KeyEffect::Read(code) if !sources.contains(code)))
        .collect();
    assert!(unread.is_empty(), "no code reads these keys: {unread:#?}");
}

#[test]
fn every_feature_is_read_by_code_or_reported() {
    let sources = sources();
    for spec in FEATURES {
        let code = format!("Feature::{:?}", spec.feature);
        let is_read =
            [")", ",", "]", "=", ";", "}"].iter().any(|end| sources.contains(&format!("{code}{end}")));
        match UnreadFeature::of(spec.feature) {
            Some(_) => assert!(!is_read, "{} is read: remove it from the unread features", spec.name),
            None if spec.stage == FeatureStage::Deprecated => {}
            None => assert!(is_read, "no code reads the feature {}", spec.name),
        }
    }
}

/// Returns the code of all crates without spaces, comments, tests and the tables that declare keys.
fn sources() -> String {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(crates).unwrap() {
        rust_files(&entry.unwrap().path().join("src"), &mut files);
    }
    let is_declaration = |path: &PathBuf| {
        let declarations = ["catalogue.rs", "feature_table.rs", "deprecations.rs"];
        path.components().any(|part| part.as_os_str() == "config")
            && declarations.iter().any(|name| path.ends_with(name))
    };
    files.iter().filter(|path| !is_declaration(path)).map(|path| code(path)).collect()
}

fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

fn code(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap();
    let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.flat_map(|line| line.chars().filter(|letter| !letter.is_whitespace())).collect()
}

#[test]
fn every_key_without_effect_is_reported_once_where_it_is_set() {
    for entry in CATALOGUE {
        let KeyEffect::None { except, .. } = entry.effect else { continue };
        let key = entry.key.replace('*', "x");
        let value = !except.unwrap_or(false);
        // The first form that the type of the key takes.
        let forms = [
            format!("{key} = {value}\n"),
            format!("[{key}]\n"),
            format!("{key} = 'x'\n"),
            format!("{key} = []\n"),
        ];
        let loaded = forms.iter().find_map(|form| Machine::with_config(form).load().ok());
        let warnings = loaded.unwrap_or_else(|| panic!("{key} cannot be set")).warnings;
        let expected = format!("The setting `{key}` has no effect.");
        let reports: Vec<_> = warnings.iter().filter(|warning| warning.summary == expected).collect();
        assert_eq!(reports.len(), 1, "{key}: {warnings:?}");
        assert!(reports[0].details.as_ref().is_some_and(|reason| !reason.is_empty()));
        assert!(reports[0].path.as_ref().is_some_and(|path| path.ends_with("config.toml")), "{key}");

        if let Some(actual) = except {
            let machine = Machine::with_config(&format!("{key} = {actual}\n"));
            assert_eq!(machine.load().unwrap().warnings, [], "{key} = {actual} describes what happens");
        }
    }
}

#[test]
fn every_feature_without_effect_is_reported_where_it_is_set() {
    for spec in FEATURES {
        let Some(UnreadFeature { value, .. }) = UnreadFeature::of(spec.feature) else { continue };
        let summaries = |text: String| {
            let warnings = Machine::with_config(&text).load().unwrap().warnings;
            warnings.into_iter().map(|warning| warning.summary).collect::<Vec<_>>()
        };
        let name = spec.name;
        let expected = format!("The setting `features.{name}` has no effect.");
        for text in ["[features]\n{name} = {value}\n", "[features.{name}]\nenabled = {value}\n"] {
            let text = text.replace("{name}", name).replace("{value}", &(!value).to_string());
            assert_eq!(summaries(text), [expected.as_str()]);
        }
        assert_eq!(summaries(format!("[features]\n{name} = {value}\n")), [""; 0]);
    }
}

#[test]
fn keys_of_a_profile_and_of_a_request_are_reported() {
    let machine =
        Machine::with_config("profile = 'a'\n[profiles.a.otel.tool_result]\n[profiles.b]\nzsh_path = '/x'\n");
    let overrides = json!({ "log_dir": "/y", "modle": "z" }).as_object().cloned().unwrap();
    let config = machine.store().load(&ConfigQuery { cwd: None, overrides }).unwrap();
    let summaries: Vec<_> = config.warnings.iter().map(|warning| warning.summary.as_str()).collect();
    assert_eq!(
        summaries,
        [
            "The setting `log_dir` has no effect.",
            "The setting `otel.tool_result` has no effect.",
            "Unknown settings have no effect."
        ]
    );
    assert_eq!(config.warnings[2].details.as_deref(), Some("`modle`"));
}

#[test]
fn unknown_keys_of_a_file_are_reported_together() {
    let machine = Machine::with_config("model = 'x'\nzzz = 1\nmodle = 'y'\n[features]\nfuture = true\n");
    let warnings = machine.load().unwrap().warnings;
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.summary, "Unknown settings have no effect.");
    assert_eq!(warning.details.as_deref(), Some("`features.future`, `modle`, `zzz`"));
    assert_eq!(warning.path, Some(machine.path("home/config.toml").display().to_string()));
    assert!(warning.range.is_some());
}

#[test]
fn the_documentation_lists_every_key_without_effect_and_no_other() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.md");
    let text = fs::read_to_string(path).unwrap();
    let keys = CATALOGUE.iter().filter(|entry| !matches!(entry.effect, KeyEffect::Read(_)));
    let keys = keys.map(|entry| entry.key.replace('*', "NAME"));
    let flags = FEATURES.iter().filter(|spec| spec.stage != FeatureStage::Removed);
    let flags = flags.filter(|spec| UnreadFeature::of(spec.feature).is_some());
    let flags = flags.map(|spec| format!("features.{}", spec.name));
    let missing: Vec<_> = keys.chain(flags).filter(|key| !text.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/config.md does not list {missing:?}");

    let (_, section) = text.split_once("## Keys without effect").unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
    let is_unread = |key: &str| match key.strip_prefix("features.") {
        Some(name) => {
            FEATURES.iter().any(|spec| spec.name == name && UnreadFeature::of(spec.feature).is_some())
        }
        None => CATALOGUE.iter().any(|entry| {
            entry.key.replace('*', "NAME") == key && matches!(entry.effect, KeyEffect::None { .. })
        }),
    };
    let wrong: Vec<_> = rows.map(|(key, _)| key).filter(|key| !is_unread(key)).collect();
    assert!(wrong.is_empty(), "docs/config.md says of keys with an effect that they have none: {wrong:?}");
}
