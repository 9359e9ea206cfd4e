//! The permission profiles of `[permissions.NAME]`: what commands may read and write, and which hosts they reach.
//!
//! A profile becomes a [`SandboxPolicy`]. Rules that a policy cannot express are refused with their reason, because ignoring
//! one could allow more than the user wrote. A profile without file rules and without a parent only has network rules; the
//! sandbox is then that of `sandbox_mode`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use codicil_protocol::{AbsolutePathBuf, ReadOnlyAccess, SandboxPolicy, normal_path};
use serde::{Deserialize, de::IgnoredAny};

use crate::{effective::EffectiveConfig, network::NetworkTable};

/// `[permissions.NAME]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PermissionProfile {
    pub description: Option<String>,
    /// The profile whose rules this one adds to or replaces: a built-in one, or another of the configuration.
    pub extends: Option<String>,
    pub filesystem: BTreeMap<String, FileRule>,
    pub network: NetworkTable,
}

/// A value of `[permissions.NAME.filesystem]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub enum FileRule {
    Access(FileAccessMode),
    /// Rules for paths below the key.
    Below(BTreeMap<String, FileAccessMode>),
    /// A value that this version does not know. It is refused when the profile is used.
    Unknown(IgnoredAny),
}

/// What commands may do with a file or directory tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileAccessMode {
    Read,
    Write,
    #[serde(alias = "none")]
    Deny,
}

/// A profile of the configuration, with the rules of the profiles that it extends.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedProfile {
    pub extends: Option<String>,
    /// `None` for a profile that only has network rules.
    pub policy: Option<SandboxPolicy>,
}

/// Why a permission profile cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProfileError {
    #[error("default_permissions refers to unknown built-in profile `{0}`")]
    UnknownBuiltin(String),
    #[error("default_permissions refers to undefined profile `{0}`")]
    Undefined(String),
    #[error("permissions profile `{profile}` extends undefined profile `{parent}`")]
    UndefinedParent { profile: String, parent: String },
    #[error("permissions profile `{profile}` cannot extend unsupported built-in profile `{parent}`")]
    UnsupportedParent { profile: String, parent: String },
    #[error("permissions profile inheritance cycle: {0}")]
    Cycle(String),
    #[error(
        "permissions profile `{profile}` has a rule for `{place}` that this server cannot enforce: {reason}"
    )]
    UnsupportedRule { profile: String, place: String, reason: &'static str },
}

/// The built-in profiles that others can extend.
const READ_ONLY: &str = ":read-only";
const WORKSPACE: &str = ":workspace";

/// Folders of a workspace that no sandbox policy makes writable.
const PROTECTED_FOLDERS: [&str; 4] = [".git", ".codex", ".codicil", ".agents"];

impl EffectiveConfig {
    /// Returns a profile of the configuration.
    pub fn permission_profile(&self, id: &str) -> Result<ResolvedProfile, ProfileError> {
        resolve_profile(id, &self.settings.permissions, std::env::home_dir().as_deref())
    }

    /// Returns the network rules of a profile; without such a profile, those of the configured one. Rules that a profile does
    /// not have come from the profile that it extends.
    pub(crate) fn network_rules<'a>(&'a self, profile: Option<&'a str>) -> Option<&'a NetworkTable> {
        let profiles = &self.settings.permissions;
        let default = self.settings.default_permissions.as_deref();
        let id = profile.filter(|id| profiles.contains_key(*id)).or(default)?;
        let chain = inheritance(id, profiles).ok()?;
        let mut tables = chain.into_iter().map(|(_, profile)| &profile.network);
        tables.find(|table| **table != NetworkTable::default())
    }
}

/// Returns a profile and those that it extends, nearest first. Built-in ones are left out.
fn inheritance<'a>(
    id: &'a str,
    profiles: &'a BTreeMap<String, PermissionProfile>,
) -> Result<Vec<(&'a str, &'a PermissionProfile)>, ProfileError> {
    let profile = profiles.get(id).ok_or_else(|| ProfileError::Undefined(id.to_owned()))?;
    let mut chain = vec![(id, profile)];
    while let Some((child, parent)) =
        chain.last().and_then(|(child, profile)| Some((*child, profile.extends.as_deref()?)))
    {
        if parent.starts_with(':') {
            break;
        }
        if chain.iter().any(|(known, _)| *known == parent) {
            let names: Vec<_> = chain.iter().map(|(name, _)| *name).chain([parent]).collect();
            return Err(ProfileError::Cycle(names.join(" -> ")));
        }
        let profile = profiles.get(parent).ok_or_else(|| ProfileError::UndefinedParent {
            profile: child.to_owned(),
            parent: parent.to_owned(),
        })?;
        chain.push((parent, profile));
    }
    Ok(chain)
}

