//! Crates depend downwards only: each one on crates that come before it in [`LAYERS`].

use std::{
    fs,
    path::{Path, PathBuf},
};

use toml::{Table, Value};

/// The crates of the workspace, from the lowest to the highest.
const LAYERS: &[&str] = &[
    "metrics",
    "protocol-macros",
    "protocol",
    "exec",
    "config",
    "http",
    "telemetry",
    "policy",
    "patch",
    "prompts",
    "fs",
    "store",
    "store-postgres",
    "model",
    "proxy",
    "sandbox",
    "mcp",
    "accounts",
    "extensions",
    "engine",
    "migrate",
    "client",
    "server",
    "console",
    "agents",
    "testkit",
    "cli",
    "bench",
];

#[test]
fn no_crate_depends_upwards() {
    for manifest in manifests() {
        let name = crate_name(&manifest);
        let Some(layer) = layer(&name) else { panic!("{name} is missing in LAYERS") };
        for dependency in dependencies(&manifest) {
            let is_below = self::layer(&dependency).is_some_and(|below| below < layer);
            assert!(is_below, "{name} must not depend on {dependency}, which is in a higher layer");
        }
    }
}

fn layer(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

fn manifests() -> Vec<Table> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
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
