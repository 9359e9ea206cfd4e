//! The server of an account's apps. Each of its tools belongs to an app, which the tool's metadata names; `[apps]` in the
//! configuration decides which tools are offered and which need approval.

use std::collections::BTreeMap;

use codicil_config::{AppTool, app_tool_approval, is_app_tool_enabled};
use codicil_protocol::{AppToolApproval, AppsConfig, Tool};
use serde_json::{Value, json};
use toml::Table;

use crate::{
    config::{ApprovalMode, ServerConfig, ServerConfigError, read_server},
    tools::ToolHints,
};

/// Name of the server of the account's apps.
pub const APP_SERVER: &str = "codex_apps";

/// The member of a tool's metadata that is for the server, and is returned with each call.
const APPS_META: &str = "_codex_apps";
/// Time for the server to start. It asks the backends of all connected apps.
const STARTUP_SECONDS: i64 = 30;

/// The settings of the server of an account's apps. Its requests carry the account's token.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AppServerConfig {
    /// The `[apps]` table.
    pub settings: Option<AppsConfig>,
}

/// The app that a tool belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolApp {
    pub id: String,
    pub name: Option<String>,
    pub description: Option<String>,
}

impl ServerConfig {
    /// Returns the configuration of the server of an account's apps.
    pub fn of_apps(
        url: &str,
        headers: BTreeMap<String, String>,
        apps: AppServerConfig,
    ) -> Result<ServerConfig, ServerConfigError> {
        let headers: Table = headers.into_iter().map(|(name, value)| (name, value.into())).collect();
        let table = Table::from_iter([
            ("url".to_owned(), toml::Value::from(url)),
            ("http_headers".to_owned(), headers.into()),
            ("startup_timeout_sec".to_owned(), STARTUP_SECONDS.into()),
        ]);
        Ok(ServerConfig { apps: Some(apps), ..read_server(APP_SERVER, &table)? })
    }
}

impl AppServerConfig {
    /// Returns whether a tool is offered. A tool without an app is not.
    pub(crate) fn offers(&self, tool: &Tool) -> bool {
        let Some(app) = ToolApp::of(tool) else { return false };
        is_app_tool_enabled(self.settings.as_ref(), &policy_tool(&app, tool))
    }

    pub(crate) fn approval_mode(&self, app: &ToolApp, tool: &Tool) -> ApprovalMode {
        match app_tool_approval(self.settings.as_ref(), &policy_tool(app, tool)) {
            AppToolApproval::Auto => ApprovalMode::Auto,
            AppToolApproval::Prompt => ApprovalMode::Prompt,
            AppToolApproval::Approve => ApprovalMode::Approve,
            AppToolApproval::Writes if ToolHints::of(tool).read_only == Some(true) => ApprovalMode::Approve,
            AppToolApproval::Writes => ApprovalMode::Prompt,
        }
    }
}

impl ToolApp {
    /// Returns the app of a tool; `None` if it names none, or stands for an app that the account is not connected to.
    pub fn of(tool: &Tool) -> Option<ToolApp> {
        let meta = tool.meta.as_ref()?;
        let text = |name: &str| {
            let text = meta.get(name)?.as_str()?.trim();
            (!text.is_empty()).then(|| text.to_owned())
        };
        let is_placeholder = meta.get(APPS_META).and_then(|meta| meta.get("synthetic_link"));
        if is_placeholder.and_then(Value::as_bool) == Some(true) {
            return None;
        }
        Some(ToolApp {
            id: text("connector_id")?,
            name: text("connector_name"),
            description: text("connector_description"),
        })
    }

    /// Returns the name to show, or else the id.
    pub fn display_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }
}

/// Returns the metadata of calls of a tool.
pub(crate) fn call_meta(tool: &Tool) -> Option<Value> {
    let meta = tool.meta.as_ref()?.get(APPS_META)?;
    Some(json!({ APPS_META: meta }))
}

fn policy_tool<'t>(app: &'t ToolApp, tool: &'t Tool) -> AppTool<'t> {
    let hints = ToolHints::of(tool);
    AppTool {
        app_id: &app.id,
        name: &tool.name,
        title: tool.title.as_deref(),
        destructive: hints.destructive,
        open_world: hints.open_world,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::tools::ToolSet;

    fn tool(name: &str, meta: Value) -> Tool {
        serde_json::from_value(json!({ "name": name, "inputSchema": {}, "_meta": meta })).unwrap()
    }

    fn tool_set(settings: &str, tools: &[Tool]) -> ToolSet {
        let settings = Some(toml::from_str(settings).unwrap());
        let headers = BTreeMap::from([("x-account".to_owned(), "a".to_owned())]);
        let config = ServerConfig::of_apps("http://x/apps", headers, AppServerConfig { settings }).unwrap();
        ToolSet::new([(APP_SERVER, &config, tools)])
    }

    #[test]
    fn only_tools_of_connected_and_enabled_apps_are_offered() {
        let mail = json!({ "connector_id": "mail", "connector_name": "Mail" });
        let tools = [
            tool("mail_send", mail.clone()),
            tool("mail_read", mail),
            tool("cal_list", json!({ "connector_id": "cal" })),
            tool("drive_link", json!({ "connector_id": "drive", "_codex_apps": { "synthetic_link": true } })),
            tool("unowned", json!({})),
        ];
        let check = |settings: &str, expected: &[&str]| {
            let names: Vec<_> =
                tool_set(settings, &tools).iter().map(|tool| tool.qualified_name.clone()).collect();
            assert_eq!(names, expected, "{settings}");
        };
        let all = ["mcp__codex_apps__cal_list", "mcp__codex_apps__mail_read", "mcp__codex_apps__mail_send"];
        check("", &all);
        check("[mail]\nenabled = false", &all[..1]);
        check("[mail.tools.mail_send]\nenabled = false", &all[..2]);
    }

    #[test]
    fn tools_know_their_app_and_its_approval_mode() {
        let meta = json!({ "connector_id": "mail", "connector_name": " Mail ", "_codex_apps": { "r": 1 } });
        let tools = [tool("mail_send", meta)];
        let offered = tool_set("[mail]\ndefault_tools_approval_mode = 'prompt'", &tools);
        let sent: &Arc<_> = offered.get("mcp__codex_apps__mail_send").unwrap();
        assert_eq!(sent.app.as_ref().unwrap().display_name(), "Mail");
        assert_eq!(sent.approval_mode, ApprovalMode::Prompt);
        assert_eq!(sent.approval_key(), r#"apps."mail".tools."mail_send".approval_mode"#);
        assert_eq!(sent.approval_question(), r#"Allow Mail to run tool "mail_send"?"#);
        assert_eq!(sent.call_meta(), Some(json!({ "_codex_apps": { "r": 1 } })));
    }
}
