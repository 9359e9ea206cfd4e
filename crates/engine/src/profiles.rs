//! The built-in permission profiles: sandbox policies that newer clients choose by name. A profile does not change the
//! approval policy.

use codicil_config::EffectiveConfig;
use codicil_protocol::{
    ActivePermissionProfile, PermissionProfileSummary, ReadOnlyAccess, SandboxMode, SandboxPolicy,
};
use serde::{Deserialize, Serialize};

use crate::error::SettingsError;

/// A built-in permission profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BuiltinProfile {
    #[serde(rename = ":read-only")]
    ReadOnly,
    #[serde(rename = ":workspace")]
    Workspace,
    #[serde(rename = ":danger-full-access")]
    DangerFullAccess,
}

impl BuiltinProfile {
    /// In the order of lists.
    pub const ALL: [Self; 3] = [Self::ReadOnly, Self::Workspace, Self::DangerFullAccess];

    pub fn id(self) -> &'static str {
        match self {
            Self::ReadOnly => ":read-only",
            Self::Workspace => ":workspace",
            Self::DangerFullAccess => ":danger-full-access",
        }
    }

    pub fn named(id: &str) -> Result<Self, SettingsError> {
        let found = Self::ALL.into_iter().find(|profile| profile.id() == id);
        found.ok_or_else(|| SettingsError::NoProfile(id.to_owned()))
    }

    /// Returns the profile of a request, which cannot be combined with the field `other`.
    pub(crate) fn asked(
        id: Option<&str>,
        other: &'static str,
        is_given: bool,
    ) -> Result<Option<Self>, SettingsError> {
        match id {
            Some(_) if is_given => Err(SettingsError::ProfileAnd(other)),
            id => id.map(Self::named).transpose(),
        }
    }

    /// Returns the profile that the configuration names. Profiles that it defines itself have no sandbox. A profile that
    /// the administrator's requirements forbid has no effect.
    pub(crate) fn configured(config: &EffectiveConfig) -> Result<Option<Self>, SettingsError> {
        let named = config.settings.default_permissions.as_deref();
        let named = named.filter(|id| id.starts_with(':')).map(Self::named).transpose()?;
        Ok(named.filter(|profile| profile.is_allowed(config)))
    }

    /// Returns the profile with a sandbox mode; `None` for modes that this version does not know.
    pub(crate) fn of_mode(mode: &SandboxMode) -> Option<Self> {
        Self::ALL.into_iter().find(|profile| profile.mode() == *mode)
    }

    /// Returns the sandbox mode that the administrator's requirements are checked for.
    pub fn mode(self) -> SandboxMode {
        match self {
            Self::ReadOnly => SandboxMode::ReadOnly,
            Self::Workspace => SandboxMode::WorkspaceWrite,
            Self::DangerFullAccess => SandboxMode::DangerFullAccess,
        }
    }

    /// Returns the sandbox policy of the profile. The configuration's details of sandbox modes have no effect on it.
    pub fn policy(self) -> SandboxPolicy {
        match self {
            Self::ReadOnly => {
                SandboxPolicy::ReadOnly { access: ReadOnlyAccess::FullAccess, network_access: false }
            }
            Self::Workspace => SandboxPolicy::WorkspaceWrite {
                writable_roots: Vec::new(),
                read_only_access: ReadOnlyAccess::FullAccess,
                network_access: false,
                exclude_tmpdir_env_var: false,
                exclude_slash_tmp: false,
            },
            Self::DangerFullAccess => SandboxPolicy::DangerFullAccess,
        }
    }

    pub fn is_allowed(self, config: &EffectiveConfig) -> bool {
        config.requirements.check_sandbox_mode(&self.mode()).is_ok()
    }

    pub fn summary(self, config: &EffectiveConfig) -> PermissionProfileSummary {
        let allowed = self.is_allowed(config);
        PermissionProfileSummary { id: self.id().to_owned(), description: None, allowed }
    }

    pub fn active(self) -> ActivePermissionProfile {
        ActivePermissionProfile { id: self.id().to_owned(), extends: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_named_or_refused() {
        for profile in BuiltinProfile::ALL {
            assert_eq!(BuiltinProfile::named(profile.id()).unwrap(), profile);
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.id());
        }
        let check = |id: Option<&str>, is_given: bool, message: &str| {
            let refused = BuiltinProfile::asked(id, "sandbox", is_given).unwrap_err();
            assert_eq!(refused.to_string(), message);
        };
        check(
            Some(":nope"),
            false,
            "failed to load configuration: default_permissions refers to unknown built-in profile `:nope`",
        );
        check(Some(":workspace"), true, "`permissions` cannot be combined with `sandbox`");
        assert_eq!(BuiltinProfile::asked(None, "sandbox", true).unwrap(), None);
    }
}
