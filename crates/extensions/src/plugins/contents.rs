//! Reads the contents of a plugin: skills, MCP servers, apps.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;
use toml::Table;

use super::manifest::{ManifestServers, PluginManifest};
use crate::small_file::read_json;

const SKILLS: &str = "skills";
const MCP_FILE: &str = ".mcp.json";
const APP_FILE: &str = ".app.json";
const MAX_BYTES: u64 = 256 << 10;

/// The contents of a plugin.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PluginContents {
    /// Folders with its skills.
    pub skill_roots: Vec<PathBuf>,
    /// MCP servers by name, in the form of `[mcp_servers.NAME]`.
    pub mcp_servers: BTreeMap<String, Table>,
    /// Ids of connectors.
    pub apps: Vec<String>,
}

#[derive(Deserialize)]
struct McpFile {
    #[serde(rename = "mcpServers", alias = "mcp_servers", default)]
    servers: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct AppFile {
    #[serde(default)]
    apps: BTreeMap<String, AppEntry>,
}

#[derive(Deserialize)]
struct AppEntry {
    id: String,
}

impl PluginContents {
    /// Reads the folder of a plugin. Invalid files and entries are logged and skipped.
    pub(crate) fn of(root: &Path, manifest: &PluginManifest) -> Self {
        let default = Some(root.join(SKILLS)).filter(|folder| folder.is_dir());
        let mut skill_roots: Vec<_> = default.into_iter().chain(manifest.skills.clone()).collect();
        skill_roots.sort();
        skill_roots.dedup();
        let servers = match &manifest.mcp_servers {
            Some(ManifestServers::Inline(servers)) => servers.clone(),
            Some(ManifestServers::File(file)) => read_servers(file),
            None => read_servers(&root.join(MCP_FILE)),
        };
        let app_file = manifest.apps.clone().unwrap_or_else(|| root.join(APP_FILE));
        Self { skill_roots, mcp_servers: mcp_servers(root, servers), apps: apps(&app_file) }
    }
}

fn read_servers(file: &Path) -> BTreeMap<String, Value> {
    read_json::<McpFile>(file, MAX_BYTES).map(|file| file.servers).unwrap_or_default()
}

fn mcp_servers(root: &Path, servers: BTreeMap<String, Value>) -> BTreeMap<String, Table> {
    let usable = servers.into_iter().filter_map(|(name, server)| match table(root, server) {
        Ok(table) => Some((name, table)),
        Err(reason) => {
            tracing::warn!("ignoring the MCP server {name} of {}: {reason}", root.display());
            None
        }
    });
    usable.collect()
}

/// Converts an entry from the spelling of such files to that of our configuration.
fn table(root: &Path, server: Value) -> Result<Table, String> {
    let Value::Object(mut server) = server else { return Err("not an object".to_owned()) };
    // The other keys determine the transport.
    server.remove("type");
    server.retain(|_, value| !value.is_null());
    if let Some(headers) = server.remove("headers") {
        server.entry("http_headers").or_insert(headers);
    }
    if let Some(cwd) = server.get("cwd").and_then(Value::as_str) {
        let cwd = root.join(cwd).to_string_lossy().into_owned();
        server.insert("cwd".to_owned(), Value::String(cwd));
    }
    if !["command", "url"].iter().any(|key| server.get(*key).is_some_and(Value::is_string)) {
        return Err("neither a command nor a url".to_owned());
    }
    Table::try_from(server).map_err(|error| error.to_string())
}

fn apps(file: &Path) -> Vec<String> {
    let Some(AppFile { apps }) = read_json(file, MAX_BYTES) else { return Vec::new() };
    let mut ids: Vec<_> = apps.into_values().map(|app| app.id.trim().to_owned()).collect();
    ids.retain(|id| !id.is_empty());
    ids.sort();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_are_converted_to_our_configuration() {
        let check = |server: Value, expected: Result<Value, &str>| {
            let table = table(Path::new("/p"), server.clone()).map(|table| json!(table));
            assert_eq!(
                table.as_ref().map_err(String::as_str),
                expected.as_ref().map_err(|reason| *reason),
                "{server}"
            );
        };
        check(json!({ "command": "x", "args": ["y"] }), Ok(json!({ "command": "x", "args": ["y"] })));
        check(json!({ "type": "http", "url": "u", "env": null }), Ok(json!({ "url": "u" })));
        check(
            json!({ "url": "u", "headers": { "a": "b" } }),
            Ok(json!({ "url": "u", "http_headers": { "a": "b" } })),
        );
        check(json!({ "command": "x", "cwd": "bin" }), Ok(json!({ "command": "x", "cwd": "/p/bin" })));
        check(json!({ "args": [] }), Err("neither a command nor a url"));
        check(json!("x"), Err("not an object"));
    }
}
