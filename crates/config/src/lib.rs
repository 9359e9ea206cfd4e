//! Configuration: layers of `config.toml`, requirements, feature flags, and edits that keep comments.
//!
//! Start with [`ConfigStore`]. It reads ([`ConfigStore::load`] for the server, [`ConfigStore::read`] for
//! clients) and writes ([`ConfigStore::write_value`] and the others). What the rest of the system looks at
//! is [`EffectiveConfig`] with its typed [`ConfigSettings`] and [`Features`].
//!
//! | layer, weakest first | from |
//! |---|---|
//! | defaults | built in; nobody has to write them down |
//! | system | `/etc/codicil/config.toml`, else `/etc/codex/config.toml` |
//! | user | `config.toml` in the [`HomeDirectory`] |
//! | project | `.codex/config.toml` and `.codicil/config.toml`, from its root down; only when trusted |
//! | profile | `[profiles.NAME]`, chosen with `profile` |
//! | session | `-c key=value`, `--enable`, `--disable`: [`CommandLineFlags`] |
//! | thread | the `config` of `thread/start`: [`ConfigQuery::overrides`] |
//!
//! Above all of them stand [`Requirements`].
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::indexing_slicing))]

mod home;
mod store;

mod agreements;
mod effective;
mod error;
mod keypath;
mod layers;
mod overrides;
mod profile;
mod project;
mod stack;
mod trust;

mod convert;
mod files;
mod location;
mod origins;
mod paths;
mod read;
mod strict;
mod version;

mod limits;
mod network;
mod prompts;
mod settings;
mod shapes;
mod tables;

mod constrain;
mod deprecations;
mod feature_table;
mod features;
mod requirements;

mod arrays;
mod atomic_file;
mod document;
mod edit;
mod write;
mod writes;

pub use {
    atomic_file::{remove_leftovers, replace_private, replace_shared},
    constrain::NotAllowed,
    document::CannotEdit,
    edit::{EditError, KeyEdit},
    effective::{ConfigQuery, EffectiveConfig},
    error::{ConfigError, ConfigProblem, FileProblem},
    features::{FEATURES, Feature, FeatureError, FeatureSpec, FeatureStage, Features, SWITCHABLE},
    files::{Strictness, open_regular},
    home::{HomeDirectory, SystemFiles},
    keypath::{KeyPath, KeyPathError},
    layers::{LayerStack, SettingsLayer},
    limits::{CodicilSettings, LoginSettings, TurnDeadlines},
    network::{NetworkMode, NetworkProxy},
    overrides::CommandLineFlags,
    project::ProjectDirectory,
    requirements::Requirements,
    settings::ConfigSettings,
    store::{ConfigSources, ConfigStore},
    tables::{
        BundledSkills, ConfigSecret, CredentialsStore, FeatureToggles, FeedbackSettings, HistoryPersistence,
        HistorySettings, InheritEnvironment, PluginSettings, ProjectEntry, SandboxLimits,
        ShellEnvironmentPolicy, SkillEntry, SkillSettings, ToolSettings, TrustLevel, WebSearchTool,
    },
    write::{WriteError, edit_text},
};