fn resolve_profile(
    id: &str,
    profiles: &BTreeMap<String, PermissionProfile>,
    user_home: Option<&Path>,
) -> Result<ResolvedProfile, ProfileError> {
    let chain = inheritance(id, profiles)?;
    let extends = profiles.get(id).and_then(|profile| profile.extends.clone());
    let mut rules = FileRules::default();
    if let Some((child, profile)) = chain.last()
        && let Some(parent) = profile.extends.as_deref()
    {
        rules = FileRules::of_builtin(parent).ok_or_else(|| ProfileError::UnsupportedParent {
            profile: (*child).to_owned(),
            parent: parent.to_owned(),
        })?;
    }
    for (name, profile) in chain.iter().rev() {
        for (place, rule) in &profile.filesystem {
            rules.add(place, rule, user_home).map_err(|reason| ProfileError::UnsupportedRule {
                profile: (*name).to_owned(),
                place: place.clone(),
                reason,
            })?;
        }
    }
    if rules == FileRules::default() {
        return Ok(ResolvedProfile { extends, policy: None });
    }
    let network_access = chain.iter().find_map(|(_, profile)| profile.network.enabled).unwrap_or(false);
    let policy = rules
        .into_policy(network_access)
        .map_err(|(place, reason)| ProfileError::UnsupportedRule { profile: id.to_owned(), place, reason })?;
    Ok(ResolvedProfile { extends, policy: Some(policy) })
}

/// The file rules of a profile by place.
#[derive(Debug, Default, PartialEq)]
struct FileRules {
    /// Whether everything can be read.
    root: bool,
    /// Whether the files that programs need to run can be read.
    minimal: bool,
    workspace: Option<FileAccessMode>,
    tmpdir: Option<FileAccessMode>,
    slash_tmp: Option<FileAccessMode>,
    paths: BTreeMap<PathBuf, FileAccessMode>,
}

impl FileRules {
    /// Returns the rules of a built-in profile; `None` for those that cannot be extended.
    fn of_builtin(id: &str) -> Option<Self> {
        let write = Some(FileAccessMode::Write);
        match id {
            READ_ONLY => Some(Self { root: true, ..Self::default() }),
            WORKSPACE => Some(Self {
                root: true,
                workspace: write,
                tmpdir: write,
                slash_tmp: write,
                ..Self::default()
            }),
            _ => None,
        }
    }

