//! Skills, instructions in files that the agent reads on demand: `skills/list`, `skills/config/write`, `skills/changed`.
//!
//! The available skills depend on the directory. A skill is used by a `$name` in the text of a turn, preferably with a
//! `skill` input.

use crate::{AbsolutePathBuf, LegacyAppPathString, wire};

/// Lists the skills that are available in directories.
#[wire(sparse)]
#[derive(Default)]
pub struct SkillsListParams {
    /// Absent or empty: the server's own directory.
    #[serde(default, deserialize_with = "crate::path::text::list")]
    pub cwds: Option<Vec<String>>,
    /// Reads the disk instead of using the cache.
    pub force_reload: Option<bool>,
    #[until("0.118")]
    pub per_cwd_extra_user_roots: Option<Vec<SkillsListExtraRootsForCwd>>,
}

/// The skills by directory.
#[wire]
pub struct SkillsListResponse {
    pub data: Vec<SkillsListEntry>,
}

/// Enables or disables a skill in the user's configuration. Exactly one of `path` and `name` is required.
#[wire(sparse)]
pub struct SkillsConfigWriteParams {
    /// The path of its `SKILL.md`.
    pub path: Option<AbsolutePathBuf>,
    pub name: Option<String>,
    pub enabled: bool,
}

/// The state after the change.
#[wire]
pub struct SkillsConfigWriteResponse {
    pub effective_enabled: bool,
}

/// Additional directories whose skills are treated as the user's own.
#[wire]
pub struct SkillsListExtraRootsForCwd {
    /// One of `cwds`; otherwise the entry is ignored.
    #[serde(deserialize_with = "crate::path::text::one")]
    pub cwd: String,
    /// Absolute paths.
    pub extra_user_roots: Vec<String>,
}

/// The skills of one directory.
#[wire]
pub struct SkillsListEntry {
    pub cwd: String,
    /// The skills, including disabled ones.
    pub skills: Vec<SkillMetadata>,
    pub errors: Vec<SkillErrorInfo>,
}

/// A skill, as shown by a picker.
#[wire]
pub struct SkillMetadata {
    /// The name; `plugin:skill` for a skill of a plugin.
    pub name: String,
    /// The description from which the model decides whether to use the skill.
    pub description: String,
    /// Superseded by `interface`.
    #[omit]
    pub short_description: Option<String>,
    #[omit]
    pub interface: Option<SkillInterface>,
    #[omit]
    pub dependencies: Option<SkillDependencies>,
    /// The path of its `SKILL.md`.
    pub path: String,
    pub scope: SkillScope,
    pub enabled: bool,
    /// The plugin that brought the skill, `NAME@MARKETPLACE`.
    #[since("0.166")]
    pub plugin_id: Option<String>,
}

/// The presentation of a skill.
#[wire]
#[derive(Default)]
pub struct SkillInterface {
    pub display_name: Option<String>,
    pub short_description: Option<String>,
    /// An absolute path below the skill's `assets`; other paths are dropped. The file may not exist.
    pub icon_small: Option<String>,
    /// Like `iconSmall`.
    pub icon_large: Option<String>,
    /// `#RRGGBB`.
    pub brand_color: Option<String>,
    /// The initial prompt when the user selects the skill.
    pub default_prompt: Option<String>,
    /// Never set: the icons of skills are files.
    #[omit]
    #[since("0.166")]
    pub icon_small_url: Option<String>,
    #[omit]
    #[since("0.166")]
    pub icon_large_url: Option<String>,
}

/// The requirements of a skill.
#[wire]
pub struct SkillDependencies {
    pub tools: Vec<SkillToolDependency>,
}

/// A tool that a skill needs.
#[wire]
pub struct SkillToolDependency {
    /// The type of the dependency, such as `mcp`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The tool's name.
    pub value: String,
    #[omit]
    pub description: Option<String>,
    /// The transport of an MCP server, with `command` or `url`.
    #[omit]
    pub transport: Option<String>,
    #[omit]
    pub command: Option<String>,
    #[omit]
    pub url: Option<String>,
}

/// The source of a skill.
#[wire(open)]
#[derive(Eq)]
pub enum SkillScope {
    /// The user's home, or an additional directory.
    User,
    /// The repository of the directory.
    Repo,
    /// Built into the server.
    System,
    /// The administrator of the machine.
    Admin,
}

/// The error of a skill file that cannot be used.
#[wire]
pub struct SkillErrorInfo {
    pub path: String,
    pub message: String,
}

/// A skill of a plugin. Unlike in [`SkillMetadata`], missing values are null.
#[wire]
pub struct SkillSummary {
    pub name: String,
    pub description: String,
    pub short_description: Option<String>,
    pub interface: Option<SkillInterface>,
    /// The path of its `SKILL.md`.
    #[in_166(Option<LegacyAppPathString>)]
    pub path: String,
    pub enabled: bool,
}

/// Skill files changed on disk. Clients list the skills again.
#[wire]
#[derive(Default)]
pub struct SkillsChangedNotification {}

/// Replaces the additional directories with skills. They are not stored.
#[wire]
pub struct SkillsExtraRootsSetParams {
    pub extra_roots: Vec<AbsolutePathBuf>,
}

/// The directories are set; `skills/changed` follows.
#[wire]
#[derive(Default)]
pub struct SkillsExtraRootsSetResponse {}
