//! Resolving relative paths in settings.
//!
//! A path in a file is relative to the directory of that file, a path in a flag or a request to the working directory; `~/` is
//! the user's home. Paths are resolved layer by layer, before merging, because afterwards the source of a value is not known.

use std::{
    env,
    path::{Path, PathBuf},
};

use codicil_protocol::normal_path;
use toml::{Table, Value};

/// Keys at the root or in a profile that contain paths.
const PATHS: [&str; 8] = [
    "model_instructions_file",
    "experimental_instructions_file",
    "experimental_compact_prompt_file",
    "model_catalog_json",
    "log_dir",
    "sqlite_home",
    "zsh_path",
    "js_repl_node_path",
];

pub(crate) fn resolve_relative_paths(table: &mut Table, base: &Path) {
    resolve_root_keys(table, base);
    for profile in tables_of(table, "profiles") {
        resolve_root_keys(profile, base);
    }
    for role in tables_of(table, "agents") {
        resolve(role.get_mut("config_file"), base);
    }
    if let Some(Value::Table(sandbox)) = table.get_mut("sandbox_workspace_write") {
        for root in items_of(sandbox, "writable_roots") {
            resolve(Some(root), base);
        }
    }
    if let Some(Value::Table(skills)) = table.get_mut("skills") {
        for skill in items_of(skills, "config") {
            resolve(skill.get_mut("path"), base);
        }
    }
}

fn resolve_root_keys(table: &mut Table, base: &Path) {
    for key in PATHS {
        resolve(table.get_mut(key), base);
    }
}

fn tables_of<'t>(table: &'t mut Table, key: &str) -> impl Iterator<Item = &'t mut Table> {
    let members = table.get_mut(key).and_then(Value::as_table_mut).into_iter();
    members.flat_map(|members| members.iter_mut()).filter_map(|(_, member)| member.as_table_mut())
}

fn items_of<'t>(table: &'t mut Table, key: &str) -> impl Iterator<Item = &'t mut Value> {
    table.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

/// Resolves a path in place. Values that are missing, empty or not strings are not changed; they are checked elsewhere.
fn resolve(value: Option<&mut Value>, base: &Path) {
    let Some(Value::String(text)) = value else { return };
    if text.is_empty() {
        return;
    }
    if let Some(absolute) = absolute(text, base, env::home_dir().as_deref()).to_str() {
        *text = absolute.to_owned();
    }
}

fn absolute(text: &str, base: &Path, user_home: Option<&Path>) -> PathBuf {
    match (text, text.strip_prefix("~/"), user_home) {
        ("~", _, Some(home)) => home.to_owned(),
        ("~", _, None) => PathBuf::from(text),
        (_, Some(below), Some(home)) => home.join(below),
        // Normalised for readability.
        _ => normal_path(&base.join(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_paths_become_absolute_and_nothing_else_changes() {
        let mut table: Table = r#"
            model = "not/a/path"
            model_instructions_file = "prompts/base.md"
            [sandbox_workspace_write]
            writable_roots = ["/abs", "../beside", "."]
            [profiles.work]
            model_instructions_file = "./work.md"
            [[skills.config]]
            path = "s/SKILL.md"
            [agents]
            max_threads = 3
            [agents.reviewer]
            config_file = "reviewer.toml"
        "#
        .parse()
        .unwrap();
        resolve_relative_paths(&mut table, Path::new("/base/.codex"));
        let expected: Table = r#"
            model = "not/a/path"
            model_instructions_file = "/base/.codex/prompts/base.md"
            [sandbox_workspace_write]
            writable_roots = ["/abs", "/base/beside", "/base/.codex"]
            [profiles.work]
            model_instructions_file = "/base/.codex/work.md"
            [[skills.config]]
            path = "/base/.codex/s/SKILL.md"
            [agents]
            max_threads = 3
            [agents.reviewer]
            config_file = "/base/.codex/reviewer.toml"
        "#
        .parse()
        .unwrap();
        assert_eq!(table, expected);
    }

    #[test]
    fn a_tilde_is_the_users_home() {
        let check = |text: &str, home: Option<&str>, expected: &str| {
            assert_eq!(absolute(text, Path::new("/base"), home.map(Path::new)), Path::new(expected));
        };
        check("~/x", Some("/home/me"), "/home/me/x");
        check("~", Some("/home/me"), "/home/me");
        check("~", None, "~");
        check("~x", Some("/home/me"), "/base/~x");
    }
}
