//! What `[apps]` says about apps and their tools.

use codicil_protocol::{AppToolApproval, AppToolConfig, AppsConfig};

/// A tool of an app, as far as its policy depends on it.
#[derive(Clone, Copy, Debug)]
pub struct AppTool<'t> {
    pub app_id: &'t str,
    pub name: &'t str,
    pub title: Option<&'t str>,
    /// The annotations of the tool. A tool without them counts as destructive and open-world.
    pub destructive: Option<bool>,
    pub open_world: Option<bool>,
}

/// Returns whether an app is enabled. An app without an entry follows `_default`.
pub fn is_app_enabled(config: Option<&AppsConfig>, id: &str) -> bool {
    let Some(config) = config else { return true };
    let app_setting = config.apps.get(id).map(|app| app.enabled);
    app_setting.or_else(|| config.default.as_ref().map(|default| default.enabled)).unwrap_or(true)
}

/// Returns whether a tool of an app is offered: its own setting, else that of its app for all tools, else those for
/// destructive and open-world tools.
pub fn is_app_tool_enabled(config: Option<&AppsConfig>, tool: &AppTool<'_>) -> bool {
    let Some(config) = config else { return true };
    if !is_app_enabled(Some(config), tool.app_id) {
        return false;
    }
    let app = config.apps.get(tool.app_id);
    let setting = tool_config(config, tool).and_then(|tool| tool.enabled);
    if let Some(is_enabled) = setting.or_else(|| app?.default_tools_enabled) {
        return is_enabled;
    }
    let default = config.default.as_ref();
    let allows_destructive =
        app.and_then(|app| app.destructive_enabled).or_else(|| default.map(|set| set.destructive_enabled));
    let allows_open_world =
        app.and_then(|app| app.open_world_enabled).or_else(|| default.map(|set| set.open_world_enabled));
    (allows_destructive.unwrap_or(true) || !tool.destructive.unwrap_or(true))
        && (allows_open_world.unwrap_or(true) || !tool.open_world.unwrap_or(true))
}

/// Returns whether calls of a tool need approval: its own setting, else that of its app, else the default of all apps.
pub fn app_tool_approval(config: Option<&AppsConfig>, tool: &AppTool<'_>) -> AppToolApproval {
    let Some(config) = config else { return AppToolApproval::Auto };
    let setting = tool_config(config, tool).and_then(|tool| tool.approval_mode);
    let app_setting = || config.apps.get(tool.app_id)?.default_tools_approval_mode;
    let default = || config.default.as_ref()?.default_tools_approval_mode;
    setting.or_else(app_setting).or_else(default).unwrap_or(AppToolApproval::Auto)
}

/// Returns the entry of a tool, which is found by its name or its title.
fn tool_config<'c>(config: &'c AppsConfig, tool: &AppTool<'_>) -> Option<&'c AppToolConfig> {
    let tools = &config.apps.get(tool.app_id)?.tools.as_ref()?.tools;
    tools.get(tool.name).or_else(|| tools.get(tool.title?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> AppsConfig {
        toml::from_str(text).unwrap()
    }

    const PLAIN: AppTool<'_> = AppTool {
        app_id: "mail",
        name: "mail_send",
        title: Some("Send"),
        destructive: None,
        open_world: None,
    };
    const HARMLESS: AppTool<'_> = AppTool { destructive: Some(false), open_world: Some(false), ..PLAIN };

    #[test]
    fn settings_decide_which_tools_are_offered() {
        let check = |text: &str, tool: &AppTool<'_>, expected: bool| {
            assert_eq!(is_app_tool_enabled(Some(&config(text)), tool), expected, "{text}: {tool:?}");
        };
        assert!(is_app_tool_enabled(None, &PLAIN));
        check("", &PLAIN, true);
        check("[mail]\nenabled = false", &PLAIN, false);
        check("[mail]\nenabled = false\ntools.mail_send.enabled = true", &PLAIN, false);
        check("[_default]\nenabled = false", &PLAIN, false);
        check("[_default]\nenabled = false\n[mail]\nenabled = true", &PLAIN, true);
        check("[mail]\ntools.mail_send.enabled = false", &PLAIN, false);
        check("[mail]\ntools.Send.enabled = false", &PLAIN, false);
        check("[mail]\ndefault_tools_enabled = false", &PLAIN, false);
        check("[mail]\ndefault_tools_enabled = false\ntools.Send.enabled = true", &PLAIN, true);
        check("[mail]\ndestructive_enabled = false", &PLAIN, false);
        check("[mail]\ndestructive_enabled = false", &HARMLESS, true);
        check("[_default]\nopen_world_enabled = false", &PLAIN, false);
        check("[_default]\nopen_world_enabled = false", &HARMLESS, true);
        check("[_default]\nopen_world_enabled = false\n[mail]\nopen_world_enabled = true", &PLAIN, true);
        check("[mail]\ndestructive_enabled = false\ntools.mail_send.enabled = true", &PLAIN, true);
    }

    #[test]
    fn settings_decide_which_tools_need_approval() {
        let check = |text: &str, expected: AppToolApproval| {
            assert_eq!(app_tool_approval(Some(&config(text)), &PLAIN), expected, "{text}");
        };
        assert_eq!(app_tool_approval(None, &PLAIN), AppToolApproval::Auto);
        check("", AppToolApproval::Auto);
        check("[mail]\ndefault_tools_approval_mode = 'prompt'", AppToolApproval::Prompt);
        check(
            "[mail]\ndefault_tools_approval_mode = 'prompt'\ntools.mail_send.approval_mode = 'approve'",
            AppToolApproval::Approve,
        );
        check("[other]\ndefault_tools_approval_mode = 'prompt'", AppToolApproval::Auto);
        check("[_default]\ndefault_tools_approval_mode = 'prompt'", AppToolApproval::Prompt);
        check(
            "[_default]\ndefault_tools_approval_mode = 'prompt'\n[mail]\ndefault_tools_approval_mode = 'auto'",
            AppToolApproval::Auto,
        );
    }
}
