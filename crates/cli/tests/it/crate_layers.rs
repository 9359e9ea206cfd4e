//! Crates depend downwards only: each one on crates that are below it in the code map of ARCHITECTURE.md.

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

#[test]
fn no_crate_depends_upwards() {
    let layers = layers();
    let layer = |name: &str| layers.iter().position(|layer| layer == name);
    for manifest in manifests() {
        let name = crate_name(&manifest);
        let Some(own) = layer(&name) else { panic!("{name} is missing in the code map") };
        for dependency in dependencies(&manifest) {
            let is_below = layer(&dependency).is_some_and(|below| below < own);
            assert!(is_below, "{name} must not depend on {dependency}, which is in a higher layer");
        }
    }
}

/// Returns the crates of the workspace from the lowest to the highest, as the code map has them. `bench` is above all.
fn layers() -> Vec<String> {
    let document = fs::read_to_string(workspace().join("ARCHITECTURE.md")).unwrap();
    let (_, map) = document.split_once("| crate | responsibility |").unwrap();
    let rows = map.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut crates: Vec<_> =
        rows.map(|row| row.trim_start_matches("| `").split('`').next().unwrap().to_owned()).collect();
    crates.reverse();
    crates.push("bench".to_owned());
    crates
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn manifests() -> Vec<Table> {
    let workspace = workspace();
    let crates = fs::read_dir(workspace.join("crates")).unwrap().map(|entry| entry.unwrap().path());
    let paths = crates.chain([workspace.join("bench")]).map(|folder| folder.join("Cargo.toml"));
    let parse = |path: PathBuf| fs::read_to_string(path).unwrap().parse().unwrap();
    paths.filter(|path| path.exists()).map(parse).collect()
}

fn crate_name(manifest: &Table) -> String {
    short_name(manifest["package"]["name"].as_str().unwrap()).unwrap()
}

/// Returns the workspace crates that a crate depends on, on any platform. Tests may depend on any crate.
fn dependencies(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flatten();
    let of_targets = targets.filter_map(|(_, target)| target.get("dependencies"));
    let tables = manifest.get("dependencies").into_iter().chain(of_targets).filter_map(Value::as_table);
    tables.flat_map(Table::keys).filter_map(|package| short_name(package)).collect()
}

fn short_name(package: &str) -> Option<String> {
    package.strip_prefix("codicil-").map(str::to_owned)
}
