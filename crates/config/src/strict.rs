//! `--strict-config`: unknown keys are errors.
//!
//! Known are the keys of [`ConfigSettings`], and those below that the reference server reads and Codicil does not use, so that a
//! file can serve both.

use serde_ignored::Path;
use toml::Table;

use crate::{KeyPath, settings::ConfigSettings};

/// Root keys that other crates read and check, or that contain arbitrary names.
const READ_ELSEWHERE: &[&str] = &[
    "agents",
    "analytics",
    "apps",
    "default_permissions",
    "experimental_realtime_ws_backend_prompt",
    "experimental_realtime_ws_base_url",
    "experimental_realtime_ws_model",
    "experimental_realtime_ws_startup_context",
    "features",
    "hooks",
    "marketplaces",
    "memories",
    "model_providers",
    "permissions",
    "realtime",
    "tool_suggest",
];

/// Root keys of the terminal interface and the services of the reference server.
const OF_THE_REFERENCE: &[&str] = &[
    "audio",
    "check_for_update_on_startup",
    "commit_attribution",
    "disable_paste_burst",
    "experimental_realtime_start_instructions",
    "file_opener",
    "ghost_snapshot",
    "js_repl_node_module_dirs",
    "js_repl_node_path",
    "log_dir",
    "model_catalog_json",
    "notice",
    "oss_provider",
    "otel",
    "sqlite_home",
    "suppress_unstable_features_warning",
    "tui",
    "windows",
    "windows_wsl_setup_acknowledged",
    "zsh_path",
];

/// Older keys that are allowed in profiles, where [`ConfigSettings`] does not read them.
const IN_PROFILES: &[&str] = &[
    "experimental_compact_prompt_file",
    "experimental_instructions_file",
    "experimental_use_freeform_apply_patch",
    "experimental_use_unified_exec_tool",
];

/// Returns the first unknown key, in the order of keys.
pub(crate) fn unknown_key(table: &Table) -> Option<KeyPath> {
    let mut unknown: Vec<KeyPath> = Vec::new();
    let collect = |path: Path<'_>| unknown.extend(unknown_path(&path));
    let read: Result<ConfigSettings, _> = serde_ignored::deserialize(table.clone(), collect);
    // Values of the wrong type are reported by the ordinary check.
    drop(read);
    unknown.into_iter().min()
}

fn unknown_path(path: &Path<'_>) -> Option<KeyPath> {
    let keys = keys(path);
    let elsewhere =
        |key: &String| READ_ELSEWHERE.contains(&key.as_str()) || OF_THE_REFERENCE.contains(&key.as_str());
    let known = match keys.as_slice() {
        [profiles, _, key, ..] if profiles == "profiles" => {
            elsewhere(key) || IN_PROFILES.contains(&key.as_str())
        }
        [root, ..] => elsewhere(root),
        [] => true,
    };
    if known { None } else { KeyPath::from_keys(keys) }
}

fn keys(path: &Path<'_>) -> Vec<String> {
    match path {
        Path::Root => Vec::new(),
        Path::Seq { parent, index } => with(parent, index.to_string()),
        Path::Map { parent, key } => with(parent, key.clone()),
        Path::Some { parent } | Path::NewtypeStruct { parent } | Path::NewtypeVariant { parent } => {
            keys(parent)
        }
    }
}

fn with(parent: &Path<'_>, key: String) -> Vec<String> {
    let mut keys = keys(parent);
    keys.push(key);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Option<&str>) {
        let found = unknown_key(&text.parse().unwrap());
        assert_eq!(found.map(|path| path.to_string()).as_deref(), expected, "{text}");
    }

    #[test]
    fn only_unused_keys_are_unknown() {
        check("model = 'x'\ntui.theme = 'dark'\nfeatures.anything = true", None);
        check("modle = 'x'", Some("modle"));
        check(
            "[sandbox_workspace_write]\nnetwrok_access = true",
            Some("sandbox_workspace_write.netwrok_access"),
        );
        check("[codicil.deadlines]\ntools = 1", Some("codicil.deadlines.tools"));
        check("[profiles.work]\nmodel = 'x'\nfeatures.a = true\nwindows.sandbox = 'x'", None);
        check("[profiles.work]\nmodle = 'x'", Some("profiles.work.modle"));
        check("[mcp_servers.a]\ncommand = 'x'\narg = []", Some("mcp_servers.a.arg"));
        check("[model_providers.a]\nbase_url = 'x'\nown = 1", None);
        check("[[skills.config]]\nname = 'x'\nenabled = true\noff = 1", Some("skills.config.0.off"));
        check(
            "[tools.web_search]\ncontext_size = 'low'\n[shell_environment_policy]\nset = { A = 'b' }",
            None,
        );
        check("projects.'/x.y'.trust_level = 'trusted'", None);
        check(
            "approval_policy = { granular = { mcp_elicitations = true, rules = true, sandbox_approval = true } }",
            None,
        );
    }
}
