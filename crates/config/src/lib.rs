//! Configuration: layers of `config.toml`, requirements, feature flags, and edits that keep comments.
//!
//! Start with [`ConfigStore`]. It reads the configuration ([`ConfigStore::load`] for the server, [`ConfigStore::read`] for
//! clients) and writes it ([`ConfigStore::write_value`] and others). The rest of the system uses [`EffectiveConfig`] with its
//! typed [`ConfigSettings`] and [`Features`].
//!
//! | layer, lowest precedence first | from |
//! |---|---|
//! | defaults | built in |
//! | system | `/etc/codicil/config.toml`, else `/etc/codex/config.toml` |
//! | user | `config.toml` in the [`HomeDirectory`] |
//! | project | `.codex/config.toml` and `.codicil/config.toml`, from its root down; only if trusted |
//! | profile | `[profiles.NAME]`, selected with `profile` |
//! | session | `-c key=value`, `--enable`, `--disable`: [`CommandLineFlags`] |
//! | thread | the `config` of `thread/start`: [`ConfigQuery::overrides`] |
//!
//! [`Requirements`] take precedence over all of them.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod home;
mod store;

mod agreements;
mod effective;
mod error;
mod keypath;
mod layer_loading;
mod layers;
mod overrides;
mod profile;
mod project;
mod trust;

mod config_read;
mod files;
mod key_location;
mod origins;
mod paths;
mod toml_json;
mod version;

mod app_policies;
mod catalogue;
mod codicil_settings;
mod foreign_tables;
mod network;
mod otel_settings;
mod permission_profiles;
mod settings;
mod shown_address;
mod tables;

mod deprecations;
mod feature_table;
mod features;
mod requirement_checks;
mod requirements;

mod array_edit;
mod atomic_file;
mod config_write;
mod document;
mod edit;
mod user_file;

pub use {
    app_policies::{AppTool, app_tool_approval, is_app_enabled, is_app_tool_enabled},
    atomic_file::{remove_leftovers, replace_private, replace_shared},
    catalogue::{CATALOGUE, CatalogueEntry, KeyEffect, UnreadFeature, key_effect},
    codicil_settings::{
        ApprovalSettings, CodicilSettings, CutOffTurns, DefaultDecision, LoginSettings, StoreSettings,
        TurnDeadlines,
    },
    document::CannotEdit,
    edit::{EditError, KeyEdit},
    effective::{ConfigQuery, EffectiveConfig},
    error::{ConfigError, ConfigProblem, FileProblem},
    features::{FEATURES, Feature, FeatureError, FeatureSpec, FeatureStage, Features, SWITCHABLE},
    files::{Strictness, open_regular},
    home::{HomeDirectory, SystemFiles},
    keypath::{KeyPath, KeyPathError},
    layers::{LayerStack, SettingsLayer},
    network::{NetworkMode, NetworkProxy},
    otel_settings::{OtelExporter, OtelSettings, OtlpEncoding, OtlpHttpSettings},
    overrides::CommandLineFlags,
    permission_profiles::{FileAccessMode, FileRule, PermissionProfile, ProfileError, ResolvedProfile},
    project::ProjectDirectory,
    requirement_checks::NotAllowed,
    requirements::Requirements,
    settings::ConfigSettings,
    store::{ConfigSources, ConfigStore},
    tables::{
        BundledSkills, ConfigSecret, CredentialsStore, FeatureToggles, FeedbackSettings, HistoryPersistence,
        HistorySettings, InheritEnvironment, MarketplaceSettings, PluginSettings, ProjectEntry,
        SandboxLimits, ShellEnvironmentPolicy, SkillEntry, SkillSettings, ToolSettings, TrustLevel,
        WebSearchTool,
    },
    user_file::{WriteError, edit_text, lock_within},
};
