//! `generate-ts` and `generate-json-schema`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use codicil_testkit::skipped;
use serde_json::Value;
use tempfile::TempDir;

use crate::{codicil, text};

fn generate(what: &str, experimental: bool) -> TempDir {
    generate_with(what, if experimental { &["--experimental"] } else { &[] })
}

fn generate_with(what: &str, flags: &[&str]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("made/for/it");
    let mut arguments = vec!["app-server", what, "--out", out.to_str().unwrap()];
    arguments.extend(flags);
    let output = codicil(&arguments);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(output.stdout.is_empty());
    folder
}

/// Returns all files of the output, relative to it.
fn files(folder: &TempDir) -> BTreeSet<String> {
    fn walk(root: &Path, folder: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                walk(root, &path, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&root(folder), &root(folder), &mut found);
    found
}

fn root(folder: &TempDir) -> PathBuf {
    folder.path().join("made/for/it")
}

#[test]
fn the_json_schema_has_a_file_for_every_message_and_two_bundles() {
    let (stable, experimental) =
        (generate("generate-json-schema", false), generate("generate-json-schema", true));
    let stable_files = files(&stable);
    let all_files = files(&experimental);
    for file in [
        "ClientRequest.json",
        "ServerNotification.json",
        "JSONRPCMessage.json",
        "v1/InitializeParams.json",
        "v2/ThreadStartParams.json",
        "v2/TurnCompletedNotification.json",
        "codex_app_server_protocol.schemas.json",
        "codex_app_server_protocol.v2.schemas.json",
    ] {
        assert!(stable_files.contains(file), "{file} is missing");
    }
    assert!(stable_files.is_subset(&all_files));
    let gated = "v2/ThreadRealtimeStartParams.json";
    assert!(all_files.contains(gated) && !stable_files.contains(gated));
    for file in &all_files {
        let schema: Value =
            serde_json::from_str(&fs::read_to_string(root(&experimental).join(file)).unwrap()).unwrap();
        assert_eq!(schema["$schema"], "http://json-schema.org/draft-07/schema#", "{file}");
    }
}

#[test]
fn typescript_imports_resolve() {
    for experimental in [false, true] {
        let folder = generate("generate-ts", experimental);
        let files = files(&folder);
        assert!(files.contains("index.ts") && files.contains("v2/ThreadItem.ts"), "{files:?}");
        assert_eq!(files.contains("v2/ThreadRealtimeStartParams.ts"), experimental);
        for file in &files {
            let path = root(&folder).join(file);
            let source = fs::read_to_string(&path).unwrap();
            let imports = source.lines().filter_map(|line| line.split(" from \"").nth(1));
            for import in imports.filter_map(|rest| rest.split('"').next()) {
                let target = path.parent().unwrap().join(import);
                let exists = target.with_extension("ts").is_file() || target.join("index.ts").is_file();
                assert!(exists, "{file} imports {import}");
            }
        }
    }
}

#[test]
fn the_extension_is_exported_on_request() {
    for (command, files_of_extension) in [
        ("generate-json-schema", ["codicil/CodicilSubscribeParams.json", "codicil.schemas.json"]),
        ("generate-ts", ["codicil/CodicilSubscribeParams.ts", "codicil/index.ts"]),
    ] {
        let plain = files(&generate(command, false));
        assert!(plain.iter().all(|file| !file.contains("odicil")), "{plain:?}");
        let folder = generate_with(command, &["--codicil"]);
        let all = files(&folder);
        assert!(plain.is_subset(&all));
        for file in files_of_extension {
            assert!(all.contains(file), "{file} is missing");
        }
        for file in all.difference(&plain).filter(|file| file.ends_with(".ts")) {
            let path = root(&folder).join(file);
            let source = fs::read_to_string(&path).unwrap();
            let imports = source.lines().filter_map(|line| line.split(" from \"").nth(1));
            for import in imports.filter_map(|rest| rest.split('"').next()) {
                assert!(
                    path.parent().unwrap().join(import).with_extension("ts").is_file(),
                    "{file}: {import}"
                );
            }
        }
    }
}

#[test]
fn without_a_directory_the_files_go_below_schema() {
    for (command, folder, file) in [
        ("generate-ts", "schema/typescript", "index.ts"),
        ("generate-json-schema", "schema/json", "ClientRequest.json"),
    ] {
        let work = tempfile::tempdir().unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_codicil"));
        let output = run.args(["app-server", command]).current_dir(work.path()).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(work.path().join(folder).join(file).is_file());
        let printed = text(&output.stdout);
        assert!(printed.ends_with(&format!(" files written to {folder}\n")), "{printed}");
        assert_eq!(fs::read_dir(work.path()).unwrap().count(), 1);
    }
}

/// Returns the TypeScript compiler, if it is available without a network.
fn tsc() -> Option<Command> {
    let works = |program: &str, arguments: &[&str]| {
        let mut probe = Command::new(program);
        probe.args(arguments).arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        probe.stdin(Stdio::null()).status().is_ok_and(|status| status.success()).then(|| {
            let mut command = Command::new(program);
            command.args(arguments);
            command
        })
    };
    works("tsc", &[]).or_else(|| works("npx", &["--offline", "--no", "--package", "typescript", "--", "tsc"]))
}

#[test]
fn the_typescript_compiles() {
    let Some(mut tsc) = tsc() else {
        return skipped("there is no tsc (npm install --global typescript)");
    };
    let folder = generate("generate-ts", true);
    let files: Vec<_> = files(&folder).iter().map(|file| root(&folder).join(file)).collect();
    let output = tsc.args(["--strict", "--noEmit", "--skipLibCheck"]).args(files).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stdout));
}
