//! Permission profiles: sandbox policies that clients and the configuration choose by name. A profile does not change the
//! approval policy.
//!
//! Names that begin with a colon are built in; the others are those of `[permissions.NAME]`.

use codicil_config::{EffectiveConfig, NotAllowed, ProfileError};
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
    const ALL: [Self; 3] = [Self::ReadOnly, Self::Workspace, Self::DangerFullAccess];

    fn id(self) -> &'static str {
        match self {
            Self::ReadOnly => ":read-only",
            Self::Workspace => ":workspace",
            Self::DangerFullAccess => ":danger-full-access",
        }
    }

    fn named(id: &str) -> Result<Self, ProfileError> {
        let found = Self::ALL.into_iter().find(|profile| profile.id() == id);
        found.ok_or_else(|| ProfileError::UnknownBuiltin(id.to_owned()))
    }

    /// Returns the sandbox mode that the administrator's requirements are checked for.
    fn mode(self) -> SandboxMode {
        match self {
            Self::ReadOnly => SandboxMode::ReadOnly,
            Self::Workspace => SandboxMode::WorkspaceWrite,
            Self::DangerFullAccess => SandboxMode::DangerFullAccess,
        }
    }

    /// Returns the sandbox policy of the profile. The configuration's details of sandbox modes have no effect on it.
    fn policy(self) -> SandboxPolicy {
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
}

/// The profile of a thread. Stored with its settings.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ThreadProfile {
    Builtin(BuiltinProfile),
    /// A profile of the configuration, with the profile that it extends.
    Configured {
        id: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        extends: Option<String>,
    },
}

/// Returns the sandbox policy of a permission profile that the administrator's requirements allow; `None` for a profile
/// that only has network rules.
pub fn profile_policy(id: &str, config: &EffectiveConfig) -> Result<Option<SandboxPolicy>, SettingsError> {
    let named = NamedProfile::find(id, config)?;
    named.check_allowed(config)?;
    Ok(named.policy)
}

/// A profile that was looked up by its name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct NamedProfile {
    pub profile: ThreadProfile,
    /// `None` for a profile that only has network rules.
    pub policy: Option<SandboxPolicy>,
}

impl ThreadProfile {
    pub fn id(&self) -> &str {
        match self {
            Self::Builtin(profile) => profile.id(),
            Self::Configured { id, .. } => id,
        }
    }

    pub fn active(&self) -> ActivePermissionProfile {
        let extends = match self {
            Self::Builtin(_) => None,
            Self::Configured { extends, .. } => extends.clone(),
        };
        ActivePermissionProfile { id: self.id().to_owned(), extends }
    }

    /// Returns the built-in profile with a sandbox mode; `None` for modes that this version does not know.
    pub(crate) fn of_mode(mode: &SandboxMode) -> Option<Self> {
        BuiltinProfile::ALL.into_iter().find(|profile| profile.mode() == *mode).map(Self::Builtin)
    }

    /// Returns all profiles for `permissionProfile/list`: the built-in ones, then those of the configuration.
    pub fn list(config: &EffectiveConfig) -> Vec<PermissionProfileSummary> {
        let builtin = BuiltinProfile::ALL.into_iter().map(|profile| (profile.id(), None));
        let configured = config.settings.permissions.iter();
        let configured = configured.map(|(id, profile)| (id.as_str(), profile.description.clone()));
        let summary = |(id, description): (&str, Option<String>)| PermissionProfileSummary {
            id: id.to_owned(),
            description,
            allowed: NamedProfile::find(id, config).is_ok_and(|named| named.check_allowed(config).is_ok()),
        };
        builtin.chain(configured).map(summary).collect()
    }
}

impl NamedProfile {
    pub fn find(id: &str, config: &EffectiveConfig) -> Result<Self, ProfileError> {
        if id.starts_with(':') {
            let profile = BuiltinProfile::named(id)?;
            let policy = Some(profile.policy());
            return Ok(Self { profile: ThreadProfile::Builtin(profile), policy });
        }
        let resolved = config.permission_profile(id)?;
        let profile = ThreadProfile::Configured { id: id.to_owned(), extends: resolved.extends };
        Ok(Self { profile, policy: resolved.policy })
    }

    /// Returns the profile that the configuration names. A profile that the administrator's requirements forbid has no
    /// effect.
    pub fn configured(config: &EffectiveConfig) -> Result<Option<Self>, ProfileError> {
        let named = config.settings.default_permissions.as_deref();
        let named = named.map(|id| Self::find(id, config)).transpose()?;
        Ok(named.filter(|named| named.check_allowed(config).is_ok()))
    }

    /// Checks the profile against the administrator's requirements.
    pub fn check_allowed(&self, config: &EffectiveConfig) -> Result<(), NotAllowed> {
        match (&self.profile, &self.policy) {
            (ThreadProfile::Builtin(profile), _) => config.requirements.check_sandbox_mode(&profile.mode()),
            (ThreadProfile::Configured { .. }, Some(policy)) => {
                config.requirements.check_sandbox_policy(policy)
            }
            (ThreadProfile::Configured { .. }, None) => Ok(()),
        }
    }
}

/// Checks the name of a profile as far as the request alone allows. It cannot be combined with the field `other`.
pub(crate) fn check_request(
    id: Option<&str>,
    other: &'static str,
    is_given: bool,
) -> Result<(), SettingsError> {
    match id {
        Some(_) if is_given => Err(SettingsError::ProfileAnd(other)),
        Some(id) if id.starts_with(':') => Ok(BuiltinProfile::named(id).map(drop)?),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_profile_is_named_or_refused() {
        for profile in BuiltinProfile::ALL {
            assert_eq!(BuiltinProfile::named(profile.id()).unwrap(), profile);
            assert_eq!(serde_json::to_value(profile).unwrap(), profile.id());
        }
        let check = |id: Option<&str>, is_given: bool, message: &str| {
            let refused = check_request(id, "sandbox", is_given).unwrap_err();
            assert_eq!(refused.to_string(), message);
        };
        check(
            Some(":nope"),
            false,
            "failed to load configuration: default_permissions refers to unknown built-in profile `:nope`",
        );
        check(Some(":workspace"), true, "`permissions` cannot be combined with `sandbox`");
        assert!(check_request(None, "sandbox", true).is_ok());
        assert!(check_request(Some("mine"), "sandbox", false).is_ok());
    }

    #[test]
    fn a_stored_profile_is_a_known_name_or_an_object() {
        let mine =
            ThreadProfile::Configured { id: "mine".to_owned(), extends: Some(":workspace".to_owned()) };
        for (profile, stored) in [
            (ThreadProfile::Builtin(BuiltinProfile::Workspace), json!(":workspace")),
            (mine, json!({ "id": "mine", "extends": ":workspace" })),
        ] {
            assert_eq!(serde_json::to_value(&profile).unwrap(), stored);
            assert_eq!(serde_json::from_value::<ThreadProfile>(stored).unwrap(), profile);
        }
        assert!(serde_json::from_value::<ThreadProfile>(json!(":later")).is_err());
    }
}
