//! Applying requirements to values.
//!
//! A *configured* value that is not allowed is replaced by an allowed one, with a warning, so that a shared file does not
//! prevent users from starting. A sandbox mode is clamped to the widest allowed mode that is not wider, an approval policy is
//! replaced by the first allowed one, and an MCP server is disabled. A value in a *request* (`approvalPolicy`, `sandbox`, …) is
//! rejected instead, by the `check_…` functions.
//!
//! Read-only and disabled web search are always allowed.

use std::path::{Path, PathBuf};

use codicil_protocol::{
    AskForApproval, ConfigWarningNotification, SandboxMode, SandboxPolicy, WebSearchMode,
};
use serde::Serialize;
use toml::{Table, Value};

use crate::{
    requirements::{RequirementRule, Requirements},
    settings::ConfigSettings,
};

/// A request for a value that the requirements do not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{setting}` may not be `{value}`: {} allows {allowed}", path.display())]
pub struct NotAllowed {
    pub setting: &'static str,
    pub value: String,
    pub allowed: String,
    pub path: PathBuf,
}

impl Requirements {
    pub fn check_approval_policy(&self, asked: &AskForApproval) -> Result<(), NotAllowed> {
        check("approval_policy", self.approval_policies(), asked, &[])
    }

    pub fn check_sandbox_mode(&self, asked: &SandboxMode) -> Result<(), NotAllowed> {
        check("sandbox_mode", self.sandbox_modes(), asked, &[SandboxMode::ReadOnly])
    }

    /// Checks a policy by its mode. An external sandbox counts as full access, because this server does not sandbox commands
    /// then.
    pub fn check_sandbox_policy(&self, asked: &SandboxPolicy) -> Result<(), NotAllowed> {
        self.check_sandbox_mode(&match asked {
            SandboxPolicy::ReadOnly { .. } => SandboxMode::ReadOnly,
            SandboxPolicy::WorkspaceWrite { .. } => SandboxMode::WorkspaceWrite,
            SandboxPolicy::DangerFullAccess
            | SandboxPolicy::ExternalSandbox { .. }
            | SandboxPolicy::Unrecognized(_) => SandboxMode::DangerFullAccess,
        })
    }

    pub fn check_web_search(&self, asked: &WebSearchMode) -> Result<(), NotAllowed> {
        check("web_search", self.web_search_modes(), asked, &[WebSearchMode::Disabled])
    }

    /// Replaces values that are not allowed, and returns warnings about them. Changes `settings` and `table` alike, because other
    /// crates read their parts from the table.
    pub(crate) fn constrain(
        &self,
        settings: &mut ConfigSettings,
        table: &mut Table,
    ) -> Vec<ConfigWarningNotification> {
        let mut warnings = Vec::new();
        self.constrain_approvals(settings, table, &mut warnings);
        self.constrain_sandbox(settings, table, &mut warnings);
        self.constrain_web_search(settings, table, &mut warnings);
        self.constrain_mcp_servers(settings, table, &mut warnings);
        warnings.extend(self.unused_permissions().map(|(key, reason)| ConfigWarningNotification {
            summary: format!("The requirement `network.{key}` has no effect."),
            details: Some(reason.to_owned()),
            path: None,
            range: None,
        }));
        warnings.extend(self.not_enforced().map(|(path, key)| not_enforced_warning(path, key)));
        warnings
    }

    fn constrain_approvals(
        &self,
        settings: &mut ConfigSettings,
        table: &mut Table,
        warnings: &mut ConstraintWarnings,
    ) {
        let default = AskForApproval::OnRequest;
        let asked = settings.approval_policy.as_ref().unwrap_or(&default);
        let Err(violation) = self.check_approval_policy(asked) else { return };
        let Some(allowed) = self.approval_policies().and_then(|rule| rule.value.first()) else { return };
        if settings.approval_policy.is_some() {
            warnings.push(replaced_warning(&violation, allowed));
        }
        set(table, "approval_policy", allowed);
        settings.approval_policy = Some(allowed.clone());
    }

