//! The response to `config/read`.
//!
//! It contains every key of the protocol, null if not set, and all other keys unchanged. Profiles and requirements are not
//! applied.

use codicil_protocol::{Config, ConfigReadResponse};
use serde_json::{Map, Value as Json};
use toml::Table;

use crate::{
    error::{ConfigError, ConfigProblem},
    layers::LayerStack,
    origins::origins,
    shown_address,
    toml_json::table_to_json,
};

/// Members of a profile that clients expect even if they are not set.
const PROFILE_MEMBERS: [&str; 18] = [
    "analytics",
    "experimental_compact_prompt_file",
    "experimental_instructions_file",
    "experimental_use_freeform_apply_patch",
    "experimental_use_unified_exec_tool",
    "features",
    "include_apply_patch_tool",
    "js_repl_node_module_dirs",
    "js_repl_node_path",
    "model_catalog_json",
    "model_instructions_file",
    "oss_provider",
    "personality",
    "plan_mode_reasoning_effort",
    "sandbox_mode",
    "tools_view_image",
    "windows",
    "zsh_path",
];

/// Defaults of flags in tables of tables. Other defaults do not depend on the configuration alone.
const DEFAULTS: [(&str, &str, bool); 4] = [
    ("model_providers", "requires_openai_auth", false),
    ("model_providers", "supports_websockets", false),
    ("mcp_servers", "enabled", true),
    ("plugins", "enabled", true),
];

pub(crate) fn response(layers: &LayerStack, include_layers: bool) -> Result<ConfigReadResponse, ConfigError> {
    let mut merged = layers.merged();
    let origins = origins(layers, &merged);
    shown_address::hide_password(&mut merged);
    let layers = include_layers.then(|| layers.to_wire());
    Ok(ConfigReadResponse { config: to_wire(&merged)?, origins, layers })
}

fn to_wire(merged: &Table) -> Result<Config, ConfigError> {
    let mut config = table_to_json(merged);
    // The protocol has only the settings of the tool here; whether it is enabled is in `web_search`.
    if let Some(Json::Object(tools)) = config.get_mut("tools") {
        tools.retain(|name, setting| name != "web_search" || setting.is_object());
    }
    for (table, key, default) in DEFAULTS {
        for member in members(&mut config, table) {
            member.entry(key).or_insert(Json::Bool(default));
        }
    }
    for server in members(&mut config, "mcp_servers") {
        if server.contains_key("command") {
            server.entry("args").or_insert(Json::Array(Vec::new()));
        }
        server.entry("tool_timeout_sec").or_insert(Json::Null);
    }
    for profile in members(&mut config, "profiles") {
        for key in PROFILE_MEMBERS {
            profile.entry(key).or_insert(Json::Null);
        }
    }
    // Values were checked when the layers were read, so this cannot fail for a valid configuration.
    serde_json::from_value(Json::Object(config))
        .map_err(|error| ConfigError::Value(ConfigProblem { reason: error.to_string(), key: None }))
}

fn members<'c>(
    config: &'c mut Map<String, Json>,
    key: &str,
) -> impl Iterator<Item = &'c mut Map<String, Json>> {
    let members = config.get_mut(key).and_then(Json::as_object_mut).into_iter();
    members.flat_map(|members| members.values_mut()).filter_map(Json::as_object_mut)
}