    fn add(&mut self, place: &str, rule: &FileRule, user_home: Option<&Path>) -> Result<(), &'static str> {
        match (place, rule) {
            // Limits the search for patterns, which are refused themselves.
            ("glob_scan_max_depth", _) => Ok(()),
            (_, FileRule::Unknown(_)) => Err("its value is neither an access mode nor a table"),
            (_, FileRule::Access(mode)) => self.add_access(place, *mode, user_home),
            (":workspace_roots" | ":project_roots", FileRule::Below(rules)) => {
                rules.iter().try_for_each(|(path, mode)| self.add_in_workspace(path, *mode))
            }
            (_, FileRule::Below(rules)) => {
                let base = absolute_place(place, user_home)?;
                for (path, mode) in rules {
                    let path = normal_path(&base.join(plain_path(path)?));
                    self.paths.insert(path, checked_mode(*mode)?);
                }
                Ok(())
            }
        }
    }

    fn add_access(
        &mut self,
        place: &str,
        mode: FileAccessMode,
        user_home: Option<&Path>,
    ) -> Result<(), &'static str> {
        let mode = checked_mode(mode)?;
        match place {
            ":root" if mode == FileAccessMode::Write => {
                return Err("use the built-in profile `:danger-full-access` to write everywhere");
            }
            ":root" => self.root = true,
            ":minimal" if mode == FileAccessMode::Write => {
                return Err("the files that programs need cannot be writable");
            }
            ":minimal" => self.minimal = true,
            ":workspace_roots" | ":project_roots" => self.workspace = Some(mode),
            ":tmpdir" => self.tmpdir = Some(mode),
            ":slash_tmp" => self.slash_tmp = Some(mode),
            path => {
                self.paths.insert(absolute_place(path, user_home)?, mode);
            }
        }
        Ok(())
    }

    fn add_in_workspace(&mut self, path: &str, mode: FileAccessMode) -> Result<(), &'static str> {
        let mode = checked_mode(mode)?;
        if path == "." {
            self.workspace = Some(mode);
            return Ok(());
        }
        let is_protected = PROTECTED_FOLDERS.contains(&path.trim_end_matches('/'));
        if is_protected && mode == FileAccessMode::Read {
            return Ok(());
        }
        Err("a workspace is readable or writable as a whole")
    }

    /// Returns the policy, or the place of a rule that a policy cannot have.
    fn into_policy(self, network_access: bool) -> Result<SandboxPolicy, (String, &'static str)> {
        let is_write = |mode: Option<FileAccessMode>| mode == Some(FileAccessMode::Write);
        let with_mode = |wanted: FileAccessMode| {
            let paths = self.paths.iter().filter(move |(_, mode)| **mode == wanted);
            paths.filter_map(|(path, _)| AbsolutePathBuf::new(path)).collect::<Vec<_>>()
        };
        let writable_roots = with_mode(FileAccessMode::Write);
        let mut readable_roots = with_mode(FileAccessMode::Read);
        let writes_workspace = is_write(self.workspace);
        let inner =
            readable_roots.iter().find(|path| writable_roots.iter().any(|root| path.starts_with(&**root)));
        if let Some(inner) = inner {
            return Err((inner.display().to_string(), "what is below a writable directory is writable too"));
        }
        if !writes_workspace {
            let written = writable_roots.first().map(|root| root.display().to_string());
            let written = written.or_else(|| is_write(self.tmpdir).then(|| ":tmpdir".to_owned()));
            let written = written.or_else(|| is_write(self.slash_tmp).then(|| ":slash_tmp".to_owned()));
            if let Some(place) = written {
                return Err((place, "other places are writable only together with `:workspace_roots`"));
            }
        }
        if self.slash_tmp == Some(FileAccessMode::Read) {
            readable_roots.extend(AbsolutePathBuf::new("/tmp"));
        }
        let access = if self.root {
            ReadOnlyAccess::FullAccess
        } else {
            ReadOnlyAccess::Restricted { include_platform_defaults: self.minimal, readable_roots }
        };
        if !writes_workspace {
            return Ok(SandboxPolicy::ReadOnly { access, network_access });
        }
        Ok(SandboxPolicy::WorkspaceWrite {
            writable_roots,
            read_only_access: access,
            network_access,
            exclude_tmpdir_env_var: !is_write(self.tmpdir),
            exclude_slash_tmp: !is_write(self.slash_tmp),
        })
    }
}

fn checked_mode(mode: FileAccessMode) -> Result<FileAccessMode, &'static str> {
    match mode {
        FileAccessMode::Deny => Err("`deny` is not supported; leave `:root` out and name what can be read"),
        FileAccessMode::Read | FileAccessMode::Write => Ok(mode),
    }
}

/// Returns the directory that a key names.
fn absolute_place(place: &str, user_home: Option<&Path>) -> Result<PathBuf, &'static str> {
    if place.starts_with(':') {
        return Err("this version does not know the place");
    }
    let place = plain_path(place)?;
    let path = match (place.strip_prefix('~'), user_home) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            home.join(rest.trim_start_matches('/'))
        }
        _ => PathBuf::from(place),
    };
    if path.is_absolute() { Ok(normal_path(&path)) } else { Err("the path is not absolute") }
}

