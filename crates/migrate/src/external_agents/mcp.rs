//! Converts MCP servers from `mcpServers` in JSON to `[mcp_servers.NAME]`.
//!
//! The other agent expands environment variables within texts (`${NAME}`). Our configuration names the
//! variable instead, so that no secret is written to disk. A server that uses variables in any other way is
//! not imported.

use serde_json::{Map, Value as Json};
use toml::{Table, Value};

use super::{ImportError, config_place::ConfigPlace, settings::read_object};

/// Returns `{mcp_servers: {…}}`, or an empty table.
pub(super) fn wanted(place: &ConfigPlace) -> Result<Table, ImportError> {
    let Some(file) = read_object(&place.servers_file())? else { return Ok(Table::new()) };
    let servers = file.get("mcpServers").and_then(Json::as_object).into_iter().flatten();
    let servers: Table = servers
        .filter(|(name, _)| is_name(name))
        .filter_map(|(name, server)| Some((name.clone(), Value::Table(translate(server.as_object()?)?))))
        .collect();
    if servers.is_empty() {
        return Ok(Table::new());
    }
    Ok(Table::from_iter([("mcp_servers".to_owned(), Value::Table(servers))]))
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

/// Returns `None` for an unsupported transport or an invalid entry.
fn translate(server: &Map<String, Json>) -> Option<Table> {
    match server.get("type").and_then(Json::as_str) {
        None | Some("stdio") if server.contains_key("command") => stdio_server(server),
        None | Some("http" | "streamable-http" | "streamable_http") => http_server(server),
        Some(_) => None,
    }
}

fn stdio_server(server: &Map<String, Json>) -> Option<Table> {
    let mut table = Table::new();
    table.insert("command".to_owned(), plain(server.get("command")?)?);
    if let Some(arguments) = server.get("args") {
        let arguments: Option<Vec<_>> = arguments.as_array()?.iter().map(plain).collect();
        table.insert("args".to_owned(), Value::Array(arguments?));
    }
    let mut set = Table::new();
    let mut passed = Vec::new();
    for (name, value) in members(server, "env")? {
        match variable(value.as_str()?) {
            Some(variable) if variable == name => passed.push(Value::String(name.clone())),
            _ => drop(set.insert(name.clone(), plain(value)?)),
        }
    }
    insert_unless_empty(&mut table, "env", set);
    if !passed.is_empty() {
        table.insert("env_vars".to_owned(), Value::Array(passed));
    }
    Some(table)
}

fn http_server(server: &Map<String, Json>) -> Option<Table> {
    let mut table = Table::new();
    table.insert("url".to_owned(), plain(server.get("url")?)?);
    let mut set = Table::new();
    let mut named = Table::new();
    for (name, value) in members(server, "headers")? {
        let value_text = value.as_str()?;
        let bearer = value_text.strip_prefix("Bearer ").and_then(variable);
        if let Some(variable) = bearer.filter(|_| name.eq_ignore_ascii_case("authorization")) {
            table.insert("bearer_token_env_var".to_owned(), Value::String(variable.to_owned()));
        } else if let Some(variable) = variable(value_text) {
            named.insert(name.clone(), Value::String(variable.to_owned()));
        } else {
            set.insert(name.clone(), plain(value)?);
        }
    }
    insert_unless_empty(&mut table, "http_headers", set);
    insert_unless_empty(&mut table, "env_http_headers", named);
    Some(table)
}

/// Returns the members of an object, none if it is missing, and `None` if it is not an object.
fn members<'s>(server: &'s Map<String, Json>, key: &str) -> Option<Vec<(&'s String, &'s Json)>> {
    match server.get(key) {
        Some(members) => Some(members.as_object()?.iter().collect()),
        None => Some(Vec::new()),
    }
}

/// Returns a text that contains no variable.
fn plain(value: &Json) -> Option<Value> {
    let text = value.as_str().filter(|text| !text.contains("${"))?;
    Some(Value::String(text.to_owned()))
}

/// Returns the name in a text that consists of one variable.
fn variable(text: &str) -> Option<&str> {
    let name = text.strip_prefix("${")?.strip_suffix('}')?;
    name.chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '_')
        .then_some(name)
        .filter(|name| !name.is_empty())
}

fn insert_unless_empty(table: &mut Table, key: &str, members: Table) {
    if !members.is_empty() {
        table.insert(key.to_owned(), Value::Table(members));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(server: Json, expected: Option<&str>) {
        let translated = translate(server.as_object().unwrap());
        assert_eq!(translated, expected.map(|text| text.parse().unwrap()), "{server}");
    }

    #[test]
    fn servers_are_converted_to_our_configuration() {
        use serde_json::json;
        check(json!({ "command": "x" }), Some("command = 'x'"));
        check(
            json!({ "type": "stdio", "command": "x", "args": ["a"], "env": { "A": "1", "T": "${T}" } }),
            Some("command = 'x'\nargs = ['a']\nenv = { A = '1' }\nenv_vars = ['T']"),
        );
        check(
            json!({ "type": "http", "url": "https://h/", "headers": { "Authorization": "Bearer ${T}", "X": "y" } }),
            Some("url = 'https://h/'\nbearer_token_env_var = 'T'\nhttp_headers = { X = 'y' }"),
        );
        check(
            json!({ "url": "https://h/", "headers": { "X": "${T}" } }),
            Some("url = 'https://h/'\nenv_http_headers = { X = 'T' }"),
        );
        check(json!({ "type": "sse", "url": "https://h/" }), None);
        check(json!({ "command": "${HOME}/x" }), None);
        check(json!({ "command": "x", "env": { "A": "${B}" } }), None);
        check(json!({ "command": "x", "args": "no list" }), None);
        check(json!({}), None);
    }
}
