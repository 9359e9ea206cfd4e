//! Skills, instructions in files that an agent reads when they are called for: `skills/list`,
//! `skills/config/write`, `skills/changed`.
//!
//! Which skills there are depends on the directory. A skill is used by a `$name` in the text of a turn,
//! best together with a `skill` input.

use crate::{AbsolutePathBuf, wire};

/// For which directories to look up skills.
#[wire(sparse)]
#[derive(Default)]
pub struct SkillsListParams {
    /// The server's own when left out or empty.
    #[serde(default, deserialize_with = "crate::path::text::list")]
    pub cwds: Option<Vec<String>>,
    /// Read the disk instead of remembering.
    pub force_reload: Option<bool>,
    pub per_cwd_extra_user_roots: Option<Vec<SkillsListExtraRootsForCwd>>,
}

/// The skills, directory by directory.
#[wire]
pub struct SkillsListResponse {
    pub data: Vec<SkillsListEntry>,
}

/// Turns a skill on or off in the user's configuration. Exactly one of `path` and `name` says which.
#[wire(sparse)]
pub struct SkillsConfigWriteParams {
    /// Of its `SKILL.md`.
    pub path: Option<AbsolutePathBuf>,
    pub name: Option<String>,
    pub enabled: bool,
}

/// What the configuration says after the change.
#[wire]
pub struct SkillsConfigWriteResponse {
    pub effective_enabled: bool,
}

/// More places to look for skills, as if they were the user's own.
#[wire]
pub struct SkillsListExtraRootsForCwd {
    /// One of the request's `cwds`; otherwise the entry is ignored.
    #[serde(deserialize_with = "crate::path::text::one")]
    pub cwd: String,
    /// Must be absolute.
    pub extra_user_roots: Vec<String>,
}

/// What one directory has.
#[wire]
pub struct SkillsListEntry {
    pub cwd: String,
    /// Those that are turned off as well.
    pub skills: Vec<SkillMetadata>,
    pub errors: Vec<SkillErrorInfo>,
}

/// A skill as a picker shows it.
#[wire]
pub struct SkillMetadata {
    /// With the plugin's name before it (`plugin:skill`) when it comes from one.
    pub name: String,
    /// What the model reads to decide whether to use it.
    pub description: String,
    /// An older place for what `interface` has now.
    #[omit]
    pub short_description: Option<String>,
    #[omit]
    pub interface: Option<SkillInterface>,
    #[omit]
    pub dependencies: Option<SkillDependencies>,
    /// Of its `SKILL.md`.
    pub path: String,
    pub scope: SkillScope,
    pub enabled: bool,
}

/// How to show a skill. What it does not say is null.
#[wire]
#[derive(Default)]
pub struct SkillInterface {
    pub display_name: Option<String>,
    pub short_description: Option<String>,
    /// An absolute path below the skill's `assets`; others are dropped. Nobody checks that it is there.
    pub icon_small: Option<String>,
    /// As `icon_small`.
    pub icon_large: Option<String>,
    /// `#RRGGBB`.
    pub brand_color: Option<String>,
    /// Text to start with when a person picks the skill.
    pub default_prompt: Option<String>,
}

/// What a skill needs to work.
#[wire]
pub struct SkillDependencies {
    pub tools: Vec<SkillToolDependency>,
}

/// A tool that a skill needs, and how to get it.
#[wire]
pub struct SkillToolDependency {
    /// Such as `mcp`; decides what the rest means.
    #[serde(rename = "type")]
    pub kind: String,
    /// The tool's name.
    pub value: String,
    #[omit]
    pub description: Option<String>,
    /// How an MCP server is reached; then `command` or `url` says where.
    #[omit]
    pub transport: Option<String>,
    #[omit]
    pub command: Option<String>,
    #[omit]
    pub url: Option<String>,
}

/// Where a skill comes from.
#[wire(open)]
#[derive(Eq)]
pub enum SkillScope {
    /// The home of the server, or an extra root.
    User,
    /// The repository of the directory.
    Repo,
    /// The server itself.
    System,
    /// Whoever looks after the machine.
    Admin,
}

/// A skill file that could not be used.
#[wire]
pub struct SkillErrorInfo {
    pub path: String,
    pub message: String,
}

/// A skill as part of a plugin; unlike [`SkillMetadata`] it has nulls for what is missing.
#[wire]
pub struct SkillSummary {
    pub name: String,
    pub description: String,
    pub short_description: Option<String>,
    pub interface: Option<SkillInterface>,
    /// Of its `SKILL.md`.
    pub path: String,
    pub enabled: bool,
}

/// Skill files changed on disk. It does not say which; list them again.
#[wire]
#[derive(Default)]
pub struct SkillsChangedNotification {}