    fn constrain_sandbox(
        &self,
        settings: &mut ConfigSettings,
        table: &mut Table,
        warnings: &mut ConstraintWarnings,
    ) {
        let Some(asked) = &settings.sandbox_mode else { return };
        let Err(violation) = self.check_sandbox_mode(asked) else { return };
        let narrower = [SandboxMode::WorkspaceWrite, SandboxMode::ReadOnly];
        let allowed = self.clamp(narrower, asked, SandboxMode::ReadOnly, Self::check_sandbox_mode);
        warnings.push(replaced_warning(&violation, &allowed));
        set(table, "sandbox_mode", &allowed);
        settings.sandbox_mode = Some(allowed);
    }

    fn constrain_web_search(
        &self,
        settings: &mut ConfigSettings,
        table: &mut Table,
        warnings: &mut ConstraintWarnings,
    ) {
        let Some(asked) = &settings.web_search else { return };
        let Err(violation) = self.check_web_search(asked) else { return };
        let allowed = self.clamp_web_search(asked);
        warnings.push(replaced_warning(&violation, &allowed));
        set(table, "web_search", &allowed);
        settings.web_search = Some(allowed);
    }

    /// Returns the widest allowed mode that is not wider than the given one.
    pub(crate) fn clamp_web_search(&self, asked: &WebSearchMode) -> WebSearchMode {
        let narrower = [WebSearchMode::Cached, WebSearchMode::Disabled];
        self.clamp(narrower, asked, WebSearchMode::Disabled, Self::check_web_search)
    }

    /// Returns the first of `narrower` (widest first) that is narrower than `asked` and allowed.
    fn clamp<T: PartialEq, const N: usize>(
        &self,
        narrower: [T; N],
        asked: &T,
        narrowest: T,
        check: fn(&Self, &T) -> Result<(), NotAllowed>,
    ) -> T {
        let below = match narrower.iter().position(|mode| mode == asked) {
            Some(place) => place + 1,
            None => 0,
        };
        let mut candidates = narrower.into_iter().skip(below);
        candidates.find(|mode| check(self, mode).is_ok()).unwrap_or(narrowest)
    }

    fn constrain_mcp_servers(
        &self,
        settings: &ConfigSettings,
        table: &mut Table,
        warnings: &mut ConstraintWarnings,
    ) {
        let Some(Value::Table(servers)) = table.get_mut("mcp_servers") else { return };
        for (name, server) in &settings.mcp_servers {
            if self.permits_mcp_server(name, server.identity()) {
                continue;
            }
            if let Some(Value::Table(server)) = servers.get_mut(name) {
                server.insert("enabled".to_owned(), Value::Boolean(false));
            }
            warnings.push(ConfigWarningNotification {
                summary: format!("The MCP server `{name}` is switched off by requirements."),
                details: Some(
                    "It is not on the administrator's list, or is another server there.".to_owned(),
                ),
                path: None,
                range: None,
            });
        }
    }
}

type ConstraintWarnings = Vec<ConfigWarningNotification>;

fn check<T: PartialEq + Serialize>(
    setting: &'static str,
    rule: Option<RequirementRule<'_, [T]>>,
    asked: &T,
    always: &[T],
) -> Result<(), NotAllowed> {
    let Some(rule) = rule else { return Ok(()) };
    if rule.value.contains(asked) || always.contains(asked) {
        return Ok(());
    }
    let allowed = rule.value.iter().chain(always.iter().filter(|mode| !rule.value.contains(mode)));
    let allowed: Vec<_> = allowed.map(|mode| format!("`{}`", name(mode))).collect();
    Err(NotAllowed { setting, value: name(asked), allowed: allowed.join(", "), path: rule.path.to_owned() })
}

/// Returns the value as it is written in a configuration.
fn name(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(name)) => name,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

fn set(table: &mut Table, key: &str, value: &impl Serialize) {
    let value = serde_json::to_value(value).ok();
    if let Some(value) = value.as_ref().and_then(crate::toml_json::to_toml) {
        table.insert(key.to_owned(), value);
    }
}

fn replaced_warning(violation: &NotAllowed, allowed: &impl Serialize) -> ConfigWarningNotification {
    ConfigWarningNotification {
        summary: format!("`{}` is `{}` instead, as required.", violation.setting, name(allowed)),
        details: Some(violation.to_string()),
        path: None,
        range: None,
    }
}

fn not_enforced_warning(path: &Path, key: &str) -> ConfigWarningNotification {
    ConfigWarningNotification {
        summary: format!("The requirement `{key}` is not known and not enforced."),
        details: Some(format!("It stands in {}.", path.display())),
        path: Some(path.display().to_string()),
        range: None,
    }
}