fn plain_path(path: &str) -> Result<&str, &'static str> {
    if path.contains(['*', '?', '[']) { Err("patterns are not supported") } else { Ok(path) }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn resolve(toml: &str, id: &str) -> Result<ResolvedProfile, ProfileError> {
        let profiles = toml::from_str(toml).unwrap();
        resolve_profile(id, &profiles, Some(Path::new("/home/ada")))
    }

    fn check(toml: &str, expected: &Value) {
        let policy = resolve(toml, "p").unwrap().policy;
        let policy = policy.map(|policy| serde_json::to_value(policy).unwrap());
        assert_eq!(policy, Some(expected.clone()), "{toml}");
    }

    #[test]
    fn file_rules_become_a_sandbox_policy() {
        let full = json!({ "type": "fullAccess" });
        check(
            "p = { extends = ':workspace', network = { enabled = true } }",
            &json!({ "type": "workspaceWrite", "writableRoots": [], "readOnlyAccess": full,
                "networkAccess": true, "excludeTmpdirEnvVar": false, "excludeSlashTmp": false }),
        );
        check(
            "p = { extends = 'q', filesystem = { ':tmpdir' = 'read', '~/out' = 'write' } }\nq = { extends = ':workspace' }",
            &json!({ "type": "workspaceWrite", "writableRoots": ["/home/ada/out"], "readOnlyAccess": full,
                "networkAccess": false, "excludeTmpdirEnvVar": true, "excludeSlashTmp": false }),
        );
        check(
            "p = { filesystem = { ':minimal' = 'read', ':project_roots' = { '.' = 'write', '.git' = 'read' } } }",
            &json!({ "type": "workspaceWrite", "writableRoots": [],
                "readOnlyAccess": { "type": "restricted", "includePlatformDefaults": true, "readableRoots": [] },
                "networkAccess": false, "excludeTmpdirEnvVar": true, "excludeSlashTmp": true }),
        );
        check(
            "p = { filesystem = { ':workspace_roots' = 'read', '/usr' = { 'share' = 'read' } } }",
            &json!({ "type": "readOnly", "networkAccess": false, "access":
                { "type": "restricted", "includePlatformDefaults": false, "readableRoots": ["/usr/share"] } }),
        );
        let network_only = resolve("p = { network = { enabled = true } }", "p").unwrap();
        assert_eq!(network_only, ResolvedProfile { extends: None, policy: None });
    }

    #[test]
    fn rules_that_cannot_be_enforced_are_refused() {
        for (toml, expected) in [
            ("a = {}", "default_permissions refers to undefined profile `p`"),
            ("p = { extends = 'q' }", "permissions profile `p` extends undefined profile `q`"),
            (
                "p = { extends = ':danger-full-access' }",
                "permissions profile `p` cannot extend unsupported built-in profile `:danger-full-access`",
            ),
            (
                "p = { extends = 'q' }\nq = { extends = 'p' }",
                "permissions profile inheritance cycle: p -> q -> p",
            ),
            (
                "p = { filesystem = { '/etc' = 'deny' } }",
                "permissions profile `p` has a rule for `/etc` that this server cannot enforce: `deny` is not \
                 supported; leave `:root` out and name what can be read",
            ),
            (
                "p = { extends = ':workspace', filesystem = { ':workspace_roots' = { '**/*.env' = 'read' } } }",
                "permissions profile `p` has a rule for `:workspace_roots` that this server cannot enforce: a \
                 workspace is readable or writable as a whole",
            ),
            (
                "p = { filesystem = { '/data' = 'write' } }",
                "permissions profile `p` has a rule for `/data` that this server cannot enforce: other places are \
                 writable only together with `:workspace_roots`",
            ),
            (
                "p = { extends = ':workspace', filesystem = { '/a' = 'write', '/a/b' = 'read' } }",
                "permissions profile `p` has a rule for `/a/b` that this server cannot enforce: what is below a \
                 writable directory is writable too",
            ),
            (
                "p = { filesystem = { 'relative' = 'read' } }",
                "permissions profile `p` has a rule for `relative` that this server cannot enforce: the path is not \
                 absolute",
            ),
            (
                "p = { filesystem = { ':elsewhere' = 'read' } }",
                "permissions profile `p` has a rule for `:elsewhere` that this server cannot enforce: this version \
                 does not know the place",
            ),
        ] {
            assert_eq!(resolve(toml, "p").unwrap_err().to_string(), expected);
        }
    }
}
